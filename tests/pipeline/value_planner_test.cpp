#include "core/pipeline/value_planner.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <memory>
#include <random>

#include "tests/pipeline/fake_backend.h"

using namespace mote;
using namespace mote::test;

namespace {

uint64_t bytes_of(const ValueInfo& value, const SessionShape& shape, uint32_t over_read) {
  const Value as_value{0, value.rows, value.extent, value.columns};
  const uint64_t count = uint64_t{most_rows_of(as_value, shape)} * value.columns * most_positions_of(as_value, shape);
  return (count * 4 + over_read + 63) / 64 * 64;
}

// "" or what is wrong: two Values that are needed at one time and share bytes, or one that sticks out of the block,
// what may be read behind it included. The output of an in-place step may share the bytes of its first input exactly.
std::string find_overlap(const Plan& plan, const SessionShape& shape, std::span<const uint64_t> offsets, uint64_t total,
                         uint32_t over_read = 0) {
  for (size_t a = 0; a < plan.values.size(); ++a) {
    if (offsets[a] == ValueMemory::kNowhere) continue;
    if (offsets[a] + bytes_of(plan.values[a], shape, over_read) > total)
      return "Value " + std::to_string(a) + " sticks out";
    if (offsets[a] % 64 != 0) return "Value " + std::to_string(a) + " is not aligned";
    for (size_t b = a + 1; b < plan.values.size(); ++b) {
      if (offsets[b] == ValueMemory::kNowhere) continue;
      const ValueInfo &x = plan.values[a], &y = plan.values[b];
      const bool apart = offsets[a] + bytes_of(x, shape, over_read) <= offsets[b] ||
                         offsets[b] + bytes_of(y, shape, over_read) <= offsets[a];
      if (apart || x.last_step < y.first_step) continue;
      const Step& maker = plan.steps[y.first_step];
      const bool in_place = x.last_step == y.first_step && op_info(maker.op).in_place && maker.inputs[0].id == a &&
                            offsets[a] == offsets[b] && x.columns == y.columns && x.rows == y.rows;
      if (!in_place) return "Values " + std::to_string(a) + " and " + std::to_string(b) + " overlap";
    }
  }
  return "";
}

// Random steps over the Values made so far, some of which die and come back as inputs much later.
void build_random(PlanBuilder& b, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Value> alive = {b.embed(fake_matrix(50, 16))};
  for (int i = 0; i < 60; ++i) {
    const Value x = alive[random() % alive.size()];
    Value made;
    switch (random() % 4) {
      case 0:
        made = b.linear(x, fake_matrix(16 * (1 + static_cast<uint32_t>(random() % 4)), x.columns));
        break;
      case 1:
        made = b.scale(x, 2);
        break;
      case 2:
        made = b.add(x, x);
        break;
      default: {
        Value other = b.linear(alive[random() % alive.size()], fake_matrix(x.columns, alive.back().columns));
        made = other.exists() && other.columns == x.columns ? b.gate(x, other, Activation::relu) : b.scale(x, 1);
      }
    }
    if (!b.status().ok()) return;
    alive.push_back(made);
  }
  static_cast<void>(b.logits(b.take_wanted_rows(alive.back())).ok());
}

}   // namespace

TEST_CASE("Values that are needed at one time never share bytes", "[pipeline][planner]") {
  FakeBackend backend("fake");
  backend.over_read = GENERATE(0u, 16u, 100u);
  const SessionShape shape{GENERATE(1u, 7u, 64u), GENERATE(1u, 5u), 128, KvType::f32};
  TestPlan test([](PlanBuilder& b) { build_small(b, 3); });
  const PlacedPart part{{&test.plan, 0, static_cast<uint32_t>(test.plan.steps.size())}, &backend, nullptr};
  std::vector<uint64_t> offsets(test.plan.values.size());
  const Result<uint64_t> total = plan_values(test.plan, std::span(&part, 1), shape, offsets);
  REQUIRE(total.ok());
  CHECK(find_overlap(test.plan, shape, offsets, total.value(), backend.over_read) == "");
  // Layers reuse each other's bytes: three take no more than two.
  TestPlan two([](PlanBuilder& b) { build_small(b, 2); });
  const PlacedPart part_of_two{{&two.plan, 0, static_cast<uint32_t>(two.plan.steps.size())}, &backend, nullptr};
  std::vector<uint64_t> offsets_of_two(two.plan.values.size());
  CHECK(plan_values(two.plan, std::span(&part_of_two, 1), shape, offsets_of_two).value() == total.value());
}

TEST_CASE("Random plans keep their Values apart", "[pipeline][planner]") {
  const uint32_t seed = GENERATE(range(1u, 60u));
  CAPTURE(seed);
  std::vector<Step> steps(512);
  std::vector<ValueInfo> values(512);
  std::vector<StateInfo> states(1);
  PlanBuilder builder(steps, values, states);
  build_random(builder, seed);
  const Result<Plan> built = builder.finish();
  if (!built.ok()) SUCCEED("the dice made a plan whose shapes contradict each other");
  if (!built.ok()) return;
  const Plan plan = built.value();
  FakeBackend backend("fake");
  const SessionShape shape{3, 2, 16, KvType::f32};
  const PlacedPart part{{&plan, 0, static_cast<uint32_t>(plan.steps.size())}, &backend, nullptr};
  std::vector<uint64_t> offsets(plan.values.size());
  const Result<uint64_t> total = plan_values(plan, std::span(&part, 1), shape, offsets);
  REQUIRE(total.ok());
  CHECK(find_overlap(plan, shape, offsets, total.value()) == "");
}

TEST_CASE("Taps lie behind the other Values, whose places are those without taps", "[pipeline][planner]") {
  FakeBackend backend("fake");
  backend.over_read = GENERATE(0u, 16u);
  const SessionShape shape{7, 2, 40, KvType::f32};
  TestPlan plain([](PlanBuilder& b) { build_small(b, 3); });
  TestPlan tapped([](PlanBuilder& b) {
    b.tap({1, 1, 3});
    build_small(b, 3);
    CHECK(b.tapped() == 2);
  });
  const auto place = [&](const TestPlan& test, std::vector<uint64_t>* offsets) {
    const PlacedPart part{{&test.plan, 0, static_cast<uint32_t>(test.plan.steps.size())}, &backend, nullptr};
    offsets->resize(test.plan.values.size());
    return plan_values(test.plan, std::span(&part, 1), shape, *offsets).value();
  };
  std::vector<uint64_t> of_plain, of_tapped;
  const uint64_t plain_bytes = place(plain, &of_plain), tapped_bytes = place(tapped, &of_tapped);
  CHECK(find_overlap(tapped.plan, shape, of_tapped, tapped_bytes, backend.over_read) == "");
  std::vector<uint64_t> others;
  uint64_t taps_bytes = 0;
  for (size_t i = 0; i < of_tapped.size(); ++i) {
    const ValueInfo& value = tapped.plan.values[i];
    if (value.extent == Extent::single) {
      others.push_back(of_tapped[i]);
      continue;
    }
    CHECK(of_tapped[i] == plain_bytes + taps_bytes);
    taps_bytes += bytes_of(value, shape, backend.over_read);
  }
  CHECK(others == of_plain);
  CHECK(taps_bytes >= 2 * 7 * 4 * 40 * 4);   // rows, heads, positions, floats
  CHECK(tapped_bytes == plain_bytes + taps_bytes);
}

TEST_CASE("Taps beyond any memory are a status", "[pipeline][planner]") {
  FakeBackend backend("fake");
  TestPlan test([](PlanBuilder& b) {
    b.tap({1, 0, 1});
    const Value x = b.embed(fake_matrix(10, 1u << 20));
    b.enter_layer(0);
    const Value y = b.causal_attention(x, b.append(b.kv_state(1u << 20, 1, 1), x, x), {1u << 20, 1, 0});
    b.leave_layers();
    static_cast<void>(b.logits(b.linear(b.take_wanted_rows(y), fake_matrix(10, 1u << 20))).ok());
  });
  const PlacedPart part{{&test.plan, 0, static_cast<uint32_t>(test.plan.steps.size())}, &backend, nullptr};
  std::vector<uint64_t> offsets(test.plan.values.size());
  const auto status = [&](uint32_t rows, uint32_t context) {
    return plan_values(test.plan, std::span(&part, 1), {rows, 1, context, KvType::f32}, offsets).status();
  };
  CHECK(status(4, 16).ok());
  CHECK(status(1u << 24, 1u << 24).code() == Code::out_of_memory);   // 2^68 floats
  CHECK(status(1u << 20, 1u << 22).code() == Code::out_of_memory);   // 2^62
}

TEST_CASE("On a device only Values that cross have a place on the host", "[pipeline][planner]") {
  FakeBackend device("device", false), host("host");
  device.refused = {Op::attention, Op::append};
  TestPlan test([](PlanBuilder& b) { build_small(b); });
  std::vector<std::byte> memory(1 << 16);
  void* at = memory.data();
  size_t space = memory.size();
  Arena arena(std::align(64, 1 << 15, at, space), 1 << 15);
  Backend* order[] = {&device, &host};
  const Result<Placement> placement = place_steps(test.plan, order, arena);
  REQUIRE(placement.ok());
  std::vector<uint64_t> offsets(test.plan.values.size());
  const SessionShape shape{4, 1, 16, KvType::f32};
  const Result<uint64_t> total = plan_values(test.plan, placement.value().parts, shape, offsets);
  REQUIRE(total.ok());
  CHECK(find_overlap(test.plan, shape, offsets, total.value()) == "");
  size_t without_place = 0;
  for (const PlacedPart& part : placement.value().parts)
    for (const Step& step : part.part.steps()) {
      const bool on_host = part.backend == &host;
      for (const Value& input : step.inputs)
        if (input.exists() && on_host) CHECK(offsets[input.id] != ValueMemory::kNowhere);
      if (step.output.exists() && offsets[step.output.id] == ValueMemory::kNowhere) ++without_place;
    }
  CHECK(without_place > 10);
  CHECK(offsets[test.plan.logits.id] != ValueMemory::kNowhere);
}
