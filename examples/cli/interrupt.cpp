#include "examples/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "examples/cli/exit_codes.h"

namespace cli {
namespace {

// Lock-free atomics are what a handler may touch.
std::atomic<int> interrupts{0};
std::atomic<mote_session*> running{nullptr};
std::atomic<const char*> unfinished_file{nullptr};
std::atomic<bool> on_terminal{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

void on_interrupt(int) {
  const int before = interrupts.fetch_add(1);
  mote_session* session = running.load();
  if (before == 0 && session != nullptr) {
    mote_cancel(session);
    return;
  }
  if (const char* path = unfinished_file.load(); path != nullptr) unlink(path);
  if (on_terminal.load()) {   // the shell's prompt gets a line of its own
    const ssize_t ignored = write(2, "\n", 1);
    static_cast<void>(ignored);
  }
  _exit(kInterrupted);
}

}   // namespace

void install_interrupt_handler() {
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;   // no SA_RESTART: a read from the terminal ends, too
  // An ignored interrupt stays ignored (background jobs of a script).
  struct sigaction before{};
  if (sigaction(SIGINT, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGINT, &action, nullptr);
  on_terminal.store(isatty(2) == 1);
}

bool interrupted() { return interrupts.load() != 0; }
void forget_interrupts() { interrupts.store(0); }

CancelOnInterrupt::CancelOnInterrupt(mote_session* session) { running.store(session); }
CancelOnInterrupt::~CancelOnInterrupt() { running.store(nullptr); }

RemoveOnInterrupt::RemoveOnInterrupt(const std::string& path) : path_(path) { unfinished_file.store(path_.c_str()); }
RemoveOnInterrupt::~RemoveOnInterrupt() { unfinished_file.store(nullptr); }

}   // namespace cli
