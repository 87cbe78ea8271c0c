// BERT and the sentence encoders made of it (MiniLM, BGE): https://arxiv.org/abs/1810.04805. Norms behind the sums, as
// in the paper; every token is of type 0.
#include "core/base/math.h"
#include "core/model/architecture.h"
#include "core/model/layer.h"

namespace mote {

Status build_bert(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& c) {
  const uint32_t d = c.d_model, kd = c.key_dim, vd = c.value_dim;
  const auto scale = static_cast<float>(1 / sqrt_f64(kd));
  MOTE_ASSIGN_OR_RETURN(const Pooling pooling, read_pooling(file, c, Pooling::mean));
  MOTE_ASSIGN_OR_RETURN(const bool causal, file.get_bool("bert.attention.causal", false));
  if (causal) return Status::error(Code::unsupported, "bert.attention.causal is true; this build runs only false");

  b.enter_phase(Phase::encode);
  Value x = b.embed(w.matrix("token_embd.weight", c.n_vocab, d), w.first_row("token_types.weight", d));
  x = b.position_embed(x, w.matrix("position_embd.weight", c.context_length, d));   // [tokens, d_model]
  x = b.layer_norm(x, w.vector("token_embd_norm.weight", d), w.vector("token_embd_norm.bias", d), c.norm_epsilon);
  State seen;   // of one layer after the other
  for (uint32_t i = 0; i < c.n_layers && w.status().ok(); ++i) {
    MOTE_ASSIGN_OR_RETURN(const LayerConfig config, read_layer_config(file, c, i));
    const uint32_t n = config.n_heads, n_kv = config.n_kv_heads;
    const Layer layer(b, w, c, i);

    Value q = layer.linear(x, "attn_q", n * kd, Bias::required);      // [tokens, n * kd]
    Value k = layer.linear(x, "attn_k", n_kv * kd, Bias::required);   // [tokens, n_kv * kd]
    Value v = layer.linear(x, "attn_v", n_kv * vd, Bias::required);   // [tokens, n_kv * vd]
    if (seen.n_kv_heads != n_kv) seen = b.kv_state(n_kv, kd, vd);
    Value a = b.full_attention(q, b.append(seen, k, v), {n, scale, 0});   // [tokens, n * vd]
    x = b.add(x, layer.linear(a, "attn_output", d, Bias::required));
    x = layer.layer_norm(x, "attn_output_norm");

    Value up = b.activate(layer.linear(x, "ffn_up", config.d_ff, Bias::required), Activation::gelu_erf);
    x = b.add(x, layer.linear(up, "ffn_down", d, Bias::required));
    x = layer.layer_norm(x, "layer_output_norm");
  }
  b.leave_layers();
  return b.encoded(x, pooling == Pooling::none ? Value{} : b.pool(x, pooling));
}

}   // namespace mote
