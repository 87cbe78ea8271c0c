// The vocabulary that architectures and backends speak: Values flow between Steps; a Step is one op with its
// weights and attributes. Everything here is plain data that views memory owned by the model.
#pragma once
#include <cstdint>
#include <string_view>

#include "core/format/format.h"

namespace mote {

enum class Op : uint8_t {
#define MOTE_OP(name, inputs, state, in_place) name,
#include "core/ops/ops.inc"
#undef MOTE_OP
};
#define MOTE_OP(name, inputs, state, in_place) +1
inline constexpr uint32_t kOpCount = 0
#include "core/ops/ops.inc"
    ;
#undef MOTE_OP

enum class StateUse : uint8_t { none, writes, reads, updates };
struct OpInfo {
  std::string_view name;
  uint8_t n_inputs;
  StateUse state;
  bool in_place;
};
const OpInfo& op_info(Op op);

// Rows of a Value that are known only when a batch runs.
enum class Dimension : uint8_t {
  tokens,    // the rows of the batch, at most SessionShape::max_batch
  outputs,   // the rows whose logits are wanted, at most SessionShape::max_outputs
  one,       // what is made of a whole input
};

// What each column of a Value has in a row.
enum class Extent : uint8_t {
  single,   // one number
  past,     // one for each position from 0 to the batch's last, at most SessionShape::context
  input,    // one for each position of an encoder's input, at most SessionShape::max_batch
};

// Which batches run a step: those of an encoder's input, or those of tokens that follow each other. A plan has steps of
// the first, of the second or of both; those of `encode` come first.
enum class Phase : uint8_t { decode, encode };

// An f32 tensor [rows, columns], or [rows, columns, positions], made by one step and read by later ones. A handle: copy
// it freely.
struct Value {
  static constexpr uint16_t kNone = 0xffff;
  uint16_t id = kNone;   // index into Plan::values
  Dimension rows = Dimension::tokens;
  Extent extent = Extent::single;
  uint32_t columns = 0;
  bool exists() const { return id != kNone; }
};

// What a sequence carries from batch to batch: keys and values of a layer, or the vector of a recurrent one. A handle,
// as a Value is; the fields are those of StateInfo.
struct State {
  static constexpr uint16_t kNone = 0xffff;
  uint16_t id = kNone;   // index into Plan::states
  Phase phase = Phase::decode;
  bool is_cross = false;   // of an encoder's input, for a layer of the decoder
  uint32_t n_kv_heads = 0, key_dim = 0, value_dim = 0, window = 0;
  bool exists() const { return id != kNone; }
};

// A weight matrix where it lies in the model's bytes: [rows, columns], a row is row_bytes(format, columns) bytes,
// rows follow each other without gaps, the first may start at any address.
struct Matrix {
  const uint8_t* data = nullptr;
  uint32_t rows = 0, columns = 0;
  Format format = Format::f32;
  std::string_view name;   // of the tensor, for messages

  // `count` of the rows from `first` on, where they lie: a part of a fused weight. Nothing where there are not so many.
  Matrix part(uint32_t first, uint32_t count) const;
};

// A weight vector, widened to f32 when the model opened. `data` is null while only a quote is made.
struct Vector {
  const float* data = nullptr;
  uint32_t count = 0;
  bool exists() const { return count != 0; }
  Vector part(uint32_t first, uint32_t n) const;   // as Matrix::part
};

enum class Activation : uint8_t {
  relu,        // max(x, 0)
  silu,        // x / (1 + exp(-x))                                    https://arxiv.org/abs/1702.03118
  gelu_tanh,   // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))        https://arxiv.org/abs/1606.08415
  gelu_erf,    // x/2 (1 + erf(x / sqrt 2))
};

// How `rope` pairs the dimensions of a head.
enum class RopePairing : uint8_t {
  neighbours,   // (2i, 2i + 1)
  halves,       // (i, i + n_rotated / 2)
};

// rms_norm:   y = x / sqrt(mean(x^2) + epsilon) * vector                https://arxiv.org/abs/1910.07467
//             a vector shorter than the rows: each group of as many values (a head) by itself
// layer_norm: y = (x - mean) / sqrt(variance + epsilon) * vector + bias https://arxiv.org/abs/1607.06450
struct NormAttributes {
  float epsilon;
};

// rope_angles: y[row, 2i] = magnitude * cos(position * frequency[i]), y[row, 2i + 1] = magnitude * sin(...), for
// i < n_rotated / 2; angles in double from the integer position, rounded to f32 once (core/ops/rope_angles.h).
struct RopeAnglesAttributes {
  const double* frequency;   // [n_rotated / 2], radians per position; null while only a quote is made
  uint32_t n_rotated;        // even
  double magnitude;          // YaRN's attention factor, otherwise 1
};

// rope: inputs x [tokens, n_heads * head_dim] and angles [tokens, n_rotated]; turns the first n_rotated dimensions
// of every head: (a, b) -> (a cos - b sin, a sin + b cos).               https://arxiv.org/abs/2104.09864
struct RopeAttributes {
  uint32_t n_heads, head_dim, n_rotated;
  RopePairing pairing;
};

// append: inputs keys [tokens, n_kv_heads * key_dim] and values [tokens, n_kv_heads * value_dim] enter the state at
// the batch's positions, rounded to the session's KV type; what is not finite in that type is brought into its
// range. No output. A NaN among them: the run fails with not_finite (core/ops/first_nan.h); what is stored is 0.
// attention: input q [tokens, n_heads * key_dim]; the query at position p sees
//   causal   keys max(0, p - window + 1) .. p (window 0: from 0)
//   all      whatever the state holds, 0 .. Batch::n_encoded - 1; of a state of the phase `encode` without a window
// head h reads KV head h / (n_heads / n_kv_heads); weights = softmax(softcap(scale * q k) + bias); output
// [tokens, n_heads * value_dim].                                        https://arxiv.org/abs/2305.13245
// The bias is of the distance from a query to a key: vector [n_heads, 2 * max_distance + 1], finite; the key at
// position k adds vector[h, clamp(k - p, -max_distance, max_distance) + max_distance]. No vector: none.
// attention_weights: input, state, vector and attributes of the attention beside it; y [tokens, n_heads, positions] =
// its weights, whose sum is 1 over what a query sees; 0 elsewhere. Positions are the sequence's (Extent::past) or the
// input's. For those who want to look at them (PlanBuilder::tap): no other step reads it.
enum class Sees : uint8_t { causal, all };
struct AttentionAttributes {
  uint32_t n_heads;
  float scale;
  float softcap;   // 0: none; otherwise softcap * tanh(s / softcap) before the softmax
  Sees sees = Sees::causal;
  uint32_t max_distance = 0;
};

// rnn: input x [tokens, columns]; the state is a recurrent vector h [columns]. Row by row h = tanh(x[row] + matrix h)
// and y[row] = h; matrix [columns, columns]. Before position 0 h is 0, so it is before each input of the phase
// `encode`. An Elman network is this behind a `linear`. A NaN in h fails the run, as one given to `append` does.
//                                                                       https://doi.org/10.1207/s15516709cog1402_1

// position_embed: y[row] = x[row] + row `position[row]` of matrix [n_positions, d_model]; without a matrix, with sines
// and cosines in its place: y[row, 2i] = x[row, 2i] + sin(position * frequency[i]), y[row, 2i + 1] = ... + cos(...),
// each rounded to f32 once before it is added (core/ops/rope_angles.h).      https://arxiv.org/abs/1706.03762
struct PositionEmbedAttributes {
  const double* frequency;   // [columns / 2], radians per position; null with a matrix, and while only a quote is made
};

// pool: input x [tokens, columns], the rows of a whole encoder input; y [1, columns] = their mean, the first, the last.
enum class Pooling : uint8_t { none, mean, cls, last };   // in the order of GGUF; no step has `none`
struct PoolAttributes {
  Pooling pooling;
};

// activate: y = f(x).   gate: inputs g and u of one shape; y = f(g) * u  https://arxiv.org/abs/2002.05202
struct ActivateAttributes {
  Activation function;
};

// scale: y = factor * x.   softcap: y = factor * tanh(x / factor)
struct ScaleAttributes {
  float factor;
};

// The other ops:
// embed           y[row] = row `token[row]` of matrix [n_vocab, d_model], + bias; bias optional, [d_model]
// linear          y = x matrix^T + bias; matrix [out, in], x [rows, in], y [rows, out]; bias optional, [out]
// add             y = x0 + x1, same shape
// take_rows       y [outputs, columns] = the rows of x [tokens, columns] whose outputs are wanted
struct Step {
  static constexpr uint32_t kMaxInputs = 2;

  Op op;
  Phase phase = Phase::decode;
  static constexpr uint16_t kNoLayer = 0xffff;   // outside the layers
  uint16_t layer = kNoLayer;                     // for messages and profiles
  Value inputs[kMaxInputs];
  Value output;
  State state;
  Matrix matrix;
  Vector vector;   // norm weights; attention and its weights: bias by distance
  Vector bias;
  union Attributes {
    NormAttributes norm;
    PositionEmbedAttributes position_embed;
    RopeAnglesAttributes rope_angles;
    RopeAttributes rope;
    AttentionAttributes attention;
    ActivateAttributes activate;   // activate, gate
    ScaleAttributes scale;         // scale, softcap
    PoolAttributes pool;
  } attributes{};
};

// Whose keys and values a step writes or reads.
enum class Attending : uint8_t {
  decoder,   // tokens to those before them
  encoder,   // an encoder's input to itself
  across,    // a decoder's tokens to an encoder's input
};
inline constexpr uint32_t kAttendings = 3;
inline Attending attending_of(const Step& step) {
  if (step.state.is_cross) return Attending::across;
  return step.state.phase == Phase::encode ? Attending::encoder : Attending::decoder;
}

// How many values rms_norm takes together.
inline uint32_t norm_width(const Step& step) { return step.vector.exists() ? step.vector.count : step.output.columns; }

}   // namespace mote
