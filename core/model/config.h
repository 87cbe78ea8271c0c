// The hyperparameters of a model, read from the metadata and checked: nothing behind this needs to doubt them.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/result.h"
#include "core/gguf/file.h"
#include "core/ops/step.h"

namespace mote {

enum class RopeScaling : uint8_t { none, linear, yarn };

struct RopeConfig {
  // Radians that a position may turn by: sines know angles up to 2^31 (core/base/math.h), and positions reach
  // Config::kMaxContext = 2^24. There the angle is off by 2^-22 at most. Real models turn by 1 or less.
  static constexpr double kMaxFrequency = 128;
  static constexpr double kLeastFactor = 1 / kMaxFrequency;   // what divides a frequency of 1

  uint32_t n_rotated;   // dimensions of a head that are turned, even
  double base;
  RopeScaling scaling;
  double factor;                 // positions are divided by it (linear, yarn); 1 otherwise
  uint32_t original_context;     // yarn: the length that the model was first trained for
  double attention_factor;       // yarn: further magnitude of cos and sin
  double beta_fast, beta_slow;   // yarn: turns over the original context between which frequencies are blended
};

struct Config {
  // Limits that no real model comes near; they keep every product of two of these numbers within 64 bits and every
  // Value's row within 32.
  static constexpr uint32_t kMaxWidth = 1u << 20, kMaxLayers = 4096, kMaxHeads = 4096, kMaxVocab = 1u << 22;
  static constexpr uint32_t kMaxContext = 1u << 24;
  static_assert(kMaxContext * RopeConfig::kMaxFrequency <= 2147483648.0);

  std::string_view architecture;
  uint32_t n_vocab, n_layers, d_model, context_length;
  uint32_t key_dim, value_dim;   // of a head
  float norm_epsilon;
  uint32_t decoder_start;   // the token that a decoder begins with, where it reads an encoder; n_vocab: none is named
  // What the caller asks an encoder for instead of what the file says; not read from the file.
  bool has_pooling;
  Pooling pooling;
};

// Heads and widths of one layer: a scalar in the metadata counts for every layer, a list has one element per layer.
struct LayerConfig {
  uint32_t n_heads, n_kv_heads, d_ff;
};

// `n_vocab` comes from the token embedding; `runs`: settings that the architecture reads by itself, which are refused
// otherwise. bad_model or unsupported with the key, what was found and what is allowed.
Result<Config> read_config(const gguf::File& file, uint32_t n_vocab, std::span<const std::string_view> runs = {});
Result<LayerConfig> read_layer_config(const gguf::File& file, const Config& config, uint32_t layer);

// Of a model that turns queries and keys; others may say what they like.
Result<RopeConfig> read_rope(const gguf::File& file, const Config& config);
// How far the attention of a layer looks back, 0: to the beginning. attention.sliding_window, or else `window`, counts
// for all layers but every `period`-th (0: for all). attention.sliding_window_pattern is another period, or a list with
// a 1 for each layer that has the window.
Result<uint32_t> read_window(const gguf::File& file, const Config& config, uint32_t layer, uint32_t window,
                             uint32_t period);
// A number of the architecture's own, in [lowest, highest].
Result<double> read_real(const gguf::File& file, const Config& config, std::string_view name, double lowest,
                         double highest, double otherwise);
// How an encoder makes one row of all: what was asked for, else what the file says, else `otherwise`.
Result<Pooling> read_pooling(const gguf::File& file, const Config& config, Pooling otherwise);

// general.architecture, as it stands in the file.
Result<std::string_view> read_architecture(const gguf::File& file);

}   // namespace mote
