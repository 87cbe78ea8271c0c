#include "platform/sleeping_lock.h"

namespace mote {

bool SleepingLock::take() {
  uint32_t nobody = 0;
  return holder_.compare_exchange_strong(nobody, 1, std::memory_order_acquire);
}

}   // namespace mote
