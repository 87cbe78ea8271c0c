// The working memory of a session: each piece ends with what XNNPACK may read, or wants written, behind it.
#include <catch2/catch_test_macros.hpp>

#include "backends/xnnpack/executor.h"
#include "tests/conformance/plan_maker.h"
#include "tests/support/guarded_memory.h"

using namespace mote;
using namespace mote::test;

TEST_CASE("Each piece of working memory has room behind it", "[xnnpack]") {
  constexpr uint32_t kRows = 4, kContext = 16, kHeads = 2, kDim = 8, kColumns = 64;
  REQUIRE(xnn_initialize(nullptr) == xnn_status_success);
  TestPlan test;
  const Value x = test.value(kColumns), q = test.value(kHeads * kDim), angles = test.value(kDim), y = test.value(kDim);
  test.step(Op::linear, {x}, q).matrix = {nullptr, kHeads * kDim, kColumns, Format::q8_0, "test.weight"};
  test.step(Op::rope, {q, angles}, q).attributes.rope = {kHeads, kDim, kDim, RopePairing::halves};
  Step& attention = test.step(Op::attention, {q}, y);
  attention.state = test.state({0, 1, kDim, kDim, 0});
  attention.attributes.attention = {kHeads, 1, 0};
  Plan plan;
  plan.steps = test.steps;
  plan.values = test.values;
  plan.states = test.states;
  const PlanPart part{&plan, 0, 3};
  const SessionShape shape{kRows, kRows, kContext, KvType::f16};
  Arena measuring;
  REQUIRE(take_session_scratch(part, shape, 2, measuring).ok());
  const GuardedMemory memory(measuring.used_bytes(), kArenaAlignment, Guard::bands, 0);
  Arena arena(memory.data(), memory.bytes());
  const SessionScratch scratch = take_session_scratch(part, shape, 2, arena).value();
  CHECK(scratch.codes.size() == kRows * kColumns + XNN_EXTRA_BYTES);
  CHECK(scratch.scales.size() == kRows + XNN_EXTRA_QUANTIZATION_PARAMS);
  const auto has = [](std::span<const float> piece, size_t count) {
    return piece.size_bytes() == count * sizeof(float) + XNN_EXTRA_BYTES;
  };
  CHECK(has(scratch.rows, kRows * kHeads * kDim));
  CHECK(has(scratch.angles, kRows * kDim));
  CHECK(scratch.lanes.size() == 2);
  for (const AttentionLane& lane : scratch.lanes) {
    CHECK((has(lane.q, kHeads * kDim) && has(lane.keys, kContext * kDim) && has(lane.values, kContext * kDim)));
    CHECK((has(lane.scores_of_group, kHeads * kContext) && has(lane.weights, kHeads * kContext)));
    // Packed in whole tiles: at least all keys or values, and the room.
    CHECK(lane.workspace.size() >= kContext * kDim * sizeof(float) + XNN_EXTRA_BYTES);
  }
}
