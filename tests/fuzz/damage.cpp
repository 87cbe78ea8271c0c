#include "tests/fuzz/damage.h"

#include <algorithm>
#include <iterator>

#include "tests/support/toy_model.h"

namespace mote::fuzz {
namespace {

using test::Bytes;
using test::GgufBuilder;
using test::ToyOptions;
using test::ToyTokenizer;

std::span<const GgufBuilder> bases() {
  static const std::vector<GgufBuilder> all = [] {
    const ToyOptions plain = {.n_layers = 1, .d_model = 32, .n_heads = 2, .n_kv_heads = 1, .d_ff = 32, .n_vocab = 320};
    ToyOptions tied = plain, pieces = plain, yarn = plain;
    tied.tied = true;
    tied.matrices = tied.embedding = Format::q8_0;
    tied.pre = "llama-bpe";
    tied.add_bos = true;
    pieces.tokenizer = ToyTokenizer::sentencepiece;
    pieces.matrices = pieces.output = Format::q4_0;
    pieces.rope_factors = std::vector<float>(8, 2.0f);
    yarn.rope_scaling = "yarn";
    yarn.original_context = 64;
    yarn.matrices = Format::f16;
    yarn.pre = "qwen2";
    std::vector<GgufBuilder> models;
    for (const ToyOptions& options : {plain, tied, pieces, yarn}) models.push_back(test::toy_llama(options));
    for (const test::ToyModel toy :
         {test::toy_bert, test::toy_t5, test::toy_rnn, test::toy_classifier, test::toy_transducer})
      models.push_back(toy(plain));
    return models;
  }();
  return all;
}

constexpr const char* kKeys[] = {
    "general.alignment",
    "bert.pooling_type",
    "rnn.pooling_type",
    "rnn.attention.pooling",
    "rnn.classifier.output_labels",
    "rnn.feed_forward_length",
    "transducer.decoder_block_count",
    "t5.attention.relative_buckets_count",
    "llama.context_length",
    "llama.embedding_length",
    "llama.block_count",
    "llama.feed_forward_length",
    "llama.attention.head_count",
    "llama.attention.head_count_kv",
    "llama.attention.key_length",
    "llama.attention.value_length",
    "llama.attention.layer_norm_rms_epsilon",
    "llama.rope.dimension_count",
    "llama.rope.freq_base",
    "llama.rope.scaling.type",
    "llama.rope.scaling.factor",
    "llama.rope.scaling.original_context_length",
    "llama.vocab_size",
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.ggml.add_space_prefix",
    "tokenizer.chat_template",
    "general.architecture",
};
constexpr const char* kTexts[] = {"llama", "qwen2",   "gpt2",   "none", "linear",
                                  "yarn",  "default", "smollm", "",     "longrope"};

uint32_t number(Cursor& input, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<uint32_t>(input.byte()) << (8 * i);
  return value;
}

// Up to 8 bytes of the input over those of `to` from a place that the input gives.
void overwrite(Bytes& to, Cursor& input, int offset_bytes) {
  const size_t offset = number(input, offset_bytes);
  const Input with = input.take(input.byte() % 9);
  for (size_t i = 0; i < with.size() && offset + i < to.size(); ++i) to[offset + i] = with[i];
}

template <class List>
auto* chosen(List& list, Cursor& input) {
  const size_t index = input.byte();
  return list.empty() ? nullptr : &list[index % list.size()];
}

void change_entry(GgufBuilder& model, Cursor& input, uint8_t kind) {
  const char* const key = kKeys[input.byte() % std::size(kKeys)];
  switch (kind) {
    case 0:
      model.set_u32(key, number(input, 4));
      break;
    case 1:
      model.set(key, test::Type::float32, number(input, 4));
      break;
    case 2:
      model.set_string(key, kTexts[input.byte() % std::size(kTexts)]);
      break;
    case 3:
      model.remove(key);
      break;
    default:
      model.set_array(key, test::Type::uint32, std::vector<uint32_t>(input.byte() % 4, number(input, 2)));
  }
}

void change_tensor(GgufBuilder& model, Cursor& input, uint8_t kind) {
  auto* const tensor = chosen(model.parts, input);
  if (tensor == nullptr) return;
  switch (kind) {
    case 0:
      if (auto* const dimension = chosen(tensor->dimensions, input)) *dimension = number(input, 4);
      break;
    case 1:
      tensor->type = input.byte();
      break;
    case 2:
      tensor->offset = number(input, 4);
      break;
    case 3:
      tensor->n_dimensions = input.byte();
      break;
    case 4:
      overwrite(tensor->data, input, 3);
      break;
    default:
      model.remove_tensor(std::string(tensor->name));
  }
}

void change_builder(GgufBuilder& model, Cursor& input, uint8_t kind) {
  if (kind < 5) return change_entry(model, input, kind);
  if (kind < 11) return change_tensor(model, input, static_cast<uint8_t>(kind - 5));
  auto* const entry = chosen(model.entries, input);
  if (entry == nullptr) return;
  if (kind == 11) entry->type = input.byte();
  if (kind == 12) overwrite(entry->value, input, 2);
  if (kind == 13) entry->value.resize(number(input, 2) % (entry->value.size() + 1));
}

}   // namespace

Bytes damaged_model(Cursor input) {
  GgufBuilder model = bases()[input.byte() % bases().size()];
  Bytes bytes;
  while (!input.empty()) {
    const uint8_t kind = input.byte() % 16;
    if (kind < 14 && bytes.empty()) {
      change_builder(model, input, kind);
      continue;
    }
    if (bytes.empty()) bytes = model.bytes();   // from here on it is the file that changes
    if (kind == 15)
      bytes.resize(std::min<size_t>(bytes.size(), number(input, 3)));
    else
      overwrite(bytes, input, 3);
  }
  return bytes.empty() ? model.bytes() : bytes;
}

}   // namespace mote::fuzz
