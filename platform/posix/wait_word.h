// Sleeping until a 32-bit word changes: a futex on Linux, a condition variable elsewhere.
#pragma once
#include <atomic>
#include <cstdint>

#if defined(__linux__) && !defined(MOTE_POOL_CONDVAR)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <pthread.h>
#endif

namespace mote {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);

#if defined(__linux__) && !defined(MOTE_POOL_CONDVAR)

inline constexpr bool kWakingTakesALock = false;
#if defined(SYS_futex)
inline constexpr long kFutexCall = SYS_futex;
#else
inline constexpr long kFutexCall = SYS_futex_time64;   // 32-bit systems made after 2038 was thought of
#endif

class WaitWord {
 public:
  std::atomic<uint32_t> value{0};
  // May return for no reason: ask again.
  void sleep_while(uint32_t seen) { call(FUTEX_WAIT_PRIVATE, seen); }
  void wake(uint32_t threads) { call(FUTEX_WAKE_PRIVATE, threads); }

 private:
  void call(int operation, uint32_t number) {
    syscall(kFutexCall, reinterpret_cast<uint32_t*>(&value), operation, number, nullptr, nullptr, 0);
  }
};

#else

inline constexpr bool kWakingTakesALock = true;

class WaitWord {
 public:
  std::atomic<uint32_t> value{0};
  void sleep_while(uint32_t seen) {
    pthread_mutex_lock(&mutex_);
    if (value.load(std::memory_order_seq_cst) == seen) pthread_cond_wait(&changed_, &mutex_);
    pthread_mutex_unlock(&mutex_);
  }
  void wake(uint32_t threads) {
    pthread_mutex_lock(&mutex_);   // a sleeper either has not looked at the value yet, or waits
    if (threads == 1)
      pthread_cond_signal(&changed_);
    else
      pthread_cond_broadcast(&changed_);
    pthread_mutex_unlock(&mutex_);
  }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed_ = PTHREAD_COND_INITIALIZER;
};

#endif

}   // namespace mote
