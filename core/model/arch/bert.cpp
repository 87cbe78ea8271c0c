// BERT and the sentence encoders made of it (MiniLM, BGE): https://arxiv.org/abs/1810.04805. Norms behind the sums, as
// in the paper; every token is of type 0.
#include "core/base/math.h"
#include "core/model/architecture.h"

namespace mote {

Status build_bert(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& c) {
  const uint32_t d = c.d_model, kd = c.key_dim, vd = c.value_dim;
  const auto scale = static_cast<float>(1 / sqrt_f64(kd));
  MOTE_ASSIGN_OR_RETURN(const Pooling pooling, read_pooling(file, c, Pooling::mean));
  MOTE_ASSIGN_OR_RETURN(const bool causal, file.get_bool("bert.attention.causal", false));
  if (causal) return Status::error(Code::unsupported, "bert.attention.causal is true; this build runs only false");
  const auto norm = [&](Value x, uint32_t layer, std::string_view weight, std::string_view bias) {
    return b.layer_norm(x, w.layer_vector(layer, weight, d), w.layer_vector(layer, bias, d), c.norm_epsilon);
  };

  b.enter_phase(Phase::encode);
  Value x = b.embed(w.matrix("token_embd.weight", c.n_vocab, d), w.first_row("token_types.weight", d));
  x = b.position_embed(x, w.matrix("position_embd.weight", c.context_length, d));   // [tokens, d_model]
  x = b.layer_norm(x, w.vector("token_embd_norm.weight", d), w.vector("token_embd_norm.bias", d), c.norm_epsilon);
  State seen;   // of one layer after the other
  for (uint32_t i = 0; i < c.n_layers && w.status().ok(); ++i) {
    MOTE_ASSIGN_OR_RETURN(const LayerConfig layer, read_layer_config(file, c, i));
    const uint32_t n = layer.n_heads, n_kv = layer.n_kv_heads, d_ff = layer.d_ff;
    const auto linear = [&](Value in, std::string_view weight, std::string_view bias, uint32_t rows) {
      return b.linear(in, w.layer_matrix(i, weight, rows, in.columns), w.layer_vector(i, bias, rows));
    };
    b.enter_layer(i);

    Value q = linear(x, "attn_q.weight", "attn_q.bias", n * kd);      // [tokens, n * kd]
    Value k = linear(x, "attn_k.weight", "attn_k.bias", n_kv * kd);   // [tokens, n_kv * kd]
    Value v = linear(x, "attn_v.weight", "attn_v.bias", n_kv * vd);   // [tokens, n_kv * vd]
    if (seen.n_kv_heads != n_kv) seen = b.kv_state(n_kv, kd, vd);
    Value a = b.full_attention(q, b.append(seen, k, v), {n, scale, 0});   // [tokens, n * vd]
    x = b.add(x, linear(a, "attn_output.weight", "attn_output.bias", d));
    x = norm(x, i, "attn_output_norm.weight", "attn_output_norm.bias");

    Value up = b.activate(linear(x, "ffn_up.weight", "ffn_up.bias", d_ff), Activation::gelu_erf);
    x = b.add(x, linear(up, "ffn_down.weight", "ffn_down.bias", d));
    x = norm(x, i, "layer_output_norm.weight", "layer_output_norm.bias");
  }
  b.leave_layers();
  return b.encoded(x, pooling == Pooling::none ? Value{} : b.pool(x, pooling));
}

}   // namespace mote
