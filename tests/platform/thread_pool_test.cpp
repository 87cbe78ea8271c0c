#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "platform/memory.h"
#include "platform/thread_pool.h"
#include "tests/support/sanitized.h"
#include "tests/support/threads.h"

using mote::Parallel;
using mote::PlatformError;
using mote::ThreadPool;
using mote::ThreadPoolOptions;
using mote::test::kSanitized;
using mote::test::thread_sleeps;
using mote::test::workers_fall_asleep;

namespace {

// A pool in memory of exactly its size, with a guard behind it.
class TestPool {
 public:
  explicit TestPool(const ThreadPoolOptions& options) : bytes_(mote::thread_pool_bytes(options.threads)) {
    memory_ = static_cast<unsigned char*>(mote::allocate_pages(bytes_ + 64));
    std::memset(memory_, 0xff, bytes_ + 64);
    error_ = mote::start_thread_pool(options, memory_, &pool_);
  }
  ~TestPool() {
    stop();
    mote::free_pages(memory_, bytes_ + 64);
  }
  void stop() {
    mote::stop_thread_pool(pool_);
    pool_ = nullptr;
  }
  PlatformError error() const { return error_; }
  ThreadPool* get() const { return pool_; }
  Parallel parallel() const { return mote::thread_pool_parallel(pool_); }
  bool guard_is_whole() const {
    for (int i = 0; i < 64; ++i)
      if (memory_[bytes_ + static_cast<uint64_t>(i)] != 0xff) return false;
    return true;
  }

 private:
  uint64_t bytes_;
  unsigned char* memory_ = nullptr;
  ThreadPool* pool_ = nullptr;
  PlatformError error_;
};

ThreadPoolOptions with(uint32_t threads, uint32_t cores = 0, uint32_t spin_nanoseconds = 20'000) {
  ThreadPoolOptions options;
  options.threads = threads;
  options.cores = cores;
  options.spin_nanoseconds = spin_nanoseconds;
  return options;
}

// Runs `regions` regions; each lane adds to a plain counter of its own and reads what all lanes wrote in the region
// before, so that a missing happens-before is a race that TSan reports. True if every count is right.
bool counts_are_right(const Parallel& parallel, int regions) {
  std::vector<int64_t> written(parallel.lanes * 8), seen(parallel.lanes * 8);
  int64_t expected = 0;
  for (int i = 0; i < regions; ++i) {
    parallel.region([&](uint32_t lane) { written[lane * 8] += i; });
    parallel.region([&](uint32_t lane) {
      int64_t sum = 0;
      for (uint32_t other = 0; other < parallel.lanes; ++other) sum += written[other * 8];
      seen[lane * 8] = sum;
    });
    expected += i * static_cast<int64_t>(parallel.lanes);
    for (uint32_t lane = 0; lane < parallel.lanes; ++lane)
      if (seen[lane * 8] != expected) return false;
  }
  return true;
}

// Exit code of body() in a forked process; 124 if it hangs.
template <class Body>
int in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 124;
}

}   // namespace

TEST_CASE("every lane runs exactly once per region", "[platform][threads]") {
  for (uint32_t threads : {1u, 2u, 3u, 8u, 17u}) {
    for (uint32_t spin : {0u, 1'000u, 50'000u}) {
      CAPTURE(threads, spin);
      TestPool pool(with(threads, 0, spin));
      REQUIRE(pool.error().ok());
      CHECK(pool.parallel().lanes == threads);
      CHECK(counts_are_right(pool.parallel(), 200));
      uint64_t done = 0;
      for (uint32_t i = 0; i < threads; ++i) done += mote::thread_pool_tasks_done(pool.get(), i);
      CHECK(done == uint64_t{400} * threads);
      CHECK(mote::thread_pool_tasks_done(pool.get(), threads) == 0);
      CHECK(mote::thread_pool_inline_regions(pool.get()) == 0);
      pool.stop();
      CHECK(pool.guard_is_whole());
    }
  }
}

TEST_CASE("regions after a pause find the workers asleep and wake them", "[platform][threads]") {
  TestPool pool(with(3, 3));
  REQUIRE(pool.error().ok());
  const Parallel parallel = pool.parallel();
  parallel.region([](uint32_t) {});   // the roll call
  auto by_workers = [&] {
    return mote::thread_pool_tasks_done(pool.get(), 1) + mote::thread_pool_tasks_done(pool.get(), 2);
  };
  const uint64_t before = by_workers();
  for (int i = 0; i < 50 && by_workers() == before; ++i) {
    REQUIRE(workers_fall_asleep());
    parallel.region([](uint32_t) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  }
  CHECK(by_workers() > before);
}

TEST_CASE("each thread runs its own lane in the first region and at every roll call", "[platform][threads]") {
  for (uint32_t cores : {0u, 1u, 2u, 8u}) {   // fewer cores than threads, too
    TestPool pool(with(8, cores));
    REQUIRE(pool.error().ok());
    const Parallel parallel = pool.parallel();
    std::vector<std::thread::id> runner(8);
    parallel.region([&](uint32_t lane) { runner[lane] = std::this_thread::get_id(); });
    std::vector<uint64_t> done(8);
    for (uint32_t t = 0; t < 8; ++t) done[t] = mote::thread_pool_tasks_done(pool.get(), t);
    CAPTURE(cores);
    CHECK(done == std::vector<uint64_t>(8, 1));
    CHECK(std::set<std::thread::id>(runner.begin(), runner.end()).size() == 8);

    // Later ones are tried, not guaranteed: until each has worked again, counted in regions.
    uint32_t waiting = 8;
    for (int i = 0; i < 200'000 && waiting != 0; ++i) {
      parallel.region([](uint32_t) {});
      waiting = 0;
      for (uint32_t t = 0; t < 8; ++t) waiting += mote::thread_pool_tasks_done(pool.get(), t) == done[t];
    }
    CHECK(waiting == 0);
  }
}

TEST_CASE("regions of any number of lanes run each lane once, in any order of numbers", "[platform][threads]") {
  for (const uint32_t cores : {1u, 2u, 5u}) {
    TestPool pool(with(5, cores));
    REQUIRE(pool.error().ok());
    const Parallel all = pool.parallel();
    CHECK(all.on_at_most(0).lanes == 5);
    CHECK(all.on_at_most(6).lanes == 5);
    uint64_t expected = 0;
    for (uint32_t i = 0; i < 600; ++i) {
      const uint32_t lanes = 1 + i * i % 7 % 5;   // 1, 2, 5 and 3 by turns
      CAPTURE(cores, i, lanes);
      REQUIRE(all.on_at_most(lanes).lanes == lanes);
      REQUIRE(counts_are_right(all.on_at_most(lanes), 2));
      expected += uint64_t{4} * lanes;
    }
    uint64_t done = 0;
    for (uint32_t t = 0; t < 5; ++t) done += mote::thread_pool_tasks_done(pool.get(), t);
    CHECK(done == expected);
    CHECK(mote::thread_pool_inline_regions(pool.get()) == 0);
  }
}

TEST_CASE("threads that have no part in a region run nothing of it, and are not woken for it", "[platform][threads]") {
  constexpr uint32_t kThreads = 4;
  for (const uint32_t lanes : {1u, 2u, 3u}) {
    TestPool pool(with(kThreads, kThreads));
    REQUIRE(pool.error().ok());
    const Parallel all = pool.parallel(), few = all.on_at_most(lanes);
    struct Counts {
      uint64_t done, seen;
      bool operator==(const Counts&) const = default;
    };
    const auto counts_of = [&](uint32_t thread) {
      return Counts{mote::thread_pool_tasks_done(pool.get(), thread),
                    mote::thread_pool_regions_seen(pool.get(), thread)};
    };
    REQUIRE(counts_are_right(all, 100));
    CHECK(counts_of(kThreads - 1).seen > 0);
    // Right behind regions of all lanes the others may still look out for the next: for one or two of many.
    std::vector<Counts> before;
    for (uint32_t t = 0; t < kThreads; ++t) before.push_back(counts_of(t));
    REQUIRE(counts_are_right(few, 5'000));
    for (uint32_t t = lanes; t < kThreads; ++t) {
      CAPTURE(lanes, t);
      CHECK(counts_of(t).done == before[t].done);
      CHECK(counts_of(t).seen - before[t].seen < 50);
    }
    // Asleep they stay so, through roll calls, too.
    REQUIRE(workers_fall_asleep());
    for (uint32_t t = 0; t < kThreads; ++t) before[t] = counts_of(t);
    for (int i = 0; i < 20; ++i) {
      REQUIRE(counts_are_right(few, 50));
      if (i % 4 == 0) REQUIRE(workers_fall_asleep());
    }
    for (uint32_t t = lanes; t < kThreads; ++t) CHECK(counts_of(t) == before[t]);
    // And are back for the next region that wants them.
    for (int i = 0; i < 200'000 && counts_of(kThreads - 1).done == before[kThreads - 1].done; ++i)
      all.region([](uint32_t) {});
    CHECK(counts_of(kThreads - 1).done > before[kThreads - 1].done);
  }
}

TEST_CASE("threads that have no part in a region stop looking out for the next", "[platform][threads]") {
  TestPool pool(with(4, 4, 2'000'000'000));   // who has one would look out for two seconds
  REQUIRE(pool.error().ok());
  const Parallel all = pool.parallel();
  pid_t ids[4] = {};
  all.region([&](uint32_t lane) { ids[lane] = gettid(); });   // the roll call: lane i is thread i's
  bool asleep = false;
  for (int i = 0; i < 1'000 && !asleep; ++i) {
    all.on_at_most(2).region([](uint32_t) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    asleep = thread_sleeps(std::to_string(ids[2])) && thread_sleeps(std::to_string(ids[3]));
  }
  CHECK(asleep);
}

TEST_CASE("a thread that is held up delays nothing but its own lane", "[platform][threads]") {
  TestPool pool(with(4, 4));
  REQUIRE(pool.error().ok());
  std::atomic<uint32_t> finished{0};
  bool others_finished = false;
  pool.parallel().region([&](uint32_t lane) {
    if (lane == 3) {   // whoever runs it waits for all the others, which needs them to be run by somebody else
      for (int i = 0; i < 10'000 && finished.load() != 3; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      others_finished = finished.load() == 3;
    } else {
      finished.fetch_add(1);
    }
  });
  CHECK(others_finished);
}

TEST_CASE("two callers at once: one leases the workers, the other runs inline", "[platform][threads]") {
  TestPool pool(with(3, 3));
  REQUIRE(pool.error().ok());
  const Parallel parallel = pool.parallel();

  std::atomic<int> stage{0};
  std::thread holder([&] {
    parallel.region([&](uint32_t lane) {
      if (lane == 0) stage.store(1);
      while (stage.load() != 2) std::this_thread::yield();
    });
  });
  while (stage.load() != 1) std::this_thread::yield();
  std::vector<uint32_t> order;
  const auto caller = std::this_thread::get_id();
  bool same_thread = true;
  parallel.region([&](uint32_t lane) {
    order.push_back(lane);
    same_thread = same_thread && std::this_thread::get_id() == caller;
  });
  stage.store(2);
  holder.join();
  CHECK(order == std::vector<uint32_t>{0, 1, 2});
  CHECK(same_thread);
  CHECK(mote::thread_pool_inline_regions(pool.get()) == 1);

  bool right[2] = {};
  std::thread other([&] { right[0] = counts_are_right(parallel, 2'000); });
  right[1] = counts_are_right(parallel, 2'000);
  other.join();
  CHECK(right[0]);
  CHECK(right[1]);
}

TEST_CASE("a region inside a task runs inline", "[platform][threads]") {
  TestPool pool(with(2, 2));
  REQUIRE(pool.error().ok());
  const Parallel parallel = pool.parallel();
  std::atomic<int> inner{0};
  parallel.region([&](uint32_t) { parallel.region([&](uint32_t) { inner.fetch_add(1); }); });
  CHECK(inner.load() == 4);
  parallel.region([&](uint32_t) { parallel.on_at_most(1).region([&](uint32_t) { inner.fetch_add(1); }); });
  CHECK(inner.load() == 6);
}

TEST_CASE("eight threads on one core finish", "[platform][threads]") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);   // threads started from here inherit it
  bool right = false;
  {
    TestPool pool(with(8));
    right = pool.error().ok() && counts_are_right(pool.parallel(), 2'000);
  }
  sched_setaffinity(0, sizeof before, &before);
  CHECK(right);
}

TEST_CASE("a forked process runs regions by itself and lets go cleanly", "[platform][threads]") {
  if (kSanitized) SKIP("sanitizers do not follow forks of threaded processes");
  TestPool pool(with(4, 4));
  REQUIRE(pool.error().ok());
  REQUIRE(counts_are_right(pool.parallel(), 10));
  const int child = in_child([&] {
    if (!counts_are_right(pool.parallel(), 50)) return 1;
    pool.stop();
    return 0;
  });
  CHECK(child == 0);
  CHECK(counts_are_right(pool.parallel(), 10));   // the parent's threads are untouched
}

TEST_CASE("a thread that cannot start is an error, and the others have ended", "[platform][threads]") {
  CHECK(TestPool(with(0)).error().code == EINVAL);
  CHECK(TestPool(with(257)).error().code == EINVAL);
  ThreadPoolOptions options = with(3);
  options.stack_bytes = 1;
  CHECK(std::string(TestPool(options).error().what) == "the stack size of the worker threads is refused");
  constexpr int kNotLimited = 77;
  if (kSanitized) return;   // their shadow memory does not fit under the limit below
  const int child = in_child([] {
    rlimit limit{};
    const rlim_t stacks = rlim_t{64} << 20;
    // Room for one stack more than what is there, by the process's size in pages.
    long pages = 0;
    if (FILE* file = fopen("/proc/self/statm", "r"); file == nullptr || fscanf(file, "%ld", &pages) != 1) return 2;
    limit.rlim_cur = limit.rlim_max =
        static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + stacks + stacks / 2;
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 3;
    rlimit found{};
    if (getrlimit(RLIMIT_AS, &found) != 0 || found.rlim_cur != limit.rlim_cur) return kNotLimited;
    ThreadPoolOptions many = with(8);
    many.stack_bytes = stacks;
    TestPool pool(many);
    if (pool.error().ok()) return 4;
    if (std::string(pool.error().what) != "a worker thread cannot be started") return 5;
    int threads = 0;
    if (FILE* file = fopen("/proc/self/status", "r")) {
      char line[256];
      while (fgets(line, sizeof line, file) != nullptr)
        if (sscanf(line, "Threads: %d", &threads) == 1) break;
    }
    return threads == 1 ? 0 : 6;
  });
  if (child == kNotLimited) SKIP("the address space cannot be limited here (qemu's user mode ignores it)");
  CHECK(child == 0);
}

TEST_CASE("workers take no signals of the host", "[platform][threads]") {
  TestPool pool(with(4, 4));
  REQUIRE(pool.error().ok());
  std::atomic<uint32_t> blocking{0}, workers{0};
  const auto caller = std::this_thread::get_id();
  for (int i = 0; i < 1'000 && workers.load() == 0; ++i) {
    pool.parallel().region([&](uint32_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (std::this_thread::get_id() == caller) return;
      workers.fetch_add(1);
      sigset_t set;
      pthread_sigmask(SIG_SETMASK, nullptr, &set);
      if (sigismember(&set, SIGINT) == 1 && sigismember(&set, SIGTERM) == 1 && sigismember(&set, SIGSEGV) == 0)
        blocking.fetch_add(1);
    });
  }
  CHECK(workers.load() > 0);
  CHECK(blocking.load() == workers.load());
}

TEST_CASE("idle workers sleep", "[platform][threads]") {
  for (uint32_t cores : {1u, 2u, 4u}) {
    TestPool pool(with(4, cores));
    REQUIRE(pool.error().ok());
    REQUIRE(counts_are_right(pool.parallel(), 10));
    CHECK(workers_fall_asleep());
  }
}

TEST_CASE("the quote names the stacks", "[platform][threads]") {
  CHECK(mote::thread_pool_stack_bytes(with(1)) == 0);
  CHECK(mote::thread_pool_stack_bytes(with(5)) == 4 * mote::kWorkerStackBytes);
  CHECK(mote::thread_pool_bytes(3) % 64 == 0);
  alignas(64) unsigned char memory[256];
  ThreadPool* pool = nullptr;
  CHECK_FALSE(mote::start_thread_pool(with(1), memory + 1, &pool).ok());
}
