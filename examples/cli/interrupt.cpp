#include "examples/cli/interrupt.h"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <iterator>

#include "examples/cli/exit_codes.h"

namespace cli {
namespace {

constexpr int kEndingSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int kTerminalSignals[] = {SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};   // while a terminal is kept
constexpr char kNoPasteMarks[] = "\x1b[?2004l";

// Lock-free atomics are what a handler may touch.
std::atomic<int> interrupts{0};
std::atomic<mote_session*> running{nullptr};
std::atomic<const char*> unfinished_file{nullptr};
std::atomic<bool> on_terminal{false}, at_prompt{false}, terminal_kept{false}, terminal_changed{false};
termios kept_settings;   // written before terminal_kept is
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

// Not in the background, where the terminal is another program's.
void give_terminal_back() {
  if (!terminal_kept.load() || tcgetpgrp(0) != getpgrp()) return;
  const ssize_t ignored = write(2, kNoPasteMarks, sizeof kNoPasteMarks - 1);
  static_cast<void>(ignored);
  tcsetattr(0, TCSANOW, &kept_settings);
}

[[noreturn]] void end_program(int exit_code) {
  give_terminal_back();
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
  if (before == 0 && at_prompt.load()) return;
  pollfd notes{2, POLLOUT, 0};
  if (on_terminal.load() && poll(&notes, 1, 0) == 1) {   // the shell's prompt gets a line of its own
    const ssize_t ignored = write(2, "\n", 1);
    static_cast<void>(ignored);
  }
  end_program(kInterrupted);
}

void on_end(int signal) { end_program(128 + signal); }

// Gives the terminal back and does what the signal does by itself: SIGQUIT ends, SIGTSTP stops until SIGCONT comes.
void on_leave(int number) {
  const int code = errno;
  give_terminal_back();
  struct sigaction own{}, plain{};
  plain.sa_handler = SIG_DFL;
  sigemptyset(&plain.sa_mask);
  sigaction(number, &plain, &own);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  raise(number);
  sigaction(number, &own, nullptr);
  terminal_changed.store(true);
  errno = code;
}

void on_change(int) { terminal_changed.store(true); }

// Until the descriptor is ready or stop() is true.
template <class Stop>
bool wait_until(int descriptor, short events, Stop stop) {
  pollfd entry{descriptor, events, 0};
  const HoldSignals held;   // none comes between the look at the flag and the wait
  while (poll(&entry, 1, 0) == 0) {
    if (stop()) return false;
    ppoll(&entry, 1, nullptr, held.before());
  }
  return true;
}

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

bool wait_for(int descriptor, short events) { return wait_until(descriptor, events, interrupted); }

Woken wait_for_key() {
  wait_until(0, POLLIN, [] { return interrupted() || terminal_changed.load(); });
  if (interrupted()) return Woken::by_interrupt;
  return terminal_changed.exchange(false) ? Woken::by_terminal : Woken::by_key;
}

AtPrompt::AtPrompt() { at_prompt.store(true); }
AtPrompt::~AtPrompt() { at_prompt.store(false); }

KeepTerminal::KeepTerminal() {
  if (tcgetattr(0, &kept_settings) == 0) terminal_kept.store(true);
  for (size_t i = 0; i < std::size(kTerminalSignals); ++i) {
    struct sigaction action{};
    action.sa_handler = kTerminalSignals[i] == SIGQUIT || kTerminalSignals[i] == SIGTSTP ? on_leave : on_change;
    sigemptyset(&action.sa_mask);
    sigaction(kTerminalSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kTerminalSignals[i], &action, nullptr);
  }
}
KeepTerminal::~KeepTerminal() {
  for (size_t i = 0; i < std::size(kTerminalSignals); ++i) sigaction(kTerminalSignals[i], &before_[i], nullptr);
  const HoldSignals held;   // a handler gives it back, or we do
  give_terminal_back();
  terminal_kept.store(false);
}

CancelOnInterrupt::CancelOnInterrupt(mote_session* session) { running.store(session); }
CancelOnInterrupt::~CancelOnInterrupt() { running.store(nullptr); }

RemoveOnInterrupt::RemoveOnInterrupt(const std::string& path) : path_(path) { unfinished_file.store(path_.c_str()); }
RemoveOnInterrupt::~RemoveOnInterrupt() { unfinished_file.store(nullptr); }

HoldSignals::HoldSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : kEndingSignals) sigaddset(&held, signal);
  for (const int signal : kTerminalSignals) sigaddset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}
HoldSignals::~HoldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}   // namespace cli
