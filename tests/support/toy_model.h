// Complete small models with pseudo-random weights and a working tokenizer, from a seed.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/format/format.h"
#include "tests/support/gguf_builder.h"

namespace mote::test {

enum class ToyTokenizer : uint8_t { none, byte_bpe, sentencepiece, unigram, word_pieces };

struct ToyOptions {
  uint64_t seed = 1;
  uint32_t n_layers = 2;
  uint32_t d_model = 64;
  uint32_t n_heads = 4;
  uint32_t n_kv_heads = 2;
  uint32_t head_dim = 0;   // 0: d_model / n_heads; otherwise key_length and value_length are written
  uint32_t d_ff = 96;
  uint32_t n_vocab = 320;   // with a tokenizer at least 300; what its pieces leave is filled with unused ones
  uint32_t context = 512;
  Format matrices = Format::f32;   // attention and feed-forward
  Format embedding = Format::f32;
  Format output = Format::f32;
  bool tied = false;   // no output.weight
  float rms_epsilon = 1e-5f;
  float rope_base = 10000.0f;
  uint32_t rope_dimensions = 0;    // 0: the whole head, no key is written
  std::string rope_scaling = {};   // "": no key; "none", "linear" or "yarn"
  float rope_factor = 4.0f;
  uint32_t original_context = 0;   // 0: no key
  std::vector<float> rope_factors =
      {};   // rope_freqs.weight (llama3), half as many as the rotated dimensions; empty: none
  ToyTokenizer tokenizer = ToyTokenizer::byte_bpe;
  std::string pre = "smollm";   // byte_bpe: tokenizer.ggml.pre
  bool add_bos = false;
  bool gated = true;           // t5; rnn: attention pools
  uint32_t n_buckets = 32;     // t5
  uint32_t pooling_type = 1;   // bert, rnn
  uint32_t n_classes = 0;      // rnn: of texts; 0: it continues them
};

// Two narrow layers; and one wide enough that the cpu backend shares out one row of it.
inline const ToyOptions kSmallToy{.n_layers = 2, .d_model = 32, .n_heads = 2, .n_kv_heads = 1, .d_ff = 48};
inline const ToyOptions kWideToy{.n_layers = 1, .d_model = 256, .n_heads = 2, .n_kv_heads = 1, .d_ff = 256};

// Byte-level BPE: ids 0 .. 255 are the bytes in GPT-2's order, then merged pieces; the last three are
// <|endoftext|> (bos), <|im_start|> and <|im_end|> (eos). SentencePiece: <unk>, <s>, </s>, 256 byte pieces, two
// user-defined pieces, pieces; unigram has a character map. WordPiece: [UNK], [CLS], [SEP], words and continuations.
GgufBuilder toy_llama(const ToyOptions& options = {});
// The same as `gemma3`: layers 0, 2, ... look back over 8 positions alone and have a RoPE base of their own, heads of
// queries and keys are normed, and so is what a layer adds. Without `rope_factors`.
GgufBuilder toy_gemma3(const ToyOptions& options = {});

// The same as `phi3`, with that window in layers 0, 2, ...: what every backend runs. Without `rope_factors`.
GgufBuilder toy_phi3(const ToyOptions& options = {});

// The encoder of the paper, and an encoder with a decoder; as many heads of keys as of queries, no rope.
GgufBuilder toy_bert(const ToyOptions& options = {});
GgufBuilder toy_t5(const ToyOptions& options = {});

// An Elman network of d_ff recurrent values, as one that continues texts and as one that scores them, with attention
// unless `gated` is off; and an encoder with a decoder, sinusoidal positions.
GgufBuilder toy_rnn(const ToyOptions& options = {});
GgufBuilder toy_classifier(const ToyOptions& options = {});
GgufBuilder toy_transducer(const ToyOptions& options = {});

// What sessions do is tested with each: layers that keep every position, rings beside them, a decoder with an encoder
// (tests/api/kit.h gives its sessions an input), and layers that keep one vector alone.
using ToyModel = GgufBuilder (*)(const ToyOptions& options);
inline constexpr ToyModel kToyModels[] = {toy_llama, toy_phi3, toy_t5, toy_rnn};

// What is true of every model; and those with an encoder.
inline constexpr ToyModel kAllToys[] = {toy_llama, toy_phi3, toy_t5, toy_bert, toy_rnn, toy_classifier, toy_transducer};
inline constexpr ToyModel kEncoderToys[] = {toy_t5, toy_bert, toy_classifier, toy_transducer};
// Whether all that comes of it is an encoder's: there are no logits.
inline bool only_encodes(ToyModel toy) { return toy == toy_bert || toy == toy_classifier; }
const char* name_of(ToyModel toy);   // "t5"

// Only the tokenizer's entries, for a vocabulary-only file.
void add_toy_tokenizer(GgufBuilder& to, const ToyOptions& options);

}   // namespace mote::test
