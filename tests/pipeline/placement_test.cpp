#include "core/pipeline/placement.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
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
  char names[96];
  describe_backends(placed.value().parts, names, sizeof names);
  CHECK(std::string(names) == "first, second");
  describe_backends(placed.value().parts, names, 9);
  CHECK(std::string(names) == "first, s");
}

TEST_CASE("All steps of a state go to one backend", "[pipeline][placement]") {
  FakeBackend first("first"), second("second");
  const bool is_tapped = GENERATE(false, true);
  first.refused = {is_tapped ? Op::attention_weights : Op::attention};   // so append must not go there either
  TestPlan test([&](PlanBuilder& b) {
    if (is_tapped) b.tap({1});
    build_small(b);
  });
  Memory memory;
  Arena arena = memory.arena();
  Backend* order[] = {&first, &second};
  const Result<Placement> placed = place_steps(test.plan, order, arena);
  REQUIRE(placed.ok());
  for (const PlacedPart& part : placed.value().parts)
    for (const Step& step : part.part.steps())
      if (op_info(step.op).state != StateUse::none) CHECK(part.backend == &second);
}

TEST_CASE("What lies between the steps of a state goes where they go: a state is never in two parts",
          "[pipeline][placement]") {
  FakeBackend first("first"), second("second");
  first.refused = {Op::rope};   // of the queries: stands between append and attention here
  TestPlan test([](PlanBuilder& b) {
    const RopeSettings rope{{nullptr, 8, 1}, RopePairing::halves, 0};
    Value x = b.embed(fake_matrix(100, 32));
    for (uint32_t i = 0; i < 2; ++i) {
      b.enter_layer(i);
      const Value q = b.linear(x, fake_matrix(32, 32)), k = b.linear(x, fake_matrix(32, 32));
      const State past = b.append(b.kv_state(4, 8, 8, 0), k, k);
      x = b.add(x, b.causal_attention(b.rope(q, 8, rope), past, {4, 1, 0}));
    }
    b.leave_layers();
    static_cast<void>(b.logits(b.linear(b.take_wanted_rows(x), fake_matrix(100, 32))).ok());
  });
  Memory memory;
  Arena arena = memory.arena();
  Backend* order[] = {&first, &second};
  const Result<Placement> placed = place_steps(test.plan, order, arena);
  REQUIRE(placed.ok());
  size_t n_of_states = 0;
  for (const PlacedPart& part : placed.value().parts)
    for (const Step& step : part.part.steps()) {
      if (op_info(step.op).state == StateUse::none) continue;
      CHECK(part.part.owns(step.state));
      CHECK(part.backend == &second);
      ++n_of_states;
    }
  CHECK(n_of_states == 4);
  // Where nobody takes all of them, though somebody takes each, the state's steps are named.
  second.refused = {Op::attention};
  const Result<Placement> none = place_steps(test.plan, order, arena);
  CHECK(none.status().code() == Code::unsupported);
  CHECK(none.status().message() ==
        "no backend that was chosen runs all steps of a state, from append of layer 0 to attention of layer 0");
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
  // Of a state whose steps nobody has narrowed down, all that follow may be: they stay together.
  first.refused = {};
  for (StateInfo& state : test.states) state.last_step = UINT32_MAX;
  Arena measuring;
  const Result<Placement> together = place_steps(test.plan, order, measuring);
  REQUIRE(together.ok());
  CHECK(together.value().parts_count == 1);
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

TEST_CASE("Parts are cut where the phase changes, unless a state crosses", "[pipeline][placement]") {
  for (const bool crosses : {false, true}) {
    const TestPlan test([crosses](PlanBuilder& b) {
      b.enter_phase(Phase::encode);
      const Value x = b.embed(fake_matrix(100, 16));
      static_cast<void>(b.encoded(x).ok());
      const State all = b.append(b.cross_states(1, 2, 8, 8)[0], x, x);
      b.enter_phase(Phase::decode);
      Value y = b.embed(fake_matrix(100, 16));
      if (crosses) y = b.full_attention(y, all, {2, 1, 0});
      static_cast<void>(b.logits(b.linear(b.take_wanted_rows(y), fake_matrix(100, 16))).ok());
    });
    FakeBackend only{"only"};
    std::vector<Backend*> list = {&only};
    PartWalk parts(test.plan, list, 0);
    std::vector<PlacedPart> found;
    for (PlacedPart part; parts.next(&part);) found.push_back(part);
    REQUIRE(parts.status().ok());
    REQUIRE(found.size() == (crosses ? 1 : 2));
    CHECK(found.front().part.runs_in(Phase::encode));
    CHECK(found.front().part.runs_in(Phase::decode) == crosses);
    CHECK(found.back().part.runs_in(Phase::decode));
  }
}
