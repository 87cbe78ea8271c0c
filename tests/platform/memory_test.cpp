#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>

#include "platform/clock.h"
#include "platform/memory.h"

TEST_CASE("pages are zeroed, aligned and writable to the last byte", "[platform][memory]") {
  for (uint64_t bytes : {uint64_t{1}, uint64_t{64}, uint64_t{4097}, uint64_t{1} << 22}) {
    auto* at = static_cast<unsigned char*>(mote::allocate_pages(bytes));
    REQUIRE(at != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(at) % 64 == 0);
    CHECK(std::all_of(at, at + bytes, [](unsigned char byte) { return byte == 0; }));
    std::fill(at, at + bytes, static_cast<unsigned char>(0xff));
    mote::free_pages(at, bytes);
  }
}

TEST_CASE("memory that cannot be had is a null pointer", "[platform][memory]") {
  CHECK(mote::allocate_pages(0) == nullptr);
  CHECK(mote::allocate_pages(UINT64_MAX) == nullptr);
  CHECK(mote::allocate_pages(uint64_t{1} << 62) == nullptr);
  mote::free_pages(nullptr, 0);
}

TEST_CASE("the clock never goes back", "[platform][clock]") {
  uint64_t last = mote::monotonic_nanoseconds();
  bool forward = true;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t now = mote::monotonic_nanoseconds();
    forward = forward && now >= last;
    last = now;
  }
  CHECK(forward);
  CHECK(last != mote::kNoClock);
}
