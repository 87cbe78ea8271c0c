// A host that has set the processor's floating-point control register for itself: the same bits, and it finds the
// register as it left it.
#include <catch2/catch_test_macros.hpp>
#include <cfenv>
#include <cstring>
#include <thread>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "tests/api/kit.h"

namespace mote::test {
namespace {

// Rounds upwards; on x86 also flushes subnormals and asks for a trap on each inexact result.
class OddMode {
 public:
  OddMode() {
    std::fegetenv(&before_);
    std::fesetround(FE_UPWARD);
#if defined(__SSE__)
    _mm_setcsr((_mm_getcsr() | 0x8040u) & ~0x1000u);
#endif
  }
  ~OddMode() { std::fesetenv(&before_); }
  static bool is_set() {
#if defined(__SSE__)
    if ((_mm_getcsr() & 0xffc0u) != 0xcfc0u) return false;
#endif
    return std::fegetround() == FE_UPWARD;
  }

 private:
  std::fenv_t before_;
};

std::vector<float> logits_of(const mote_engine_options& options, const Bytes& bytes) {
  const Engine engine(options);
  const Model model(engine, bytes);
  const Session session(model, session_options(32, 8));
  feed(session, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  return step(session);
}

// Threads of a host that has set each of them.
void odd_parallel_for(void*, uint32_t lanes, void (*task)(void* context, uint32_t lane), void* context) {
  std::vector<std::thread> threads;
  for (uint32_t lane = 0; lane < lanes; ++lane)
    threads.emplace_back([=] {
      const OddMode odd;
      task(context, lane);
    });
  for (std::thread& thread : threads) thread.join();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("A host's float mode changes no bit and is given back", "[api][float_mode][threads]") {
  const Bytes bytes = toy_llama({.matrices = Format::q8_0}).bytes();
  for (const char* backend : {"cpu", "reference"}) {
    CAPTURE(backend);
    const std::vector<float> expected = logits_of(engine_options(backend, 1), bytes);
    for (uint32_t threads : {1u, 3u}) {
      CAPTURE(threads);
      const OddMode odd;
      const std::vector<float> found = logits_of(engine_options(backend, threads), bytes);
      const bool given_back = OddMode::is_set();
      std::fesetenv(FE_DFL_ENV);   // the checks are not to be read in that mode
      CHECK(same_bits(found, expected));
      CHECK(given_back);
    }
    mote_engine_options host = engine_options(backend, 3);
    host.parallel_for = odd_parallel_for;
    CHECK(same_bits(logits_of(host, bytes), expected));
  }
}

TEST_CASE("The odd float mode of these tests is one that changes results", "[api][float_mode]") {
  volatile float one = 1.0f, little = 1e-10f, found = 0;
  {
    const OddMode odd;
#if defined(__SSE__)
    _mm_setcsr(_mm_getcsr() | 0x1000u);   // here without the trap
#endif
    found = one + little;
  }
  CHECK(found > 1.0f);
}

}   // namespace
}   // namespace mote::test
