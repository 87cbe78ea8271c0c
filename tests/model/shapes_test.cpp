// Models of every shape that `llama` may have: odd sizes, heads apart from the width, lists for each layer, biases,
// tied and own output. The two backends agree, and models that say the same in two ways give the same bits.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>

#include "tests/model/kit.h"

namespace mote::test {
namespace {

TEST_CASE("Odd sizes run alike on both backends", "[model][shapes]") {
  std::vector<ToyOptions> shapes = {shape(2, 1, 1, 1, 1),      shape(6, 3, 1, 5, 7),    shape(66, 3, 3, 97, 333),
                                    shape(50, 5, 1, 31, 301),  shape(17, 3, 3, 19, 11), shape(40, 2, 1, 200, 320),
                                    shape(130, 1, 1, 257, 320)};
  shapes[0].n_layers = 1;
  shapes[1].n_layers = 3;
  shapes[2].tied = true;
  shapes[3].rope_dimensions = 6;
  shapes[4].head_dim = 10;
  shapes[5].head_dim = 64;
  shapes[6].rope_scaling = "yarn";
  shapes[6].original_context = 16;
  for (size_t i = 0; i < shapes.size(); ++i) {
    CAPTURE(i);
    CHECK(distance_of_backends(toy_llama(shapes[i]), shapes[i].n_vocab) < 1);
  }
}

TEST_CASE("Values apart from keys run alike on both backends", "[model][shapes]") {
  ToyOptions toy = shape(48, 4, 2, 96, 320);
  toy.n_layers = 1;
  toy.head_dim = 12;
  GgufBuilder file = toy_llama(toy);
  Random random(4);
  file.set_u32("llama.attention.value_length", 20);
  file.tensor("blk.0.attn_v.weight").dimensions = {48, 40};
  file.tensor("blk.0.attn_v.weight").data = random_weights(Format::f32, 40, 48, 0.15f, random);
  file.tensor("blk.0.attn_output.weight").dimensions = {80, 48};
  file.tensor("blk.0.attn_output.weight").data = random_weights(Format::f32, 48, 80, 0.1f, random);
  CHECK(distance_of_backends(file) < 1);
}

TEST_CASE("Layers with heads and widths of their own run alike on both backends", "[model][shapes]") {
  GgufBuilder file = toy_llama({.head_dim = 16});
  Random random(5);
  const auto resize = [&](const char* name, uint64_t rows, uint64_t columns) {
    file.tensor(name).dimensions = {columns, rows};
    file.tensor(name).data = random_weights(Format::f32, rows, columns, 0.12f, random);
  };
  file.set_array("llama.attention.head_count", Type::uint32, std::vector<uint32_t>{4, 6});
  file.set_array("llama.attention.head_count_kv", Type::uint32, std::vector<uint32_t>{2, 3});
  file.set_array("llama.feed_forward_length", Type::uint32, std::vector<uint32_t>{96, 41});
  resize("blk.1.attn_q.weight", 96, 64);
  resize("blk.1.attn_k.weight", 48, 64);
  resize("blk.1.attn_v.weight", 48, 64);
  resize("blk.1.attn_output.weight", 64, 96);
  resize("blk.1.ffn_gate.weight", 41, 64);
  resize("blk.1.ffn_up.weight", 41, 64);
  resize("blk.1.ffn_down.weight", 64, 41);
  CHECK(distance_of_backends(file) < 1);
}

TEST_CASE("An own output that equals the embedding gives the bits of a tied one", "[model][shapes]") {
  const GgufBuilder tied = toy_llama({.tied = true});
  GgufBuilder own = tied;
  const GgufBuilder::TensorPart embedding = own.tensor("token_embd.weight");
  own.add_tensor("output.weight", Format::f32, embedding.dimensions, embedding.data);
  for (const char* backend : {"cpu", "reference"})
    CHECK(bit_difference(logits_on(backend, tied, 320), logits_on(backend, own, 320)) == "");
}

TEST_CASE("Biases count where they are, and are zero where they are not", "[model][shapes]") {
  const GgufBuilder plain = toy_llama({.n_layers = 1});
  const std::vector<float> without = logits_on("reference", plain, 320);
  const std::pair<const char*, size_t> kBiases[] = {
      {"attn_q.bias", 64},   {"attn_k.bias", 32}, {"attn_v.bias", 32},  {"attn_output.bias", 64},
      {"ffn_gate.bias", 96}, {"ffn_up.bias", 96}, {"ffn_down.bias", 64}};
  GgufBuilder zeros = plain;
  Random random(6);
  for (const auto& [name, count] : kBiases) {
    const std::string full = std::string("blk.0.") + name;
    zeros.add_tensor(full, Format::f32, {count}, Bytes(4 * count));
    GgufBuilder one = plain;
    std::vector<float> values(count);
    for (float& value : values) value = random.normal();
    one.add_tensor(full, Format::f32, {count}, float_weights(Format::f32, values));
    const std::vector<float> with = logits_on("reference", one, 320);
    CAPTURE(name);
    CHECK(distance(with, logits_on("cpu", one, 320)) < 1);
    CHECK(distance(with, without) > 1);
  }
  for (const char* backend : {"cpu", "reference"})
    CHECK(bit_difference(logits_on(backend, plain, 320), logits_on(backend, zeros, 320)) == "");
}

TEST_CASE("Grouped heads give the bits of heads that repeat their keys and values", "[model][shapes]") {
  GgufBuilder grouped = toy_llama({.n_layers = 1});   // 4 heads on 2
  GgufBuilder repeated = grouped;
  repeated.set_u32("llama.attention.head_count_kv", 4);
  for (const char* name : {"blk.0.attn_k.weight", "blk.0.attn_v.weight"}) {
    const Bytes data = grouped.tensor(name).data;
    const auto head_bytes = static_cast<std::ptrdiff_t>(data.size() / 2);
    Bytes twice;
    for (const int head : {0, 0, 1, 1})
      twice.insert(twice.end(), data.begin() + head * head_bytes, data.begin() + (head + 1) * head_bytes);
    repeated.tensor(name).dimensions[1] *= 2;
    repeated.tensor(name).data = twice;
  }
  for (const char* backend : {"cpu", "reference"})
    CHECK(bit_difference(logits_on(backend, grouped, 320), logits_on(backend, repeated, 320)) == "");
}

TEST_CASE("A model at an odd address gives the same bits", "[model][shapes]") {
  ToyOptions toy;
  toy.d_model = 256;
  toy.d_ff = 256;
  toy.matrices = Format::q4_k;
  toy.embedding = Format::f16;
  toy.output = Format::q6_k;
  const Bytes bytes = toy_llama(toy).bytes();
  const Engine engine("cpu");
  std::vector<float> expected;
  for (const size_t shift : {0u, 1u, 2u, 3u, 7u, 33u}) {
    Bytes shifted(bytes.size() + shift);
    std::copy(bytes.begin(), bytes.end(), shifted.begin() + static_cast<std::ptrdiff_t>(shift));
    mote_source source = source_of(shifted);
    source.data = shifted.data() + shift;
    source.data_bytes = bytes.size();
    mote_model* model = nullptr;
    mote_error error{};
    must(mote_model_open(engine, &source, nullptr, {}, &model, &error), error);
    {
      const Session session(model, session_options(16, 8));
      const std::vector<float> logits = logits_after(session, {1, 2, 3, 4, 5, 6, 7, 8, 9});
      if (expected.empty()) expected = logits;
      CAPTURE(shift);
      CHECK(bit_difference(logits, expected) == "");
    }
    mote_model_close(model, nullptr);
  }
}

TEST_CASE("The alignment of a file and what fills its gaps change no bit", "[model][shapes]") {
  for (const char* backend : {"cpu", "reference"}) {
    const GgufBuilder plain = toy_llama({.matrices = Format::q8_0});
    const std::vector<float> expected = logits_on(backend, plain, 320);
    for (const uint64_t alignment : {uint64_t{8}, uint64_t{32}, uint64_t{64}, uint64_t{4096}}) {
      GgufBuilder file = plain;
      file.set_alignment(alignment);
      file.gap = 0xAA;
      CAPTURE(backend, alignment);
      CHECK(bit_difference(logits_on(backend, file, 320), expected) == "");
    }
  }
}

// Multiplies the f32 weights whose row and column are multiples of these numbers.
void scale(GgufBuilder& file, const std::string& name, float by, uint64_t rows, uint64_t columns) {
  GgufBuilder::TensorPart& part = file.tensor(name);
  for (uint64_t at = 0; at < part.data.size() / sizeof(float); ++at) {
    if (at / part.dimensions[0] % rows != 0 || at % part.dimensions[0] % columns != 0) continue;
    float value = 0;
    std::memcpy(&value, part.data.data() + at * sizeof value, sizeof value);
    value *= by;
    std::memcpy(part.data.data() + at * sizeof value, &value, sizeof value);
  }
}

// A power of two beyond what f16 holds moves no bit of the mantissas, and what is divided by it again is what it was.
TEST_CASE("Activations of a million give the bits of small ones, for every batch", "[model][shapes]") {
  constexpr float kMillion = 0x1p20F;
  constexpr uint32_t kWidth = 64;
  ToyOptions toy = shape(kWidth, 4, 2, 96, 320);
  toy.n_layers = 1;
  toy.rms_epsilon = 0;
  const GgufBuilder small = toy_llama(toy);
  GgufBuilder stream = small, inner = small, values = small;
  // Between the parts of a layer. The norms, without an epsilon, take it back.
  for (const char* name : {"token_embd.weight", "blk.0.attn_output.weight", "blk.0.ffn_down.weight"})
    scale(stream, name, kMillion, 1, 1);
  // Some of what the feed-forward part computes in between.
  scale(inner, "blk.0.ffn_up.weight", kMillion, 5, 1);
  scale(inner, "blk.0.ffn_down.weight", 1 / kMillion, 1, 5);
  // The first channel of each head of values.
  scale(values, "blk.0.attn_v.weight", kMillion, 16, 1);
  scale(values, "blk.0.attn_output.weight", 1 / kMillion, 1, 16);
  const Tokens tokens = some_tokens(129, 320);
  const auto logits = [&](const char* backend, const GgufBuilder& file, uint32_t batch) {
    const Engine engine(backend);
    const Model model(engine, file);
    mote_session_options options = session_options(130, batch);
    options.kv_type = MOTE_KV_F32;
    const Session session(model, options);
    return logits_after(session, tokens);
  };
  for (const char* backend : {"cpu", "reference"}) {
    const std::vector<float> expected = logits(backend, small, 64);
    for (const uint32_t batch : {1U, 2U, 31U, 32U, 33U, 63U, 64U, 65U, 128U}) {
      CAPTURE(backend, batch);
      CHECK(bit_difference(logits(backend, stream, batch), expected) == "");
      CHECK(bit_difference(logits(backend, inner, batch), expected) == "");
      CHECK(bit_difference(logits(backend, values, batch), expected) == "");
    }
  }
}

TEST_CASE("Rows of a million before a quantised matrix give its results times as much", "[model][shapes]") {
  constexpr float kMillion = 0x1p20F;
  for (const FormatInfo& format : format_table()) {
    if (!format.enabled || 256 % format.block_values != 0) continue;
    ToyOptions toy = shape(256, 2, 1, 64, 64);
    toy.n_layers = 1;
    toy.output = static_cast<Format>(&format - format_table().data());
    GgufBuilder file = toy_llama(toy);
    std::vector<float> expected[2];
    for (size_t i = 0; i < 2; ++i) expected[i] = logits_on(i == 0 ? "cpu" : "reference", file, 64);
    scale(file, "output_norm.weight", kMillion, 1, 1);
    for (size_t i = 0; i < 2; ++i) {
      for (float& value : expected[i]) value *= kMillion;
      CAPTURE(format.name, i);
      CHECK(bit_difference(logits_on(i == 0 ? "cpu" : "reference", file, 64), expected[i]) == "");
    }
  }
}

}   // namespace
}   // namespace mote::test
