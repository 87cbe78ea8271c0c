// T5: https://arxiv.org/abs/1910.10683; its v1.1 with gated layers: https://arxiv.org/abs/2002.05202. An encoder and a
// decoder that reads it. Attention has no scale; where a key stands to a query is a bias for each head.
#include "core/base/math.h"
#include "core/model/architecture.h"
#include "core/model/layer.h"

namespace mote {
namespace {

constexpr int32_t kMaxDistance = 128;   // every T5 has it, so the files do not say it
constexpr size_t kDistances = 2 * kMaxDistance + 1;

// The bucket of a distance >= 0 among `n` of them: half of them for a distance each, the others growing like its
// logarithm. A sum of 1e-9 for powers that meet exactly: logarithms in double are off by less, other distances by more.
uint32_t bucket_of(uint32_t distance, uint32_t n) {
  const uint32_t exact = n / 2;
  if (distance < exact) return distance;
  const double part =
      log_f64(static_cast<double>(distance) / exact) / log_f64(static_cast<double>(kMaxDistance) / exact);
  const uint32_t bucket = exact + static_cast<uint32_t>(part * (n - exact) + 1e-9);
  return bucket < n ? bucket : n - 1;
}

// By distance from a query to a key. In both directions, half of the buckets are for keys behind the query.
void fill_buckets(uint32_t n_buckets, bool both_directions, uint16_t (&bucket)[kDistances]) {
  const uint32_t n = both_directions ? n_buckets / 2 : n_buckets;
  for (int32_t distance = -kMaxDistance; distance <= kMaxDistance; ++distance) {
    uint32_t found = 0;
    if (distance <= 0) found = bucket_of(static_cast<uint32_t>(-distance), n);
    if (distance > 0 && both_directions) found = n + bucket_of(static_cast<uint32_t>(distance), n);
    bucket[distance + kMaxDistance] = static_cast<uint16_t>(found);
  }
}

struct T5 {
  PlanBuilder& b;
  Weights& w;
  const Config& c;
  LayerConfig config;
  uint32_t n_buckets;
  bool is_gated;

  uint32_t keys() const { return config.n_heads * c.key_dim; }
  uint32_t values() const { return config.n_heads * c.value_dim; }
  AttentionAttributes heads() const { return {config.n_heads, 1, 0}; }
  State kv_state() const { return b.kv_state(config.n_heads, c.key_dim, c.value_dim); }
  State append(const Layer& layer, State to, Value x, std::string_view k_name, std::string_view v_name) const {
    Value k = layer.linear(x, k_name, keys());
    Value v = layer.linear(x, v_name, values());
    return b.append(to, k, v);
  }
  // Layers have a bias of their own or share that of the first one.
  Vector bias(const Layer& layer, const Vector& first, bool both_directions) const {
    const TensorName name = layer.tensor("attn_rel_b");
    if (first.exists() && !w.has(name)) return first;
    uint16_t bucket[kDistances];
    fill_buckets(n_buckets, both_directions, bucket);
    return w.distance_bias(name, n_buckets, config.n_heads, bucket);
  }
  // x + the feed-forward layer.
  Value mlp(const Layer& layer, Value x) const {
    Value h = layer.rms_norm(x, "ffn_norm");
    if (is_gated) return b.add(x, layer.gated_mlp(h, config.d_ff, Activation::gelu_tanh));
    Value up = b.activate(layer.linear(h, "ffn_up", config.d_ff), Activation::relu);   // [tokens, d_ff]
    return b.add(x, layer.linear(up, "ffn_down", c.d_model));
  }
  Value norm(Value x, std::string_view name) const { return b.rms_norm(x, w.vector(name, c.d_model), c.norm_epsilon); }

  Value encoder(const Matrix& embedding) const {
    Value x = b.embed(embedding);   // [tokens, d_model]
    State seen = kv_state();        // of one layer after the other
    Vector first;
    for (uint32_t i = 0; i < c.n_layers && w.status().ok(); ++i) {
      const Layer layer(b, w, c, i, "enc.");
      const Vector distances = bias(layer, first, true);
      if (i == 0) first = distances;
      Value h = layer.rms_norm(x, "attn_norm");
      Value q = layer.linear(h, "attn_q", keys());   // [tokens, keys]
      State all = append(layer, seen, h, "attn_k", "attn_v");
      Value a = b.full_attention(q, all, heads(), distances);   // [tokens, values]
      x = b.add(x, layer.linear(a, "attn_o", c.d_model));
      x = mlp(layer, x);
    }
    b.leave_layers();
    return norm(x, "enc.output_norm.weight");
  }

  // `read`: the encoder's output, as this layer reads it.
  Value decoder_layer(const Layer& layer, Value x, State read, const Vector& distances) const {
    Value h = layer.rms_norm(x, "attn_norm");
    Value q = layer.linear(h, "attn_q", keys());
    State past = append(layer, kv_state(), h, "attn_k", "attn_v");
    x = b.add(x, layer.linear(b.causal_attention(q, past, heads(), distances), "attn_o", c.d_model));

    h = layer.rms_norm(x, "cross_attn_norm");
    Value a = b.full_attention(layer.linear(h, "cross_attn_q", keys()), read, heads());
    x = b.add(x, layer.linear(a, "cross_attn_o", c.d_model));
    return mlp(layer, x);
  }
};

}   // namespace

Status build_t5(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& c) {
  // Of the buckets of one direction half are for a distance each, and must not reach kMaxDistance.
  MOTE_ASSIGN_OR_RETURN(const uint64_t n_buckets, file.get_unsigned("t5.attention.relative_buckets_count", 4, 254));
  MOTE_ASSIGN_OR_RETURN(const uint64_t n_layers,
                        file.get_unsigned("t5.decoder_block_count", 1, Config::kMaxLayers, c.n_layers));
  MOTE_ASSIGN_OR_RETURN(const LayerConfig config, read_layer_config(file, c, 0));
  MOTE_ASSIGN_OR_RETURN(const Pooling pooling, read_pooling(file, c, Pooling::none));
  const T5 t5{b, w, c, config, static_cast<uint32_t>(n_buckets), w.has("enc.blk.0.ffn_gate.weight")};
  const Matrix embedding = w.matrix("token_embd.weight", c.n_vocab, c.d_model);
  const auto layers = static_cast<uint32_t>(n_layers);

  b.enter_phase(Phase::encode);
  Value read = t5.encoder(embedding);   // [tokens, d_model]
  MOTE_RETURN_IF_ERROR(b.encoded(read, pooling == Pooling::none ? Value{} : b.pool(read, pooling)));
  const CrossStates across = b.cross_states(layers, config.n_heads, c.key_dim, c.value_dim);
  for (uint32_t i = 0; i < layers && w.status().ok(); ++i)
    t5.append(Layer(b, w, c, i, "dec."), across[i], read, "cross_attn_k", "cross_attn_v");

  b.enter_phase(Phase::decode);
  b.leave_layers();
  Value x = b.embed(embedding);   // [tokens, d_model]
  Vector first;
  for (uint32_t i = 0; i < layers && w.status().ok(); ++i) {
    const Layer layer(b, w, c, i, "dec.");
    const Vector distances = t5.bias(layer, first, false);
    if (i == 0) first = distances;
    x = t5.decoder_layer(layer, x, across[i], distances);
  }
  b.leave_layers();
  Value last = t5.norm(b.take_wanted_rows(x), "dec.output_norm.weight");   // [outputs, d_model]
  w.leave_out("dec.blk.0.cross_attn_rel_b.weight");                        // of the first training code; nobody runs it
  if (w.has("output.weight")) return b.logits(b.linear(last, w.matrix("output.weight", c.n_vocab, c.d_model)));
  const auto scale = static_cast<float>(1 / sqrt_f64(c.d_model));   // tied
  return b.logits(b.linear(b.scale(last, scale), embedding));       // [outputs, n_vocab]
}

}   // namespace mote
