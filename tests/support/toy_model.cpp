#include "tests/support/toy_model.h"

#include <cmath>
#include <stdexcept>

#include "tests/support/toy_weights.h"

namespace mote::test {
namespace {

std::string utf8(uint32_t code_point) {   // below 0x800
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xc0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 63))};
}

// GPT-2 writes each byte as one printable character: itself where it is printable, else the next free one from 256 on.
std::vector<std::string> byte_alphabet() {
  std::vector<std::string> alphabet(256);
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    alphabet[byte] = utf8(printable ? byte : next++);
  }
  return alphabet;
}

// Left and right of the merges, in order of rank; a blank stands for GPT-2's U+0120.
constexpr const char* kMerges[][2] = {
    {"t", "h"},    {"th", "e"},  {" ", "the"}, {"i", "n"}, {"a", "n"},  {"e", "r"}, {"o", "n"},
    {"an", "d"},   {" ", "and"}, {" ", "a"},   {"o", "u"}, {"l", "l"},  {"h", "e"}, {"he", "ll"},
    {"hell", "o"}, {" ", " "},   {"  ", "  "}, {"0", "0"}, {"in", "g"}, {" ", "t"}, {"\n", "\n"},
};

void add_byte_bpe(GgufBuilder& to, const ToyOptions& options) {
  const std::vector<std::string> alphabet = byte_alphabet();
  const auto spelled = [&](std::string_view text) {
    std::string spelling;
    for (const char c : text) spelling += alphabet[static_cast<uint8_t>(c)];
    return spelling;
  };
  std::vector<std::string> tokens(alphabet), merges;
  std::vector<int32_t> types(256, 1);
  for (const auto& [left, right] : kMerges) {
    merges.push_back(spelled(left) + " " + spelled(right));
    tokens.push_back(spelled(std::string(left) + right));
    types.push_back(1);
  }
  if (options.n_vocab < tokens.size() + 3) throw std::invalid_argument("the toy tokenizer needs more pieces");
  for (uint32_t i = 0; tokens.size() + 3 < options.n_vocab; ++i) {
    tokens.push_back("[unused" + std::to_string(i) + "]");
    types.push_back(5);
  }
  for (const char* control : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    tokens.push_back(control);
    types.push_back(3);
  }
  to.set_string("tokenizer.ggml.model", "gpt2");
  to.set_string("tokenizer.ggml.pre", options.pre);
  to.set_strings("tokenizer.ggml.tokens", tokens);
  to.set_array("tokenizer.ggml.token_type", Type::int32, types);
  to.set_strings("tokenizer.ggml.merges", merges);
  to.set_u32("tokenizer.ggml.bos_token_id", options.n_vocab - 3);
  to.set_u32("tokenizer.ggml.eos_token_id", options.n_vocab - 1);
  to.set_bool("tokenizer.ggml.add_bos_token", options.add_bos);
}

void add_sentencepiece(GgufBuilder& to, const ToyOptions& options) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  std::vector<float> scores = {0, 0, 0};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">");
    types.push_back(6);
    scores.push_back(0);
  }
  const std::string blank = "\xe2\x96\x81";
  float score = 0;
  const auto add = [&](const std::string& piece) {
    tokens.push_back(piece);
    types.push_back(1);
    scores.push_back(score);
    score -= 1;
  };
  for (const char* piece : {"th", "the", "in", "an", "and", "he", "ll", "hell", "hello"}) add(piece);
  add(blank + "the");
  add(blank + "and");
  add(blank);
  for (const char letter : std::string("etaoinshrdlucmfwypvbgkjqxz0123456789.,!?'\n")) add(std::string(1, letter));
  if (options.n_vocab < tokens.size()) throw std::invalid_argument("the toy tokenizer needs more pieces");
  for (uint32_t i = 0; tokens.size() < options.n_vocab; ++i) {
    tokens.push_back("[unused" + std::to_string(i) + "]");
    types.push_back(5);
    scores.push_back(-1000);
  }
  to.set_string("tokenizer.ggml.model", "llama");
  to.set_strings("tokenizer.ggml.tokens", tokens);
  to.set_array("tokenizer.ggml.scores", Type::float32, scores);
  to.set_array("tokenizer.ggml.token_type", Type::int32, types);
  to.set_u32("tokenizer.ggml.bos_token_id", 1);
  to.set_u32("tokenizer.ggml.eos_token_id", 2);
  to.set_u32("tokenizer.ggml.unknown_token_id", 0);
  to.set_bool("tokenizer.ggml.add_bos_token", options.add_bos);
  to.set_bool("tokenizer.ggml.add_space_prefix", true);
}

void add_rope(GgufBuilder& to, const ToyOptions& options) {
  to.set_f32("llama.rope.freq_base", options.rope_base);
  if (options.rope_dimensions != 0) to.set_u32("llama.rope.dimension_count", options.rope_dimensions);
  if (!options.rope_scaling.empty()) {
    to.set_string("llama.rope.scaling.type", options.rope_scaling);
    to.set_f32("llama.rope.scaling.factor", options.rope_factor);
  }
  if (options.original_context != 0) to.set_u32("llama.rope.scaling.original_context_length", options.original_context);
  if (!options.rope_factors.empty()) {
    to.add_tensor("rope_freqs.weight", Format::f32, {options.rope_factors.size()},
                  float_weights(Format::f32, options.rope_factors));
  }
}

}   // namespace

void add_toy_tokenizer(GgufBuilder& to, const ToyOptions& options) {
  if (options.tokenizer == ToyTokenizer::byte_bpe) add_byte_bpe(to, options);
  if (options.tokenizer == ToyTokenizer::sentencepiece) add_sentencepiece(to, options);
}

GgufBuilder toy_llama(const ToyOptions& options) {
  GgufBuilder model;
  const uint32_t head_dim = options.head_dim != 0 ? options.head_dim : options.d_model / options.n_heads;
  model.set_string("general.architecture", "llama");
  model.set_string("general.name", "toy");
  model.set_u32("llama.block_count", options.n_layers);
  model.set_u32("llama.context_length", options.context);
  model.set_u32("llama.embedding_length", options.d_model);
  model.set_u32("llama.feed_forward_length", options.d_ff);
  model.set_u32("llama.attention.head_count", options.n_heads);
  model.set_u32("llama.attention.head_count_kv", options.n_kv_heads);
  if (options.head_dim != 0) {
    model.set_u32("llama.attention.key_length", head_dim);
    model.set_u32("llama.attention.value_length", head_dim);
  }
  model.set_f32("llama.attention.layer_norm_rms_epsilon", options.rms_epsilon);
  model.set_u32("llama.vocab_size", options.n_vocab);
  add_rope(model, options);
  add_toy_tokenizer(model, options);

  Random random(options.seed);
  const auto matrix = [&](const std::string& name, Format format, uint64_t rows, uint64_t columns) {
    const float deviation = 1.0f / std::sqrt(static_cast<float>(columns));
    model.add_tensor(name, format, {columns, rows}, random_weights(format, rows, columns, deviation, random));
  };
  const auto norm = [&](const std::string& name) {
    std::vector<float> values(options.d_model);
    for (float& value : values) value = random.uniform(0.8f, 1.2f);
    model.add_tensor(name, Format::f32, {options.d_model}, float_weights(Format::f32, values));
  };
  matrix("token_embd.weight", options.embedding, options.n_vocab, options.d_model);
  const uint64_t q = uint64_t{options.n_heads} * head_dim, kv = uint64_t{options.n_kv_heads} * head_dim;
  for (uint32_t i = 0; i < options.n_layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    norm(layer + "attn_norm.weight");
    matrix(layer + "attn_q.weight", options.matrices, q, options.d_model);
    matrix(layer + "attn_k.weight", options.matrices, kv, options.d_model);
    matrix(layer + "attn_v.weight", options.matrices, kv, options.d_model);
    matrix(layer + "attn_output.weight", options.matrices, options.d_model, q);
    norm(layer + "ffn_norm.weight");
    matrix(layer + "ffn_gate.weight", options.matrices, options.d_ff, options.d_model);
    matrix(layer + "ffn_up.weight", options.matrices, options.d_ff, options.d_model);
    matrix(layer + "ffn_down.weight", options.matrices, options.d_model, options.d_ff);
  }
  norm("output_norm.weight");
  if (!options.tied) matrix("output.weight", options.output, options.n_vocab, options.d_model);
  return model;
}

GgufBuilder toy_gemma3(const ToyOptions& options) {
  GgufBuilder model = toy_llama(options);
  for (GgufBuilder::Metadata& entry : model.entries)
    if (entry.key.starts_with("llama.")) entry.key.replace(0, 5, "gemma3");
  model.set_string("general.architecture", "gemma3");
  model.set_u32("gemma3.attention.sliding_window", 8);
  model.set_u32("gemma3.attention.sliding_window_pattern", 2);
  model.set_f32("gemma3.rope.freq_base_swa", options.rope_base / 4);
  const uint32_t head_dim = options.head_dim != 0 ? options.head_dim : options.d_model / options.n_heads;
  Random random(options.seed + 1);
  const auto norm = [&](const std::string& name, uint32_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = random.uniform(0.8f, 1.2f);
    model.add_tensor(name, Format::f32, {count}, float_weights(Format::f32, values));
  };
  for (uint32_t i = 0; i < options.n_layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    norm(layer + "attn_q_norm.weight", head_dim);
    norm(layer + "attn_k_norm.weight", head_dim);
    norm(layer + "post_attention_norm.weight", options.d_model);
    norm(layer + "post_ffw_norm.weight", options.d_model);
  }
  return model;
}

GgufBuilder toy_phi3(const ToyOptions& options) {
  GgufBuilder model = toy_llama(options);
  for (GgufBuilder::Metadata& entry : model.entries)
    if (entry.key.starts_with("llama.")) entry.key.replace(0, 5, "phi3");
  model.set_string("general.architecture", "phi3");
  model.set_u32("phi3.attention.sliding_window", 8);
  model.set_u32("phi3.attention.sliding_window_pattern", 2);
  const auto append_rows = [&](const std::string& to, const std::string& from) {
    const GgufBuilder::TensorPart part = model.tensor(from);
    GgufBuilder::TensorPart& whole = model.tensor(to);
    whole.dimensions[1] += part.dimensions[1];
    whole.data.insert(whole.data.end(), part.data.begin(), part.data.end());
    model.remove_tensor(from);
  };
  for (uint32_t i = 0; i < options.n_layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    append_rows(layer + "attn_q.weight", layer + "attn_k.weight");
    append_rows(layer + "attn_q.weight", layer + "attn_v.weight");
    model.tensor(layer + "attn_q.weight").name = layer + "attn_qkv.weight";
    append_rows(layer + "ffn_gate.weight", layer + "ffn_up.weight");
    model.tensor(layer + "ffn_gate.weight").name = layer + "ffn_up.weight";
  }
  return model;
}

}   // namespace mote::test
