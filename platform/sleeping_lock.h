// A lock for work that takes long and is seldom done twice at once: who finds it held sleeps.
#pragma once
#include <atomic>
#include <cstdint>

namespace mote {

class SleepingLock {
 public:
  // False: it is held, and this platform cannot wait.
  bool take();
  void let_go() { holder_.store(0, std::memory_order_release); }

 private:
  // The process that holds it, 0: nobody. One that was forked off takes it from a thread that stayed with its parent.
  std::atomic<uint32_t> holder_{0};
};

}   // namespace mote
