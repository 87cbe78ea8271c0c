// linear, on every format.
//
// Limits, u = 2^-24, per output: the sums run over k.
//   f32, f16, bf16   16 partial sums and a fold round each product at most K/16 + 6 times:
//                    (K/16 + 6) u sum |w x| + u (|y| + |bias|). A kernel with fewer lanes may need up to
//                    K u sum |w x| in the worst case, never in fact.
//   block formats    x may be rounded to 8 bits: in a block of x (32 or 256 values) by at most half a
//                    step of largest / 127; a block below 2^-100 counts as zero. With a = sum over blocks of
//                    (largest / 254 (1 + 2^-10) sum |w|), or sum |w x| for such a tiny block:
//                    a + (K/block + 10) 2 u sum over blocks of (4 largest|w| sum |x|) + u (|y| + |bias|). The factor 4:
//                    a weight is a difference of a scaled code and a min, each rounded apart.
//                    The roundings of random x are independent and even: each has the deviation |w| largest / 127 /
//                    sqrt(12), and their squares add up.
//   exact codes      a row of x of whole numbers, 127 the largest in each block, loses nothing in 8 bits: a = 0. What
//                    the noise of 8 bits would hide, such as the last bit of one sub-scale, shows.
//   xnnpack          runs block formats as int8 per row of weights, x as int8 per row of x with a zero point. With s =
//                    largest |w| / 127 of the row and t = (largest x or 0 - least x or 0) / 255: a weight changes by at
//                    most s / 2, an x by at most t (half of it in rounding, half where the rounded zero point pushes
//                    the end of the range out). (s/2 sum |x| + t sum (|w| + s/2)) (1 + 2^-10) + 4 u (|y| + |bias|), and
//                    what is flushed to zero: rows of weights below 2^-119, rows of x that span less than 2^-100.
//                    Deviation: s / sqrt 12 for each weight, t / sqrt 12 for each x.
#include <algorithm>
#include <cmath>
#include <string>

#include "tests/conformance/cases.h"
#include "tests/conformance/weights.h"

namespace mote::test {
namespace {

// The part of a limit that comes from one row of weights and one of x.
double dot_limit(const float* w, const float* x, size_t columns, uint32_t block, bool exact_codes) {
  if (block == 0) {
    double magnitude = 0;
    for (size_t k = 0; k < columns; ++k) magnitude += std::abs(double{w[k]} * x[k]);
    return (static_cast<double>(columns) / 16 + 6) * u * magnitude;
  }
  double eight_bits = 0, rounding = 0;
  for (size_t first = 0; first < columns; first += block) {
    double largest_x = 0, largest_w = 0, sum_x = 0, sum_w = 0, sum_wx = 0;
    for (size_t k = first; k < first + block; ++k) {
      largest_x = std::max(largest_x, std::abs(double{x[k]}));
      largest_w = std::max(largest_w, std::abs(double{w[k]}));
      sum_x += std::abs(double{x[k]});
      sum_w += std::abs(double{w[k]});
      sum_wx += std::abs(double{w[k]} * x[k]);
    }
    if (!exact_codes) eight_bits += largest_x < 0x1p-100 ? sum_wx : largest_x / 254 * (1 + 0x1p-10) * sum_w;
    rounding += 4 * largest_w * sum_x;
  }
  return eight_bits + (static_cast<double>(columns) / block + 10) * 2 * u * rounding;
}

std::vector<double> limits_of(const Case& self, const std::vector<float>& expected, bool exact_codes) {
  const Matrix& matrix = self.plan.steps[0].matrix;
  const std::vector<float>& x = self.input(0);
  const std::vector<float> w = dequantized(matrix.format, matrix.rows, matrix.columns, self.plan.matrices.at(0));
  const uint32_t block = activation_block(matrix.format);
  std::vector<double> limits(expected.size());
  for (size_t i = 0; i < limits.size(); ++i) {
    const size_t row = i / matrix.rows, out = i % matrix.rows;
    const double bias = self.plan.biases.empty() ? 0 : std::abs(double{self.plan.biases.at(0)[out]});
    limits[i] = dot_limit(&w[out * matrix.columns], &x[row * matrix.columns], matrix.columns, block, exact_codes) +
                u * (std::abs(double{expected[i]}) + bias) + 0x1p-149;
  }
  return limits;
}

std::vector<double> linear_limit(const Case& self, const std::vector<float>& expected) {
  return limits_of(self, expected, false);
}
std::vector<double> exact_codes_limit(const Case& self, const std::vector<float>& expected) {
  return limits_of(self, expected, true);
}

std::vector<double> linear_deviation(const Case& self, const std::vector<float>& expected) {
  const Matrix& matrix = self.plan.steps[0].matrix;
  const std::vector<float>& x = self.input(0);
  const std::vector<float> w = dequantized(matrix.format, matrix.rows, matrix.columns, self.plan.matrices.at(0));
  const uint32_t block = activation_block(matrix.format);
  std::vector<double> deviations(expected.size());
  for (size_t i = 0; i < deviations.size(); ++i) {
    const float* row = &x[i / matrix.rows * matrix.columns];
    const float* weights = &w[i % matrix.rows * matrix.columns];
    double squares = 0;
    for (size_t first = 0; first < matrix.columns; first += block) {
      double largest = 0, sum = 0;
      for (size_t k = first; k < first + block; ++k) {
        largest = std::max(largest, std::abs(double{row[k]}));
        sum += double{weights[k]} * weights[k];
      }
      squares += sum * largest * largest / (127.0 * 127.0 * 12.0);
    }
    deviations[i] = std::sqrt(squares) + 16 * u * std::abs(double{expected[i]}) + 0x1p-149;
  }
  return deviations;
}

// One row of x against one of weights, both as int8: how far off at most, and the square of the deviation.
struct Int8Error {
  double limit = 0, variance = 0;
};
Int8Error int8_error(const float* w, const float* x, size_t columns) {
  double largest_w = 0, least = 0, largest = 0, sum_w = 0, sum_x = 0, squares_w = 0, squares_x = 0;
  for (size_t k = 0; k < columns; ++k) {
    const double of_w = double{w[k]}, of_x = double{x[k]};
    largest_w = std::max(largest_w, std::abs(of_w));
    least = std::min(least, of_x);
    largest = std::max(largest, of_x);
    sum_w += std::abs(of_w);
    sum_x += std::abs(of_x);
    squares_w += of_w * of_w;
    squares_x += of_x * of_x;
  }
  const double s = largest_w / 127, t = (largest - least) / 255, n = static_cast<double>(columns);
  Int8Error error;
  error.limit = (s / 2 * sum_x + t * (sum_w + n * s / 2)) * (1 + 0x1p-10);
  if (largest_w < 0x1p-119) error.limit += largest_w * sum_x;
  if (largest - least < 0x1p-100) error.limit += 0x1p-100 * sum_w;
  error.variance = (s * s * squares_x + t * t * squares_w) / 12;
  return error;
}

std::vector<double> int8_bounds(const Case& self, const std::vector<float>& expected, bool deviation) {
  const Matrix& matrix = self.plan.steps[0].matrix;
  const std::vector<float>& x = self.input(0);
  const std::vector<float> w = dequantized(matrix.format, matrix.rows, matrix.columns, self.plan.matrices.at(0));
  std::vector<double> bounds(expected.size());
  for (size_t i = 0; i < bounds.size(); ++i) {
    const size_t row = i / matrix.rows, out = i % matrix.rows;
    const double bias = self.plan.biases.empty() ? 0 : std::abs(double{self.plan.biases.at(0)[out]});
    const Int8Error error = int8_error(&w[out * matrix.columns], &x[row * matrix.columns], matrix.columns);
    bounds[i] = (deviation ? std::sqrt(error.variance) : error.limit) + 4 * u * (std::abs(double{expected[i]}) + bias) +
                0x1p-126;
  }
  return bounds;
}

std::vector<double> int8_limit(const Case& self, const std::vector<float>& expected) {
  return int8_bounds(self, expected, false);
}
std::vector<double> int8_deviation(const Case& self, const std::vector<float>& expected) {
  return int8_bounds(self, expected, true);
}

struct Shape {
  uint32_t rows, out, columns;   // columns in blocks for block formats
  bool bias;
};

Case linear_case(Format format, Shape shape, CaseRandom& random) {
  Case made;
  const uint32_t block = format_info(format).block_values, columns = shape.columns * block;
  made.name = "linear " + std::string(format_info(format).name) + " [" + std::to_string(shape.out) + ", " +
              std::to_string(columns) + "] on " + std::to_string(shape.rows) + " rows" +
              (shape.bias ? " with bias" : "");
  made.tokens = random_tokens(shape.rows, 10, random);
  const Value x = made.plan.input(columns, random.normals(size_t{shape.rows} * columns));
  made.compared = made.plan.value(shape.out);
  made.plan.step(Op::linear, {x}, made.compared);
  made.plan.matrix(format, shape.out, columns, random_matrix(format, shape.out, columns, random));
  if (shape.bias) made.plan.bias(random.normals(shape.out));
  made.limit = linear_limit;
  if (block != 1) made.limit_of_xnnpack = int8_limit;
  return made;
}

// Rows of x that are hard to round: zeros, below 2^-100, far out, one spike among small values, and an ordinary one.
void make_x_hard(Case& made, CaseRandom& random) {
  std::vector<float>& x = made.plan.inputs.begin()->second;
  const size_t columns = x.size() / made.positions();
  const double sizes[] = {0.0, 0x1p-110, 1e30, 0.001, 1.0};
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(sizes[i / columns % 5] * random.normal());
  if (made.positions() > 3) x[3 * columns + random.below(static_cast<uint32_t>(columns))] = 1000;
  made.name += ", hard to round";
}

// Whole multiples of 2^-6 up to 127 of them; each block of 32 has one with 127.
void make_x_exact(Case& made, CaseRandom& random) {
  std::vector<float>& x = made.plan.inputs.begin()->second;
  for (float& value : x) value = (static_cast<float>(random.below(255)) - 127) / 64;
  for (size_t first = 0; first < x.size(); first += 32)
    x[first + random.below(32)] = (random.below(2) == 0 ? 127.0F : -127.0F) / 64;
  made.limit = exact_codes_limit;
  made.name += ", exact codes";
}

}   // namespace

std::vector<Case> linear_cases() {
  std::vector<Case> cases;
  CaseRandom random(301);
  const std::vector<Shape> of_elements = {{1, 1, 1, false},   {1, 3, 5, true},     {2, 17, 33, false},
                                          {5, 7, 100, true},  {16, 5, 257, false}, {17, 64, 64, true},
                                          {33, 4, 48, false}, {3, 2, 1030, false}};
  const std::vector<Shape> of_blocks = {{1, 1, 1, false},  {1, 3, 2, true},   {2, 17, 1, false},
                                        {5, 7, 3, true},   {16, 5, 2, false}, {17, 33, 1, true},
                                        {33, 4, 2, false}, {3, 2, 17, false}, {1, 5, 35, true}};
  for (const Format format : enabled_formats()) {
    const bool elements = format_info(format).block_values == 1;
    for (const Shape& shape : elements ? of_elements : of_blocks) {
      cases.push_back(linear_case(format, shape, random));
      if (!elements) cases.back().deviation = linear_deviation, cases.back().deviation_of_xnnpack = int8_deviation;
    }
    cases.push_back(linear_case(format, {5, 9, elements ? 70U : 3U, true}, random));
    make_x_hard(cases.back(), random);
    if (elements) continue;
    for (const Shape& shape : {Shape{1, 17, 3, false}, {6, 5, 9, true}, {17, 3, 2, false}}) {
      cases.push_back(linear_case(format, shape, random));
      make_x_exact(cases.back(), random);
    }
  }
  // On the rows whose outputs are wanted, as the last layer does it.
  Case outputs =
      linear_case(enabled_formats()[0], {4, 9, enabled_formats()[0] == Format::f32 ? 40U : 1U, false}, random);
  outputs.tokens = random_tokens(9, 10, random);
  outputs.wanted = {0, 3, 7, 8};
  for (ValueInfo& info : outputs.plan.values) info.rows = Dimension::outputs;
  outputs.plan.steps[0].inputs[0].rows = outputs.plan.steps[0].output.rows = outputs.compared.rows = Dimension::outputs;
  outputs.name += ", wanted rows only";
  cases.push_back(std::move(outputs));
  return cases;
}

}   // namespace mote::test
