// rnn: errors go from row to row. With u = 2^-24, e the limits of the row before, w a row of the matrix, h what it
// meets, x the input, and a = x + w h:
//   the product   sum |w| e, what `linear` may be off by (cases_linear.cpp): (K/16 + 6) u sum |w h|; in block formats h
//                 rounded to 8 bits, sum over blocks of (largest / 254 (1 + 2^-10) sum |w|), and the blocks' roundings
//   a             d = that + 2 u (|x| + |w h|)
//   tanh          falls off from 0: d (1 - tanh(max(0, |a| - d))^2) + 4 u
#include <algorithm>
#include <cmath>
#include <string>

#include "tests/conformance/cases.h"
#include "tests/conformance/weights.h"

namespace mote::test {
namespace {

struct Product {
  double value = 0, magnitude = 0, error = 0;
};

// w h, where h is off by `e` at most.
Product product_of(const float* w, const double* h, const double* e, size_t width, uint32_t block) {
  Product made;
  for (size_t k = 0; k < width; ++k) {
    made.value += double{w[k]} * h[k];
    made.magnitude += std::abs(double{w[k]} * h[k]);
    made.error += std::abs(double{w[k]}) * e[k];
  }
  if (block == 0) {
    made.error += (static_cast<double>(width) / 16 + 6) * u * made.magnitude;
    return made;
  }
  for (size_t first = 0; first < width; first += block) {
    double largest_h = 0, largest_w = 0, sum_w = 0, sum_h = 0;
    for (size_t k = first; k < first + block; ++k) {
      largest_h = std::max(largest_h, std::abs(h[k]) + e[k]);
      largest_w = std::max(largest_w, std::abs(double{w[k]}));
      sum_w += std::abs(double{w[k]});
      sum_h += std::abs(h[k]) + e[k];
    }
    made.error += largest_h / 254 * (1 + 0x1p-10) * sum_w;
    made.error += (static_cast<double>(width) / block + 10) * 8 * u * largest_w * sum_h;
  }
  return made;
}

std::vector<double> rnn_limit(const Case& self, const std::vector<float>& expected) {
  const Matrix& matrix = self.plan.steps[0].matrix;
  const size_t width = matrix.rows;
  const std::vector<float>& x = self.input(0);
  const std::vector<float> w = dequantized(matrix.format, matrix.rows, matrix.columns, self.plan.matrices.at(0));
  std::vector<double> limits(expected.size()), h(width), e(width);
  for (size_t first = 0; first < expected.size(); first += width) {
    for (size_t i = 0; i < width; ++i) {
      const Product product = product_of(&w[i * width], h.data(), e.data(), width, activation_block(matrix.format));
      const double of_x = double{x[first + i]}, a = of_x + product.value;
      const double d = product.error + 2 * u * (std::abs(of_x) + product.magnitude);
      const double slope = 1 - std::pow(std::tanh(std::max(0.0, std::abs(a) - d)), 2);
      limits[first + i] = std::isfinite(a) ? d * slope + 4 * u : 4 * u;
    }
    for (size_t i = 0; i < width; ++i) h[i] = double{expected[first + i]}, e[i] = limits[first + i];
  }
  return limits;
}

}   // namespace

Case rnn_case(Format format, uint32_t width, uint32_t positions, Phase phase, uint64_t seed) {
  Case made;
  CaseRandom random(seed);
  made.name = "rnn of " + std::to_string(width) + " in " + std::string(format_info(format).name) + " over " +
              std::to_string(positions) + (phase == Phase::encode ? " rows of an input" : " positions");
  made.tokens = random_tokens(phase == Phase::encode ? 1 : positions, 10, random);
  if (phase == Phase::encode) made.n_encoded = positions;
  const State state = made.plan.state({0, 1, 0, width, 0, phase});
  const Value x = made.plan.input(width, random.normals(size_t{positions} * width));
  made.compared = made.plan.value(width);
  Step& step = made.plan.step(Op::rnn, {x}, made.compared);
  step.state = state;
  step.phase = phase;
  step.layer = 0;
  made.plan.matrix(format, width, width, random_matrix(format, width, width, random, 2.0 / width));
  made.limit = rnn_limit;
  return made;
}

std::vector<Case> rnn_cases() {
  std::vector<Case> cases;
  for (const Format format : enabled_formats()) {
    const uint32_t block = format_info(format).block_values;
    for (const uint32_t width : block == 1 ? std::vector<uint32_t>{1, 3, 33, 200} : std::vector<uint32_t>{block})
      cases.push_back(rnn_case(format, width, width < 100 ? 11 : 5, Phase::decode, 1000 + cases.size()));
  }
  for (const uint32_t rows : {1U, 9U}) cases.push_back(rnn_case(Format::f32, 48, rows, Phase::encode, 1200 + rows));
  return cases;
}

}   // namespace mote::test
