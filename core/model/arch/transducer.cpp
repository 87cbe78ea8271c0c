// The transformer of https://arxiv.org/abs/1706.03762, which turns one sequence into another: an encoder, and a decoder
// that reads it by cross-attention. (Not the RNN transducer of speech recognition.) Sinusoidal positions; norms before
// the layers (https://arxiv.org/abs/2002.04745) and ReLU between their matrices.
#include "core/base/math.h"
#include "core/model/architecture.h"
#include "core/model/layer.h"

namespace mote {
namespace {

struct Transducer {
  PlanBuilder& b;
  Weights& w;
  const Config& c;
  LayerConfig config;
  const double* frequency;   // of positions

  uint32_t keys() const { return config.n_heads * c.key_dim; }
  AttentionAttributes heads() const { return {config.n_heads, static_cast<float>(1 / sqrt_f64(c.key_dim)), 0}; }
  State kv_state() const { return b.kv_state(config.n_kv_heads, c.key_dim, c.value_dim); }
  State append(const Layer& layer, State to, Value x, std::string_view k_name, std::string_view v_name) const {
    Value k = layer.linear(x, k_name, config.n_kv_heads * c.key_dim);
    Value v = layer.linear(x, v_name, config.n_kv_heads * c.value_dim);
    return b.append(to, k, v);
  }
  Value embed(const Matrix& embedding) const { return b.sinusoidal_positions(b.embed(embedding), frequency); }
  // x + the feed-forward layer.
  Value mlp(const Layer& layer, Value x) const {
    Value h = b.activate(layer.linear(layer.layer_norm(x, "ffn_norm"), "ffn_up", config.d_ff), Activation::relu);
    return b.add(x, layer.linear(h, "ffn_down", c.d_model));
  }
  Value norm(Value x, std::string_view weight, std::string_view bias) const {
    return b.layer_norm(x, w.vector(weight, c.d_model), w.vector(bias, c.d_model), c.norm_epsilon);
  }

  Value encoder(const Matrix& embedding) const {
    Value x = embed(embedding);   // [tokens, d_model]
    for (uint32_t i = 0; i < c.n_layers && w.status().ok(); ++i) {
      const Layer layer(b, w, c, i, "enc.");
      Value h = layer.layer_norm(x, "attn_norm");
      Value q = layer.linear(h, "attn_q", keys());   // [tokens, keys]
      Value a = b.full_attention(q, append(layer, kv_state(), h, "attn_k", "attn_v"), heads());
      x = b.add(x, layer.linear(a, "attn_output", c.d_model));
      x = mlp(layer, x);
    }
    b.leave_layers();
    return norm(x, "enc.output_norm.weight", "enc.output_norm.bias");
  }

  // `read`: the encoder's output, as this layer reads it.
  Value decoder_layer(const Layer& layer, Value x, State read) const {
    Value h = layer.layer_norm(x, "attn_norm");
    Value q = layer.linear(h, "attn_q", keys());
    Value a = b.causal_attention(q, append(layer, kv_state(), h, "attn_k", "attn_v"), heads());
    x = b.add(x, layer.linear(a, "attn_output", c.d_model));

    h = layer.layer_norm(x, "cross_attn_norm");
    a = b.full_attention(layer.linear(h, "cross_attn_q", keys()), read, heads());
    x = b.add(x, layer.linear(a, "cross_attn_output", c.d_model));
    return mlp(layer, x);
  }
};

}   // namespace

Status build_transducer(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& c) {
  MOTE_ASSIGN_OR_RETURN(const uint64_t n_layers,
                        file.get_unsigned("transducer.decoder_block_count", 1, Config::kMaxLayers, c.n_layers));
  MOTE_ASSIGN_OR_RETURN(const LayerConfig config, read_layer_config(file, c, 0));
  MOTE_ASSIGN_OR_RETURN(const Pooling pooling, read_pooling(file, c, Pooling::none));
  const Transducer transducer{b, w, c, config, w.sinusoids(c.d_model)};
  const Matrix embedding = w.matrix("token_embd.weight", c.n_vocab, c.d_model);

  b.enter_phase(Phase::encode);
  Value read = transducer.encoder(embedding);   // [tokens, d_model]
  MOTE_RETURN_IF_ERROR(b.encoded(read, pooling == Pooling::none ? Value{} : b.pool(read, pooling)));
  const auto layers = static_cast<uint32_t>(n_layers);
  const CrossStates across = b.cross_states(layers, config.n_kv_heads, c.key_dim, c.value_dim);
  for (uint32_t i = 0; i < layers && w.status().ok(); ++i)
    transducer.append(Layer(b, w, c, i, "dec."), across[i], read, "cross_attn_k", "cross_attn_v");

  b.enter_phase(Phase::decode);
  b.leave_layers();
  Value x = transducer.embed(embedding);   // [tokens, d_model]
  for (uint32_t i = 0; i < layers && w.status().ok(); ++i)
    x = transducer.decoder_layer(Layer(b, w, c, i, "dec."), x, across[i]);
  b.leave_layers();
  Value last = transducer.norm(b.take_wanted_rows(x), "dec.output_norm.weight", "dec.output_norm.bias");
  return b.logits(b.linear(last, output_matrix(w, c, embedding)));   // [outputs, n_vocab]
}

}   // namespace mote
