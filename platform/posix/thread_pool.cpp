#include "platform/thread_pool.h"

#include <errno.h>
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
  std::atomic<uint32_t> taken{0};        // the last region in which somebody took this lane, or it had no part
  WaitWord asleep;                       // 1 while this thread sleeps, or is about to
  std::atomic<uint64_t> tasks_done{0};   // by the thread of this number, whichever lanes they were
  std::atomic<uint64_t> regions_seen{0};
  ThreadPool* pool = nullptr;
  uint32_t index = 0;
  bool started = false;
  pthread_t thread{};
};

}   // namespace

// A region in six words: the caller writes `task_`, `context_`, `lanes_now_` and `remaining_`, then raises `region_`. A
// thread takes lane i of region r by changing `taken` of that lane from r - 1 to r. Every lane is taken in every
// region, by the caller before it begins where a lane has no part in it, so a thread that comes too late finds r there,
// or a later number, and takes nothing; and while one lane of r is being worked on, r cannot end, so what is read after
// taking a lane belongs to r. `lanes_now_` may be read by one that comes too late, too: it says where to look.
class ThreadPool {
 public:
  ThreadPool(const ThreadPoolOptions& options, uint32_t cores, Lane* lanes)
      : lanes_(lanes), count_(options.threads), cores_(cores), process_(getpid()) {
    spin_nanoseconds_ = cores == 1 ? 0 : options.spin_nanoseconds;
    for (uint32_t i = 0; i < count_; ++i) {
      new (&lanes_[i]) Lane();
      lanes_[i].pool = this;
      lanes_[i].index = i;
    }
  }

  PlatformError start(uint64_t stack_bytes);
  void stop();
  void run(uint32_t lanes, ParallelTask task, void* context);

  uint32_t count() const { return count_; }
  uint64_t tasks_done(uint32_t i) const { return lanes_[i].tasks_done.load(std::memory_order_relaxed); }
  uint64_t regions_seen(uint32_t i) const { return lanes_[i].regions_seen.load(std::memory_order_relaxed); }
  uint64_t inline_regions() const { return inline_regions_.load(std::memory_order_relaxed); }

 private:
  static void* thread_main(void* lane) {
    const FloatMode float_mode;   // not that of the thread which happened to open the engine
    Lane* own = static_cast<Lane*>(lane);
    own->pool->work(own->index);
    return nullptr;
  }
  void work(uint32_t own);
  enum class Wait : uint8_t { spinning_first, asleep, asleep_beyond_this_region };
  uint32_t wait_for_region(uint32_t own, uint32_t seen, uint32_t lanes, Wait how);
  void wait_for_end(uint32_t lanes);
  void publish(uint32_t lanes);
  bool is_asleep(uint32_t thread) const { return lanes_[thread].asleep.value.load(std::memory_order_seq_cst) != 0; }
  void wake(uint32_t thread);
  void take_lanes(uint32_t region, uint32_t lanes, uint32_t own);
  void leave_lanes_to_others(uint32_t region, uint32_t lanes) const;
  bool all_taken(uint32_t region, uint32_t lanes) const;
  bool crowded(uint32_t lanes) const { return lanes > cores_; }   // a region of so many
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
  uint32_t cores_;
  uint64_t spin_nanoseconds_ = 0;
  pid_t process_;
  std::atomic<bool> stopping_{false};

  alignas(64) std::atomic<uint32_t> region_{0};
  std::atomic<ParallelTask> task_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<uint32_t> lanes_now_{0};
  alignas(64) WaitWord remaining_;   // lanes of the region that are not done yet
  std::atomic<bool> caller_sleeps_{false};
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

void ThreadPool::run(uint32_t lanes, ParallelTask task, void* context) {
  const bool forked = kWakingTakesALock && getpid() != process_;   // the lock may have been held at the fork
  // Else: another session's step, or a region inside a task.
  if (forked || leased_.exchange(true, std::memory_order_acquire)) {
    inline_regions_.fetch_add(1, std::memory_order_relaxed);
    for (uint32_t lane = 0; lane < lanes; ++lane) task(context, lane);
    return;
  }
  task_.store(task, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  if (lanes == 1) {   // the others do not even hear of it
    run_lane(0, 0);
  } else {
    lanes_now_.store(lanes, std::memory_order_relaxed);
    remaining_.value.store(lanes, std::memory_order_relaxed);
    publish(lanes);
    take_lanes(region_.load(std::memory_order_relaxed), lanes, 0);
    wait_for_end(lanes);
  }
  leased_.store(false, std::memory_order_release);
}

// About as many of the region's threads as there are cores shall be awake, the caller among them: on one core nobody
// else. A roll call wants all of them. Threads that have no part in it sleep on.
void ThreadPool::publish(uint32_t lanes) {
  const uint32_t region = region_.load(std::memory_order_relaxed) + 1;
  for (uint32_t lane = lanes; lane < count_; ++lane) lanes_[lane].taken.store(region, std::memory_order_relaxed);
  // seq_cst, as in wait_for_region: a worker about to sleep sees the new number, or it is seen to sleep.
  region_.store(region, std::memory_order_seq_cst);
  // Where all are wanted nobody is counted: one that is about to sleep and then sees the region would count for
  // another.
  const bool all = is_roll_call(region) || !crowded(lanes);
  uint32_t awake = 1;
  for (uint32_t i = 1; i < lanes && !all; ++i) awake += is_asleep(i) ? 0 : 1;
  for (uint32_t i = 1; i < lanes && (all || awake < cores_); ++i) {
    if (!is_asleep(i)) continue;
    wake(i);
    ++awake;
  }
}

void ThreadPool::wake(uint32_t thread) {
  lanes_[thread].asleep.value.store(0, std::memory_order_seq_cst);
  lanes_[thread].asleep.wake(1);
}

void ThreadPool::run_lane(uint32_t lane, uint32_t own) {
  task_.load(std::memory_order_relaxed)(context_.load(std::memory_order_relaxed), lane);
  std::atomic<uint64_t>& done = lanes_[own].tasks_done;   // nobody else writes it
  done.store(done.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

bool ThreadPool::all_taken(uint32_t region, uint32_t lanes) const {
  for (uint32_t lane = 0; lane < lanes; ++lane)
    if (lanes_[lane].taken.load(std::memory_order_relaxed) != region) return false;
  return true;
}

void ThreadPool::leave_lanes_to_others(uint32_t region, uint32_t lanes) const {
  auto taken = [&] { return all_taken(region, lanes); };
  if (!is_roll_call(region)) {
    for (uint32_t round = 0; round < kGraceRounds && !taken(); ++round) pause_briefly();
  } else if (getpid() == process_) {   // else nobody would come
    spin(region == 1 ? kFirstRollCallNanoseconds : kRollCallNanoseconds, true, taken);
  }
}

void ThreadPool::take_lanes(uint32_t region, uint32_t lanes, uint32_t own) {
  for (uint32_t i = 0; i < lanes; ++i) {
    if (i == 1 && own != 0 && is_roll_call(region)) return;
    if (i == 1) leave_lanes_to_others(region, lanes);
    const uint32_t lane = own + i < lanes ? own + i : own + i - lanes;
    if (lanes_[lane].taken.load(std::memory_order_relaxed) != region - 1 || !take(lane, region)) continue;
    run_lane(lane, own);
    if (remaining_.value.fetch_sub(1, std::memory_order_seq_cst) == 1 && caller_sleeps_.load(std::memory_order_seq_cst))
      remaining_.wake(1);
  }
}

// Every lane has been taken; some are still being worked on.
void ThreadPool::wait_for_end(uint32_t lanes) {
  auto ended = [&] { return remaining_.value.load(std::memory_order_acquire) == 0; };
  if (spin(spin_nanoseconds_, crowded(lanes), ended)) return;
  caller_sleeps_.store(true, std::memory_order_seq_cst);
  while (true) {
    const uint32_t left = remaining_.value.load(std::memory_order_seq_cst);
    if (left == 0) break;
    remaining_.sleep_while(left);
  }
  caller_sleeps_.store(false, std::memory_order_relaxed);
}

uint32_t ThreadPool::wait_for_region(uint32_t own, uint32_t seen, uint32_t lanes, Wait how) {
  auto begun = [&] { return region_.load(std::memory_order_seq_cst) != seen; };
  if (how != Wait::spinning_first || !spin(spin_nanoseconds_, crowded(lanes), begun)) {
    WaitWord& asleep = lanes_[own].asleep;
    asleep.value.store(1, std::memory_order_seq_cst);
    // Not when what would wake it has been.
    const bool missed =
        stopping_.load(std::memory_order_seq_cst) || (how != Wait::asleep_beyond_this_region && begun());
    if (missed) asleep.value.store(0, std::memory_order_relaxed);
    while (asleep.value.load(std::memory_order_relaxed) != 0) asleep.sleep_while(1);
  }
  return region_.load(std::memory_order_acquire);
}

void ThreadPool::work(uint32_t own) {
  for (uint32_t seen = 0, lanes = 0;;) {
    // Who has no part does not wait for the end. With more threads than cores, those that a roll call woke sleep again,
    // and leave whatever runs now to the others: the next region wakes who is wanted.
    const Wait how = own >= lanes                           ? Wait::asleep
                     : crowded(lanes) && is_roll_call(seen) ? Wait::asleep_beyond_this_region
                                                            : Wait::spinning_first;
    seen = wait_for_region(own, seen, lanes, how);
    if (stopping_.load(std::memory_order_seq_cst)) return;
    std::atomic<uint64_t>& regions = lanes_[own].regions_seen;
    regions.store(regions.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    lanes = lanes_now_.load(std::memory_order_relaxed);
    if (own < lanes) take_lanes(seen, lanes, own);
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
  stopping_.store(true, std::memory_order_seq_cst);
  region_.fetch_add(1, std::memory_order_seq_cst);   // for those that spin
  for (uint32_t i = 1; i < count_; ++i) wake(i);
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
  auto run = [](void* self, uint32_t lanes, ParallelTask task, void* context) {
    static_cast<ThreadPool*>(self)->run(lanes, task, context);
  };
  return {pool, run, pool->count()};
}

uint64_t thread_pool_tasks_done(const ThreadPool* pool, uint32_t thread) {
  return thread < pool->count() ? pool->tasks_done(thread) : 0;
}

uint64_t thread_pool_regions_seen(const ThreadPool* pool, uint32_t thread) {
  return thread < pool->count() ? pool->regions_seen(thread) : 0;
}

uint64_t thread_pool_inline_regions(const ThreadPool* pool) { return pool->inline_regions(); }

}   // namespace mote
