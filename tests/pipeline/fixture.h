// A sequence over fake backends, and its calls in a line.
#pragma once
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <memory>
#include <numeric>

#include "core/pipeline/sequence.h"
#include "tests/pipeline/fake_backend.h"

namespace mote::test {

// Memory of exactly so many bytes at a multiple of 64.
class Room {
 public:
  explicit Room(uint64_t bytes) : bytes_(bytes), memory_(static_cast<size_t>(bytes) + 64) {}
  Arena arena() {
    void* at = memory_.data();
    size_t space = memory_.size();
    return Arena(std::align(64, static_cast<size_t>(bytes_), at, space), bytes_);
  }

  bool holds(const void* at) const {
    return std::less_equal<>()(memory_.data(), static_cast<const std::byte*>(at)) &&
           std::less<>()(static_cast<const std::byte*>(at), memory_.data() + memory_.size());
  }

 private:
  uint64_t bytes_;
  std::vector<std::byte> memory_;
};

// A model of a plan on a list of backends, as the api opens it, and one sequence on it.
class OpenedPlan {
 public:
  std::vector<std::string> lines;   // of the log
  CompiledPlans plans;

  OpenedPlan(const Plan& plan, std::vector<Backend*> list, uint64_t beyond_bytes = 0)
      : list_(std::move(list)), room_(measure(plan) + beyond_bytes) {
    Arena arena = room_.arena();
    const CompiledPlan first{0, place_steps(plan, list_, arena).value().parts, nullptr, {}};
    plans.begin(plan, list_, first, {say, this});
    Footprint footprint;
    Backend* failed = nullptr;
    REQUIRE(compile_parts(plans.walk(first), first.parts, arena, &footprint, &failed).ok());
    plans.set_reserve(Reserve(arena.rest(arena.used_bytes())));
  }
  ~OpenedPlan() { plans.close(); }
  OpenedPlan(const OpenedPlan&) = delete;

  // In exactly what is measured, and `beyond_bytes` more.
  Result<Sequence*> open(const SequenceOptions& options, uint64_t beyond_bytes = 0) {
    std::vector<uint64_t> offsets(plans.plan().values.size());
    Arena measuring;
    SequenceBytes measured, taken;
    const CompiledPlan& now = plans.current();
    REQUIRE(Sequence::create(plans, now, options, measuring, offsets, &measured).ok());
    fallback_bytes = measured.fallback_bytes;
    rooms_.push_back(std::make_unique<Room>(measuring.used_bytes() + beyond_bytes));
    Arena arena = rooms_.back()->arena();
    const Result<Sequence*> created = Sequence::create(plans, now, options, arena, {}, &taken);
    if (created.ok() && created.value()->n_fallbacks() == 0) CHECK(arena.used_bytes() == measuring.used_bytes());
    return created;
  }
  uint64_t fallback_bytes = 0;   // of the sequence that was opened last
  const Room& room_of_last() const { return *rooms_.back(); }

 private:
  uint64_t measure(const Plan& plan) {
    Arena arena;
    Footprint footprint;
    Backend* failed = nullptr;
    REQUIRE(place_steps(plan, list_, arena).ok());
    REQUIRE(compile_parts(PartWalk(plan, list_, 0), {}, arena, &footprint, &failed).ok());
    return arena.used_bytes();
  }
  static void say(void* self, const char* line) { static_cast<OpenedPlan*>(self)->lines.push_back(line); }

  std::vector<Backend*> list_;
  Room room_;
  std::vector<std::unique_ptr<Room>> rooms_;
};

struct Fixture {
  FakeBackend backend{"fake"};
  TestPlan test;
  OpenedPlan opened{test.plan, {&backend}};
  Sequence* sequence = nullptr;

  explicit Fixture(uint32_t context, uint32_t max_batch = 4, bool slide = false, uint32_t keep = 0,
                   uint32_t max_outputs = 1, uint32_t window = 0)
      : test([window](PlanBuilder& b) { build_small(b, 2, 32, 100, window); }) {
    SequenceOptions options;
    options.shape = {max_batch, max_outputs, context, KvType::f32};
    options.slide = slide;
    options.keep = keep;
    const Result<Sequence*> created = opened.open(options);
    REQUIRE(created.ok());
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
