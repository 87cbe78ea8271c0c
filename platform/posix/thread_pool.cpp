#include "platform/thread_pool.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <initializer_list>
#include <new>

#include "platform/clock.h"
#include "platform/cpu_features.h"
#include "platform/float_mode.h"
#include "platform/posix/wait_word.h"

namespace mote {
namespace {

// How long a thread that has finished its own lane leaves the others to their threads: those need about 0.1 us to see
// a region when they spin.
constexpr uint32_t kGraceRounds = 32;
// Every so many regions, beginning with the first, is a roll call: all workers are woken, each runs its own lane, and
// the caller takes what is left only after a while. So each thread has its share of even a short run, and a thread that
// another program kept off its core finds back. The first region also waits for threads that are still starting.
constexpr uint32_t kRollCallRegions = 64;
constexpr uint64_t kRollCallNanoseconds = 200'000;
constexpr uint64_t kFirstRollCallNanoseconds = 1'000'000'000;

bool is_roll_call(uint32_t region) { return region % kRollCallRegions == 1; }

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__arm__) && __ARM_ARCH >= 7)
  __asm__ volatile("yield");
#endif
}

// One per lane, on cache lines of its own.
struct alignas(64) Lane {
  std::atomic<uint32_t> taken{0};        // the last region in which somebody took this lane
  std::atomic<uint64_t> tasks_done{0};   // by the thread of this number, whichever lanes they were
  ThreadPool* pool = nullptr;
  uint32_t index = 0;
  bool started = false;
  pthread_t thread{};
};

}   // namespace

// A region in five words: the caller writes `task_`, `context_` and `remaining_`, then raises `region_`. A thread takes
// lane i of region r by changing `taken` of that lane from r - 1 to r. Every lane is taken in every region, so a thread
// that comes too late finds r there, or a later number, and takes nothing; and while one lane of r is being worked on,
// r cannot end, so what is read after taking a lane belongs to r.
class ThreadPool {
 public:
  ThreadPool(const ThreadPoolOptions& options, uint32_t cores, Lane* lanes)
      : lanes_(lanes), count_(options.threads), process_(getpid()) {
    // The calling thread is one of those awake; on one core it is the only one, but for roll calls.
    awake_wanted_ = (cores < count_ ? cores : count_) - 1;
    crowded_ = cores < count_;
    spin_nanoseconds_ = cores == 1 && crowded_ ? 0 : options.spin_nanoseconds;
    for (uint32_t i = 0; i < count_; ++i) {
      new (&lanes_[i]) Lane();
      lanes_[i].pool = this;
      lanes_[i].index = i;
    }
  }

  PlatformError start(uint64_t stack_bytes);
  void stop();
  void run(ParallelTask task, void* context);

  uint32_t count() const { return count_; }
  uint64_t tasks_done(uint32_t i) const { return lanes_[i].tasks_done.load(std::memory_order_relaxed); }
  uint64_t inline_regions() const { return inline_regions_.load(std::memory_order_relaxed); }

 private:
  static void* thread_main(void* lane) {
    const FloatMode float_mode;   // not that of the thread which happened to open the engine
    Lane* own = static_cast<Lane*>(lane);
    own->pool->work(own->index);
    return nullptr;
  }
  void work(uint32_t own);
  uint32_t wait_for_region(uint32_t seen, bool may_spin);
  void wait_for_end();
  void publish();
  void take_lanes(uint32_t region, uint32_t own);
  void leave_lanes_to_others(uint32_t region) const;
  bool all_taken(uint32_t region) const;
  void run_lane(uint32_t lane, uint32_t own);
  bool take(uint32_t lane, uint32_t region) {
    uint32_t before = region - 1;
    return lanes_[lane].taken.compare_exchange_strong(before, region, std::memory_order_acq_rel,
                                                      std::memory_order_relaxed);
  }
  template <class Done>
  static bool spin(uint64_t nanoseconds, bool yield, Done&& done);

  Lane* lanes_;
  uint32_t count_;
  uint32_t awake_wanted_ = 0;   // workers that a region wants awake
  bool crowded_ = false;        // more threads than cores
  uint64_t spin_nanoseconds_ = 0;
  pid_t process_;
  std::atomic<bool> stopping_{false};

  alignas(64) WaitWord region_;
  std::atomic<ParallelTask> task_{nullptr};
  std::atomic<void*> context_{nullptr};
  alignas(64) WaitWord remaining_;   // lanes of the region that are not done yet
  std::atomic<bool> caller_sleeps_{false};
  alignas(64) std::atomic<uint32_t> sleeping_{0};   // workers asleep, or about to be
  alignas(64) std::atomic<bool> leased_{false};
  std::atomic<uint64_t> inline_regions_{0};
};

// True as soon as done(), false after the time is up.
template <class Done>
bool ThreadPool::spin(uint64_t nanoseconds, bool yield, Done&& done) {
  if (done()) return true;
  if (nanoseconds == 0) return false;
  const uint64_t start = monotonic_nanoseconds();
  if (start == kNoClock) return false;   // nothing would end it; a clock lost later on ends it at once
  for (uint32_t round = 1;; ++round) {
    pause_briefly();
    if (done()) return true;
    if (round % 32 != 0) continue;
    if (monotonic_nanoseconds() - start >= nanoseconds) return false;
    if (yield) sched_yield();
  }
}

void ThreadPool::run(ParallelTask task, void* context) {
  const bool forked = kWakingTakesALock && getpid() != process_;   // the lock may have been held at the fork
  // Else: another session's step, or a region inside a task.
  if (forked || leased_.exchange(true, std::memory_order_acquire)) {
    inline_regions_.fetch_add(1, std::memory_order_relaxed);
    for (uint32_t lane = 0; lane < count_; ++lane) task(context, lane);
    return;
  }
  task_.store(task, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  if (count_ == 1) {
    run_lane(0, 0);
  } else {
    remaining_.value.store(count_, std::memory_order_relaxed);
    publish();
    take_lanes(region_.value.load(std::memory_order_relaxed), 0);
    wait_for_end();
  }
  leased_.store(false, std::memory_order_release);
}

void ThreadPool::publish() {
  // seq_cst, as in wait_for_region: a worker about to sleep sees the new number, or it is seen to sleep.
  const uint32_t region = region_.value.fetch_add(1, std::memory_order_seq_cst) + 1;
  const uint32_t asleep = sleeping_.load(std::memory_order_seq_cst);
  const uint32_t awake = count_ - 1 - asleep;
  if (is_roll_call(region)) {
    if (asleep != 0) region_.wake(asleep);
  } else if (awake < awake_wanted_) {
    region_.wake(awake_wanted_ - awake);
  }
}

void ThreadPool::run_lane(uint32_t lane, uint32_t own) {
  task_.load(std::memory_order_relaxed)(context_.load(std::memory_order_relaxed), lane);
  std::atomic<uint64_t>& done = lanes_[own].tasks_done;   // nobody else writes it
  done.store(done.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

bool ThreadPool::all_taken(uint32_t region) const {
  for (uint32_t lane = 0; lane < count_; ++lane)
    if (lanes_[lane].taken.load(std::memory_order_relaxed) != region) return false;
  return true;
}

void ThreadPool::leave_lanes_to_others(uint32_t region) const {
  auto taken = [&] { return all_taken(region); };
  if (!is_roll_call(region)) {
    for (uint32_t round = 0; round < kGraceRounds && !taken(); ++round) pause_briefly();
  } else if (getpid() == process_) {   // else nobody would come
    spin(region == 1 ? kFirstRollCallNanoseconds : kRollCallNanoseconds, true, taken);
  }
}

void ThreadPool::take_lanes(uint32_t region, uint32_t own) {
  for (uint32_t i = 0; i < count_; ++i) {
    if (i == 1 && own != 0 && is_roll_call(region)) return;
    if (i == 1) leave_lanes_to_others(region);
    const uint32_t lane = own + i < count_ ? own + i : own + i - count_;
    if (lanes_[lane].taken.load(std::memory_order_relaxed) != region - 1 || !take(lane, region)) continue;
    run_lane(lane, own);
    if (remaining_.value.fetch_sub(1, std::memory_order_seq_cst) == 1 && caller_sleeps_.load(std::memory_order_seq_cst))
      remaining_.wake(1);
  }
}

// Every lane has been taken; some are still being worked on.
void ThreadPool::wait_for_end() {
  auto ended = [&] { return remaining_.value.load(std::memory_order_acquire) == 0; };
  if (spin(spin_nanoseconds_, crowded_, ended)) return;
  caller_sleeps_.store(true, std::memory_order_seq_cst);
  while (true) {
    const uint32_t left = remaining_.value.load(std::memory_order_seq_cst);
    if (left == 0) break;
    remaining_.sleep_while(left);
  }
  caller_sleeps_.store(false, std::memory_order_relaxed);
}

uint32_t ThreadPool::wait_for_region(uint32_t seen, bool may_spin) {
  auto begun = [&] { return region_.value.load(std::memory_order_acquire) != seen; };
  if (!may_spin || !spin(spin_nanoseconds_, crowded_, begun)) {
    sleeping_.fetch_add(1, std::memory_order_seq_cst);
    if (!may_spin) seen = region_.value.load(std::memory_order_seq_cst);   // whatever runs now is left to the others
    while (!stopping_.load(std::memory_order_relaxed) && region_.value.load(std::memory_order_seq_cst) == seen)
      region_.sleep_while(seen);
    sleeping_.fetch_sub(1, std::memory_order_relaxed);
  }
  return region_.value.load(std::memory_order_acquire);
}

void ThreadPool::work(uint32_t own) {
  for (uint32_t seen = 0;;) {
    // With more threads than cores, those that a roll call woke sleep again: the next region wakes who is wanted.
    const bool may_spin = !(crowded_ && is_roll_call(seen));
    seen = wait_for_region(seen, may_spin);
    if (stopping_.load(std::memory_order_relaxed)) return;
    take_lanes(seen, own);
  }
}

PlatformError ThreadPool::start(uint64_t stack_bytes) {
  pthread_attr_t attributes;
  if (const int code = pthread_attr_init(&attributes); code != 0) return {code, "the worker threads cannot be set up"};
  int code = stack_bytes > SIZE_MAX ? EINVAL : pthread_attr_setstacksize(&attributes, static_cast<size_t>(stack_bytes));
  // Signals are the host's affair: workers take none but those that a fault of their own raises.
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&blocked, fault);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  for (uint32_t i = 1; i < count_ && code == 0; ++i) {
    code = pthread_create(&lanes_[i].thread, &attributes, thread_main, &lanes_[i]);
    lanes_[i].started = code == 0;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (code == 0) return {};
  stop();
  return {code,
          code == EINVAL ? "the stack size of the worker threads is refused" : "a worker thread cannot be started"};
}

void ThreadPool::stop() {
  if (getpid() != process_) return;   // forked off: the threads stayed with the parent
  stopping_.store(true, std::memory_order_relaxed);
  region_.value.fetch_add(1, std::memory_order_seq_cst);
  region_.wake(INT_MAX);
  for (uint32_t i = 1; i < count_; ++i)
    if (lanes_[i].started) pthread_join(lanes_[i].thread, nullptr);
}

uint64_t thread_pool_bytes(uint32_t threads) { return sizeof(ThreadPool) + uint64_t{threads} * sizeof(Lane); }

uint64_t thread_pool_stack_bytes(const ThreadPoolOptions& options) {
  return options.threads <= 1 ? 0 : (options.threads - 1) * options.stack_bytes;
}

PlatformError start_thread_pool(const ThreadPoolOptions& options, void* memory, ThreadPool** pool) {
  static_assert(sizeof(ThreadPool) % 64 == 0 && sizeof(Lane) % 64 == 0);
  *pool = nullptr;
  if (options.threads == 0 || options.threads > kMaxThreads) return {EINVAL, "the number of threads must be 1 to 256"};
  if (reinterpret_cast<uintptr_t>(memory) % 64 != 0)
    return {EINVAL, "the memory of the thread pool must be 64-aligned"};
  static_assert(kMaxThreads == 256);
  uint32_t cores = options.cores;
  if (cores == 0) cores = probe_cpu_limits().affinity;
  Lane* lanes = reinterpret_cast<Lane*>(static_cast<unsigned char*>(memory) + sizeof(ThreadPool));
  ThreadPool* made = new (memory) ThreadPool(options, cores == 0 ? 1 : cores, lanes);
  if (PlatformError error = made->start(options.stack_bytes); !error.ok()) return error;
  *pool = made;
  return {};
}

void stop_thread_pool(ThreadPool* pool) {
  if (pool != nullptr) pool->stop();
}

Parallel thread_pool_parallel(ThreadPool* pool) {
  auto run = [](void* self, ParallelTask task, void* context) { static_cast<ThreadPool*>(self)->run(task, context); };
  return {pool, run, pool->count()};
}

uint64_t thread_pool_tasks_done(const ThreadPool* pool, uint32_t thread) {
  return thread < pool->count() ? pool->tasks_done(thread) : 0;
}

uint64_t thread_pool_inline_regions(const ThreadPool* pool) { return pool->inline_regions(); }

}   // namespace mote
