// Weights to int8 per channel: the codes, what odd rows become, and the error that is reported. And rows of x.
#include "backends/xnnpack/quantize.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

#include "tests/conformance/harness.h"

using namespace mote;
using namespace mote::test;

namespace {

struct Row {
  float scale;
  std::vector<int8_t> codes;
  QuantizingError error;
};
Row quantized(const std::vector<float>& weights) {
  Row row{0, std::vector<int8_t>(weights.size(), 99), {}};
  row.scale = quantize_channel(weights, row.codes.data(), &row.error);
  return row;
}

}   // namespace

TEST_CASE("A channel's largest weight is 127 and each is the nearest code", "[xnnpack]") {
  CaseRandom random(1);
  size_t wrong = 0;
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> weights = random.normals(37, std::exp2(random.uniform(-100, 100)));
    const Row row = quantized(weights);
    double squares = 0, whole = 0, largest = 0;
    int largest_code = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const double off = double{weights[i]} - double{row.scale} * row.codes[i];
      if (std::abs(off) > 0.5001 * double{row.scale}) ++wrong;
      largest_code = std::max(largest_code, std::abs(int{row.codes[i]}));
      squares += off * off;
      whole += double{weights[i]} * weights[i];
      largest = std::max(largest, std::abs(double{weights[i]}));
    }
    if (largest_code != 127 || std::abs(double{row.scale} * 127 / largest - 1) > 1e-6) ++wrong;
    if (std::abs(row.error.relative() - std::sqrt(squares / whole)) > 1e-9 || row.error.relative() > 0.01) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("Rows of zeros, of tiny and of odd weights have a scale that says so", "[xnnpack]") {
  const Row zeros = quantized({0, -0.0f, 0});
  CHECK(zeros.scale == 1);
  CHECK(zeros.codes == std::vector<int8_t>(3, 0));
  CHECK(zeros.error.relative() == 0);
  const Row tiny = quantized({1e-37f, -1e-38f});
  CHECK(tiny.scale == 1);
  CHECK(tiny.codes == std::vector<int8_t>(2, 0));
  CHECK(tiny.error.relative() == 1);
  for (const float odd : {NAN, INFINITY, -INFINITY}) {
    const Row row = quantized({1, 2, odd, 3});
    CHECK(std::isnan(row.scale));
    CHECK(row.codes == std::vector<int8_t>(4, 0));
    CHECK(row.error.whole == 0);
  }
  const Row huge = quantized({3.4e38f, -3.4e38f, 1});
  CHECK(std::isfinite(huge.scale));
  CHECK(huge.codes == std::vector<int8_t>{127, -127, 0});
}

TEST_CASE("A row of x that spans less than 2^-100 counts as zeros, one beyond the range is not finite", "[xnnpack]") {
  struct Row {
    float x[2];   // the first numbers; the others are 0
    bool (*is_right)(float y);
  };
  const auto zero = [](float y) { return y == 0; };
  const auto near = [](float y) { return y > 0x1.f8p-100F && y < 0x1.08p-99F; };
  const Row rows[] = {{{0, 0}, zero},
                      {{0x1p-101F, 0}, zero},
                      {{-0x1.8p-102F, 0x1p-103F}, zero},
                      {{0x1p-99F, 0}, near},
                      {{1e36F, 0}, [](float y) { return y > 0.98e36F && y < 1.02e36F; }},
                      {{3e38F, -3e38F}, [](float y) { return !std::isfinite(y); }}};
  Case made;
  made.tokens.resize(std::size(rows));
  std::vector<float> x(std::size(rows) * 32);
  for (size_t i = 0; i < std::size(rows); ++i) std::ranges::copy(rows[i].x, &x[i * 32]);
  const Value in = made.plan.input(32, x);
  made.compared = made.plan.value(1);
  made.plan.step(Op::linear, {in}, made.compared);
  std::vector<uint8_t> ones(34, 1);   // codes of 1, times 1 as f16
  ones[0] = 0, ones[1] = 0x3c;
  made.plan.matrix(Format::q8_0, 1, 32, ones);
  const BackendEntry& entry = *std::ranges::find(built_in_backends(), std::string_view("xnnpack"),
                                                 [](const BackendEntry& each) { return std::string_view(each.name); });
  Rig rig(entry, made, {});
  REQUIRE(rig.supported());
  rig.run_all();
  for (size_t i = 0; i < std::size(rows); ++i) {
    INFO("row " << i << ": " << rig.output()[i]);
    CHECK(rows[i].is_right(rig.output()[i]));
  }
}
