// What single decoders have beyond llama: fused weights, windows by layer, layers without positions, learned positions.
// Models that say the same in two ways give the same bits; what they compute is the goldens' business (tests/golden).
#include "tests/model/kit.h"

namespace mote::test {
namespace {

// The same model under another architecture's name.
GgufBuilder renamed(const GgufBuilder& file, const std::string& architecture) {
  GgufBuilder model = file;
  for (GgufBuilder::Metadata& entry : model.entries)
    if (entry.key.starts_with("llama.")) entry.key.replace(0, 5, architecture);
  model.set_string("general.architecture", architecture);
  return model;
}

// One tensor in place of several: their rows one after the other.
void fuse(GgufBuilder& file, const std::string& as, const std::vector<std::string>& names) {
  GgufBuilder::TensorPart whole = file.tensor(names[0]);
  whole.name = as;
  for (size_t i = 1; i < names.size(); ++i) {
    const GgufBuilder::TensorPart& part = file.tensor(names[i]);
    whole.dimensions[1] += part.dimensions[1];
    whole.data.insert(whole.data.end(), part.data.begin(), part.data.end());
  }
  for (const std::string& name : names) file.remove_tensor(name);
  file.parts.push_back(whole);
}

TEST_CASE("Fused weights give the bits of their parts", "[model][shapes]") {
  const std::pair<const char*, uint32_t> kBiases[] = {{"attn_q.bias", 256}, {"attn_k.bias", 128}, {"attn_v.bias", 128}};
  for (const Format format : {Format::f32, Format::q8_0, Format::q4_k}) {
    ToyOptions toy = shape(256, 4, 2, 256, 320);
    toy.matrices = format;
    const GgufBuilder plain = toy_llama(toy);
    GgufBuilder apart = renamed(plain, "qwen2"), fused = renamed(plain, "phi3");   // both pair halves
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      for (const auto& [name, count] : kBiases) apart.add_tensor(layer + name, Format::f32, {count}, Bytes(4 * count));
      fuse(fused, layer + "attn_qkv.weight",
           {layer + "attn_q.weight", layer + "attn_k.weight", layer + "attn_v.weight"});
      fuse(fused, layer + "ffn_up.weight", {layer + "ffn_gate.weight", layer + "ffn_up.weight"});
    }
    for (const char* backend : {"cpu", "reference"}) {
      CAPTURE(backend, format_info(format).name);
      CHECK(bit_difference(logits_on(backend, fused, 320), logits_on(backend, apart, 320)) == "");
      CHECK(bit_difference(logits_on(backend, fused, 320), logits_on(backend, plain, 320)) != "");   // neighbours
    }
  }
}

TEST_CASE("Every fourth layer of smollm3 turns nothing", "[model][shapes]") {
  ToyOptions toy = shape(32, 2, 1, 48, 320);
  for (const uint32_t n_layers : {3u, 4u}) {
    toy.n_layers = n_layers;
    const GgufBuilder llama = toy_llama(toy);
    const std::string difference =
        bit_difference(logits_on("cpu", llama, 320), logits_on("cpu", renamed(llama, "smollm3"), 320));
    CAPTURE(n_layers);
    CHECK((difference == "") == (n_layers == 3));
  }
}

TEST_CASE("The layers with a window are said by a number or by a list", "[model][shapes]") {
  const std::string key = "gemma3.attention.sliding_window_pattern";
  ToyOptions toy = shape(32, 2, 1, 48, 320);
  toy.n_layers = 7;
  GgufBuilder file = toy_gemma3(toy);
  file.set_u32(key, 3);
  const std::vector<float> expected = logits_on("cpu", file, 320);
  file.set(key, Type::uint64, uint64_t{3});
  CHECK(bit_difference(logits_on("cpu", file, 320), expected) == "");
  const std::vector<uint8_t> list = {1, 1, 0, 1, 1, 0, 1};
  for (const Type type : {Type::boolean, Type::uint8}) {
    file.set_array(key, type, list);
    CHECK(bit_difference(logits_on("cpu", file, 320), expected) == "");
  }
  file.set_array(key, Type::int32, std::vector<int32_t>{1, 0, 1, 1, 1, 0, 1});
  CHECK(bit_difference(logits_on("cpu", file, 320), expected) != "");
  // Without the key it is 6, without the window no layer has one, and 0 means every layer.
  file.set_u32(key, 6);
  const std::vector<float> six = logits_on("cpu", file, 320);
  file.remove(key);
  CHECK(bit_difference(logits_on("cpu", file, 320), six) == "");
  CHECK(distance(logits_on("reference", file, 320), six) < 1);
  file.set_u32(key, 0);
  const std::vector<float> all = logits_on("cpu", file, 320);
  file.set_array(key, Type::boolean, std::vector<uint8_t>(7, 1));
  CHECK(bit_difference(logits_on("cpu", file, 320), all) == "");
  file.set_array(key, Type::boolean, std::vector<uint8_t>(7, 0));
  const std::vector<float> none = logits_on("cpu", file, 320);
  file.remove(key);
  file.remove("gemma3.attention.sliding_window");
  CHECK(bit_difference(logits_on("cpu", file, 320), none) == "");
  CHECK(bit_difference(all, none) != "");
}

TEST_CASE("What one architecture runs the others refuse, each with its own range", "[model][config]") {
  const std::string window = "gemma3.attention.sliding_window", pattern = window + "_pattern";
  const auto list = [&](Type type, std::vector<uint8_t> values) {
    return [=](GgufBuilder& f) { f.set_array(pattern, type, values); };
  };
  check_wrong(
      {
          count_of(window, (1u << 24) + 1, {"0 to 16777216"}),
          count_of(pattern, 4097, {"0 to 4096"}),
          {"short", list(Type::boolean, {1}), {pattern, "1 bool", "a list of 2"}},
          {"long", list(Type::uint8, {1, 0, 1}), {pattern, "3 uint8", "a list of 2"}},
          {"empty", list(Type::boolean, {}), {pattern}},
          {"2 in layer 1", list(Type::uint8, {1, 2}), {pattern + " is 2"}},
          {"texts", [&](GgufBuilder& f) { f.set_strings(pattern, {"a", "b"}); }, {pattern, "2 string"}},
          {"text", [&](GgufBuilder& f) { f.set_string(window, "8"); }, {window, "string"}},
          real_of("gemma3.rope.freq_base_swa", 0.5f, {"1 to"}),
          real_of("gemma3.rope.freq_base_swa", __builtin_nanf(""), {}),
          {"caps of scores",
           [](GgufBuilder& f) { f.set_f32("gemma3.attn_logit_softcapping", 50); },
           {"gemma3.attn_logit_softcapping is 50"},
           MOTE_UNSUPPORTED},
          {"head norm of another width",
           [](GgufBuilder& f) {
             f.tensor("blk.0.attn_q_norm.weight").dimensions[0] = 8;
             f.tensor("blk.0.attn_q_norm.weight").data.resize(32);
           },
           {"blk.0.attn_q_norm.weight is [8, 1, 1, 1]", "16 values"}},
          {"no norm behind",
           [](GgufBuilder& f) { f.remove_tensor("blk.1.post_ffw_norm.weight"); },
           {"tensor blk.1.post_ffw_norm.weight is missing"}},
          {"long factors",
           [](GgufBuilder& f) { f.add_tensor("rope_factors_long.weight", Format::f32, {8}, Bytes(32)); },
           {"tensor rope_factors_long.weight is not used by gemma3"},
           MOTE_UNSUPPORTED},
      },
      {}, toy_gemma3);
}

TEST_CASE("A session is not longer than learned positions reach", "[model][config]") {
  GgufBuilder file;
  file.set_string("general.architecture", "gpt2");
  const std::pair<const char*, uint32_t> kCounts[] = {{"block_count", 1},
                                                      {"context_length", 24},
                                                      {"embedding_length", 4},
                                                      {"feed_forward_length", 4},
                                                      {"attention.head_count", 1}};
  for (const auto& [key, value] : kCounts) file.set_u32(std::string("gpt2.") + key, value);
  file.set_f32("gpt2.attention.layer_norm_epsilon", 1e-5f);
  Random random(8);
  const auto add = [&](const std::string& name, uint64_t columns, uint64_t rows) {
    std::vector<float> values(columns * rows);
    for (float& value : values) value = random.normal();
    file.add_tensor(name, Format::f32,
                    rows == 1 ? std::vector<uint64_t>{columns} : std::vector<uint64_t>{columns, rows},
                    float_weights(Format::f32, values));
  };
  add("token_embd.weight", 4, 40), add("position_embd.weight", 4, 24);
  for (const std::string name : {"blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"})
    add(name + ".weight", 4, 1), add(name + ".bias", 4, 1);
  const std::pair<const char*, uint32_t> kLinears[] = {
      {"attn_qkv", 12}, {"attn_output", 4}, {"ffn_up", 4}, {"ffn_down", 4}};
  for (const auto& [name, rows] : kLinears)
    add(std::string("blk.0.") + name + ".weight", 4, rows), add(std::string("blk.0.") + name + ".bias", rows, 1);
  const Engine engine("cpu");
  const Bytes bytes = file.bytes();
  const Model model(engine, bytes);
  {
    const Session session(model, session_options(0, 8));   // by default the context that it was trained for
    CHECK(logits_after(session, some_tokens(24, 40)).size() == 40);
  }
  const mote_session_options options = session_options(25, 8);
  mote_session* none = nullptr;
  const Outcome said = outcome([&](mote_error* e) { return mote_session_open(model, &options, {}, &none, e); });
  CHECK(said.status == MOTE_INVALID_ARGUMENT);
  CHECK(said.sentence == "context is 25; position_embd.weight has 24 positions");
  const mote_source source = source_of(bytes);
  mote_quote quote{};
  quote.struct_bytes = sizeof quote;
  CHECK(outcome([&](mote_error* e) {
          return mote_model_quote(engine, &source, nullptr, &options, &quote, &quote, e);
        }).sentence == said.sentence);
}

}   // namespace
}   // namespace mote::test
