// The frequencies of rotary embedding against closed forms in long double, for each kind of scaling.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <memory>

#include "core/model/weights.h"
#include "core/ops/rope_angles.h"
#include "tests/support/toy_model.h"

namespace mote::test {
namespace {

struct Settings {
  double base = 10000;
  uint32_t n_rotated = 64;
  std::string scaling = "none";
  double factor = 1;
  uint32_t original = 4096;
  double beta_fast = 32, beta_slow = 1, attention_factor = 1;
  std::vector<float> factors = {};
};

constexpr long double kPi = 3.141592653589793238462643383279502884L;

// YaRN, https://arxiv.org/abs/2309.00071: the dimension that makes `turns` turns over the original context.
long double dimension_of(const Settings& s, long double turns) {
  return s.n_rotated * std::log(s.original / (turns * 2 * kPi)) / (2 * std::log(static_cast<long double>(s.base)));
}

std::vector<long double> expected_frequencies(const Settings& s) {
  std::vector<long double> frequencies(s.n_rotated / 2);
  for (uint32_t i = 0; i < frequencies.size(); ++i) {
    const long double divisor = s.factors.empty() ? 1.0L : static_cast<long double>(s.factors[i]);
    const long double plain = std::pow(static_cast<long double>(s.base), -2.0L * i / s.n_rotated) / divisor;
    frequencies[i] = plain;
    if (s.scaling == "linear") frequencies[i] = plain / s.factor;
    if (s.scaling != "yarn") continue;
    const long double last = s.n_rotated - 1;
    const long double low = std::clamp(std::floor(dimension_of(s, s.beta_fast)), 0.0L, last);
    const long double high = std::clamp(std::ceil(dimension_of(s, s.beta_slow)), 0.0L, last);
    const long double ramp = std::clamp((i - low) / std::max(high - low, 0.001L), 0.0L, 1.0L);
    frequencies[i] = plain / s.factor * ramp + plain * (1 - ramp);
  }
  return frequencies;
}

long double expected_magnitude(const Settings& s) {
  return s.scaling == "yarn" ? s.attention_factor * (1 + 0.1L * std::log(static_cast<long double>(s.factor))) : 1.0L;
}

// What a model with these settings gets.
struct Made {
  std::vector<double> frequencies;
  double magnitude;
};
Made made_by_model(const Settings& s) {
  ToyOptions toy;
  toy.n_layers = 1;
  toy.d_model = 128;
  toy.n_heads = toy.n_kv_heads = 1;
  toy.context = s.original;
  toy.rope_dimensions = s.n_rotated;
  toy.rope_factors = s.factors;
  toy.tokenizer = ToyTokenizer::none;
  GgufBuilder file = toy_llama(toy);
  file.set("llama.rope.freq_base", Type::float64, s.base);
  file.set_string("llama.rope.scaling.type", s.scaling);
  file.set("llama.rope.scaling.factor", Type::float64, s.factor);
  file.set_u32("llama.rope.scaling.original_context_length", s.original);
  file.set("llama.rope.scaling.yarn_beta_fast", Type::float64, s.beta_fast);
  file.set("llama.rope.scaling.yarn_beta_slow", Type::float64, s.beta_slow);
  file.set("llama.rope.scaling.attn_factor", Type::float64, s.attention_factor);
  const Bytes bytes = file.bytes();
  const gguf::File opened = gguf::File::open(bytes).value();
  alignas(64) static unsigned char room[1 << 18];
  Arena arena(room, sizeof room);
  gguf::TensorIndex index = gguf::TensorIndex::create(opened, arena).value();
  const Result<Config> config = read_config(opened, 320);
  REQUIRE(std::string(config.status().message()) == "");
  const Result<RopeConfig> turned = read_rope(opened, config.value());
  REQUIRE(std::string(turned.status().message()) == "");
  Weights weights(index, arena);
  const RopeSettings rope = weights.rope(turned.value(), RopePairing::neighbours, "rope_freqs.weight");
  REQUIRE(std::string(weights.status().message()) == "");
  REQUIRE(rope.angles.n_rotated == s.n_rotated);
  return {{rope.angles.frequency, rope.angles.frequency + s.n_rotated / 2}, rope.angles.magnitude};
}

// The largest relative distance from the closed form.
double worst_error(const Settings& s) {
  const std::vector<long double> expected = expected_frequencies(s);
  const Made made = made_by_model(s);
  long double worst = std::abs(made.magnitude - expected_magnitude(s));
  for (size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, std::abs(made.frequencies[i] - expected[i]) / expected[i]);
  return static_cast<double>(worst);
}

constexpr double kTolerance = 1e-14;

TEST_CASE("Plain rotary frequencies are the powers of the base", "[model][rope]") {
  for (const double base : {10000.0, 100000.0, 500000.0, 1e6, 1.0, 1e15})
    for (const uint32_t n : {2u, 10u, 64u, 128u}) {
      CAPTURE(base, n);
      CHECK(worst_error({.base = base, .n_rotated = n}) < kTolerance);
    }
}

TEST_CASE("Linear scaling divides every frequency", "[model][rope]") {
  for (const double factor : {1.0, 2.0, 8.0, 0.5, 3.7}) {
    CAPTURE(factor);
    CHECK(worst_error({.scaling = "linear", .factor = factor}) < kTolerance);
  }
}

TEST_CASE("The oldest key of linear scaling still counts", "[model][rope]") {
  GgufBuilder file = toy_llama({.n_layers = 1, .tokenizer = ToyTokenizer::none});
  file.set_f32("llama.rope.scale_linear", 4.0f);
  const Bytes bytes = file.bytes();
  const gguf::File opened = gguf::File::open(bytes).value();
  const Result<Config> config = read_config(opened, 320);
  REQUIRE(config.ok());
  const Result<RopeConfig> rope = read_rope(opened, config.value());
  REQUIRE(rope.ok());
  CHECK(rope.value().scaling == RopeScaling::linear);
  CHECK(rope.value().factor == 4.0);
}

TEST_CASE("YaRN keeps what is fast, stretches what is slow and blends between", "[model][rope]") {
  for (const double factor : {2.0, 4.0, 16.0, 40.0})
    for (const uint32_t original : {128u, 4096u, 32768u})
      for (const double base : {10000.0, 1e6}) {
        const Settings settings{
            .base = base, .n_rotated = 128, .scaling = "yarn", .factor = factor, .original = original};
        CAPTURE(factor, original, base);
        CHECK(worst_error(settings) < kTolerance);
        CHECK(made_by_model(settings).frequencies.back() < 1.0);
      }
  CHECK(worst_error({.scaling = "yarn",
                     .factor = 4,
                     .original = 2048,
                     .beta_fast = 16,
                     .beta_slow = 2,
                     .attention_factor = 0.8}) < kTolerance);
}

TEST_CASE("A tensor of factors divides each frequency by its own", "[model][rope]") {
  std::vector<float> factors(32);
  for (size_t i = 0; i < factors.size(); ++i) factors[i] = 1.0f + static_cast<float>(i * i) / 100;
  CHECK(worst_error({.base = 500000, .factors = factors}) < kTolerance);
  CHECK(worst_error({.scaling = "linear", .factor = 2, .factors = factors}) < kTolerance);
}

TEST_CASE("Angles of far positions are those of the closed form", "[model][rope]") {
  const Settings all[] = {
      {}, {.base = 1e6, .n_rotated = 128}, {.scaling = "linear", .factor = 8}, {.scaling = "yarn", .factor = 4}};
  for (const Settings& settings : all) {
    const std::vector<long double> expected = expected_frequencies(settings);
    const Made made = made_by_model(settings);
    const RopeAnglesAttributes attributes{made.frequencies.data(), settings.n_rotated, made.magnitude};
    for (const uint32_t position : {0u, 1u, 255u, 256u, 4095u, 8191u, 15962u, 65535u, 100000u, 131071u, 1000000u}) {
      std::vector<float> row(settings.n_rotated);
      rope_angles_row(attributes, position, row.data());
      const long double magnitude = expected_magnitude(settings);
      long double worst = 0;
      for (uint32_t i = 0; i < settings.n_rotated / 2; ++i) {
        const long double angle = position * expected[i];
        worst = std::max(worst, std::abs(static_cast<long double>(row[2 * i]) - magnitude * std::cos(angle)));
        worst = std::max(worst, std::abs(static_cast<long double>(row[2 * i + 1]) - magnitude * std::sin(angle)));
      }
      CAPTURE(settings.scaling, settings.base, position);
      CHECK(static_cast<double>(worst) < 1.2e-7);   // one rounding to f32, of up to 1.14
    }
  }
}

}   // namespace
}   // namespace mote::test
