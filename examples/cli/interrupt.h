// Signals. The first Ctrl-C ends the answer: the handler raises a flag and cancels the running session. The second one
// ends the program with exit code 130, from inside the handler. Before a session is there, the first one does. SIGTERM
// and SIGHUP end the program at once, with 128 + the signal. However it ends, an unfinished file is removed.
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
