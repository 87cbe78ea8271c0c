#include "platform/sleeping_lock.h"

#include <time.h>
#include <unistd.h>

namespace mote {

bool SleepingLock::take() {
  constexpr long kFirstNanoseconds = 20'000, kMostNanoseconds = 2'000'000;
  const auto self = static_cast<uint32_t>(getpid());
  for (long nanoseconds = kFirstNanoseconds;;) {
    uint32_t holder = 0;
    if (holder_.compare_exchange_strong(holder, self, std::memory_order_acquire)) return true;
    if (holder != self && holder_.compare_exchange_strong(holder, self, std::memory_order_acquire)) return true;
    const timespec time{0, nanoseconds};
    nanosleep(&time, nullptr);
    if (nanoseconds < kMostNanoseconds) nanoseconds *= 2;
  }
}

}   // namespace mote
