// The plan builder checks shapes as steps are added, keeps the first contradiction, and counts what it would store.
#include "core/ops/plan_builder.h"

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace mote {
namespace {

const float kData[64] = {};

Matrix matrix(uint32_t rows, uint32_t columns, std::string_view name = "w") {
  return {nullptr, rows, columns, Format::f32, name};
}
Vector vector(uint32_t count) { return {kData, count}; }
RopeSettings rope(uint32_t n_rotated, uint32_t number = 0) {
  return {{nullptr, n_rotated, 1}, RopePairing::neighbours, number};
}

// A small whole plan: one layer of attention and its result.
Status build_small(PlanBuilder& b) {
  Value x = b.embed(matrix(100, 32, "embedding"));
  b.enter_layer(0);
  const Value h = b.rms_norm(x, vector(32), 1e-5f);
  const Value q = b.rope(b.linear(h, matrix(64, 32)), 16, rope(16));
  const Value k = b.rope(b.linear(h, matrix(32, 32)), 16, rope(16));
  const Value v = b.linear(h, matrix(32, 32));
  const State past = b.append(b.kv_state(2, 16, 16), k, v);
  x = b.add(x, b.linear(b.causal_attention(q, past, {4, 0.25f, 0}), matrix(32, 64)));
  b.leave_layers();
  return b.logits(b.linear(b.rms_norm(b.take_wanted_rows(x), vector(32), 1e-5f), matrix(100, 32)));
}

TEST_CASE("A builder without storage counts what one with storage writes", "[ops][plan]") {
  PlanBuilder counter;
  REQUIRE(build_small(counter).ok());
  const PlanBuilder::Counts counts = counter.counts();
  CHECK(counts.states == 1);
  std::vector<Step> steps(counts.steps);
  std::vector<ValueInfo> values(counts.values);
  std::vector<StateInfo> states(counts.states);
  PlanBuilder builder(steps, values, states);
  REQUIRE(build_small(builder).ok());
  const Result<Plan> plan = builder.finish();
  REQUIRE(plan.ok());
  CHECK(plan.value().steps.size() == counts.steps);
  CHECK(plan.value().values.size() == counts.values);
  CHECK(plan.value().logits.rows == Dimension::outputs);
  CHECK(plan.value().logits.columns == 100);
  CHECK(plan.value().states[0].layer == 0);
  // A state knows its first and last step, so that nobody has to search the plan for them.
  const StateInfo& state = plan.value().states[0];
  REQUIRE(state.last_step < steps.size());
  CHECK(steps[state.first_step].op == Op::append);
  CHECK(steps[state.last_step].op == Op::attention);
  CHECK(PlanPart{&plan.value(), state.first_step, 1}.owns(State{0}));
  CHECK(!PlanPart{&plan.value(), 0, state.first_step}.owns(State{0}));
  CHECK(!PlanPart{&plan.value(), state.last_step, 1}.owns(State{0}));
  CHECK(!PlanPart{&plan.value(), 0, counts.steps}.owns(State{1}));
  // Every Value is made before it is read, and lives as long as it is read.
  for (uint32_t i = 0; i < steps.size(); ++i) {
    for (const Value& input : steps[i].inputs) {
      if (!input.exists()) continue;
      REQUIRE(values[input.id].first_step < i);
      REQUIRE(values[input.id].last_step >= i);
    }
    if (steps[i].output.exists()) REQUIRE(values[steps[i].output.id].first_step == i);
    REQUIRE(steps[i].inputs[0].exists() == (op_info(steps[i].op).n_inputs > 0));
  }
  CHECK(values[plan.value().logits.id].last_step == UINT32_MAX);
}

// An encoder's layer, and a decoder's with both kinds of attention; the encoder has two.
Status build_both(PlanBuilder& b) {
  b.enter_phase(Phase::encode);
  Value x = b.embed(matrix(10, 32));
  State seen = b.kv_state(2, 16, 16);
  for (uint32_t i = 0; i < 2; ++i) {
    b.enter_layer(i);
    x = b.add(x, b.full_attention(x, b.append(seen, x, x), {2, 1, 0}, vector(6)));
  }
  static_cast<void>(b.encoded(x).ok());
  const State across = b.append(b.cross_states(1, 2, 16, 16)[0], x, x);
  b.enter_phase(Phase::decode);
  b.enter_layer(0);
  Value y = b.embed(matrix(10, 32));
  y = b.causal_attention(y, b.append(b.kv_state(2, 16, 16), y, y), {2, 0.5f, 30});
  y = b.full_attention(y, across, {2, 1, 0});
  b.leave_layers();
  return b.logits(b.linear(b.take_wanted_rows(y), matrix(10, 32)));
}

TEST_CASE("Tapped attention has its weights in front of it, and all else is as without taps", "[ops][plan]") {
  const auto build = [](const Taps& taps, std::vector<Step>* steps, std::vector<ValueInfo>* values) {
    std::vector<StateInfo> states(4);
    steps->resize(40), values->resize(40);
    PlanBuilder counter, b(*steps, *values, states);
    counter.tap(taps), b.tap(taps);
    REQUIRE(build_both(counter).ok());
    REQUIRE(build_both(b).ok());
    CHECK(counter.counts().steps == b.counts().steps);
    CHECK(counter.tapped() == b.tapped());
    steps->resize(b.counts().steps), values->resize(b.counts().values);
    return b.tapped();
  };
  std::vector<Step> plain, steps;
  std::vector<ValueInfo> plain_values, values;
  REQUIRE(build({}, &plain, &plain_values) == 0);
  struct Way {
    Taps taps;
    uint32_t tapped;
  };
  for (const auto& [taps, tapped] :
       {Way{{7}, 4}, {{1}, 1}, {{2}, 2}, {{4}, 1}, {{7, 1}, 1}, {{7, 0, 1}, 3}, {{6, 2}, 0}}) {
    CAPTURE(taps.attendings, taps.first_layer, taps.end_layer);
    CHECK(build(taps, &steps, &values) == tapped);
    REQUIRE(steps.size() == plain.size() + tapped);
    uint32_t behind = 0;   // Values since the first tap
    for (size_t i = 0, at = 0; at < plain.size(); ++i, ++at) {
      if (steps[i].op == Op::attention_weights) {
        const Step &weights = steps[i], &attention = steps[i + 1];
        REQUIRE(attention.op == Op::attention);
        CHECK((weights.inputs[0].id == attention.inputs[0].id && weights.state.id == attention.state.id));
        CHECK((weights.vector.data == attention.vector.data && weights.phase == attention.phase));
        CHECK(std::memcmp(&weights.attributes, &attention.attributes, sizeof weights.attributes.attention) == 0);
        CHECK((weights.output.columns == 2 && weights.output.rows == Dimension::tokens));
        CHECK(weights.output.extent == (weights.state.phase == Phase::encode ? Extent::input : Extent::past));
        CHECK(values[weights.output.id].last_step == UINT32_MAX);
        ++i, ++behind;
      }
      CHECK((steps[i].op == plain[at].op && steps[i].layer == plain[at].layer));
      CHECK(steps[i].state.id == plain[at].state.id);
      if (steps[i].output.exists()) CHECK(steps[i].output.id == plain[at].output.id + behind);
    }
  }
}

TEST_CASE("Queries and keys share the angles of one setting", "[ops][plan]") {
  const auto count_angles = [](uint32_t second) {
    std::vector<Step> steps(16);
    std::vector<ValueInfo> values(16);
    PlanBuilder b(steps, values, {});
    const Value x = b.embed(matrix(10, 32));
    b.rope(x, 16, rope(16, 0));
    b.rope(x, 16, rope(16, second));
    b.rope(x, 16, rope(16, 0));
    size_t n = 0;
    for (uint32_t i = 0; i < b.counts().steps; ++i) n += steps[i].op == Op::rope_angles ? 1 : 0;
    return n;
  };
  CHECK(count_angles(0) == 1);
  CHECK(count_angles(1) == 2);
}

TEST_CASE("Parts of a fused weight lie where their rows do, and are nothing beyond its end", "[ops][plan]") {
  const std::vector<uint8_t> bytes(10 * 34 * 2);   // q8_0: 34 bytes for 32 values
  const Matrix whole{bytes.data(), 10, 64, Format::q8_0, "qkv"};
  const Matrix part = whole.part(3, 5);
  CHECK(part.data == bytes.data() + 3 * 68);
  CHECK((part.rows == 5 && part.columns == 64 && part.format == Format::q8_0 && part.name == "qkv"));
  CHECK(whole.part(0, 10).data == bytes.data());
  CHECK(matrix(10, 64).part(3, 5).data == nullptr);   // a quote without the data
  CHECK(vector(10).part(3, 5).data == kData + 3);
  CHECK(vector(10).part(3, 5).count == 5);
  CHECK(Vector{nullptr, 10}.part(3, 5).data == nullptr);
  constexpr uint32_t kBeyond[][2] = {{0, 11}, {10, 1}, {11, 0}, {3, UINT32_MAX}};
  for (const auto& [first, count] : kBeyond) {
    CHECK(whole.part(first, count).rows == 0);
    CHECK(!vector(10).part(first, count).exists());
  }
}

TEST_CASE("Storage that is too small is a status", "[ops][plan]") {
  PlanBuilder counter;
  REQUIRE(build_small(counter).ok());
  const PlanBuilder::Counts counts = counter.counts();
  for (uint32_t missing = 0; missing < 3; ++missing) {
    std::vector<Step> steps(counts.steps - (missing == 0 ? 1 : 0));
    std::vector<ValueInfo> values(counts.values - (missing == 1 ? 1 : 0));
    std::vector<StateInfo> states(counts.states - (missing == 2 ? 1 : 0));
    PlanBuilder builder(steps, values, states);
    CAPTURE(missing);
    CHECK(build_small(builder).code() == Code::out_of_memory);
    CHECK(builder.finish().status().code() == Code::out_of_memory);
  }
}

struct Contradiction {
  const char* what;
  std::function<void(PlanBuilder&, Value)> build;   // given an embedding of 32 columns
  const char* sentence;                             // a part of it
};

TEST_CASE("Shapes that contradict each other are said in a sentence", "[ops][plan]") {
  using B = PlanBuilder;
  const Contradiction table[] = {
      {"linear", [](B& b, Value x) { b.linear(x, matrix(8, 31, "blk.3.w")); },
       "blk.3.w has rows of 31 values, its input has 32"},
      {"bias", [](B& b, Value x) { b.linear(x, matrix(8, 32), vector(9)); },
       "bias of tensor w has 9 values for 8 rows"},
      {"rms_norm", [](B& b, Value x) { b.rms_norm(x, vector(33), 1); }, "33 weights for rows of 32"},
      {"layer_norm", [](B& b, Value x) { b.layer_norm(x, vector(32), vector(31), 1); }, "31 biases"},
      {"positions", [](B& b, Value x) { b.position_embed(x, matrix(8, 16, "positions")); }, "positions has rows of 16"},
      {"sines and cosines of an odd row",
       [](B& b, Value x) { b.sinusoidal_positions(b.linear(x, matrix(31, 32)), {}); },
       "come in pairs, the hidden state has 31"},
      {"sines and cosines of picked rows", [](B& b, Value x) { b.sinusoidal_positions(b.take_wanted_rows(x), {}); },
       "position_embed needs a row"},
      {"rnn of another width", [](B& b, Value x) { b.rnn(x, b.recurrent_state(31), matrix(32, 32)); },
       "rows of 32 values and another state"},
      {"rnn on keys and values", [](B& b, Value x) { b.rnn(x, b.kv_state(1, 32, 32), matrix(32, 32)); },
       "another state than a vector"},
      {"rnn without a state", [](B& b, Value x) { b.rnn(x, {}, matrix(32, 32)); }, "another state"},
      {"rnn that is not square", [](B& b, Value x) { b.rnn(x, b.recurrent_state(32), matrix(32, 31, "blk.1.u")); },
       "blk.1.u is [31, 32]"},
      {"rnn of picked rows", [](B& b, Value x) { b.rnn(b.take_wanted_rows(x), b.recurrent_state(32), matrix(32, 32)); },
       "rnn needs a row"},
      {"rope beyond the head", [](B& b, Value x) { b.rope(x, 16, rope(18)); }, "18 dimensions of heads of 16"},
      {"rope of odd heads", [](B& b, Value x) { b.rope(x, 15, rope(2)); }, "heads of 15"},
      {"rope of no head", [](B& b, Value x) { b.rope(x, 0, rope(2)); }, "heads of 0"},
      {"rope of many settings", [](B& b, Value x) { b.rope(x, 16, rope(16, 4)); }, "more than 4 settings of rope"},
      {"rms_norm without weights", [](B& b, Value x) { b.rms_norm(x, {}, 1); }, "0 weights for rows of 32"},
      {"rms_norm of heads", [](B& b, Value x) { b.rms_norm(x, vector(12), 1); }, "12 weights for rows of 32"},
      {"rope of odd turns", [](B& b, Value x) { b.rope(x, 16, rope(3)); }, "turns 3"},
      {"append", [](B& b, Value x) { b.append(b.kv_state(3, 16, 16), x, x); }, "3 KV heads do not fit keys of 32"},
      {"append of values", [](B& b, Value x) { b.append(b.kv_state(2, 16, 8), x, x); }, "values of 32"},
      {"attention", [](B& b, Value x) { b.causal_attention(x, b.kv_state(2, 16, 16), {3, 1, 0}); },
       "3 heads on 2 KV heads"},
      {"queries", [](B& b, Value x) { b.causal_attention(x, b.kv_state(2, 16, 16), {4, 1, 0}); }, "queries of 32"},
      {"no heads", [](B& b, Value x) { b.causal_attention(x, b.kv_state(0, 16, 16), {4, 1, 0}); }, "0 KV heads"},
      {"add", [](B& b, Value x) { b.add(x, b.linear(x, matrix(31, 32))); }, "add is given rows of 32 and of 31"},
      {"gate", [](B& b, Value x) { b.gate(x, b.linear(x, matrix(31, 32)), Activation::silu); }, "gate is given"},
      {"add of other rows", [](B& b, Value x) { b.add(x, b.take_wanted_rows(x)); }, "add is given"},
      {"positions of picked rows", [](B& b, Value x) { b.position_embed(b.take_wanted_rows(x), matrix(8, 32)); },
       "position_embed needs a row for each position"},
      {"rope of picked rows", [](B& b, Value x) { b.rope(b.take_wanted_rows(x), 16, rope(16)); }, "rope needs a row"},
      {"append of picked rows",
       [](B& b, Value x) { b.append(b.kv_state(2, 16, 16), b.take_wanted_rows(x), b.take_wanted_rows(x)); },
       "append needs a row"},
      {"queries of picked rows",
       [](B& b, Value x) { b.causal_attention(b.take_wanted_rows(x), b.kv_state(2, 16, 16), {2, 1, 0}); },
       "attention needs a row"},
      {"heads beyond a row", [](B& b, Value x) { b.causal_attention(x, b.kv_state(1, 16, 1u << 31), {2, 1, 0}); },
       "2 heads of 2147483648 values"},
      {"take_rows twice", [](B& b, Value x) { b.take_wanted_rows(b.take_wanted_rows(x)); }, "taken already"},
      {"biases of distances", [](B& b, Value x) { b.causal_attention(x, b.kv_state(2, 16, 16), {2, 1, 0}, vector(4)); },
       "2 heads is given 4 biases"},
      {"all of the past", [](B& b, Value x) { b.full_attention(x, b.kv_state(2, 16, 16), {2, 1, 0}); },
       "one of the decoder"},
      {"an encoder behind", [](B& b, Value) { b.enter_phase(Phase::encode); }, "encodes after it decodes"},
      {"pool", [](B& b, Value x) { b.pool(x, Pooling::mean); }, "no encoder's"},
      {"embed", [](B& b, Value) { b.embed(matrix(10, 32), vector(31)); }, "adds 31 values to rows of 32"},
      {"two vocabularies", [](B& b, Value) { b.embed(matrix(11, 32)); }, "tokens of 10 and of 11"},
      {"an encoder's result", [](B& b, Value x) { CHECK(!b.encoded(x).ok()); }, "an encoder's result"},
      {"logits of all rows", [](B& b, Value x) { CHECK(!b.logits(x).ok()); }, "for every token"},
      {"logits of nothing", [](B& b, Value) { CHECK(!b.logits({}).ok()); }, "for every token"},
  };
  for (const Contradiction& wrong : table) {
    for (const bool storing : {false, true}) {
      std::vector<Step> steps(16);
      std::vector<ValueInfo> values(16);
      std::vector<StateInfo> states(4);
      PlanBuilder counting, writing(steps, values, states);
      PlanBuilder& b = storing ? writing : counting;
      wrong.build(b, b.embed(matrix(10, 32)));
      const std::string sentence(b.status().message());
      CAPTURE(wrong.what, storing, sentence);
      CHECK(b.status().code() == Code::bad_model);
      CHECK(sentence.find(wrong.sentence) != std::string::npos);
    }
  }
}

TEST_CASE("An encoder's states cross to the decoder, its Values do not", "[ops][plan]") {
  std::vector<Step> steps(16);
  std::vector<ValueInfo> values(16);
  std::vector<StateInfo> states(4);
  const auto begin = [](PlanBuilder& b, State* across) {
    b.enter_phase(Phase::encode);
    const Value x = b.embed(matrix(10, 32));
    *across = b.append(b.cross_states(1, 2, 16, 16)[0], x, x);
    static_cast<void>(b.encoded(x, b.pool(x, Pooling::cls)).ok());
    b.enter_phase(Phase::decode);
    return x;
  };
  State across;
  PlanBuilder good(steps, values, states);
  begin(good, &across);
  const Value q = good.embed(matrix(10, 32));
  const Value y = good.full_attention(q, across, {2, 1, 0});
  REQUIRE(good.logits(good.linear(good.take_wanted_rows(y), matrix(10, 32))).ok());
  const Plan plan = good.finish().value();
  CHECK((plan.encodes() && plan.decodes()));
  CHECK(plan.n_vocab == 10);
  CHECK(plan.states[0].phase == Phase::encode);
  CHECK(plan.states[0].last_step == 4);   // the decoder's attention
  CHECK(plan.values[plan.hidden.id].last_step == UINT32_MAX);
  CHECK(plan.values[plan.pooled.id].last_step == UINT32_MAX);

  struct Wrong {
    std::function<void(PlanBuilder&, Value, State)> build;
    const char* sentence;
  };
  const Wrong table[] = {
      {[](PlanBuilder& b, Value x, State) { b.scale(x, 2); }, "scale is given a Value of the other phase"},
      {[](PlanBuilder& b, Value, State s) { b.append(s, b.embed(matrix(10, 32)), {}); }, "of the other phase"},
      {[](PlanBuilder& b, Value, State s) { b.causal_attention(b.embed(matrix(10, 32)), s, {2, 1, 0}); },
       "causal attention is given a state of the other phase"},
      {[](PlanBuilder& b, Value, State s) {
         s.is_cross = false;
         b.full_attention(b.embed(matrix(10, 32)), s, {2, 1, 0});
       },
       "from cross_states"},
      {[](PlanBuilder& b, Value, State) { b.cross_states(1, 2, 16, 16); }, "what an encoder was given"},
  };
  for (const Wrong& wrong : table) {
    PlanBuilder b;
    const Value x = begin(b, &across);
    wrong.build(b, x, across);
    CAPTURE(wrong.sentence);
    CHECK(std::string(b.status().message()).find(wrong.sentence) != std::string::npos);
  }
}

TEST_CASE("The first contradiction is kept, and nothing is added behind it", "[ops][plan]") {
  PlanBuilder b;
  const Value x = b.embed(matrix(10, 32));
  b.linear(x, matrix(8, 31, "first"));
  const uint32_t n_steps = b.counts().steps;
  const Value y = b.linear(x, matrix(8, 30, "second"));
  b.add(y, x);
  b.causal_attention(y, {}, {0, 1, 0});
  CHECK(b.counts().steps == n_steps);
  CHECK(std::string(b.status().message()).find("first") != std::string::npos);
  CHECK(!b.logits(y).ok());
}

TEST_CASE("More Values than there are numbers for them are a status", "[ops][plan]") {
  PlanBuilder b;
  Value x = b.embed(matrix(10, 32));
  for (int i = 0; i < 70000 && b.status().ok(); ++i) x = b.scale(x, 2);
  CHECK(b.status().code() == Code::bad_model);
  CHECK(std::string(b.status().message()).find("65535 Values") != std::string::npos);
}

}   // namespace
}   // namespace mote
