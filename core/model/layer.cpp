#include "core/model/layer.h"

namespace mote {
TensorName::TensorName(std::string_view stack, uint32_t layer, std::string_view name, std::string_view kind) {
  const FormatArgument arguments[] = {FormatArgument(stack), FormatArgument(layer), FormatArgument(name),
                                      FormatArgument(kind)};
  length_ = format_sentence(text_, sizeof text_, "{}blk.{}.{}.{}", arguments, 4);
}

Value Layer::rms_norm(Value x, std::string_view name, uint32_t width) const {
  const Vector weight = w_.vector(tensor(name), width == 0 ? x.columns : width);
  return b_.rms_norm(x, weight, c_.norm_epsilon);
}

Value Layer::layer_norm(Value x, std::string_view name) const {
  const Vector weight = w_.vector(tensor(name), x.columns);
  const Vector bias = w_.vector(tensor(name, "bias"), x.columns);
  return b_.layer_norm(x, weight, bias, c_.norm_epsilon);
}

Layer::Linear Layer::weights(Value x, std::string_view name, uint32_t rows, Bias bias) const {
  const TensorName of_bias = tensor(name, "bias");
  Linear linear;
  linear.matrix = w_.matrix(tensor(name), rows, x.columns);
  if (bias == Bias::required || w_.has(of_bias)) linear.bias = w_.vector(of_bias, rows);
  return linear;
}

Value Layer::part(Value x, const Linear& of, uint32_t first, uint32_t rows) const {
  return b_.linear(x, of.matrix.part(first, rows), of.bias.part(first, of.bias.exists() ? rows : 0));
}

Value Layer::linear(Value x, std::string_view name, uint32_t rows, Bias bias) const {
  return part(x, weights(x, name, rows, bias), 0, rows);
}

Qkv Layer::fused_qkv(Value x, uint32_t n_q, uint32_t n_k, uint32_t n_v, Bias bias) const {
  const Linear qkv = weights(x, "attn_qkv", n_q + n_k + n_v, bias);
  Qkv out;   // one after the other: a plan is the same whatever the compiler
  out.q = part(x, qkv, 0, n_q);
  out.k = part(x, qkv, n_q, n_k);
  out.v = part(x, qkv, n_q + n_k, n_v);
  return out;
}

Value Layer::gated_mlp(Value x, uint32_t d_ff, Activation f) const {
  const Value gate = linear(x, "ffn_gate", d_ff);
  const Value up = linear(x, "ffn_up", d_ff);
  return linear(b_.gate(gate, up, f), "ffn_down", x.columns);
}

Value Layer::fused_gated_mlp(Value x, uint32_t d_ff, Activation f) const {
  const Linear both = weights(x, "ffn_up", 2 * d_ff, Bias::optional);
  const Value gate = part(x, both, 0, d_ff);
  const Value up = part(x, both, d_ff, d_ff);
  return linear(b_.gate(gate, up, f), "ffn_down", x.columns);
}

Matrix output_matrix(Weights& w, const Config& c, const Matrix& embedding) {
  return w.has("output.weight") ? w.matrix("output.weight", c.n_vocab, c.d_model) : embedding;
}

}   // namespace mote
