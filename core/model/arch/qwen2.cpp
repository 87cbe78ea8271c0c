// Qwen2 and Qwen2.5: https://arxiv.org/abs/2407.10671. Llama with biases of queries, keys and values, and rotary pairs
// of halves.
#include "core/base/math.h"
#include "core/model/architecture.h"
#include "core/model/layer.h"

namespace mote {

Status build_qwen2(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& c) {
  const uint32_t d = c.d_model, kd = c.key_dim, vd = c.value_dim;
  MOTE_ASSIGN_OR_RETURN(const RopeConfig turned, read_rope(file, c));
  const RopeSettings rope = w.rope(turned, RopePairing::halves, {});
  const auto scale = static_cast<float>(1 / sqrt_f64(kd));
  const Matrix embedding = w.matrix("token_embd.weight", c.n_vocab, d);

  Value x = b.embed(embedding);   // [tokens, d_model]
  for (uint32_t i = 0; i < c.n_layers && w.status().ok(); ++i) {
    MOTE_ASSIGN_OR_RETURN(const LayerConfig heads, read_layer_config(file, c, i));
    const uint32_t n = heads.n_heads, n_kv = heads.n_kv_heads;
    const Layer layer(b, w, c, i);

    Value h = layer.rms_norm(x, "attn_norm");
    Value q = layer.linear(h, "attn_q", n * kd, Bias::required);      // [tokens, n * kd]
    Value k = layer.linear(h, "attn_k", n_kv * kd, Bias::required);   // [tokens, n_kv * kd]
    Value v = layer.linear(h, "attn_v", n_kv * vd, Bias::required);   // [tokens, n_kv * vd]
    State past = b.append(b.kv_state(n_kv, kd, vd), b.rope(k, kd, rope), v);
    Value a = b.causal_attention(b.rope(q, kd, rope), past, {n, scale, 0});   // [tokens, n * vd]
    x = b.add(x, layer.linear(a, "attn_output", d));

    h = layer.rms_norm(x, "ffn_norm");
    x = b.add(x, layer.gated_mlp(h, heads.d_ff, Activation::silu));
  }
  b.leave_layers();
  Value last = b.take_wanted_rows(x);   // [outputs, d_model]
  last = b.rms_norm(last, w.vector("output_norm.weight", d), c.norm_epsilon);
  return b.logits(b.linear(last, output_matrix(w, c, embedding)));   // [outputs, n_vocab]
}

}   // namespace mote
