// Signals. The first Ctrl-C ends the answer: the handler raises a flag and cancels the running session. The second one
// ends the program with exit code 130, from inside the handler. Before a session is there, the first one does. SIGTERM
// and SIGHUP end the program at once, with 128 + the signal. However it ends, an unfinished file is removed and the
// terminal is what it was.
#pragma once
#include <signal.h>

#include <string>

#include "core/mote.h"

namespace cli {

void install_signal_handlers();
bool interrupted();
// A turn is over: the next Ctrl-C is a first one again.
void forget_interrupts();

// Waits until the descriptor can be read or written (POLLIN, POLLOUT) or has an error to tell. False: that would have
// meant to wait, and Ctrl-C came.
bool wait_for(int descriptor, short events);

// While it lives, an interrupt cancels this session instead of ending the program.
class CancelOnInterrupt {
 public:
  explicit CancelOnInterrupt(mote_session* session);
  ~CancelOnInterrupt();
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;
};

// While it lives, the first interrupt ends the program as little as it does during an answer: it is only told by
// interrupted(), to whoever waits at the prompt.
class AtPrompt {
 public:
  AtPrompt();
  ~AtPrompt();
  AtPrompt(const AtPrompt&) = delete;
  AtPrompt& operator=(const AtPrompt&) = delete;
};

// While it lives, standard input's terminal may be set otherwise: however the program ends, it gets the settings of
// this moment back. Ctrl-Z gives them back, too, and going on from there, or a window of another size, is told to
// wait_for_key.
class KeepTerminal {
 public:
  KeepTerminal();
  ~KeepTerminal();
  KeepTerminal(const KeepTerminal&) = delete;
  KeepTerminal& operator=(const KeepTerminal&) = delete;

 private:
  struct sigaction before_[4];
};

enum class Woken { by_key, by_interrupt, by_terminal };
// Waits for standard input. by_terminal: its size or its settings are no longer what they were.
Woken wait_for_key();

// While it lives, a signal that ends the program removes this unfinished file first.
class RemoveOnInterrupt {
 public:
  explicit RemoveOnInterrupt(const std::string& path);
  ~RemoveOnInterrupt();
  RemoveOnInterrupt(const RemoveOnInterrupt&) = delete;
  RemoveOnInterrupt& operator=(const RemoveOnInterrupt&) = delete;

 private:
  std::string path_;
};

// While it lives, the signals that end the program wait.
class HoldSignals {
 public:
  HoldSignals();
  ~HoldSignals();
  HoldSignals(const HoldSignals&) = delete;
  HoldSignals& operator=(const HoldSignals&) = delete;
  const sigset_t* before() const { return &before_; }

 private:
  sigset_t before_;
};

}   // namespace cli
