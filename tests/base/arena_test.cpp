#include "core/base/arena.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/checked.h"

namespace {

using namespace mote;

struct alignas(kArenaAlignment) Line {
  std::byte bytes[kArenaAlignment];
};

struct Parts {
  std::span<float> floats;
  std::span<char> chars;
  int* number = nullptr;
};
Parts lay_out(Arena& arena) {
  Parts parts;
  parts.floats = arena.take<float>(100);
  parts.chars = arena.take<char>(1);
  parts.number = arena.create<int>();
  return parts;
}

TEST_CASE("what an arena measures is what it takes, to the byte", "[base][arena]") {
  Arena measure;
  CHECK(measure.measuring());
  const Parts nothing = lay_out(measure);
  CHECK(nothing.floats.empty());
  CHECK(nothing.number == nullptr);
  CHECK(measure.used_bytes() == 448 + 64 + 64);
  CHECK(measure.status("x").ok());

  std::vector<Line> memory(measure.used_bytes() / sizeof(Line));
  Arena arena(memory.data(), measure.used_bytes());
  const Parts parts = lay_out(arena);
  CHECK(arena.status("x").ok());
  CHECK(arena.used_bytes() == measure.used_bytes());
  CHECK(parts.floats.size() == 100);
  CHECK(parts.chars.size() == 1);
  REQUIRE(parts.number != nullptr);
  CHECK(*parts.number == 0);
  CHECK(reinterpret_cast<uintptr_t>(parts.floats.data()) % kArenaAlignment == 0);
  CHECK(reinterpret_cast<uintptr_t>(parts.chars.data()) % kArenaAlignment == 0);
  CHECK(reinterpret_cast<std::byte*>(parts.number) + sizeof(int) <= memory.back().bytes + sizeof(Line));
}

TEST_CASE("an arena of one byte less than measured says what it needs", "[base][arena]") {
  std::vector<Line> memory(9);
  Arena arena(memory.data(), 575);
  lay_out(arena);
  CHECK(arena.failed());
  CHECK(arena.status("the test").code() == Code::out_of_memory);
  CHECK(std::string(arena.status("the test").message()) ==
        "the test needs at least 576 bytes of memory, 575 were handed over");
  CHECK(arena.take<char>(1).empty());   // nothing more is handed out after a failure
}

TEST_CASE("absurd counts fail without wrapping round", "[base][arena]") {
  for (const uint64_t count :
       {UINT64_MAX, UINT64_MAX / 8, UINT64_MAX / 8 + 1, uint64_t{1} << 61, (uint64_t{1} << 62) + 1}) {
    Arena measure;
    CHECK(measure.take<double>(count).empty());
    CHECK(measure.failed());
    CHECK(measure.status("it").code() == Code::out_of_memory);
  }
  Arena measure;
  (void)measure.take<char>(uint64_t{1} << 61);
  CHECK_FALSE(measure.failed());
  (void)measure.take<char>(uint64_t{1} << 61);
  (void)measure.take<char>(uint64_t{1} << 61);
  CHECK(measure.failed());
}

TEST_CASE("nothing is taken for a count of zero", "[base][arena]") {
  Arena measure;
  CHECK(measure.take<float>(0).empty());
  CHECK(measure.used_bytes() == 0);
  CHECK(measure.status("it").ok());
}

TEST_CASE("checked arithmetic says when a result does not fit", "[base][checked]") {
  uint64_t result = 0;
  CHECK(checked_add(UINT64_MAX - 1, 1, &result));
  CHECK(result == UINT64_MAX);
  CHECK_FALSE(checked_add(UINT64_MAX, 1, &result));
  CHECK(checked_multiply(uint64_t{1} << 32, UINT32_MAX, &result));
  CHECK(result == uint64_t{UINT32_MAX} << 32);
  CHECK_FALSE(checked_multiply(uint64_t{1} << 32, uint64_t{1} << 32, &result));
  CHECK(round_up(0, 64) == 0);
  CHECK(round_up(1, 64) == 64);
  CHECK(round_up(64, 64) == 64);
}

}   // namespace
