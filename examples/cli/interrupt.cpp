#include "examples/cli/interrupt.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "examples/cli/exit_codes.h"

namespace cli {
namespace {

constexpr int kEndingSignals[] = {SIGINT, SIGTERM, SIGHUP};

// Lock-free atomics are what a handler may touch.
std::atomic<int> interrupts{0};
std::atomic<mote_session*> running{nullptr};
std::atomic<const char*> unfinished_file{nullptr};
std::atomic<bool> on_terminal{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

[[noreturn]] void end_program(int exit_code) {
  if (const char* path = unfinished_file.load(); path != nullptr) unlink(path);
  _exit(exit_code);
}

void on_interrupt(int) {
  const int before = interrupts.fetch_add(1);
  mote_session* session = running.load();
  if (before == 0 && session != nullptr) {
    mote_cancel(session);
    return;
  }
  pollfd notes{2, POLLOUT, 0};
  if (on_terminal.load() && poll(&notes, 1, 0) == 1) {   // the shell's prompt gets a line of its own
    const ssize_t ignored = write(2, "\n", 1);
    static_cast<void>(ignored);
  }
  end_program(kInterrupted);
}

void on_end(int signal) { end_program(128 + signal); }

}   // namespace

void install_signal_handlers() {
  on_terminal.store(isatty(2) == 1);
  for (const int signal : kEndingSignals) {
    struct sigaction action{};
    action.sa_handler = signal == SIGINT ? on_interrupt : on_end;
    sigemptyset(&action.sa_mask);
    action.sa_flags = 0;   // no SA_RESTART: what waits is woken
    // What the parent ignores stays ignored (background jobs of a script, nohup).
    struct sigaction before{};
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

bool interrupted() { return interrupts.load() != 0; }
void forget_interrupts() { interrupts.store(0); }

bool wait_for(int descriptor, short events) {
  pollfd entry{descriptor, events, 0};
  const HoldSignals held;   // none comes between the look at the flag and the wait
  while (poll(&entry, 1, 0) == 0) {
    if (interrupted()) return false;
    ppoll(&entry, 1, nullptr, held.before());
  }
  return true;
}

CancelOnInterrupt::CancelOnInterrupt(mote_session* session) { running.store(session); }
CancelOnInterrupt::~CancelOnInterrupt() { running.store(nullptr); }

RemoveOnInterrupt::RemoveOnInterrupt(const std::string& path) : path_(path) { unfinished_file.store(path_.c_str()); }
RemoveOnInterrupt::~RemoveOnInterrupt() { unfinished_file.store(nullptr); }

HoldSignals::HoldSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : kEndingSignals) sigaddset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}
HoldSignals::~HoldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}   // namespace cli
