// append, attention and the weights of attention.
//
// append: rounding to the KV type is defined to the bit, so exported rows are equal.
//
// attention, u = 2^-24, D = key_dim, n = visible positions, s the scores (before a soft cap):
//   a score    D products summed in any order, and three factors (scale, log2 e, 1 / softcap):
//              e_s = (D + 6) u scale sum |q k|; with a soft cap + 4 u softcap
//   a weight   exp of a difference of scores: relative e = e_s + 3 u max |s - largest| + 4 u, s and largest as the
//              softmax sees them
//   a bias b    added in the softmax's terms: e_s + 2 u |b| + 2 u |s + b|, s + b then in place of s
//   an output  a ratio of two sums of at most n terms: |error| <= (2 e + 2 (n + 16) u) m + u |y|, m the largest
//              visible |v| of that dimension
//
// attention_weights: a weight w by itself is off by (2 e + 2 (n + 16) u) w + u w; one below 2^-110 may be 0. What is
// not seen is 0 to the bit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/base/half.h"
#include "tests/conformance/cases.h"

namespace mote::test {
namespace {

double kept(float value, KvType type) {
  const float largest = type == KvType::f16 ? 65504.0F : std::numeric_limits<float>::max();
  value = std::clamp(value, -largest, largest);
  return double{type == KvType::f16 ? f16_to_f32(f32_to_f16(value)) : value};
}

// The keys and values as the state has them: rounded once for all heads and positions that see them.
struct Kept {
  std::vector<double> keys, values;
  explicit Kept(const Case& self) {
    for (const float k : self.input(0)) keys.push_back(kept(k, self.kv_type));
    for (const float v : self.input(1)) values.push_back(kept(v, self.kv_type));
  }
};

// The limit of one query row and head; `largest_value` is the largest visible |v|, per dimension.
struct HeadLimit {
  double error_of_weights = 0;
  std::vector<double> largest_value;
};
HeadLimit head_limit(const Case& self, const Kept& state_rows, uint32_t position, uint32_t head) {
  const StateInfo& state = self.plan.states[0];
  const AttentionAttributes& attributes = self.plan.steps[1].attributes.attention;
  const uint32_t kv_head = head / (attributes.n_heads / state.n_kv_heads);
  const uint32_t first = state.window != 0 && position >= state.window ? position + 1 - state.window : 0;
  const uint32_t end = attributes.sees == Sees::all ? self.n_encoded : position + 1;
  const int64_t farthest = attributes.max_distance;
  const float* q = &self.input(0, 1)[(size_t{position} * attributes.n_heads + head) * state.key_dim];
  HeadLimit made;
  made.largest_value.assign(state.value_dim, 0);
  double* largest_value = made.largest_value.data();
  std::vector<double> scores;
  double error = 0;
  for (uint32_t p = first; p < end; ++p) {
    const double* k = &state_rows.keys[(size_t{p} * state.n_kv_heads + kv_head) * state.key_dim];
    const double* v = &state_rows.values[(size_t{p} * state.n_kv_heads + kv_head) * state.value_dim];
    double dot = 0, magnitude = 0;
    for (uint32_t i = 0; i < state.key_dim; ++i) {
      const double product = q[i] * k[i];
      dot += product;
      magnitude += std::abs(product);
    }
    const double cap = double{attributes.softcap}, score = dot * double{attributes.scale};
    double of_score = (state.key_dim + 6) * u * std::abs(double{attributes.scale}) * magnitude + 4 * u * cap;
    scores.push_back(cap == 0 ? score : cap * std::tanh(score / cap));
    if (farthest != 0) {
      const int64_t distance = std::clamp(int64_t{p} - position, -farthest, farthest) + farthest;
      const double bias = double{
          self.plan.vectors.at(1)[head * (2 * size_t{attributes.max_distance} + 1) + static_cast<size_t>(distance)]};
      scores.back() += bias;
      of_score += 2 * u * (std::abs(bias) + std::abs(scores.back()));
    }
    error = std::max(error, of_score);
    for (uint32_t i = 0; i < state.value_dim; ++i) largest_value[i] = std::max(largest_value[i], std::abs(v[i]));
  }
  const double largest = *std::ranges::max_element(scores), smallest = *std::ranges::min_element(scores);
  // A weight below e^-100 does not count, so neither does the error of its exponent.
  const double e = error + 3 * u * std::min(largest - smallest, 100.0) + 4 * u;
  made.error_of_weights = 2 * e + 2 * (static_cast<double>(scores.size()) + 16) * u;
  return made;
}

std::vector<double> attention_limit(const Case& self, const std::vector<float>& expected) {
  const uint32_t n_heads = self.plan.steps[1].attributes.attention.n_heads, value_dim = self.plan.states[0].value_dim;
  const Kept kept_rows(self);
  std::vector<double> limits;
  const uint32_t rows = self.decodes() ? self.positions() : self.n_encoded;
  for (uint32_t position = 0; position < rows; ++position) {
    for (uint32_t head = 0; head < n_heads; ++head) {
      const HeadLimit of_head = head_limit(self, kept_rows, position, head);
      for (uint32_t i = 0; i < value_dim; ++i)
        limits.push_back(of_head.error_of_weights * of_head.largest_value[i] +
                         u * std::abs(double{expected[limits.size()]}) + 0x1p-140);
    }
  }
  return limits;
}

std::vector<double> weights_limit(const Case& self, const std::vector<float>& expected) {
  const uint32_t n_heads = self.plan.steps[1].attributes.attention.n_heads;
  const uint32_t rows = self.decodes() ? self.positions() : self.n_encoded;
  const size_t positions = self.compared.extent == Extent::input ? self.n_encoded : self.positions();
  const Kept kept_rows(self);
  std::vector<double> limits;
  for (uint32_t position = 0; position < rows; ++position) {
    for (uint32_t head = 0; head < n_heads; ++head) {
      const double relative = head_limit(self, kept_rows, position, head).error_of_weights + u;
      for (size_t p = 0; p < positions; ++p) {
        const double weight = double{expected[limits.size()]};
        limits.push_back(weight == 0 ? 0 : relative * weight + 0x1p-110);
      }
    }
  }
  return limits;
}

std::string kv_name(KvType type) { return type == KvType::f16 ? " f16" : " f32"; }

}   // namespace

Case attention_case(const AttentionShape& shape, uint64_t seed) {
  Case made;
  CaseRandom random(seed);
  made.name = "attention of " + std::to_string(shape.n_heads) + " over " + std::to_string(shape.n_kv_heads) +
              " heads of " + std::to_string(shape.key_dim) + " and " + std::to_string(shape.value_dim) + ", " +
              std::to_string(shape.positions) + " positions, window " + std::to_string(shape.window) + ", softcap " +
              std::to_string(static_cast<int>(shape.softcap)) + kv_name(shape.kv_type);
  if (shape.sees == AttentionShape::input) made.name += ", all of them seen";
  if (shape.sees == AttentionShape::across) made.name += ", across to " + std::to_string(shape.n_encoded);
  if (shape.max_distance != 0) made.name += ", biases up to a distance of " + std::to_string(shape.max_distance);
  made.kv_type = shape.kv_type;
  made.tokens = random_tokens(shape.positions, 10, random);
  const bool encodes = shape.sees != AttentionShape::past;
  if (encodes) made.n_encoded = shape.sees == AttentionShape::across ? shape.n_encoded : shape.positions;
  const size_t n_keys = encodes ? made.n_encoded : shape.positions;
  const Phase phase = encodes ? Phase::encode : Phase::decode;
  const uint32_t key_columns = shape.n_kv_heads * shape.key_dim, value_columns = shape.n_kv_heads * shape.value_dim;
  const State state = made.plan.state({0, shape.n_kv_heads, shape.key_dim, shape.value_dim, shape.window, phase});
  const Value k = made.plan.input(key_columns, random.normals(n_keys * key_columns, shape.size));
  const Value v = made.plan.input(value_columns, random.normals(n_keys * value_columns));
  const Value q = made.plan.input(shape.n_heads * shape.key_dim,
                                  random.normals(size_t{shape.positions} * shape.n_heads * shape.key_dim, shape.size));
  made.compared = made.plan.value(shape.n_heads * shape.value_dim);
  Step& append = made.plan.step(Op::append, {k, v});
  append.state = state;
  append.layer = 0;
  append.phase = phase;
  Step& attention = made.plan.step(Op::attention, {q}, made.compared);
  attention.state = state;
  attention.phase = shape.sees == AttentionShape::input ? Phase::encode : Phase::decode;
  attention.attributes.attention = {shape.n_heads,
                                    static_cast<float>(1 / std::sqrt(static_cast<double>(shape.key_dim))),
                                    shape.softcap, encodes ? Sees::all : Sees::causal, shape.max_distance};
  if (shape.max_distance != 0)
    made.plan.vector(random.normals(shape.n_heads * (2 * size_t{shape.max_distance} + 1), 2));
  made.limit = attention_limit;
  return made;
}

Case weights_case(const AttentionShape& shape, uint64_t seed) {
  Case made = attention_case(shape, seed);
  made.name = "weights of " + made.name;
  Step& step = made.plan.steps[1];
  step.op = Op::attention_weights;
  step.output.columns = shape.n_heads;
  step.output.extent = shape.sees == AttentionShape::past ? Extent::past : Extent::input;
  ValueInfo& info = made.plan.values[step.output.id];
  info.columns = step.output.columns;
  info.extent = step.output.extent;
  made.compared = step.output;
  made.limit = weights_limit;
  return made;
}

std::vector<Case> attention_weights_cases() {
  constexpr KvType f16 = KvType::f16, f32 = KvType::f32;
  const AttentionShape shapes[] = {
      {1, 1, 1, 1, 0, 1, f32, 0, 1},
      {4, 2, 64, 32, 0, 65, f32, 0, 1},
      {9, 3, 16, 16, 0, 130, f16, 0, 2},
      {4, 1, 12, 5, 0, 17, f16, 0, 1},
      {4, 2, 8, 8, 1, 20, f16, 0, 1},
      {2, 1, 16, 16, 8, 100, f16, 0, 1},
      {2, 2, 16, 16, 65, 200, f32, 0, 1},
      {4, 2, 32, 32, 7, 66, f16, 50, 4},
      {2, 1, 16, 16, 0, 70, f32, 0, 12},
      {1, 1, 4, 4, 0, 1100, f16, 0, 1},
      {4, 2, 6, 10, 0, 40, f16, 20, 2, AttentionShape::input, 0, 5},
      {2, 2, 8, 8, 0, 130, f32, 0, 1, AttentionShape::input, 0, 0},
      {4, 2, 16, 8, 0, 21, f32, 0, 1, AttentionShape::across, 33, 0},
      {2, 1, 8, 8, 0, 9, f16, 0, 1, AttentionShape::across, 64, 9},
      {4, 2, 16, 16, 7, 66, f16, 30, 2, AttentionShape::past, 0, 3},
  };
  std::vector<Case> cases;
  for (const AttentionShape& shape : shapes) cases.push_back(weights_case(shape, 650 + cases.size()));
  return cases;
}

std::vector<Case> attention_cases() {
  constexpr KvType f16 = KvType::f16, f32 = KvType::f32;
  const AttentionShape shapes[] = {
      // heads, KV heads, key and value dimensions, window, positions, KV type, soft cap, size
      {1, 1, 1, 1, 0, 1, f32, 0, 1},
      {1, 1, 16, 16, 0, 5, f16, 0, 1},
      {4, 2, 64, 64, 0, 65, f32, 0, 1},
      {9, 3, 64, 64, 0, 130, f16, 0, 1},
      {3, 1, 16, 16, 0, 64, f16, 0, 3},
      {2, 2, 6, 10, 0, 33, f32, 0, 1},
      {4, 1, 12, 5, 0, 17, f16, 0, 1},
      {2, 1, 128, 128, 0, 40, f32, 0, 1},
      {4, 2, 32, 32, 1, 20, f16, 0, 1},
      {4, 2, 32, 32, 4, 70, f32, 0, 1},
      {2, 1, 16, 16, 8, 100, f16, 0, 1},
      {2, 2, 16, 16, 63, 200, f32, 0, 1},
      {2, 1, 16, 16, 64, 200, f16, 0, 1},
      {2, 1, 16, 16, 65, 200, f32, 0, 1},
      {2, 1, 16, 16, 500, 90, f16, 0, 1},
      {4, 2, 32, 32, 0, 66, f32, 30, 4},
      {4, 2, 32, 32, 7, 66, f16, 50, 4},
      {2, 1, 64, 64, 0, 70, f32, 0, 12},
      {1, 1, 8, 4, 0, 1100, f16, 0, 1},
      {1, 1, 4, 8, 1030, 1200, f32, 0, 1},
      {2, 1, 4, 4, 0, 2100, f32, 0, 2},
      {8, 8, 80, 80, 0, 12, f16, 0, 1},
      {15, 5, 64, 64, 0, 9, f32, 0, 1},
      {1, 1, 1, 1, 0, 1, f32, 0, 1, AttentionShape::input, 0, 0},
      {4, 4, 8, 8, 0, 66, f32, 0, 1, AttentionShape::input, 0, 0},
      {6, 3, 32, 16, 0, 130, f16, 0, 2, AttentionShape::input, 0, 0},
      {2, 2, 8, 8, 0, 300, f32, 0, 1, AttentionShape::input, 0, 128},
      {4, 2, 6, 10, 0, 40, f16, 20, 2, AttentionShape::input, 0, 5},
      {2, 1, 4, 4, 0, 1100, f16, 0, 1, AttentionShape::input, 0, 0},
      {4, 2, 16, 8, 0, 21, f32, 0, 1, AttentionShape::across, 33, 0},
      {3, 1, 8, 8, 0, 7, f16, 0, 2, AttentionShape::across, 1100, 0},
      {2, 2, 12, 6, 0, 70, f16, 0, 1, AttentionShape::across, 1, 0},
      {2, 1, 8, 8, 0, 19, f32, 0, 1, AttentionShape::across, 64, 9},
      {4, 4, 8, 8, 0, 200, f32, 0, 1, AttentionShape::past, 0, 128},
      {4, 2, 16, 16, 7, 66, f16, 30, 2, AttentionShape::past, 0, 3},
  };
  std::vector<Case> cases;
  for (const AttentionShape& shape : shapes) cases.push_back(attention_case(shape, 600 + cases.size()));
  return cases;
}

std::vector<Case> append_cases() {
  struct Shape {
    uint32_t n_kv_heads, key_dim, value_dim;
  };
  std::vector<Case> cases;
  CaseRandom random(700);
  const float odd[] = {INFINITY, -INFINITY, 65504.0F, 65519.0F, 65520.0F, -1e6F,
                       3e38F,    1e-8F,     6e-8F,    3e-8F,    1e-40F,   -0.0F};
  for (const Shape shape : {Shape{1, 1, 1}, {3, 64, 64}, {2, 6, 10}, {1, 12, 5}, {1, 128, 128}}) {
    for (const KvType type : {KvType::f16, KvType::f32}) {
      Case& made = cases.emplace_back();
      made.name = "append of " + std::to_string(shape.n_kv_heads) + " heads of " + std::to_string(shape.key_dim) +
                  " and " + std::to_string(shape.value_dim) + kv_name(type);
      made.kv_type = type;
      made.tokens = random_tokens(21, 10, random);
      std::vector<float> keys = random.normals(size_t{21} * shape.n_kv_heads * shape.key_dim);
      std::vector<float> values = random.normals(size_t{21} * shape.n_kv_heads * shape.value_dim, 100);
      for (std::vector<float>* numbers : {&keys, &values})
        for (float& number : *numbers)
          if (random.below(5) == 0) number = odd[random.below(std::size(odd))];
      const Value k = made.plan.input(shape.n_kv_heads * shape.key_dim, keys);
      const Value v = made.plan.input(shape.n_kv_heads * shape.value_dim, values);
      const State state = made.plan.state({0, shape.n_kv_heads, shape.key_dim, shape.value_dim, 0});
      made.plan.step(Op::append, {k, v}).state = state;
    }
  }
  return cases;
}

}   // namespace mote::test
