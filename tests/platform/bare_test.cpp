#include <catch2/catch_test_macros.hpp>
#include <string>

#include "platform/clock.h"
#include "platform/cpu_features.h"
#include "platform/dyn_lib.h"
#include "platform/file_map.h"
#include "platform/memory.h"
#include "platform/process.h"
#include "platform/thread_pool.h"

TEST_CASE("a machine without a system says so in words", "[platform][bare]") {
  mote::FileRange file;
  CHECK(std::string(mote::open_file("model.gguf", &file).what) == "cannot be opened: this platform has no files");
  CHECK_FALSE(mote::open_descriptor(0, 0, 1, &file).ok());
  CHECK(mote::allocate_pages(64) == nullptr);
  CHECK(mote::process_id() == 0);
  mote::DynLib library;
  CHECK(std::string(mote::open_dyn_lib("libm.so.6", &library).what) ==
        "cannot be opened: this platform has no libraries");
  CHECK(mote::dyn_lib_symbol(library, "sqrt") == nullptr);
  CHECK(mote::monotonic_nanoseconds() == mote::kNoClock);
  CHECK(mote::default_threads(mote::probe_cpu_limits()) == 1);
}

TEST_CASE("a pool of one lane is the caller", "[platform][bare]") {
  alignas(64) unsigned char memory[256];
  REQUIRE(mote::thread_pool_bytes(1) <= sizeof memory);
  mote::ThreadPoolOptions options;
  CHECK(mote::thread_pool_stack_bytes(options) == 0);
  mote::ThreadPool* pool = nullptr;
  REQUIRE(mote::start_thread_pool(options, memory, &pool).ok());
  uint32_t lanes = 0;
  mote::thread_pool_parallel(pool).region([&](uint32_t lane) { lanes += lane + 1; });
  CHECK(lanes == 1);
  CHECK(mote::thread_pool_tasks_done(pool, 0) == 1);
  mote::stop_thread_pool(pool);
  options.threads = 2;
  CHECK(std::string(mote::start_thread_pool(options, memory, &pool).what) == "this platform has one thread");
}
