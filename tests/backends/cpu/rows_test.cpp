// The norms and the elementwise ops, every variant of their kernels, against their headers' formulas.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>

#include "backends/cpu/elementwise/elementwise.h"
#include "backends/cpu/norm/norm.h"
#include "core/base/math.h"
#include "tests/backends/cpu/canonical.h"
#include "tests/conformance/random.h"

namespace mote::test {
namespace {

// The order of norm.h.
std::vector<float> canonical_norm(const std::vector<float>& x, const std::vector<float>& weight,
                                  const std::vector<float>& bias, float epsilon, bool layer) {
  float sums[16] = {}, squares[16] = {};
  const float n = static_cast<float>(x.size());
  for (size_t i = 0; i < x.size(); ++i) sums[i % 16] = sums[i % 16] + x[i];
  const float mean = layer ? canonical_fold(sums) / n : 0.0F;
  for (size_t i = 0; i < x.size(); ++i) {
    const float d = layer ? x[i] - mean : x[i];
    squares[i % 16] = std::fma(d, d, squares[i % 16]);
  }
  const float scale = 1.0F / std::sqrt(canonical_fold(squares) / n + epsilon);
  std::vector<float> y;
  for (size_t i = 0; i < x.size(); ++i) {
    float value = (layer ? x[i] - mean : x[i]) * scale;
    if (!weight.empty()) value = value * weight[i];
    if (!bias.empty()) value = value + bias[i];
    y.push_back(value);
  }
  return y;
}

float canonical_activation(Activation function, float x) {
  if (function == Activation::relu) return x < 0 ? 0 : x;
  if (function == Activation::silu) return x / (1.0F + exp_f32(-x));
  if (function == Activation::gelu_erf) return (0.5F * x) * (1.0F + erf_f32(x * 0.70710678F));
  const float cube = x * x * x;
  const float inner = x + 0.044715F * cube;
  return (0.5F * x) * (1.0F + tanh_f32(0.79788456F * inner));
}

}   // namespace

TEST_CASE("the norms have the bits of their canonical order, in place too", "[cpu][norm]") {
  std::string wrong;
  for (const NormVariant& variant : norm_variants()) {
    for (const uint32_t count : {1U, 2U, 15U, 16U, 17U, 33U, 576U, 1000U}) {
      CaseRandom random(count);
      const std::vector<float> x = random.normals(count, 3), weight = random.normals(count),
                               bias = random.normals(count);
      std::vector<float> y(count, NAN);
      variant.table->rms_norm({x.data(), weight.data(), nullptr, y.data(), count, 1e-5F});
      wrong += compare_floats(canonical_norm(x, weight, {}, 1e-5F, false), y);
      variant.table->layer_norm({x.data(), weight.data(), bias.data(), y.data(), count, 1e-5F});
      wrong += compare_floats(canonical_norm(x, weight, bias, 1e-5F, true), y);
      variant.table->layer_norm({x.data(), nullptr, nullptr, y.data(), count, 1e-5F});
      wrong += compare_floats(canonical_norm(x, {}, {}, 1e-5F, true), y);
      y = x;
      variant.table->rms_norm({y.data(), weight.data(), nullptr, y.data(), count, 1e-6F});
      wrong += compare_floats(canonical_norm(x, weight, {}, 1e-6F, false), y);
      y = x;
      variant.table->layer_norm({y.data(), weight.data(), bias.data(), y.data(), count, 1e-6F});
      wrong += compare_floats(canonical_norm(x, weight, bias, 1e-6F, true), y);
    }
  }
  CHECK(wrong == "");
}

TEST_CASE("the elementwise ops have the bits of their formulas, for special values too", "[cpu][elementwise]") {
  CaseRandom random(2);
  std::vector<float> a = random.normals(203, 4), b = random.normals(203);
  const float special[] = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, 1e-42F, -1e-42F, 3e38F, -3e38F, 100.0F, -100.0F};
  for (size_t i = 0; i < std::size(special); ++i) a[5 * i] = special[i];
  std::string wrong;
  for (const ElementwiseVariant& variant : elementwise_variants()) {
    const auto run = [&](const char* name, ElementwiseKernel kernel, auto formula) {
      std::vector<float> expected, y(a.size(), NAN), in_place = a;
      for (size_t i = 0; i < a.size(); ++i) expected.push_back(formula(a[i], b[i]));
      kernel({a.data(), b.data(), y.data(), a.size(), 30.0F});
      kernel({in_place.data(), b.data(), in_place.data(), a.size(), 30.0F});
      for (const std::vector<float>& found : {y, in_place})
        if (const std::string sentence = compare_floats(expected, found); !sentence.empty())
          wrong += std::string(name) + ": " + sentence + "\n";
    };
    for (uint32_t i = 0; i < kActivationCount; ++i) {
      const Activation function = static_cast<Activation>(i);
      run("activate", variant.table->activate[i], [&](float x, float) { return canonical_activation(function, x); });
      run("gate", variant.table->gate[i], [&](float x, float up) { return canonical_activation(function, x) * up; });
    }
    run("add", variant.table->add, [](float x, float y) { return x + y; });
    run("scale", variant.table->scale, [](float x, float) { return 30.0F * x; });
    run("softcap", variant.table->softcap,
        [](float x, float) { return static_cast<float>(30.0 * tanh_f64(double{x} / 30.0)); });
  }
  CHECK(wrong == "");
}

TEST_CASE("rope rounds every product and sum by itself, in both pairings, and leaves the rest of a head",
          "[cpu][elementwise]") {
  CaseRandom random(4);
  const std::vector<float> x = random.normals(3 * 10), angles = random.normals(6);
  std::string wrong;
  for (const ElementwiseVariant& variant : elementwise_variants()) {
    for (const RopePairing pairing : {RopePairing::neighbours, RopePairing::halves}) {
      std::vector<float> expected = x, y(x.size(), NAN), in_place = x;
      for (size_t head = 0; head < 3; ++head)
        for (size_t i = 0; i < 3; ++i) {
          const size_t at = head * 10 + (pairing == RopePairing::neighbours ? 2 * i : i);
          const size_t other = at + (pairing == RopePairing::neighbours ? 1 : 3);
          const float c = angles[2 * i], s = angles[2 * i + 1];
          const float ac = x[at] * c, bs = x[other] * s, as = x[at] * s, bc = x[other] * c;
          expected[at] = ac - bs;
          expected[other] = as + bc;
        }
      variant.table->rope({x.data(), angles.data(), y.data(), {3, 10, 6, pairing}});
      variant.table->rope({in_place.data(), angles.data(), in_place.data(), {3, 10, 6, pairing}});
      wrong += compare_floats(expected, y) + compare_floats(expected, in_place);
    }
  }
  CHECK(wrong == "");
}

}   // namespace mote::test
