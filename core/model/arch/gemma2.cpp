// Gemma 2: https://arxiv.org/abs/2408.00118. Every other layer looks back over a window alone; attention scores and
// logits are bent below a cap; norms before and behind each part. The converter has added the 1 to the norms' weights.
#include "core/base/math.h"
#include "core/model/architecture.h"
#include "core/model/layer.h"

namespace mote {

Status build_gemma2(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& c) {
  const uint32_t d = c.d_model, kd = c.key_dim, vd = c.value_dim;
  MOTE_ASSIGN_OR_RETURN(const RopeConfig turned, read_rope(file, c));
  const RopeSettings rope = w.rope(turned, RopePairing::halves, {});
  MOTE_ASSIGN_OR_RETURN(const double score_cap, read_real(file, c, "attn_logit_softcapping", 0, 1e6, 50));
  MOTE_ASSIGN_OR_RETURN(const double logit_cap, read_real(file, c, "final_logit_softcapping", 0, 1e6, 30));
  const Matrix embedding = w.matrix("token_embd.weight", c.n_vocab, d);

  Value x = b.scale(b.embed(embedding), static_cast<float>(sqrt_f64(d)));   // [tokens, d_model]
  for (uint32_t i = 0; i < c.n_layers && w.status().ok(); ++i) {
    MOTE_ASSIGN_OR_RETURN(const LayerConfig heads, read_layer_config(file, c, i));
    MOTE_ASSIGN_OR_RETURN(const uint32_t window, read_window(file, c, i, 4096, 2));
    const uint32_t n = heads.n_heads, n_kv = heads.n_kv_heads;
    // 27B, by its 46 layers, is the one whose scale is of another width than that of its heads.
    const uint32_t scaled_by = c.n_layers == 46 ? d / n : kd;
    const auto scale = static_cast<float>(1 / sqrt_f64(scaled_by));
    const Layer layer(b, w, c, i);

    Value h = layer.rms_norm(x, "attn_norm");
    Value q = layer.linear(h, "attn_q", n * kd);      // [tokens, n * kd]
    Value k = layer.linear(h, "attn_k", n_kv * kd);   // [tokens, n_kv * kd]
    Value v = layer.linear(h, "attn_v", n_kv * vd);   // [tokens, n_kv * vd]
    State past = b.append(b.kv_state(n_kv, kd, vd, window), b.rope(k, kd, rope), v);
    Value a = b.causal_attention(b.rope(q, kd, rope), past, {n, scale, static_cast<float>(score_cap)});
    x = b.add(x, layer.rms_norm(layer.linear(a, "attn_output", d), "post_attention_norm"));

    h = layer.gated_mlp(layer.rms_norm(x, "ffn_norm"), heads.d_ff, Activation::gelu_tanh);
    x = b.add(x, layer.rms_norm(h, "post_ffw_norm"));
  }
  b.leave_layers();
  Value last = b.take_wanted_rows(x);   // [outputs, d_model]
  last = b.rms_norm(last, w.vector("output_norm.weight", d), c.norm_epsilon);
  last = b.linear(last, output_matrix(w, c, embedding));   // [outputs, n_vocab]
  const auto cap = static_cast<float>(logit_cap);
  return b.logits(cap == 0 ? last : b.softcap(last, cap));
}

}   // namespace mote
