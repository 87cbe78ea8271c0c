// GPT-2: https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf. Learned
// positions, layer norms, one matrix for queries, keys and values, biases everywhere.
#include "core/base/math.h"
#include "core/model/architecture.h"
#include "core/model/layer.h"

namespace mote {

Status build_gpt2(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& c) {
  const uint32_t d = c.d_model, kd = c.key_dim, vd = c.value_dim;
  const auto scale = static_cast<float>(1 / sqrt_f64(kd));
  const Matrix embedding = w.matrix("token_embd.weight", c.n_vocab, d);

  Value x = b.embed(embedding);   // [tokens, d_model]
  x = b.position_embed(x, w.matrix("position_embd.weight", c.context_length, d));
  for (uint32_t i = 0; i < c.n_layers && w.status().ok(); ++i) {
    MOTE_ASSIGN_OR_RETURN(const LayerConfig heads, read_layer_config(file, c, i));
    const uint32_t n = heads.n_heads, n_kv = heads.n_kv_heads;
    const Layer layer(b, w, c, i);

    Value h = layer.layer_norm(x, "attn_norm");
    const auto [q, k, v] = layer.fused_qkv(h, n * kd, n_kv * kd, n_kv * vd, Bias::required);
    State past = b.append(b.kv_state(n_kv, kd, vd), k, v);
    Value a = b.causal_attention(q, past, {n, scale, 0});   // [tokens, n * vd]
    x = b.add(x, layer.linear(a, "attn_output", d, Bias::required));

    h = layer.layer_norm(x, "ffn_norm");
    h = b.activate(layer.linear(h, "ffn_up", heads.d_ff, Bias::required), Activation::gelu_tanh);
    x = b.add(x, layer.linear(h, "ffn_down", d, Bias::required));
  }
  b.leave_layers();
  Value last = b.take_wanted_rows(x);   // [outputs, d_model]
  last = b.layer_norm(last, w.vector("output_norm.weight", d), w.vector("output_norm.bias", d), c.norm_epsilon);
  return b.logits(b.linear(last, output_matrix(w, c, embedding)));   // [outputs, n_vocab]
}

}   // namespace mote
