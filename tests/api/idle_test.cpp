// Between calls nothing runs: the threads of an engine sleep.
#include <sys/resource.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/api/kit.h"

namespace mote::test {
namespace {

// CPU time of the whole process, whoever had the cores.
double cpu_seconds() {
  rusage used{};
  REQUIRE(getrusage(RUSAGE_SELF, &used) == 0);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// MOTE_IDLE_SECONDS: for how long it is watched; 1 without it.
TEST_CASE("Between calls the process uses no CPU time", "[api][threads]") {
  const char* asked = std::getenv("MOTE_IDLE_SECONDS");
  const int seconds = asked == nullptr ? 1 : std::atoi(asked);
  const Engine engine("cpu", 4);
  const Model model(engine, toy_llama({.d_model = 256, .d_ff = 256}));
  mote_session_options options = session_options(128, 64);
  options.decode_threads = 2;   // the others have just run a prompt
  const Session session(model, options);
  feed(session, some_tokens(100, 256));
  step(session);
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const double used = cpu_seconds() - before;
  // Whoever waits spins for 0.05 ms; one that did not stop would use as many seconds as it sleeps here, or its share.
  if (asked != nullptr) WARN(used * 1e3 << " ms of CPU time in " << seconds << " s");
  CHECK(used < 0.02 + 0.001 * seconds);
}

}   // namespace
}   // namespace mote::test
