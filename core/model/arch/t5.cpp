// T5: https://arxiv.org/abs/1910.10683; its v1.1 with gated layers: https://arxiv.org/abs/2002.05202. An encoder and a
// decoder that reads it. Attention has no scale; where a key stands to a query is a bias for each head.
#include "core/base/math.h"
#include "core/model/architecture.h"

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

// "enc.blk.3.attn_q.weight"
class Name {
 public:
  Name(std::string_view stack, uint32_t layer, std::string_view tensor) {
    const FormatArgument arguments[] = {FormatArgument(stack), FormatArgument(layer), FormatArgument(tensor)};
    length_ = format_sentence(text_, sizeof text_, "{}.blk.{}.{}.weight", arguments, 3);
  }
  operator std::string_view() const { return {text_, length_}; }

 private:
  char text_[64];
  uint32_t length_;
};

struct T5 {
  PlanBuilder& b;
  Weights& w;
  const Config& c;
  LayerConfig layer;
  uint32_t n_buckets;
  bool is_gated;

  uint32_t keys() const { return layer.n_heads * c.key_dim; }
  uint32_t values() const { return layer.n_heads * c.value_dim; }
  AttentionAttributes heads() const { return {layer.n_heads, 1, 0}; }
  Value linear(Value x, const Name& name, uint32_t rows, uint32_t columns) const {
    return b.linear(x, w.matrix(name, rows, columns));
  }
  Value norm(Value x, std::string_view name) const { return b.rms_norm(x, w.vector(name, c.d_model), c.norm_epsilon); }
  State kv_state() const { return b.kv_state(layer.n_heads, c.key_dim, c.value_dim); }
  State append(State to, Value x, std::string_view stack, uint32_t i, bool across = false) const {
    Value k = linear(x, {stack, i, across ? "cross_attn_k" : "attn_k"}, keys(), c.d_model);
    Value v = linear(x, {stack, i, across ? "cross_attn_v" : "attn_v"}, values(), c.d_model);
    return b.append(to, k, v);
  }
  // Layers have a bias of their own or share that of the first one.
  Vector bias(std::string_view stack, uint32_t i, const Vector& first, bool both_directions) const {
    const Name name(stack, i, "attn_rel_b");
    if (i != 0 && !w.has(name)) return first;
    uint16_t bucket[kDistances];
    fill_buckets(n_buckets, both_directions, bucket);
    return w.distance_bias(name, n_buckets, layer.n_heads, bucket);
  }
  // x + the feed-forward layer.
  Value mlp(Value x, std::string_view stack, uint32_t i) const {
    Value h = norm(x, Name(stack, i, "ffn_norm"));
    Value up = linear(h, {stack, i, "ffn_up"}, layer.d_ff, c.d_model);   // [tokens, d_ff]
    up = is_gated ? b.gate(linear(h, {stack, i, "ffn_gate"}, layer.d_ff, c.d_model), up, Activation::gelu_tanh)
                  : b.activate(up, Activation::relu);
    return b.add(x, linear(up, {stack, i, "ffn_down"}, c.d_model, layer.d_ff));
  }

  Value encoder(const Matrix& embedding) const {
    Value x = b.embed(embedding);   // [tokens, d_model]
    State seen = kv_state();        // of one layer after the other
    Vector first;
    for (uint32_t i = 0; i < c.n_layers && w.status().ok(); ++i) {
      b.enter_layer(i);
      const Vector distances = bias("enc", i, first, true);
      if (i == 0) first = distances;
      Value h = norm(x, Name("enc", i, "attn_norm"));
      Value q = linear(h, {"enc", i, "attn_q"}, keys(), c.d_model);                   // [tokens, keys]
      Value a = b.full_attention(q, append(seen, h, "enc", i), heads(), distances);   // [tokens, values]
      x = b.add(x, linear(a, {"enc", i, "attn_o"}, c.d_model, values()));
      x = mlp(x, "enc", i);
    }
    b.leave_layers();
    return norm(x, "enc.output_norm.weight");
  }

  // `read`: the encoder's output, as layer i of the decoder reads it.
  Value decoder_layer(Value x, State read, uint32_t i, const Vector& distances) const {
    Value h = norm(x, Name("dec", i, "attn_norm"));
    Value q = linear(h, {"dec", i, "attn_q"}, keys(), c.d_model);
    Value a = b.causal_attention(q, append(kv_state(), h, "dec", i), heads(), distances);
    x = b.add(x, linear(a, {"dec", i, "attn_o"}, c.d_model, values()));

    h = norm(x, Name("dec", i, "cross_attn_norm"));
    a = b.full_attention(linear(h, {"dec", i, "cross_attn_q"}, keys(), c.d_model), read, heads());
    x = b.add(x, linear(a, {"dec", i, "cross_attn_o"}, c.d_model, values()));
    return mlp(x, "dec", i);
  }
};

}   // namespace

Status build_t5(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& c) {
  // Of the buckets of one direction half are for a distance each, and must not reach kMaxDistance.
  MOTE_ASSIGN_OR_RETURN(const uint64_t n_buckets, file.get_unsigned("t5.attention.relative_buckets_count", 4, 254));
  MOTE_ASSIGN_OR_RETURN(const uint64_t n_layers,
                        file.get_unsigned("t5.decoder_block_count", 1, Config::kMaxLayers, c.n_layers));
  MOTE_ASSIGN_OR_RETURN(const LayerConfig layer, read_layer_config(file, c, 0));
  MOTE_ASSIGN_OR_RETURN(const Pooling pooling, read_pooling(file, c, Pooling::none));
  const T5 t5{b, w, c, layer, static_cast<uint32_t>(n_buckets), w.has("enc.blk.0.ffn_gate.weight")};
  const Matrix embedding = w.matrix("token_embd.weight", c.n_vocab, c.d_model);

  b.enter_phase(Phase::encode);
  Value read = t5.encoder(embedding);   // [tokens, d_model]
  MOTE_RETURN_IF_ERROR(b.encoded(read, pooling == Pooling::none ? Value{} : b.pool(read, pooling)));
  State across;   // the first of one for each layer of the decoder, in a row
  for (uint32_t i = 0; i < n_layers && w.status().ok(); ++i) {
    b.enter_layer(i);
    const State state = t5.append(t5.kv_state(), read, "dec", i, true);
    if (i == 0) across = state;
  }

  b.enter_phase(Phase::decode);
  b.leave_layers();
  Value x = b.embed(embedding);   // [tokens, d_model]
  Vector first;
  for (uint32_t i = 0; i < n_layers && w.status().ok(); ++i) {
    b.enter_layer(i);
    const Vector distances = t5.bias("dec", i, first, false);
    if (i == 0) first = distances;
    x = t5.decoder_layer(x, across, i, distances);
    ++across.id;
  }
  b.leave_layers();
  Value last = t5.norm(b.take_wanted_rows(x), "dec.output_norm.weight");   // [outputs, d_model]
  w.leave_out("dec.blk.0.cross_attn_rel_b.weight");                        // of the first training code; nobody runs it
  if (w.has("output.weight")) return b.logits(b.linear(last, w.matrix("output.weight", c.n_vocab, c.d_model)));
  const auto scale = static_cast<float>(1 / sqrt_f64(c.d_model));   // tied
  return b.logits(b.linear(b.scale(last, scale), embedding));       // [outputs, n_vocab]
}

}   // namespace mote
