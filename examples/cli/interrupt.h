// Ctrl-C. The first one ends the answer: the handler raises a flag and cancels the running session. The second one ends
// the program with exit code 130, from inside the handler. Before a session is there, the first one does.
#pragma once
#include <string>

#include "core/mote.h"

namespace cli {

void install_interrupt_handler();
bool interrupted();
// A new question begins: the next Ctrl-C is a first one again.
void forget_interrupts();

// While it lives, an interrupt cancels this session instead of ending the program.
class CancelOnInterrupt {
 public:
  explicit CancelOnInterrupt(mote_session* session);
  ~CancelOnInterrupt();
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;
};

// While it lives, an interrupt that ends the program removes this unfinished file first.
class RemoveOnInterrupt {
 public:
  explicit RemoveOnInterrupt(const std::string& path);
  ~RemoveOnInterrupt();
  RemoveOnInterrupt(const RemoveOnInterrupt&) = delete;
  RemoveOnInterrupt& operator=(const RemoveOnInterrupt&) = delete;

 private:
  std::string path_;
};

}   // namespace cli
