// rms_norm and layer_norm.
//
// Limits, u = 2^-24. A sum of n terms in 16 lanes rounds each term at most n/16 + 5 times (n/16 additions, 4 folds, the
// square); fewer lanes err more in the worst case but never in fact, the bound being far above what errors of random
// sign add up to.
//   rms_norm    the sum is of squares, relative error (n/16 + 5) u; the root halves it; mean, epsilon, root, division
//               and the product with the weight: 6 roundings.      |error| <= (n/32 + 9) u |y|
//   layer_norm  mean: m = (n/16 + 5) u mean|x|. A difference x - mean: d = m + u |x - mean|. The variance, by
//               Cauchy's inequality: relative (n/16 + 7) u + 2 m / s + m^2 / s^2, s the root with epsilon. Then
//               |error| <= |w| / s (d + |x - mean| (half of that + 6 u)) + 2 u (|y| + |bias|)
#include <cmath>
#include <string>

#include "tests/conformance/cases.h"

namespace mote::test {
namespace {

std::vector<double> rms_norm_limit(const Case& self, const std::vector<float>& expected) {
  const double n = norm_width(self.plan.steps[0]);
  std::vector<double> limits(expected.size());
  for (size_t i = 0; i < limits.size(); ++i) limits[i] = (n / 32 + 9) * u * std::abs(double{expected[i]}) + 0x1p-149;
  return limits;
}

std::vector<double> layer_norm_limit(const Case& self, const std::vector<float>& expected) {
  const size_t columns = self.compared.columns;
  const double n = static_cast<double>(columns);
  const std::vector<float>& x = self.input(0);
  const std::vector<float>& w = self.plan.vectors.at(0);
  std::vector<double> limits(expected.size());
  for (size_t row = 0; row < expected.size() / columns; ++row) {
    double sum = 0, magnitude = 0, squares = 0;
    for (size_t i = 0; i < columns; ++i)
      sum += double{x[row * columns + i]}, magnitude += std::abs(double{x[row * columns + i]});
    const double mean = sum / n, m = (n / 16 + 5) * u * magnitude / n;
    for (size_t i = 0; i < columns; ++i) squares += std::pow(x[row * columns + i] - mean, 2);
    const double s = std::sqrt(squares / n + double{self.plan.steps[0].attributes.norm.epsilon});
    const double variance = (n / 16 + 7) * u + 2 * m / s + m * m / (s * s);
    for (size_t i = 0; i < columns; ++i) {
      const double difference = std::abs(x[row * columns + i] - mean);
      const double bias = self.plan.biases.empty() ? 0 : std::abs(double{self.plan.biases.at(0)[i]});
      limits[row * columns + i] =
          std::abs(double{w[i]}) / s * (m + u * difference + difference * (variance / 2 + 6 * u)) +
          2 * u * (std::abs(double{expected[row * columns + i]}) + bias) + 0x1p-149;
    }
  }
  return limits;
}

// One row each of an ordinary, a small, a large size, of one spike, and of zeros.
std::vector<float> norm_input(uint32_t columns, CaseRandom& random) {
  std::vector<float> x;
  for (const double size : {1.0, 1e-4, 1e6, 0.01, 0.0}) {
    const std::vector<float> row = random.normals(columns, size);
    x.insert(x.end(), row.begin(), row.end());
    if (size == 0.01) x[x.size() - 1 - random.below(columns)] = 1000;
  }
  return x;
}

std::vector<Case> norm_cases(Op op, bool has_bias, uint64_t seed) {
  std::vector<Case> cases;
  CaseRandom random(seed);
  for (const uint32_t columns : {1U, 2U, 5U, 15U, 16U, 17U, 31U, 33U, 64U, 100U, 576U, 1000U}) {
    for (const float epsilon : {1e-5F, 1e-12F}) {
      Case& made = cases.emplace_back();
      made.name = std::string(op_info(op).name) + " of " + std::to_string(columns) + (has_bias ? " with bias" : "");
      made.tokens = random_tokens(5, 10, random);
      const Value x = made.plan.input(columns, norm_input(columns, random));
      made.compared = made.plan.value(columns);
      made.plan.step(op, {x}, made.compared).attributes.norm.epsilon = epsilon;
      made.plan.vector(random.normals(columns));
      if (has_bias) made.plan.bias(random.normals(columns));
      made.limit = op == Op::rms_norm ? rms_norm_limit : layer_norm_limit;
    }
  }
  return cases;
}

// Fewer weights than columns: each group of as many values by itself, as the heads of queries are normed.
Case groups_case(uint32_t width, uint32_t groups, CaseRandom& random) {
  const uint32_t columns = width * groups;
  Case made;
  made.name = "rms_norm of " + std::to_string(groups) + " groups of " + std::to_string(width);
  made.tokens = random_tokens(5, 10, random);
  std::vector<float> input = norm_input(columns, random);
  for (uint32_t i = 0; i < columns; ++i) input[i] *= static_cast<float>(1 + i / width);   // no two groups alike
  const Value x = made.plan.input(columns, input);
  made.compared = made.plan.value(columns);
  made.plan.step(Op::rms_norm, {x}, made.compared).attributes.norm.epsilon = 1e-6F;
  made.plan.vector(random.normals(width));
  made.limit = rms_norm_limit;
  return made;
}

}   // namespace

std::vector<Case> rms_norm_cases() {
  std::vector<Case> cases = norm_cases(Op::rms_norm, false, 201);
  CaseRandom random(204);
  constexpr uint32_t kGroups[][2] = {{1, 7}, {12, 4}, {17, 3}, {64, 9}, {100, 2}};
  for (const auto& [width, groups] : kGroups) cases.push_back(groups_case(width, groups, random));
  return cases;
}

std::vector<Case> layer_norm_cases() {
  std::vector<Case> cases = norm_cases(Op::layer_norm, true, 202);
  for (Case& made : norm_cases(Op::layer_norm, false, 203)) cases.push_back(std::move(made));
  return cases;
}

}   // namespace mote::test
