// Whole models on the backend xnnpack: how far from the oracle, what is shared, what is told about the weights.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "core/mote_dev.h"
#include "tests/api/kit.h"

namespace mote::test {
namespace {

// Root of the mean square of the differences, over that of what is expected.
double relative_distance(const std::vector<float>& found, const std::vector<float>& expected) {
  double off = 0, whole = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    off += (double{found[i]} - expected[i]) * (double{found[i]} - expected[i]);
    whole += double{expected[i]} * expected[i];
  }
  return std::sqrt(off / whole);
}

std::vector<float> logits_on(const char* backends, const GgufBuilder& file, int32_t kv_type = MOTE_KV_F32) {
  const Engine engine(backends, 2);
  const Model model(engine, file);
  mote_session_options options = session_options(64, 16);
  options.kv_type = kv_type;
  const Session session(model, options);
  return logits_after(session, some_tokens(40, 300));
}

TEST_CASE("xnnpack is opened when it is named, never by itself", "[xnnpack]") {
  const Engine by_itself("auto"), named("xnnpack"), listed("xnnpack, cpu");
  for (uint32_t i = 0; const char* name = mote_dev_engine_backend(by_itself, i); ++i)
    CHECK(std::string(name) != "xnnpack");
  CHECK(std::string(mote_dev_engine_backend(named, 0)) == "xnnpack");
  CHECK(std::string(mote_dev_engine_backend(listed, 0)) == "xnnpack");
  CHECK(std::string(mote_dev_engine_backend(listed, 1)) == "cpu");
}

TEST_CASE("Whole f32 models agree with the oracle to rounding, block formats to eight bits", "[xnnpack]") {
  struct Kind {
    Format format;
    double most;
  };
  const Kind kind = GENERATE(Kind{Format::f32, 1e-5}, Kind{Format::f16, 1e-5}, Kind{Format::bf16, 1e-5},
                             Kind{Format::q8_0, 0.03}, Kind{Format::q4_0, 0.03}, Kind{Format::q4_1, 0.03});
  const GgufBuilder file = toy_llama({.matrices = kind.format, .embedding = kind.format});
  const double distance = relative_distance(logits_on("xnnpack", file), logits_on("reference", file));
  CAPTURE(kind.format, distance);
  CHECK(distance > 0);
  CHECK(distance < kind.most);
}

TEST_CASE("What requantising changes is told for each step", "[xnnpack]") {
  const Engine engine("xnnpack");
  for (const Format format : {Format::f32, Format::f16, Format::q4_0, Format::q8_0}) {
    const Model model(engine, toy_llama({.matrices = format}));
    double worst = 0;
    uint32_t n_linear = 0;
    for (uint32_t i = 0; i < mote_dev_step_count(model); ++i) {
      mote_dev_step step{};
      REQUIRE(mote_dev_get_step(model, i, &step, nullptr) == MOTE_OK);
      CHECK(std::string(step.backend) == "xnnpack");
      const bool quantized = format == Format::q4_0 || format == Format::q8_0;
      const bool in_blocks = contains(step.text, "q4_0") || contains(step.text, "q8_0");
      if (std::string(step.op) != "linear" || !in_blocks || !quantized) {
        CHECK(step.weight_error == 0);
        continue;
      }
      ++n_linear;
      worst = std::max(worst, step.weight_error);
      CHECK(step.weight_error > 1e-4);
    }
    CHECK(worst < 0.01);
    CHECK((n_linear != 0) == (format == Format::q4_0 || format == Format::q8_0));
  }
}

}   // namespace
}   // namespace mote::test
