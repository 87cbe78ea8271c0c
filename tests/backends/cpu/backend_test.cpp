// The backend as a whole: the same bits for any lanes, batch cuts, kernels and history; its bytes; its statuses.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/program.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/weights.h"

namespace mote::test {
namespace {

template <IsaBits instruction_sets>
Result<Backend*> create_with(const BackendServices& services, Arena& arena) {
  BackendServices limited = services;
  limited.instruction_sets = instruction_sets;
  return create_cpu_backend(limited, arena);
}
constexpr BackendEntry kScalar = {"cpu without instruction sets", create_with<0>};
constexpr BackendEntry kBest = {"cpu", create_with<UINT32_MAX>};

// A small model in one part: two layers, grouped heads, a window in the second, weights of several formats.
Case small_model(uint32_t positions, KvType type, uint64_t seed) {
  CaseRandom random(seed);
  Case made;
  made.name = "a small model";
  made.kv_type = type;
  TestPlan& plan = made.plan;
  for (uint32_t i = 0; i < positions; ++i) made.tokens.push_back(static_cast<int32_t>(random.below(40)));
  for (uint32_t i = 0; i < positions; ++i) made.wanted.push_back(i);
  constexpr uint32_t d = 256, heads = 6, kv_heads = 2, dim = 24;
  const auto linear = [&](Value x, uint32_t out, Format format) {
    const Value y = plan.value(out, x.rows);
    plan.step(Op::linear, {x}, y);
    plan.matrix(format, out, x.columns, random_matrix(format, out, x.columns, random));
    return y;
  };
  const auto norm = [&](Value x) {
    const Value y = plan.value(x.columns, x.rows);
    plan.step(Op::rms_norm, {x}, y).attributes.norm = {1e-5F};
    plan.vector(random.normals(x.columns));
    return y;
  };
  const auto two = [&](Op op, Value a, Value b) {
    const Value y = plan.value(a.columns, a.rows);
    plan.step(op, {a, b}, y).attributes.activate = {Activation::silu};
    return y;
  };
  Value x = plan.value(d);
  plan.step(Op::embed, {}, x);
  plan.matrix(Format::q8_0, 40, d, random_matrix(Format::q8_0, 40, d, random, 1));
  const Value angles = plan.value(16);
  plan.step(Op::rope_angles, {}, angles).attributes.rope_angles = {nullptr, 16, 1.0};
  plan.frequency({1, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005});
  for (uint32_t layer = 0; layer < 2; ++layer) {
    const Value h = norm(x);
    const auto rope = [&](Value v, uint32_t n) {
      const Value y = plan.value(v.columns);
      plan.step(Op::rope, {v, angles}, y).attributes.rope = {n, dim, 16, RopePairing::halves};
      return y;
    };
    const Value q = rope(linear(h, heads * dim, Format::q4_k), heads),
                k = rope(linear(h, kv_heads * dim, Format::q4_1), kv_heads);
    const Value v = linear(h, kv_heads * dim, Format::q4_1), attended = plan.value(heads * dim);
    const State state = plan.state({layer, kv_heads, dim, dim, layer == 0 ? 0U : 70U});
    plan.step(Op::append, {k, v}).state = state;
    Step& attention = plan.step(Op::attention, {q}, attended);
    attention.state = state;
    attention.attributes.attention = {heads, 0.2F, 0};
    x = two(Op::add, x, linear(attended, d, Format::f16));
    const Value h2 = norm(x);
    x = two(Op::add, x,
            linear(two(Op::gate, linear(h2, 512, Format::q6_k), linear(h2, 512, Format::q6_k)), d, Format::q5_0));
  }
  const Value last = plan.value(d, Dimension::outputs);
  plan.step(Op::take_rows, {x}, last);
  made.compared = linear(norm(last), 40, Format::q8_0);
  return made;
}

std::vector<float> outputs(const BackendEntry& entry, const Case& made, const RunOptions& options) {
  Rig rig(entry, made, options);
  REQUIRE(rig.supported());
  rig.run_all();
  rig.check_memory();
  return rig.output();
}

std::vector<uint32_t> cuts_of(uint32_t positions, uint32_t batch) {
  std::vector<uint32_t> cuts;
  for (; positions > 0; positions -= std::min(positions, batch)) cuts.push_back(std::min(positions, batch));
  return cuts;
}

}   // namespace

TEST_CASE("a model has the same bits for any lanes, any cut into batches and any instruction set",
          "[cpu][determinism][threads][long]") {
  struct Way {
    const BackendEntry& entry;
    KvType type;
    uint32_t lanes, batch;
  };
  std::vector<Way> ways = {
      {kScalar, KvType::f16, 2, 7}, {kScalar, KvType::f16, 3, 64}, {kScalar, KvType::f16, 8, 1},
      {kScalar, KvType::f32, 3, 7}, {kBest, KvType::f32, 2, 64},   {kBest, KvType::f32, 8, 150},
  };
  for (const uint32_t lanes : {1U, 2U, 3U, 8U})
    for (const uint32_t batch : {1U, 7U, 64U, 150U}) ways.push_back({kBest, KvType::f16, lanes, batch});
  const Case models[] = {small_model(150, KvType::f16, 11), small_model(150, KvType::f32, 11)};
  RunOptions whole;
  whole.cuts = {150};
  const std::vector<float> expected[] = {outputs(kScalar, models[0], whole), outputs(kScalar, models[1], whole)};
  int finite = 0;
  for (const float value : expected[0]) finite += std::isfinite(value);
  CHECK(finite == 150 * 40);
  for (const Way& way : ways) {
    const size_t which = way.type == KvType::f16 ? 0 : 1;
    RunOptions options;
    options.lanes = way.lanes;
    options.threads = way.lanes == 3 && way.batch != 1;
    options.cuts = cuts_of(150, way.batch);
    CAPTURE(way.entry.name, which, way.lanes, way.batch);
    CHECK(compare_bits(expected[which], outputs(way.entry, models[which], options)) == "");
  }
}

TEST_CASE("a long sequence has the same bits whether chunks are split over lanes or not", "[cpu][determinism][long]") {
  constexpr KvType f16 = KvType::f16;
  struct Split {
    AttentionShape shape;
    uint32_t lanes;
  };
  const Split splits[] = {
      {{6, 2, 24, 20, 0, 1100, f16, 0, 1}, 3},
      {{9, 3, 16, 16, 0, 1100, f16, 0, 1}, 2},    // a KV head too many: its queries are split
      {{4, 1, 16, 16, 90, 1100, f16, 0, 1}, 2},   // first little is seen of the second chunk, in the end of the first
      {{50, 2, 8, 8, 90, 1100, f16, 0, 1}, 3},    // more heads than a call takes
      {{5, 1, 16, 16, 0, 1100, f16, 0, 1}, 8},    // more lanes than heads
  };
  for (const Split& split : splits) {
    const Case made = attention_case(split.shape, 12);
    RunOptions whole, single;
    whole.cuts = {1100};
    single.lanes = split.lanes;
    single.cuts = {1000};
    for (int i = 0; i < 100; ++i) single.cuts.push_back(1);   // one row at a time across the border of a chunk
    CAPTURE(made.name, split.lanes);
    const std::vector<float> expected = outputs(kScalar, made, whole);
    CHECK(compare_bits(expected, outputs(kBest, made, single)) == "");
    if (split.lanes == 3) CHECK(compare_bits(expected, outputs(kScalar, made, single)) == "");
  }
}

TEST_CASE("rewinding to a border of a block and feeding again has the bits of a fresh start",
          "[cpu][determinism][long]") {
  const Case made = small_model(140, KvType::f16, 13);
  RunOptions options;
  options.cuts = {140};
  const std::vector<float> expected = outputs(kBest, made, options);
  for (const uint32_t kept : {139U, 129U, 128U, 127U, 65U, 64U, 63U, 1U, 0U}) {
    CAPTURE(kept);
    Rig rig(kBest, made, options);
    rig.run_batch(0, 140);
    REQUIRE(rig.executor().truncate(kept).ok());
    rig.forget_output();
    rig.run_batch(kept, 140 - kept);
    CHECK(compare_bits(std::vector<float>(expected.begin() + kept * 40, expected.end()), rig.output()) == "");
  }
}

TEST_CASE("a ring that was overwritten refuses to go back, by name, and goes on", "[cpu][state]") {
  const Case made = small_model(400, KvType::f16, 14);
  RunOptions options;
  options.cuts = cuts_of(400, 10);
  Rig rig(kBest, made, options);
  rig.run_all();
  // Window 70, batches of 10: the ring has 128 positions, so 272 .. 399 are there.
  const Status status = rig.executor().truncate(300);
  CHECK(status.code() == Code::wrong_state);
  CHECK(std::string(status.message()) ==
        "layer 1 keeps positions from 272 on, which is too late to go on at position 300 with a window of 70");
  CHECK(rig.executor().truncate(341).ok());
  CHECK(rig.executor().truncate(0).ok());
}

TEST_CASE("the input of several linears is quantised once, and those of one form run together", "[cpu][fusion]") {
  CaseRandom random(15);
  Case made;
  TestPlan& plan = made.plan;
  made.tokens = {0, 0};
  const Value x = plan.input(256, random.normals(512)), y = plan.input(256, random.normals(512));
  const auto linear = [&](Value from, Format format) {
    plan.step(Op::linear, {from}, plan.value(8));
    plan.matrix(format, 8, 256, random_matrix(format, 8, 256, random));
  };
  linear(x, Format::q4_0), linear(x, Format::q8_0), linear(x, Format::q6_k), linear(x, Format::f32),
      linear(x, Format::q4_k);
  linear(y, Format::q4_k), linear(x, Format::q4_k);
  plan.step(Op::add, {x, y}, plan.value(256));
  linear(x, Format::q4_k);
  Plan view;
  view.steps = plan.steps, view.values = plan.values, view.states = plan.states;
  std::vector<PreparedStep> steps(plan.steps.size());
  REQUIRE(prepare_steps({&view, 0, static_cast<uint32_t>(steps.size())}, kIsaBaseline, steps).ok());
  std::vector<bool> reused;
  std::vector<uint32_t> together;
  for (const PreparedStep& step : steps) reused.push_back(step.input_formed), together.push_back(step.together);
  const bool kept = choose_linear(Format::f32, kIsaBaseline)->form == nullptr;   // not on ARM, where F32 has a form too
  CHECK(reused == std::vector<bool>{false, true, false, false, kept, false, false, false, true});
  CHECK(together == std::vector<uint32_t>{2, 0, 1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("pieces that shrink are each taken once, and the first is long", "[cpu][threads]") {
  Parallel parallel;   // one lane after the other: the first takes them all
  for (parallel.lanes = 1; parallel.lanes <= 5; ++parallel.lanes)
    for (uint32_t count = 1; count < 200; ++count) {
      CAPTURE(parallel.lanes, count);
      uint32_t next = 0, first = 0;
      for_shrinking_pieces(parallel, count, kWorthARegion, [&](uint32_t begin, uint32_t end, uint32_t) {
        REQUIRE(begin == next);
        REQUIRE(end > begin);
        if (begin == 0) first = end;
        next = end;
      });
      REQUIRE(next == count);
      const uint32_t share = count * 3 / (4 * parallel.lanes);
      REQUIRE(first == (parallel.lanes == 1 ? count : std::max<uint32_t>(share, 1)));
    }
}

TEST_CASE("open says how its bytes divide", "[cpu][memory]") {
  const Case made = small_model(10, KvType::f16, 16);
  std::vector<Step> steps = made.plan.steps;
  Plan plan;
  plan.steps = steps, plan.values = made.plan.values, plan.states = made.plan.states;
  Arena session;
  std::vector<std::byte> memory(4096);
  Arena small(memory.data(), memory.size());
  BackendServices services;
  services.parallel.lanes = 2, services.instruction_sets = kIsaBaseline;
  const Result<Backend*> backend = create_cpu_backend(services, small);
  REQUIRE(backend.ok());
  SessionShape shape;
  shape.max_batch = 8, shape.max_outputs = 1, shape.context = 100, shape.kv_type = KvType::f16;
  Footprint footprint;
  const PlanPart part = {&plan, 0, static_cast<uint32_t>(steps.size())};
  REQUIRE(backend.value()->open(part, nullptr, shape, ValueMemory(), session, &footprint).ok());
  uint64_t lane_bytes = 0;
  for (const Step& step : steps)
    if (step.op == Op::linear)
      lane_bytes =
          std::max(lane_bytes, choose_linear(step.matrix.format, kIsaBaseline)->scratch_bytes(step.matrix.columns));
  REQUIRE(lane_bytes > 0);
  // Keys and values of 128 positions, 2 heads of 24, two bytes each; the second layer's ring has the same size here.
  CHECK(footprint.state_bytes == 2 * 2 * 128 * 2 * 24 * 2);
  CHECK(session.used_bytes() > footprint.state_bytes + 2 * lane_bytes);
}

TEST_CASE("a session whose pieces of attention cannot be counted in 32 bits is refused", "[cpu][hostile]") {
  Plan plan;
  Step step;
  step.op = Op::attention;
  step.attributes.attention = {4096, 1, 0};
  plan.steps = {&step, 1};
  const PlanPart part = {&plan, 0, 1};
  SessionShape shape;
  shape.context = 1u << 24, shape.max_batch = 1u << 19;
  CHECK(check_shape(part, shape).ok());
  ++shape.max_batch;
  const Status status = check_shape(part, shape);
  CHECK(status.code() == Code::unsupported);
  CHECK(std::string(status.message()) ==
        "4096 heads with a batch of 524289 or a context of 16777216 are more than 2^31 rows");
  shape.max_batch = 1, shape.context = UINT32_MAX;   // 2^22 chunks of 4096 heads
  CHECK(!check_shape(part, shape).ok());
  step.attributes.attention.n_heads = 1;
  CHECK(std::string(check_shape(part, shape).message()) ==
        "a batch of 1 or a context of 4294967295 is more than 2^31 positions");
  shape.context = 1u << 31;
  CHECK(check_shape(part, shape).ok());
}

}   // namespace mote::test
