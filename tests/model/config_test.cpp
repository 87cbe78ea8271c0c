// Metadata and tensors that are missing, mistyped, inconsistent or absurd: one sentence that names the key or tensor,
// what was found and what is allowed. The quote says the same as the opening.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>

#include "core/model/config.h"
#include "core/ops/rope_angles.h"
#include "tests/model/kit.h"

namespace mote::test {
namespace {

TEST_CASE("Required keys that are missing or of another type are named", "[model][config]") {
  for (const char* key :
       {"llama.block_count", "llama.embedding_length", "llama.context_length", "llama.feed_forward_length",
        "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"})
    check_wrong(without_and_mistyped(key));
}

TEST_CASE("An architecture that is missing, mistyped or not built in is named", "[model][config]") {
  const std::string key = "general.architecture";
  const auto named = [&](const std::string& name) { return [=](GgufBuilder& f) { f.set_string(key, name); }; };
  check_wrong({
      {"missing", [=](GgufBuilder& f) { f.remove(key); }, {key}},
      {"a number", [=](GgufBuilder& f) { f.set_u32(key, 3); }, {key, "string"}},
      {"another", named("mamba"), {key + " is mamba", "llama"}, MOTE_UNSUPPORTED},
      {"long", named(std::string(3000, 'x')), {key}, MOTE_UNSUPPORTED},
      {"empty", named(""), {key}, MOTE_UNSUPPORTED},
  });
}

TEST_CASE("Counts outside of what is allowed are named with what is", "[model][config]") {
  const auto set = [](const char* key, uint32_t value) { return [=](GgufBuilder& f) { f.set_u32(key, value); }; };
  check_wrong({
      count_of("llama.block_count", 0, {"1 to 4096"}),
      count_of("llama.block_count", 4097, {"1 to 4096"}),
      count_of("llama.block_count", UINT32_MAX, {}),
      count_of("llama.embedding_length", 0, {"1 to 1048576"}),
      count_of("llama.embedding_length", (1u << 20) + 1, {"1 to 1048576"}),
      count_of("llama.context_length", 0, {"1 to 16777216"}),
      count_of("llama.context_length", UINT32_MAX, {}),
      count_of("llama.feed_forward_length", 0, {}),
      count_of("llama.feed_forward_length", UINT32_MAX, {}),
      count_of("llama.attention.head_count", 0, {"1 to 4096"}),
      count_of("llama.attention.head_count", 4097, {"1 to 4096"}),
      count_of("llama.attention.head_count_kv", 0, {}),
      count_of("llama.attention.head_count_kv", 3, {"must divide"}),
      count_of("llama.attention.head_count_kv", 8, {"must divide"}),
      count_of("llama.attention.key_length", 0, {}),
      count_of("llama.attention.key_length", UINT32_MAX, {}),
      count_of("llama.attention.value_length", 0, {}),
      count_of("llama.rope.dimension_count", 0, {"2 to 16"}),
      count_of("llama.rope.dimension_count", 1, {"2 to 16"}),
      count_of("llama.rope.dimension_count", 17, {"2 to 16"}),
      count_of("llama.vocab_size", 319, {"token_embd.weight has 320 rows"}),
      count_of("llama.vocab_size", 0, {}),
      {"odd rotation", set("llama.rope.dimension_count", 7), {"llama.rope.dimension_count is 7", "even"}},
      {"negative", [](GgufBuilder& f) { f.set("llama.block_count", Type::int32, int32_t{-2}); }, {"block_count", "-2"}},
      {"huge",
       [](GgufBuilder& f) { f.set("llama.block_count", Type::uint64, uint64_t{1} << 60); },
       {"block_count", "1152921504606846976"}},
      {"a real", [](GgufBuilder& f) { f.set_f32("llama.block_count", 2); }, {"llama.block_count"}},
      {"3 heads",
       [](GgufBuilder& f) { f.set_u32("llama.attention.head_count", 3), f.remove("llama.attention.head_count_kv"); },
       {"llama.embedding_length 64", "llama.attention.head_count 3", "llama.attention.key_length"}},
      {"many wide heads", set("llama.attention.key_length", 1u << 19), {"heads of 524288 values"}},
      {"wide keys",
       [](GgufBuilder& f) {
         f.set_u32("llama.attention.key_length", 1u << 19), f.set_u32("llama.attention.value_length", 16);
       },
       {"heads of 524288 values"}},
      {"wide values", set("llama.attention.value_length", 1u << 19), {"heads of 524288 values"}},
      {"heads of one", set("llama.attention.key_length", 1), {"heads of 1 values are too small"}},
      {"experts", set("llama.expert_count", 8), {"llama.expert_count is 8"}, MOTE_UNSUPPORTED},
  });
}

TEST_CASE("Settings that change the mathematics and are not run are refused by name", "[model][config]") {
  const auto real = [](const std::string& key, float value) {
    return [=](GgufBuilder& f) { f.set_f32("llama." + key, value); };
  };
  const auto flag = [](const std::string& key, bool value) {
    return [=](GgufBuilder& f) { f.set_bool("llama." + key, value); };
  };
  const auto window = [](uint32_t value) {
    return [=](GgufBuilder& f) { f.set_u32("llama.attention.sliding_window", value); };
  };
  const auto type = [](const char* value) { return [=](GgufBuilder& f) { f.set_string("general.type", value); }; };
  std::vector<Wrong> table = {
      {"bidirectional", flag("attention.causal", false), {"llama.attention.causal is 0"}, MOTE_UNSUPPORTED},
      {"window", window(4096), {"llama.attention.sliding_window is 4096"}, MOTE_UNSUPPORTED},
      {"parallel", flag("use_parallel_residual", true), {"llama.use_parallel_residual is 1"}, MOTE_UNSUPPORTED},
      {"adapter", type("adapter"), {"general.type is adapter"}, MOTE_UNSUPPORTED},
  };
  const std::pair<const char*, float> kReals[] = {{"attn_logit_softcapping", 0}, {"final_logit_softcapping", 0},
                                                  {"attention.clamp_kqv", 0},    {"attention.max_alibi_bias", 0},
                                                  {"attention.scale", 0},        {"logit_scale", 1},
                                                  {"residual_scale", 1},         {"embedding_scale", 1}};
  GgufBuilder harmless = toy_llama();
  for (const auto& [key, value] : kReals) {
    table.push_back({key, real(key, 0.5f), {"llama." + std::string(key) + " is 0.5"}, MOTE_UNSUPPORTED});
    real(key, value)(harmless);
  }
  check_wrong(table);
  flag("attention.causal", true)(harmless), flag("use_parallel_residual", false)(harmless);
  window(0)(harmless), type("model")(harmless);
  const Engine engine("reference");
  CHECK(open(engine, harmless.bytes()).status == MOTE_OK);
}

TEST_CASE("Real numbers outside of what is allowed are named with what is", "[model][config]") {
  const float nan = __builtin_nanf(""), infinity = __builtin_inff();
  const std::string epsilon = "llama.attention.layer_norm_rms_epsilon", base = "llama.rope.freq_base";
  check_wrong({
      real_of(epsilon, -1e-5f, {"0 to 1"}),
      real_of(epsilon, 2, {"0 to 1"}),
      real_of(epsilon, nan, {}),
      real_of(epsilon, infinity, {}),
      {"epsilon of layer_norm",
       [=](GgufBuilder& f) { f.remove(epsilon), f.set_f32("llama.attention.layer_norm_epsilon", 2); },
       {"llama.attention.layer_norm_epsilon is 2", "0 to 1"}},
      real_of(base, 0, {"1 to"}),
      real_of(base, -10000, {"1 to"}),
      real_of(base, nan, {}),
      real_of(base, infinity, {}),
      {"base as text", [=](GgufBuilder& f) { f.set_string(base, "10000"); }, {base, "string"}},
      {"base of f64", [=](GgufBuilder& f) { f.set(base, Type::float64, 1e300); }, {base}},
  });
}

TEST_CASE("Settings of rope scaling that cannot be are named", "[model][config]") {
  const auto scaled = [](const char* type) { return ToyOptions{.rope_scaling = type, .original_context = 128}; };
  const std::string scaling = "llama.rope.scaling.";
  const float nan = __builtin_nanf("");
  // Below 1/128 a far position would turn by more than sines know.
  for (const char* type : {"linear", "yarn"})
    check_wrong(
        {real_of(scaling + "factor", 0, {}), real_of(scaling + "factor", -4, {}), real_of(scaling + "factor", nan, {}),
         real_of(scaling + "factor", __builtin_inff(), {}), real_of(scaling + "factor", 0.0078f, {"0.0078125 to"}),
         real_of(scaling + "factor", 1e-6f, {"0.0078125 to"})},
        scaled(type));
  check_wrong(
      {real_of("llama.rope.scale_linear", 1e-6f, {"0.0078125 to"}), real_of("llama.rope.scale_linear", nan, {})});
  check_wrong({count_of(scaling + "original_context_length", 0, {}), real_of(scaling + "yarn_beta_fast", 0, {}),
               real_of(scaling + "yarn_beta_slow", nan, {}), real_of(scaling + "attn_factor", 0, {})},
              scaled("yarn"));
  check_wrong({real_of("llama.rope.freq_base", 1, {"llama.rope.freq_base is 1", "above 1"}),
               real_of(scaling + "attn_factor", nan, {}), real_of(scaling + "yarn_beta_fast", __builtin_inff(), {})},
              scaled("yarn"));
  check_wrong({
      {"another type",
       [=](GgufBuilder& f) { f.set_string(scaling + "type", "longrope"); },
       {"llama.rope.scaling.type is longrope", "none, linear and yarn"},
       MOTE_UNSUPPORTED},
      {"a number", [=](GgufBuilder& f) { f.set_u32(scaling + "type", 1); }, {scaling + "type", "string"}},
  });
}

TEST_CASE("Lists of a setting for each layer have an element for each layer", "[model][config]") {
  const std::pair<std::string, int32_t> kKeys[] = {
      {"llama.attention.head_count", 4}, {"llama.attention.head_count_kv", 2}, {"llama.feed_forward_length", 96}};
  for (const auto& [key, right] : kKeys) {
    const auto list = [&](std::vector<int32_t> values) {
      return [=, k = key](GgufBuilder& f) { f.set_array(k, Type::int32, values); };
    };
    check_wrong({
        {"short", list({right}), {key, "1", "2"}},
        {"long", list({right, right, right}), {key, "3", "2"}},
        {"empty", list({}), {key}},
        {"zero in layer 1", list({right, 0}), {key, "0"}},
        {"negative in layer 1", list({right, -1}), {key, "-1"}},
        {"texts", [k = key](GgufBuilder& f) { f.set_strings(k, {"2", "2"}); }, {key}},
    });
  }
}

TEST_CASE("Every tensor that is missing is named", "[model][config]") {
  std::vector<Wrong> table;
  for (const GgufBuilder::TensorPart& part : toy_llama().parts) {
    const std::string name = part.name;
    if (name == "output.weight") continue;   // then the embedding is the output
    table.push_back({name, [=](GgufBuilder& f) { f.remove_tensor(name); }, {"tensor " + name + " is missing"}});
  }
  CHECK(table.size() == 2 + 2 * 9);
  table.push_back({"one layer more than there are",
                   [](GgufBuilder& f) { f.set_u32("llama.block_count", 3); },
                   {"tensor blk.2.attn_norm.weight is missing"}});
  check_wrong(table);
}

TEST_CASE("A tensor that the architecture does not use is refused by name", "[model][config]") {
  const auto with = [](const std::string& name) {
    return [=](GgufBuilder& f) { f.add_tensor(name, Format::f32, {64}, Bytes(4 * 64)); };
  };
  std::vector<Wrong> table;
  for (const std::string name :
       {"blk.0.attn_q_norm.weight", "blk.1.attn_norm.bias", "blk.0.ffn_gate_inp.weight", "output.bias",
        "blk.2.attn_norm.weight", "blk.0.attn_q.weight2", "attn_rot_embd.weight", "blk.0.x.attn_rot_embd",
        "enc.0.attn_rot_embd.weight", "blk.0_attn_rot_embd"})
    table.push_back({name, with(name), {"tensor " + name + " is not used by llama"}, MOTE_UNSUPPORTED});
  table.push_back({"the first in the file",
                   [=](GgufBuilder& f) { with("z")(f), with("a")(f); },
                   {"tensor z is not used"},
                   MOTE_UNSUPPORTED});
  table.push_back({"one layer less than there are",
                   [](GgufBuilder& f) { f.set_u32("llama.block_count", 1); },
                   {"tensor blk.1."},
                   MOTE_UNSUPPORTED});
  check_wrong(table);

  const Engine engine("reference");
  for (const char* name : {"blk.0.attn_rot_embd.weight", "blk.11.attn_rot_embd"}) {
    GgufBuilder file = toy_llama();
    with(name)(file);
    CHECK(open(engine, file.bytes()).status == MOTE_OK);
  }
}

TEST_CASE("Every tensor of another shape is named with both shapes", "[model][config]") {
  std::vector<Wrong> table;
  for (const GgufBuilder::TensorPart& part : toy_llama().parts) {
    const std::string name = part.name;
    const uint64_t columns = part.dimensions[0];
    table.push_back({name + ", a column less",
                     [=](GgufBuilder& f) {
                       GgufBuilder::TensorPart& changed = f.tensor(name);
                       changed.dimensions[0] = columns - 1;
                       changed.data.resize(changed.data.size() / columns * (columns - 1));
                     },
                     {name, std::to_string(columns - 1), std::to_string(columns)}});
    table.push_back({name + ", twice",
                     [=](GgufBuilder& f) {
                       GgufBuilder::TensorPart& changed = f.tensor(name);
                       while (changed.dimensions.size() < 2) changed.dimensions.push_back(1);
                       changed.dimensions.push_back(2);
                       const Bytes once = changed.data;
                       changed.data.insert(changed.data.end(), once.begin(), once.end());
                     },
                     {name, "2"}});
  }
  check_wrong(table);
}

TEST_CASE("Biases and factors of another length, and factors that cannot be, are named", "[model][config]") {
  const auto with = [](const char* name, std::vector<float> values) {
    return
        [=](GgufBuilder& f) { f.add_tensor(name, Format::f32, {values.size()}, float_weights(Format::f32, values)); };
  };
  check_wrong({
      {"bias", with("blk.1.attn_q.bias", std::vector<float>(63, 0.5f)), {"blk.1.attn_q.bias", "63", "64"}},
      {"ffn bias", with("blk.0.ffn_down.bias", std::vector<float>(65, 0.5f)), {"blk.0.ffn_down.bias", "65", "64"}},
      {"factors", with("rope_freqs.weight", std::vector<float>(7, 1.0f)), {"rope_freqs.weight", "7", "8"}},
  });
  // Their values are read when the model opens, not by a quote.
  const Engine engine("reference");
  for (const float value : {0.0f, -1.0f, 1e-30f, 1e-6f, 3e38f, __builtin_nanf(""), __builtin_inff()}) {
    GgufBuilder file = toy_llama();
    std::vector<float> factors(8, 1.0f);
    factors[3] = value;
    with("rope_freqs.weight", factors)(file);
    const Outcome said = open(engine, file.bytes());
    CAPTURE(said.sentence);
    CHECK(said.status == MOTE_BAD_MODEL);
    CHECK(contains(said.sentence, "rope_freqs.weight"));
    CHECK(contains(said.sentence, "at 3"));
    if (!(value > 0 && value < 1)) CHECK(contains(said.sentence, "above 0 and at most 1e30"));
  }
}

TEST_CASE("Vectors with a second row are named with their shape", "[model][config]") {
  std::vector<Wrong> table;
  for (const char* name : {"blk.0.attn_norm.weight", "blk.1.ffn_norm.weight", "output_norm.weight"})
    table.push_back({name,
                     [=](GgufBuilder& f) {
                       GgufBuilder::TensorPart& changed = f.tensor(name);
                       changed.dimensions.push_back(2);
                       const Bytes once = changed.data;
                       changed.data.insert(changed.data.end(), once.begin(), once.end());
                     },
                     {name, "[64, 2, 1, 1]", "a vector of 64 values"}});
  check_wrong(table);
}

TEST_CASE("Every angle that an opened model can come to is a number", "[model][config]") {
  // The fastest frequency that is let in, at the last position of the longest context.
  const double fastest = RopeConfig::kMaxFrequency;
  const RopeAnglesAttributes attributes{&fastest, 2, 1.0};
  float row[2] = {};
  rope_angles_row(attributes, Config::kMaxContext - 1, row);
  const long double angle = static_cast<long double>(fastest) * (Config::kMaxContext - 1);
  CHECK(std::abs(static_cast<long double>(row[0]) - std::cos(angle)) < 1e-6L);
  CHECK(std::abs(static_cast<long double>(row[1]) - std::sin(angle)) < 1e-6L);
}

TEST_CASE("Vocabularies of different sizes are named with both", "[model][config]") {
  const auto row_less = [](GgufBuilder& f) {
    f.remove("llama.vocab_size");
    for (const char* name : {"token_embd.weight", "output.weight"}) {
      f.tensor(name).dimensions[1] = 319;
      f.tensor(name).data.resize(319 * 64 * 4);
    }
  };
  check_wrong({{"a row less", row_less, {"tokenizer.ggml.tokens has 320", "token_embd.weight has 319 rows"}}});
}

TEST_CASE("Rows that are no whole number of blocks are named with both numbers", "[model][config]") {
  const auto broken = [](GgufBuilder& f) {
    GgufBuilder::TensorPart& part = f.tensor("blk.0.ffn_down.weight");
    part.type = 8;
    part.dimensions = {33, 64};
    part.data.resize(64 * 2 * 34);
  };
  check_wrong({{"q8_0 on 33 columns", broken, {"blk.0.ffn_down.weight", "33", "32"}}});
}

TEST_CASE("Settings that may be left out have their defaults", "[model][config]") {
  const Engine engine("reference");
  const auto logits = [&](const GgufBuilder& file) {
    const Model model(engine, file);
    const Session session(model, session_options(16, 8));
    return logits_after(session, {5, 6, 7, 8, 9});
  };
  const std::vector<float> expected = logits(toy_llama({.n_kv_heads = 4}));
  for (const char* key : {"llama.attention.head_count_kv", "llama.rope.freq_base", "llama.vocab_size"}) {
    GgufBuilder file = toy_llama({.n_kv_heads = 4});
    file.remove(key);
    CAPTURE(key);
    CHECK(bit_difference(logits(file), expected) == "");
  }
  // Any integer type that holds the number serves, and a list that says the same for every layer.
  GgufBuilder file = toy_llama({.n_kv_heads = 4});
  file.set("llama.block_count", Type::uint64, uint64_t{2});
  file.set("llama.context_length", Type::int16, int16_t{512});
  file.set("llama.rope.freq_base", Type::float64, 10000.0);
  file.set_array("llama.attention.head_count", Type::int32, std::vector<int32_t>{4, 4});
  file.set_array("llama.feed_forward_length", Type::uint8, std::vector<uint8_t>{96, 96});
  CHECK(bit_difference(logits(file), expected) == "");
}

}   // namespace
}   // namespace mote::test
