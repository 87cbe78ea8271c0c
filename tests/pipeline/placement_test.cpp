#include "core/pipeline/placement.h"

#include <catch2/catch_test_macros.hpp>
#include <memory>

#include "tests/pipeline/fake_backend.h"

using namespace mote;
using namespace mote::test;

namespace {

struct Memory {
  std::vector<std::byte> bytes = std::vector<std::byte>(1 << 16);
  Arena arena() {
    void* at = bytes.data();
    size_t space = bytes.size();
    return Arena(std::align(64, 1 << 15, at, space), 1 << 15);
  }
};

}   // namespace

TEST_CASE("The first backend in the order that supports a step gets it, in whole runs", "[pipeline][placement]") {
  FakeBackend first("first"), second("second");
  first.refused = {Op::gate};
  TestPlan test([](PlanBuilder& b) { build_small(b); });
  Memory memory;
  Arena arena = memory.arena();
  Backend* order[] = {&first, &second};
  const Result<Placement> placed = place_steps(test.plan, order, arena);
  REQUIRE(placed.ok());
  CHECK(placed.value().parts_count == 5);   // first, gate, first, gate, first
  uint32_t next = 0;
  for (const PlacedPart& part : placed.value().parts) {
    CHECK(part.part.first == next);
    for (const Step& step : part.part.steps()) CHECK((part.backend == &second) == (step.op == Op::gate));
    next += part.part.count;
  }
  CHECK(next == test.plan.steps.size());
}

TEST_CASE("All steps of a state go to one backend", "[pipeline][placement]") {
  FakeBackend first("first"), second("second");
  first.refused = {Op::attention};   // so append must not go there either
  TestPlan test([](PlanBuilder& b) { build_small(b); });
  Memory memory;
  Arena arena = memory.arena();
  Backend* order[] = {&first, &second};
  const Result<Placement> placed = place_steps(test.plan, order, arena);
  REQUIRE(placed.ok());
  for (const PlacedPart& part : placed.value().parts)
    for (const Step& step : part.part.steps())
      if (step.op == Op::append) CHECK(part.backend == &second);
}

// Between them a step of another backend would cut the part in two, and the second half would not keep the state.
TEST_CASE("What stands between the steps of a state goes where they go", "[pipeline][placement]") {
  FakeBackend first("first"), second("second");
  first.refused = {Op::attention};
  TestPlan test([](PlanBuilder& b) {
    for (uint32_t i = 0; i < 2; ++i) {
      const Value x = b.embed(fake_matrix(100, 32));
      const State past = b.append(b.kv_state(4, 8, 8), x, x);
      static_cast<void>(b.causal_attention(b.scale(x, 2), past, {4, 1, 0}));
    }
    static_cast<void>(b.logits(b.take_wanted_rows(b.embed(fake_matrix(100, 32)))).ok());
  });
  Memory memory;
  Arena arena = memory.arena();
  Backend* order[] = {&first, &second};
  const Result<Placement> placed = place_steps(test.plan, order, arena);
  REQUIRE(placed.ok());
  CHECK(placed.value().parts_count == 5);
  size_t kept = 0;
  for (const PlacedPart& part : placed.value().parts)
    for (const Step& step : part.part.steps()) {
      kept += op_info(step.op).state != StateUse::none && part.part.owns(step.state);
      if (step.op == Op::scale) CHECK(part.backend == &second);
    }
  CHECK(kept == 4);
}

// A search of the whole plan for each state would be quadratic in the layers.
TEST_CASE("Only the steps between a state's first and last are asked about it", "[pipeline][placement]") {
  FakeBackend first("first"), second("second");
  first.refused = {Op::attention};
  TestPlan test([](PlanBuilder& b) { build_small(b); });
  for (StateInfo& state : test.states) state.last_step = state.first_step;   // as if no attention read it
  Memory memory;
  Arena arena = memory.arena();
  Backend* order[] = {&first, &second};
  const Result<Placement> placed = place_steps(test.plan, order, arena);
  REQUIRE(placed.ok());
  size_t appends = 0;
  for (const PlacedPart& part : placed.value().parts)
    for (const Step& step : part.part.steps()) appends += step.op == Op::append && part.backend == &first;
  CHECK(appends == 2);
}

TEST_CASE("A step that nobody runs is named", "[pipeline][placement]") {
  FakeBackend only("only");
  only.refused = {Op::gate};
  TestPlan test([](PlanBuilder& b) { build_small(b); });
  Memory memory;
  Arena arena = memory.arena();
  Backend* order[] = {&only};
  const Result<Placement> placed = place_steps(test.plan, order, arena);
  REQUIRE(!placed.ok());
  CHECK(placed.status().code() == Code::unsupported);
  CHECK(placed.status().message() == "no backend that was chosen runs gate of layer 0");
}

TEST_CASE("Measuring a placement takes what placing takes", "[pipeline][placement]") {
  FakeBackend first("first"), second("second");
  first.refused = {Op::gate};
  TestPlan test([](PlanBuilder& b) { build_small(b); });
  Memory memory;
  Arena arena = memory.arena(), measuring;
  Backend* order[] = {&first, &second};
  REQUIRE(place_steps(test.plan, order, arena).ok());
  const Result<Placement> measured = place_steps(test.plan, order, measuring);
  REQUIRE(measured.ok());
  CHECK(measured.value().parts.empty());
  CHECK(measured.value().parts_count == 5);
  CHECK(measuring.used_bytes() == arena.used_bytes());
}
