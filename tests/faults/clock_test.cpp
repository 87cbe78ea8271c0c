// The clock fails, stands still or runs by our own count: waiting threads still come to sleep, and no bit changes.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "platform/memory.h"
#include "platform/thread_pool.h"
#include "tests/faults/scenario.h"
#include "tests/support/threads.h"

namespace mote::test {
namespace {

class Pool {
 public:
  Pool(uint32_t threads, uint32_t cores, uint32_t spin_nanoseconds) : bytes_(thread_pool_bytes(threads)) {
    ThreadPoolOptions options;
    options.threads = threads;
    options.cores = cores;
    options.spin_nanoseconds = spin_nanoseconds;
    memory_ = allocate_pages(bytes_);
    REQUIRE(start_thread_pool(options, memory_, &pool_).ok());
  }
  ~Pool() {
    stop_thread_pool(pool_);
    free_pages(memory_, bytes_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  void run() const {
    thread_pool_parallel(pool_).region([](uint32_t) {});
  }

 private:
  uint64_t bytes_;
  void* memory_ = nullptr;
  ThreadPool* pool_ = nullptr;
};

TEST_CASE("A waiting thread sleeps after the time it may spin, counted in readings of the clock", "[faults][threads]") {
  // Each reading is a microsecond after the one before, whoever reads; so readings are the spinning.
  const uint32_t spin_microseconds = GENERATE(0u, 20u, 50u, 400u);
  ClockFaults clock;
  clock.step_nanoseconds = 1000;
  set_clock_faults(clock);
  {
    const Pool pool(3, 4, spin_microseconds * 1000);
    pool.run();   // the first one waits for threads that are starting, for as long as it takes
    REQUIRE(workers_fall_asleep());
    set_clock_faults(clock);
    for (int i = 0; i < 10; ++i) {
      pool.run();
      REQUIRE(workers_fall_asleep());
    }
    // In each region three threads wait, for work or for the end; a reading more is what ends a wait.
    CAPTURE(spin_microseconds, clock_readings());
    CHECK(clock_readings() <= 10 * 3 * (uint64_t{spin_microseconds} + 3));
    if (spin_microseconds == 0) CHECK(clock_readings() == 0);
    if (spin_microseconds != 0) CHECK(clock_readings() >= spin_microseconds);
  }
  set_clock_faults({});
}

TEST_CASE("Without a clock, waiting threads sleep at once", "[faults][threads]") {
  const uint32_t cores = GENERATE(1u, 2u, 8u);
  ClockFaults clock;
  clock.every = 1;
  set_clock_faults(clock);
  {
    const Pool pool(4, cores, 50'000);
    for (int i = 0; i < 200; ++i) pool.run();
    CHECK(workers_fall_asleep());
  }
  set_clock_faults({});
}

TEST_CASE("Readings of the clock may fail, one by one or all of them, and no bit changes", "[faults][threads]") {
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  Scenario scenario;
  scenario.source = source_of(bytes);
  set_faults({});
  set_clock_faults({});
  const Told quiet = live(scenario);
  CHECK(quiet.problems == "");
  std::vector<ClockFaults> all;
  for (uint64_t n = 1; n <= 60; ++n) all.push_back({n, 0, 0});
  for (const uint64_t every : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{7}}) all.push_back({0, every, 0});
  all.push_back({0, 0, 1'000'000'000});   // a second passes from one reading to the next
  for (const ClockFaults& faults : all) {
    set_clock_faults(faults);
    const Told told = live(scenario);
    CAPTURE(faults.at, faults.every, faults.step_nanoseconds);
    CHECK(told.problems == "");
    CHECK(told.n_refused == 0);
    CHECK((told.life == quiet.life));
  }
  CHECK(clock_readings() > 0);
  set_clock_faults({});
}

}   // namespace
}   // namespace mote::test
