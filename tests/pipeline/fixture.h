// A sequence over one or two fake backends, and its calls in a line.
#pragma once
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <numeric>

#include "core/pipeline/sequence.h"
#include "tests/pipeline/fake_backend.h"

namespace mote::test {

struct Fixture {
  FakeBackend backend{"fake"};
  TestPlan test;
  PlacedPart part{{&test.plan, 0, static_cast<uint32_t>(test.plan.steps.size())}, &backend, nullptr};
  std::vector<std::byte> memory;
  Sequence* sequence = nullptr;

  explicit Fixture(uint32_t context, uint32_t max_batch = 4, bool slide = false, uint32_t keep = 0,
                   uint32_t max_outputs = 1, uint32_t window = 0)
      : test([window](PlanBuilder& b) { build_small(b, 2, 32, 100, window); }) {
    SequenceOptions options;
    options.shape = {max_batch, max_outputs, context, KvType::f32};
    options.slide = slide;
    options.keep = keep;
    std::vector<uint64_t> offsets(test.plan.values.size());
    Arena measuring;
    SequenceBytes bytes;
    REQUIRE(Sequence::create(test.plan, {&part, 1}, options, measuring, offsets, &bytes).ok());
    memory.resize(measuring.used_bytes() + 64);
    void* at = memory.data();
    size_t space = memory.size();
    Arena arena(std::align(64, measuring.used_bytes(), at, space), measuring.used_bytes());
    const Result<Sequence*> created = Sequence::create(test.plan, {&part, 1}, options, arena, {}, &bytes);
    REQUIRE(created.ok());
    CHECK(arena.used_bytes() == measuring.used_bytes());
    sequence = created.value();
  }

  Status feed(std::vector<int32_t> tokens) { return sequence->feed(tokens, &done); }
  std::vector<int32_t> history() const { return {sequence->history().begin(), sequence->history().end()}; }
  size_t done = 0;
};

inline std::vector<int32_t> counting(int32_t first, int32_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

}   // namespace mote::test
