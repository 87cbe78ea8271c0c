// Llama and what shares its tensors (SmolLM2, Mistral): https://arxiv.org/abs/2302.13971,
// https://arxiv.org/abs/2307.09288 Rotary pairs are neighbours, as the GGUF converter has permuted q and k for.
#include "core/base/math.h"
#include "core/model/architecture.h"

namespace mote {

Status build_llama(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& c) {
  const uint32_t d = c.d_model, kd = c.key_dim, vd = c.value_dim;
  const RopeSettings rope = w.rope(c.rope, RopePairing::neighbours, "rope_freqs.weight");
  const auto scale = static_cast<float>(1 / sqrt_f64(kd));
  const Matrix embedding = w.matrix("token_embd.weight", c.n_vocab, d);

  Value x = b.embed(embedding);   // [tokens, d_model]
  for (uint32_t i = 0; i < c.n_layers && w.status().ok(); ++i) {
    MOTE_ASSIGN_OR_RETURN(const LayerConfig layer, read_layer_config(file, c, i));
    const uint32_t n = layer.n_heads, n_kv = layer.n_kv_heads;
    const auto matrix = [&](std::string_view name, uint32_t rows, uint32_t columns) {
      return w.layer_matrix(i, name, rows, columns);
    };
    const auto bias = [&](std::string_view name, uint32_t count) { return w.optional_layer_vector(i, name, count); };
    b.enter_layer(i);

    Value h = b.rms_norm(x, w.layer_vector(i, "attn_norm.weight", d), c.norm_epsilon);
    Value q = b.linear(h, matrix("attn_q.weight", n * kd, d), bias("attn_q.bias", n * kd));   // [tokens, n * kd]
    Value k =
        b.linear(h, matrix("attn_k.weight", n_kv * kd, d), bias("attn_k.bias", n_kv * kd));   // [tokens, n_kv * kd]
    Value v =
        b.linear(h, matrix("attn_v.weight", n_kv * vd, d), bias("attn_v.bias", n_kv * vd));   // [tokens, n_kv * vd]
    State past = b.append(b.kv_state(n_kv, kd, vd), b.rope(k, kd, rope), v);
    Value a = b.causal_attention(b.rope(q, kd, rope), past, {n, scale, 0});   // [tokens, n * vd]
    x = b.add(x, b.linear(a, matrix("attn_output.weight", d, n * vd), bias("attn_output.bias", d)));

    h = b.rms_norm(x, w.layer_vector(i, "ffn_norm.weight", d), c.norm_epsilon);
    Value gate = b.linear(h, matrix("ffn_gate.weight", layer.d_ff, d), bias("ffn_gate.bias", layer.d_ff));
    Value up = b.linear(h, matrix("ffn_up.weight", layer.d_ff, d), bias("ffn_up.bias", layer.d_ff));
    Value down = b.linear(b.gate(gate, up, Activation::silu), matrix("ffn_down.weight", d, layer.d_ff),
                          bias("ffn_down.bias", d));
    x = b.add(x, down);
  }
  b.leave_layers();
  Value last = b.take_wanted_rows(x);   // [outputs, d_model]
  last = b.rms_norm(last, w.vector("output_norm.weight", d), c.norm_epsilon);
  const Matrix output = w.has("output.weight") ? w.matrix("output.weight", c.n_vocab, d) : embedding;   // tied
  return b.logits(b.linear(last, output));   // [outputs, n_vocab]
}

}   // namespace mote
