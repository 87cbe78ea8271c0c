// One layer while a plan is built: the usual steps with the layer's tensors by their names, so that an architecture
// reads like its paper. "attn_q" of layer 3 is blk.3.attn_q.weight and, with a bias, blk.3.attn_q.bias; of the stack
// "enc." it is enc.blk.3.attn_q.weight.
#pragma once
#include "core/model/weights.h"

namespace mote {

enum class Bias : uint8_t { optional, required };   // optional: where the file has one

struct Qkv {
  Value q, k, v;
};

// "enc.blk.3.attn_q.weight"
class TensorName {
 public:
  TensorName(std::string_view stack, uint32_t layer, std::string_view name, std::string_view kind);
  operator std::string_view() const { return {text_, length_}; }

 private:
  char text_[80];
  uint32_t length_;
};

class Layer {
 public:
  Layer(PlanBuilder& b, Weights& w, const Config& c, uint32_t index, std::string_view stack = {})
      : b_(b), w_(w), c_(c), index_(index), stack_(stack) {
    b.enter_layer(index);
  }

  // Of a tensor of this layer, for those that are not bound by the steps below.
  TensorName tensor(std::string_view name, std::string_view kind = "weight") const {
    return {stack_, index_, name, kind};
  }

  // The norm of each row, or of each `width` values of it (a head).
  Value rms_norm(Value x, std::string_view name, uint32_t width = 0) const;
  Value layer_norm(Value x, std::string_view name) const;   // with its bias

  Value linear(Value x, std::string_view name, uint32_t rows, Bias bias = Bias::optional) const;
  // Queries, keys and values by one matrix, "attn_qkv": those rows in this order.
  Qkv fused_qkv(Value x, uint32_t n_q, uint32_t n_k, uint32_t n_v, Bias bias = Bias::optional) const;

  // down(f(gate(x)) * up(x)), by ffn_gate, ffn_up and ffn_down.
  Value gated_mlp(Value x, uint32_t d_ff, Activation f) const;
  // The same where ffn_up is both: the rows of the gate, then the others.
  Value fused_gated_mlp(Value x, uint32_t d_ff, Activation f) const;

 private:
  struct Linear {
    Matrix matrix;
    Vector bias;
  };
  Linear weights(Value x, std::string_view name, uint32_t rows, Bias bias) const;
  Value part(Value x, const Linear& of, uint32_t first, uint32_t rows) const;

  PlanBuilder& b_;
  Weights& w_;
  const Config& c_;
  uint32_t index_;
  std::string_view stack_;   // "enc.", "dec." or nothing
};

// The layer of the result: output.weight, or the embedding where the file has none (tied). [n_vocab, d_model]
Matrix output_matrix(Weights& w, const Config& c, const Matrix& embedding);

}   // namespace mote
