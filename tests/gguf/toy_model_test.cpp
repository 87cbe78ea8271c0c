// The toy models are what other tests stand on: sound, repeatable, and with weights of the asked size.
#include "tests/support/toy_model.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>

#include "core/gguf/tensor_index.h"
#include "tests/gguf/exact.h"
#include "tests/support/toy_weights.h"

namespace {

using namespace mote;
using namespace mote::gguf;
using namespace mote::test;

TEST_CASE("toy models of every format open and are the same for the same seed", "[support]") {
  for (size_t i = 0; i < format_table().size(); ++i) {
    const auto format = static_cast<Format>(i);
    if (!format_table()[i].enabled) continue;
    const ToyOptions options{.seed = 7,
                             .n_layers = 1,
                             .d_model = 256,
                             .d_ff = 256,
                             .matrices = format,
                             .embedding = format,
                             .output = format};
    const Bytes bytes = toy_llama(options).bytes();
    INFO(format_table()[i].name);
    CHECK(File::open(bytes).status().message() == "");
    CHECK(toy_llama(options).bytes() == bytes);
  }
  CHECK(toy_llama({.seed = 1}).bytes() != toy_llama({.seed = 2}).bytes());
}

TEST_CASE("random weights have about the asked deviation and mean 0 in every format", "[support]") {
  for (size_t i = 0; i < format_table().size(); ++i) {
    if (!format_table()[i].enabled) continue;
    const auto format = static_cast<Format>(i);
    Random random(3);
    const std::vector<uint8_t> bytes = random_weights(format, 64, 256, 0.1f, random);
    std::vector<float> values(64 * 256);
    dequantize_row(format, bytes.data(), values.size(), values.data());
    double sum = 0, squares = 0;
    for (const float value : values)
      sum += static_cast<double>(value), squares += static_cast<double>(value) * static_cast<double>(value);
    const double mean = sum / static_cast<double>(values.size());
    const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
    INFO(format_table()[i].name << ": mean " << mean << ", deviation " << deviation);
    CHECK(std::abs(mean) < 0.02);
    CHECK((deviation > 0.06 && deviation < 0.18));
  }
}

TEST_CASE("every choice of the toy model is written where the reader finds it", "[support]") {
  const Bytes bytes = toy_llama({.n_heads = 4,
                                 .head_dim = 24,
                                 .tied = true,
                                 .rope_dimensions = 16,
                                 .rope_scaling = "yarn",
                                 .original_context = 128,
                                 .rope_factors = std::vector<float>(8, 2.0f),
                                 .tokenizer = ToyTokenizer::sentencepiece,
                                 .add_bos = true})
                          .bytes();
  const Result<File> file = File::open(bytes);
  REQUIRE(file.status().message() == "");
  CHECK(file.value().get_unsigned("llama.attention.key_length", 0, 99).value() == 24);
  CHECK(file.value().get_unsigned("llama.rope.dimension_count", 0, 99).value() == 16);
  CHECK(file.value().get_string("llama.rope.scaling.type").value() == "yarn");
  CHECK(file.value().get_string("tokenizer.ggml.model").value() == "llama");
  CHECK(file.value().get_bool("tokenizer.ggml.add_bos_token", false).value());
  for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type"}) {
    Entry entry;
    REQUIRE(file.value().find(key, &entry));
    CHECK(entry.count == 320);
  }
  Tensor tensor;
  CHECK_FALSE(find_tensor(file.value(), "output.weight", &tensor));
  REQUIRE(find_tensor(file.value(), "rope_freqs.weight", &tensor));
  CHECK(tensor.dimensions[0] == 8);
  REQUIRE(find_tensor(file.value(), "blk.1.attn_q.weight", &tensor));
  CHECK(tensor.dimensions[1] == 96);
}

}   // namespace
