// The oracle itself: nothing else judges it, so here its ops are compared with formulas written once more, by hand,
// with the C library's functions in long double, and with numbers worked out on paper.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>

#include "tests/conformance/cases.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/weights.h"

namespace mote::test {
namespace {

using Real = long double;

// The oracle rounds to f32 once, so it is within half a spacing of the truth, and a little for what double loses.
std::string within_one_rounding(const std::vector<float>& found, const std::vector<Real>& expected) {
  if (found.size() != expected.size()) return "other sizes";
  size_t worst = 0;
  Real worst_excess = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const Real limit = std::abs(expected[i]) * 0x1.001p-24L + 0x1p-149L;
    const Real excess = std::abs(found[i] - expected[i]) / limit;
    if (!(excess <= worst_excess)) worst_excess = excess, worst = i;
  }
  if (worst_excess <= 1) return {};
  return "element " + std::to_string(worst) + " is " + std::to_string(found[worst]) + " instead of " +
         std::to_string(expected[worst]) + ", " + std::to_string(worst_excess) + " of the limit";
}

Real activation(Activation function, Real x) {
  switch (function) {
    case Activation::relu:
      return std::max<Real>(x, 0);
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu_tanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(Real{-1})) * (x + 0.044715L * x * x * x)));
    case Activation::gelu_erf:
      return x / 2 * std::erfc(-x / std::sqrt(Real{2}));
  }
  return 0;
}

// x for which 1 + tanh and 1 + erf keep enough digits in double for the limit above.
bool ordinary(float x) { return x > -3 && x < 80; }

Case without_far_inputs(Case made) {
  for (float& x : made.plan.inputs.begin()->second)
    if (!ordinary(x)) x = 0.75F;
  return made;
}

}   // namespace

TEST_CASE("the oracle's activations and gates are the papers' formulas", "[conformance][oracle]") {
  std::string wrong;
  for (const Op op : {Op::activate, Op::gate}) {
    for (Case& taken : conformance_cases(op)) {
      const Case made = without_far_inputs(std::move(taken));
      const std::vector<float> found = oracle(made);
      std::vector<Real> expected(found.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] = activation(made.plan.steps[0].attributes.activate.function, made.input(0)[i]);
        if (op == Op::gate) expected[i] *= made.input(1)[i];
      }
      const std::string sentence = within_one_rounding(found, expected);
      if (!sentence.empty()) wrong += "\n" + made.name + ": " + sentence;
    }
  }
  CHECK(wrong == "");
}

TEST_CASE("the oracle's norms divide by the root of the mean square and of the variance", "[conformance][oracle]") {
  std::string wrong;
  for (const Op op : {Op::rms_norm, Op::layer_norm}) {
    for (const Case& made : conformance_cases(op)) {
      const size_t n = norm_width(made.plan.steps[0]);   // each group of a row is like a row
      if (op == Op::layer_norm && n < 3) continue;       // all digits cancel: cases_norm.cpp bounds that
      const std::vector<float> found = oracle(made);
      const Step& step = made.plan.steps[0];
      std::vector<Real> expected;
      std::vector<float> kept;
      for (size_t row = 0; row < made.positions() * made.compared.columns / n; ++row) {
        const float* x = &made.input(0)[row * n];
        Real mean = 0, squares = 0;
        if (op == Op::layer_norm)
          for (size_t i = 0; i < n; ++i) mean += Real{x[i]} / static_cast<Real>(n);
        for (size_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean) / static_cast<Real>(n);
        for (size_t i = 0; i < n; ++i) {
          const Real bias = made.plan.biases.empty() ? 0 : made.plan.biases.at(0)[i];
          const Real y = (x[i] - mean) / std::sqrt(squares + step.attributes.norm.epsilon) * made.plan.vectors.at(0)[i];
          if (std::abs(y + bias) < 1e-3L * std::abs(bias)) continue;   // cancelled
          expected.push_back(y + bias);
          kept.push_back(found[row * n + i]);
        }
      }
      const std::string sentence = within_one_rounding(kept, expected);
      if (!sentence.empty()) wrong += "\n" + made.name + ": " + sentence;
    }
  }
  CHECK(wrong == "");
}

TEST_CASE("the oracle's linear is a matrix product in every format", "[conformance][oracle]") {
  std::string wrong;
  for (const Case& made : conformance_cases(Op::linear)) {
    const Matrix& matrix = made.plan.steps[0].matrix;
    const std::vector<float> w = dequantized(matrix.format, matrix.rows, matrix.columns, made.plan.matrices.at(0));
    const std::vector<float> found = oracle(made);
    std::vector<Real> expected;
    std::vector<float> kept;
    for (size_t i = 0; i < found.size(); ++i) {
      Real sum = made.plan.biases.empty() ? 0 : made.plan.biases.at(0)[i % matrix.rows], magnitude = std::abs(sum);
      for (size_t k = 0; k < matrix.columns; ++k) {
        const Real product =
            Real{w[i % matrix.rows * matrix.columns + k]} * made.input(0)[i / matrix.rows * matrix.columns + k];
        sum += product;
        magnitude += std::abs(product);
      }
      if (std::abs(sum) < 1e-3L * magnitude) continue;   // cancelled
      expected.push_back(sum);
      kept.push_back(found[i]);
    }
    const std::string sentence = within_one_rounding(kept, expected);
    if (!sentence.empty()) wrong += "\n" + made.name + ": " + sentence;
  }
  CHECK(wrong == "");
}

TEST_CASE("the oracle's attention sees exactly the window, shown by one-hot values", "[conformance][oracle]") {
  // One head; the value of position p is the unit vector p and all keys are 0, so the output holds 1 / n at each of
  // the n visible positions and 0 elsewhere.
  constexpr uint32_t kPositions = 12;
  std::string wrong;
  for (const uint32_t window : {0U, 1U, 2U, 5U, 12U, 40U}) {
    Case made = attention_case({1, 1, 2, kPositions, window, kPositions, KvType::f32, 0, 1}, 1);
    for (float& key : made.plan.inputs.at(made.plan.steps[0].inputs[0].id)) key = 0;
    std::vector<float>& values = made.plan.inputs.at(made.plan.steps[0].inputs[1].id);
    for (size_t i = 0; i < values.size(); ++i) values[i] = i / kPositions == i % kPositions ? 1.0F : 0.0F;
    std::vector<Real> expected;
    for (uint32_t query = 0; query < kPositions; ++query) {
      const uint32_t seen = window == 0 ? query + 1 : std::min(query + 1, window);
      for (uint32_t p = 0; p < kPositions; ++p) expected.push_back(p <= query && p + seen > query ? 1 / Real(seen) : 0);
    }
    const std::string sentence = within_one_rounding(oracle(made), expected);
    if (!sentence.empty()) wrong += "\nwindow " + std::to_string(window) + ": " + sentence;
  }
  CHECK(wrong == "");
}

TEST_CASE("the oracle's attention is the softmax of scaled, capped scores, head by group, and so are its weights",
          "[conformance][oracle]") {
  std::string wrong;
  for (const AttentionShape& shape :
       {AttentionShape{6, 2, 8, 5, 4, 20, KvType::f32, 0, 2}, {4, 4, 3, 3, 0, 9, KvType::f32, 5, 4}}) {
    const Case made = attention_case(shape, 2);
    const std::vector<float>&k = made.input(0), &v = made.input(1), &q = made.input(0, 1), found = oracle(made);
    const std::vector<float> weights = oracle(weights_case(shape, 2));
    const float scale = made.plan.steps[1].attributes.attention.scale;
    Real worst = 0;
    for (uint32_t row = 0; row < shape.positions; ++row) {
      for (uint32_t head = 0; head < shape.n_heads; ++head) {
        const uint32_t kv = head * shape.n_kv_heads / shape.n_heads;
        std::vector<Real> sums(shape.value_dim, 0), terms(shape.positions, 0);
        Real total = 0;
        for (uint32_t p = 0; p <= row; ++p) {
          if (shape.window != 0 && row - p >= shape.window) continue;
          Real score = 0;
          for (uint32_t i = 0; i < shape.key_dim; ++i)
            score += Real{q[(row * shape.n_heads + head) * shape.key_dim + i]} *
                     k[(p * shape.n_kv_heads + kv) * shape.key_dim + i];
          score *= scale;
          if (shape.softcap != 0) score = shape.softcap * std::tanh(score / shape.softcap);
          terms[p] = std::exp(score);
          total += terms[p];
          for (uint32_t i = 0; i < shape.value_dim; ++i)
            sums[i] += terms[p] * v[(p * shape.n_kv_heads + kv) * shape.value_dim + i];
        }
        for (uint32_t i = 0; i < shape.value_dim; ++i)
          worst =
              std::max(worst, std::abs(sums[i] / total - found[(row * shape.n_heads + head) * shape.value_dim + i]));
        for (uint32_t p = 0; p < shape.positions; ++p) {
          const Real weight = weights[(row * shape.n_heads + head) * shape.positions + p];
          if (terms[p] == 0 && weight != 0) wrong += "\n" + made.name + ": a weight where nothing is seen";
          worst = std::max(worst, std::abs(terms[p] / total - weight));
        }
      }
    }
    if (!(worst <= 4 * 0x1p-24L)) wrong += "\n" + made.name + ": off by " + std::to_string(worst);
  }
  CHECK(wrong == "");
}

TEST_CASE("the oracle's attention to all of an input counts every key, and biases by distance",
          "[conformance][oracle]") {
  // All keys are 0 and the values one-hot, so the output is the softmax of the biases alone. Those are logarithms of
  // whole numbers by distance, cut off at 2: weights 1, 2, 3, 4, 5 from two before the query to two behind it.
  constexpr uint32_t kKeys = 6;
  const Real weight[] = {1, 2, 3, 4, 5};
  std::string wrong;
  for (const AttentionShape::Sees sees : {AttentionShape::input, AttentionShape::across, AttentionShape::past}) {
    Case made = attention_case({1, 1, 2, kKeys, 0, kKeys, KvType::f32, 0, 1, sees, kKeys, 2}, 1);
    for (float& key : made.plan.inputs.at(made.plan.steps[0].inputs[0].id)) key = 0;
    std::vector<float>& values = made.plan.inputs.at(made.plan.steps[0].inputs[1].id);
    for (size_t i = 0; i < values.size(); ++i) values[i] = i / kKeys == i % kKeys ? 1.0F : 0.0F;
    Real worst = 0;
    for (size_t i = 0; i < 5; ++i) made.plan.vectors.at(1)[i] = static_cast<float>(std::log(weight[i]));
    const std::vector<float> found = oracle(made);
    for (uint32_t query = 0; query < kKeys; ++query) {
      const uint32_t end = sees == AttentionShape::past ? query + 1 : kKeys;
      const auto weight_of = [&](uint32_t p) { return weight[std::clamp(int(p) - int(query), -2, 2) + 2]; };
      Real total = 0;
      for (uint32_t p = 0; p < end; ++p) total += weight_of(p);
      for (uint32_t p = 0; p < kKeys; ++p)
        worst = std::max(worst, std::abs((p < end ? weight_of(p) / total : 0) - Real{found[query * kKeys + p]}));
    }
    if (!(worst < 2e-7L)) wrong += "\n" + made.name + ": off by " + std::to_string(worst);
  }
  CHECK(wrong == "");
}

TEST_CASE("the oracle's pool and biased embed by hand", "[conformance][oracle]") {
  std::string wrong;
  for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::last}) {
    Case made;
    made.tokens = {0};
    made.n_encoded = 4;
    const Value x = made.plan.input(2, {1, 10, 2, 20, 3, 30, 10, -20});
    made.compared = made.plan.value(2, Dimension::one);
    Step& step = made.plan.step(Op::pool, {x}, made.compared);
    step.phase = Phase::encode;
    step.attributes.pool = {pooling};
    const std::vector<float> expected = pooling == Pooling::mean  ? std::vector<float>{4, 10}
                                        : pooling == Pooling::cls ? std::vector<float>{1, 10}
                                                                  : std::vector<float>{10, -20};
    wrong += compare_bits(expected, oracle(made));
  }
  Case made;
  made.tokens = {1, 0, 1};
  made.compared = made.plan.value(2);
  made.plan.step(Op::embed, {}, made.compared);
  const float table[] = {1, 2, 3, 4};
  const auto* bytes = reinterpret_cast<const uint8_t*>(table);
  made.plan.matrix(Format::f32, 2, 2, {bytes, bytes + sizeof table});
  made.plan.bias({0.5F, -1});
  wrong += compare_bits({3.5F, 3, 1.5F, 1, 3.5F, 3}, oracle(made));
  CHECK(wrong == "");
}

TEST_CASE("the oracle's rnn is Elman's network, worked row by row, and begins at nothing", "[conformance][oracle]") {
  std::string wrong;
  for (const Case& made : conformance_cases(Op::rnn)) {
    const Matrix& matrix = made.plan.steps[0].matrix;
    const size_t width = matrix.rows;
    const std::vector<float> w = dequantized(matrix.format, matrix.rows, matrix.columns, made.plan.matrices.at(0));
    const std::vector<float> found = oracle(made);
    std::vector<Real> expected;
    for (size_t at = 0; at < found.size(); ++at) {   // from what the oracle had before, so that errors do not add up
      Real a = made.input(0)[at];
      for (size_t k = 0; k < width && at >= width; ++k)
        a += Real{w[at % width * width + k]} * found[at / width * width - width + k];
      expected.push_back(std::tanh(a));
    }
    Real worst = 0;
    for (size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::abs(expected[i] - found[i]));
    if (!(worst <= 0x1.01p-24L)) wrong += "\n" + made.name + ": off by " + std::to_string(worst);
  }
  CHECK(wrong == "");
}

TEST_CASE("the oracle's sinusoidal positions are sines and cosines in turn", "[conformance][oracle]") {
  std::string wrong;
  size_t compared = 0;
  for (const Case& made : conformance_cases(Op::position_embed)) {
    if (made.plan.frequencies.empty()) continue;
    const std::vector<float> found = oracle(made);
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t column = i % made.compared.columns, position = made.first_position + i / made.compared.columns;
      const auto angle = static_cast<Real>(static_cast<double>(position) * made.plan.frequencies.at(0)[column / 2]);
      const Real added = column % 2 == 0 ? std::sin(angle) : std::cos(angle), sum = made.input(0)[i] + added;
      if (!(std::abs(found[i] - sum) <= (1 + std::abs(sum)) * 0x1.01p-24L))
        wrong += "\n" + made.name + ": element " + std::to_string(i) + " is " + std::to_string(found[i]);
      ++compared;
    }
  }
  CHECK(wrong == "");
  CHECK(compared > 1000);
}

TEST_CASE("the oracle's rope turns a quarter by hand, in both pairings", "[conformance][oracle]") {
  // x = 1 2 3 4 5 6, two pairs turned by 90 degrees: (a, b) -> (-b, a); 5 and 6 stay.
  std::string wrong;
  for (const RopePairing pairing : {RopePairing::neighbours, RopePairing::halves}) {
    Case made;
    made.tokens = {0};
    const Value x = made.plan.input(6, {1, 2, 3, 4, 5, 6}), angles = made.plan.input(4, {0, 1, 0, 1});
    made.compared = made.plan.value(6);
    made.plan.step(Op::rope, {x, angles}, made.compared).attributes.rope = {1, 6, 4, pairing};
    const std::vector<float> expected = pairing == RopePairing::neighbours ? std::vector<float>{-2, 1, -4, 3, 5, 6}
                                                                           : std::vector<float>{-3, -4, 1, 2, 5, 6};
    wrong += compare_bits(expected, oracle(made));
  }
  CHECK(wrong == "");
}

TEST_CASE("the oracle's angles are cosine and sine of position times frequency", "[conformance][oracle]") {
  std::string wrong;
  for (const Case& made : conformance_cases(Op::rope_angles)) {
    const std::vector<float> found = oracle(made);
    const std::vector<double>& frequency = made.plan.frequencies.at(0);
    const double magnitude = made.plan.steps[0].attributes.rope_angles.magnitude;
    Real worst = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t column = i % made.compared.columns, position = made.first_position + i / made.compared.columns;
      const Real angle = static_cast<Real>(static_cast<double>(position) * frequency[column / 2]);
      const Real expected = magnitude * (column % 2 == 0 ? std::cos(angle) : std::sin(angle));
      worst = std::max(worst, std::abs(expected - found[i]));
    }
    if (!(worst <= 0x1.01p-24L * 1.25L)) wrong += "\n" + made.name + ": off by " + std::to_string(worst);
  }
  CHECK(wrong == "");
}

TEST_CASE("keys and values enter the oracle rounded to the KV type and finite", "[conformance][oracle]") {
  struct Kept {
    float from, f16, f32;
  };
  constexpr float kMax = std::numeric_limits<float>::max();
  const Kept table[] = {
      {1.0F, 1.0F, 1.0F},      {-1e6F, -65504, -1e6F}, {INFINITY, 65504, kMax},        {-INFINITY, -65504, -kMax},
      {65519, 65504, 65519},   {65520, 65504, 65520},  {0.1F, 0.0999755859375F, 0.1F}, {1e-8F, 0, 1e-8F},
      {6e-8F, 0x1p-24F, 6e-8F}};
  std::string wrong;
  for (const KvType type : {KvType::f16, KvType::f32}) {
    Case made;
    made.kv_type = type;
    made.tokens = {0};
    std::vector<float> keys, expected;
    for (const Kept& row : table) keys.push_back(row.from), expected.push_back(type == KvType::f16 ? row.f16 : row.f32);
    const uint32_t n = static_cast<uint32_t>(keys.size());
    expected.push_back(0.5F);
    const State state = made.plan.state({0, 1, n, 1, 0});
    const Value k = made.plan.input(n, keys), v = made.plan.input(1, {0.5F});
    made.plan.step(Op::append, {k, v}).state = state;
    wrong += compare_bits(expected, oracle(made));
  }
  CHECK(wrong == "");
}

}   // namespace mote::test
