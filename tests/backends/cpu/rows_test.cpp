// The norms and the elementwise ops, every variant of their kernels, against their headers' formulas.
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

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
  const struct {
    uint32_t count;
    float special;   // stands at some places of the row
  } cases[] = {{1, 0.5F},      {2, -0.0F}, {15, 1e-42F}, {16, 3e38F},   {17, 1e18F},  {31, -1e20F},
               {33, INFINITY}, {37, NAN},  {576, 2.0F},  {576, 1e-30F}, {1000, 40.0F}};
  std::string wrong;
  for (const NormVariant& variant : norm_variants()) {
    if ((variant.required & ~isa_bits(probe_cpu_features())) != 0) continue;
    for (const auto& [count, special] : cases) {
      CaseRandom random(count);
      std::vector<float> x = random.normals(count, 3);
      const std::vector<float> weight = random.normals(count), bias = random.normals(count);
      for (size_t i = count / 2; i < count; i += 7) x[i] = special;
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

namespace {

// Numbers of every exponent and of everyday size; such that are special; such whose exp (silu takes that of -x) or tanh
// lies so close to the middle of two floats that a quick approximation takes the wrong one (core/base/math_blocks.h).
std::vector<float> elementwise_arguments() {
  CaseRandom random(2);
  std::vector<float> x = random.normals(203, 4);
  const float special[] = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, 1e-42F, -1e-42F, 3e38F, -3e38F, 100.0F, -100.0F};
  for (size_t i = 0; i < std::size(special); ++i) x[5 * i] = special[i];
  for (uint32_t exponent = 0; exponent < 255; ++exponent)
    for (const uint32_t rest : {0x00000000U, 0x80000001U, 0x007fffffU, 0x80345678U})
      x.push_back(std::bit_cast<float>(exponent << 23 | rest));
  for (const uint32_t bits :
       {0xbe777fecU, 0xbea585a0U, 0xbeaa23c4U, 0x3ac37de2U, 0x3bab6e65U, 0xbbb5ecffU, 0x3c4e34b0U})
    x.push_back(std::bit_cast<float>(bits));
  return x;
}

}   // namespace

TEST_CASE("the elementwise ops have the bits of their formulas, for special values and any count too",
          "[cpu][elementwise]") {
  const std::vector<float> a = elementwise_arguments(), b = CaseRandom(3).normals(static_cast<uint32_t>(a.size()));
  std::string wrong;
  for (const ElementwiseVariant& variant : elementwise_variants()) {
    if ((variant.required & ~isa_bits(probe_cpu_features())) != 0) continue;
    const auto run = [&](const std::string& name, ElementwiseKernel kernel, float factor, auto formula) {
      std::vector<float> expected;
      for (size_t i = 0; i < a.size(); ++i) expected.push_back(formula(a[i], b[i]));
      for (const size_t count : {size_t{1}, size_t{7}, size_t{127}, size_t{128}, size_t{129}, a.size()}) {
        std::vector<float> head(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(count));
        std::vector<float> y(count + 1, 77.0F), in_place(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(count));
        in_place.push_back(77.0F);
        head.push_back(77.0F);   // what stands behind is left alone
        kernel({a.data(), b.data(), y.data(), count, factor});
        kernel({in_place.data(), b.data(), in_place.data(), count, factor});
        for (const std::vector<float>& found : {y, in_place})
          if (const std::string sentence = compare_floats(head, found); !sentence.empty())
            wrong += std::string(variant.name) + " " + name + ": " + sentence + "\n";
      }
    };
    for (uint32_t i = 0; i < kActivationCount; ++i) {
      const Activation function = static_cast<Activation>(i);
      const std::string of = " " + std::to_string(i);
      run("activate" + of, variant.table->activate[i], 0,
          [&](float x, float) { return canonical_activation(function, x); });
      run("gate" + of, variant.table->gate[i], 0,
          [&](float x, float up) { return canonical_activation(function, x) * up; });
    }
    run("add", variant.table->add, 0, [](float x, float y) { return x + y; });
    for (const float factor : {30.0F, 1.0F, 0.0F, -2.0F, 1e-40F, 3e38F, INFINITY, NAN}) {
      const std::string by = " " + std::to_string(factor);
      run("scale" + by, variant.table->scale, factor, [=](float x, float) { return factor * x; });
      run("softcap" + by, variant.table->softcap, factor,
          [=](float x, float) { return static_cast<float>(double{factor} * tanh_f64(double{x} / double{factor})); });
    }
  }
  CHECK(wrong == "");
}

TEST_CASE("rope rounds every product and sum by itself, in both pairings, and leaves the rest of a head",
          "[cpu][elementwise]") {
  CaseRandom random(4);
  std::string wrong;
  for (const ElementwiseVariant& variant : elementwise_variants()) {
    if ((variant.required & ~isa_bits(probe_cpu_features())) != 0) continue;
    for (const RopePairing pairing : {RopePairing::neighbours, RopePairing::halves}) {
      for (const auto& [head_dim, pairs] : {std::pair{10U, 3U}, {16U, 8U}, {41U, 18U}, {64U, 32U}}) {
        const std::vector<float> x = random.normals(3 * head_dim), angles = random.normals(2 * pairs);
        std::vector<float> expected = x, y(x.size(), NAN), in_place = x;
        for (size_t head = 0; head < 3; ++head)
          for (size_t i = 0; i < pairs; ++i) {
            const size_t at = head * head_dim + (pairing == RopePairing::neighbours ? 2 * i : i);
            const size_t other = at + (pairing == RopePairing::neighbours ? 1 : pairs);
            const float c = angles[2 * i], s = angles[2 * i + 1];
            const float ac = x[at] * c, bs = x[other] * s, as = x[at] * s, bc = x[other] * c;
            expected[at] = ac - bs;
            expected[other] = as + bc;
          }
        variant.table->rope({x.data(), angles.data(), y.data(), {3, head_dim, 2 * pairs, pairing}});
        variant.table->rope({in_place.data(), angles.data(), in_place.data(), {3, head_dim, 2 * pairs, pairing}});
        wrong += compare_floats(expected, y) + compare_floats(expected, in_place);
      }
    }
  }
  CHECK(wrong == "");
}

}   // namespace mote::test
