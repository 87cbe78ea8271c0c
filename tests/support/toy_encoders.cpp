#include <cmath>

#include "tests/support/toy_model.h"
#include "tests/support/toy_weights.h"

namespace mote::test {
namespace {

// Adds the tensors of one model, all from one stream of numbers.
class Tensors {
 public:
  Tensors(GgufBuilder& to, const ToyOptions& options) : to_(to), options_(options), random_(options.seed) {}
  void matrix(const std::string& name, Format format, uint64_t rows, uint64_t columns) {
    const float deviation = 1.0f / std::sqrt(static_cast<float>(columns));
    to_.add_tensor(name, format, {columns, rows}, random_weights(format, rows, columns, deviation, random_));
  }
  void matrix(const std::string& name, uint64_t rows, uint64_t columns) {
    matrix(name, options_.matrices, rows, columns);
  }
  void vector(const std::string& name, uint64_t count, float low, float high) {
    std::vector<float> values(count);
    for (float& value : values) value = random_.uniform(low, high);
    to_.add_tensor(name, Format::f32, {count}, float_weights(Format::f32, values));
  }
  void norm(const std::string& name) { vector(name, options_.d_model, 0.8f, 1.2f); }
  void layer_norm(const std::string& name) {   // with a bias
    norm(name + ".weight");
    vector(name + ".bias", options_.d_model, -0.2f, 0.2f);
  }
  void linear(const std::string& name, uint64_t rows, uint64_t columns) {   // with a bias
    matrix(name + ".weight", rows, columns);
    vector(name + ".bias", rows, -0.2f, 0.2f);
  }

 private:
  GgufBuilder& to_;
  const ToyOptions& options_;
  Random random_;
};

GgufBuilder head_of(const std::string& architecture, const ToyOptions& options) {
  GgufBuilder model;
  const auto set = [&](const char* key, uint32_t value) { model.set_u32(architecture + "." + key, value); };
  model.set_string("general.architecture", architecture);
  model.set_string("general.name", "toy");
  set("block_count", options.n_layers);
  set("context_length", options.context);
  set("embedding_length", options.d_model);
  set("feed_forward_length", options.d_ff);
  set("attention.head_count", options.n_heads);
  add_toy_tokenizer(model, options);
  return model;
}

// Layers of either stack of t5.
void add_t5_stack(Tensors& tensors, const ToyOptions& options, bool decoder) {
  const uint64_t d = options.d_model;
  const std::string stack = decoder ? "dec." : "enc.";
  for (uint32_t i = 0; i < options.n_layers; ++i) {
    const std::string layer = stack + "blk." + std::to_string(i) + ".";
    for (const char* kind : {"attn", "cross_attn"}) {
      if (!decoder && kind[0] == 'c') continue;
      const std::string name = layer + kind + "_";
      tensors.norm(name + "norm.weight");
      for (const char* which : {"q", "k", "v", "o"}) tensors.matrix(name + which + ".weight", d, d);
    }
    if (i == 0) tensors.matrix(layer + "attn_rel_b.weight", Format::f32, options.n_buckets, options.n_heads);
    tensors.norm(layer + "ffn_norm.weight");
    if (options.gated) tensors.matrix(layer + "ffn_gate.weight", options.d_ff, d);
    tensors.matrix(layer + "ffn_up.weight", options.d_ff, d);
    tensors.matrix(layer + "ffn_down.weight", d, options.d_ff);
  }
  tensors.norm(stack + "output_norm.weight");
}

}   // namespace

GgufBuilder toy_bert(const ToyOptions& options) {
  GgufBuilder model = head_of("bert", options);
  model.set_f32("bert.attention.layer_norm_epsilon", 1e-12f);
  model.set_bool("bert.attention.causal", false);
  model.set_u32("bert.pooling_type", options.pooling_type);
  const uint64_t d = options.d_model;
  Tensors tensors(model, options);
  tensors.matrix("token_embd.weight", options.embedding, options.n_vocab, d);
  tensors.matrix("position_embd.weight", options.embedding, options.context, d);
  tensors.matrix("token_types.weight", Format::f32, 2, d);
  tensors.layer_norm("token_embd_norm");
  for (uint32_t i = 0; i < options.n_layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    for (const char* which : {"attn_q", "attn_k", "attn_v", "attn_output"}) tensors.linear(layer + which, d, d);
    tensors.layer_norm(layer + "attn_output_norm");
    tensors.linear(layer + "ffn_up", options.d_ff, d);
    tensors.linear(layer + "ffn_down", d, options.d_ff);
    tensors.layer_norm(layer + "layer_output_norm");
  }
  return model;
}

GgufBuilder toy_t5(const ToyOptions& options) {
  GgufBuilder model = head_of("t5", options);
  model.set_u32("t5.decoder_block_count", options.n_layers);
  model.set_f32("t5.attention.layer_norm_rms_epsilon", options.rms_epsilon);
  model.set_u32("t5.attention.relative_buckets_count", options.n_buckets);
  Tensors tensors(model, options);
  tensors.matrix("token_embd.weight", options.embedding, options.n_vocab, options.d_model);
  add_t5_stack(tensors, options, false);
  add_t5_stack(tensors, options, true);
  if (!options.tied) tensors.matrix("output.weight", options.output, options.n_vocab, options.d_model);
  return model;
}

GgufBuilder toy_rnn(const ToyOptions& options) {
  ToyOptions one_head = options;
  one_head.n_heads = 1;
  GgufBuilder model = head_of("rnn", one_head);
  model.set_f32("rnn.attention.layer_norm_epsilon", 0);
  Tensors tensors(model, options);
  tensors.matrix("token_embd.weight", options.embedding, options.n_vocab, options.d_model);
  for (uint32_t i = 0; i < options.n_layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    tensors.linear(layer + "rnn_in", options.d_ff, i == 0 ? options.d_model : options.d_ff);
    tensors.matrix(layer + "rnn_hidden.weight", options.d_ff, options.d_ff);
  }
  if (options.n_classes == 0) {
    tensors.matrix("output.weight", options.output, options.n_vocab, options.d_ff);
    return model;
  }
  model.set_strings("rnn.classifier.output_labels", std::vector<std::string>(options.n_classes, "label"));
  model.set_u32("rnn.pooling_type", options.pooling_type);
  model.set_bool("rnn.attention.pooling", options.gated);
  if (options.gated)
    for (const char* name : {"attn_q.weight", "attn_k.weight"}) tensors.matrix(name, options.d_model, options.d_ff);
  tensors.linear("cls.output", options.n_classes, options.d_ff);
  return model;
}

GgufBuilder toy_classifier(const ToyOptions& options) {
  ToyOptions with_classes = options;
  with_classes.n_classes = 3;
  return toy_rnn(with_classes);
}

GgufBuilder toy_transducer(const ToyOptions& options) {
  GgufBuilder model = head_of("transducer", options);
  model.set_u32("transducer.decoder_block_count", options.n_layers);
  model.set_f32("transducer.attention.layer_norm_epsilon", options.rms_epsilon);
  const uint64_t d = options.d_model;
  Tensors tensors(model, options);
  tensors.matrix("token_embd.weight", options.embedding, options.n_vocab, d);
  for (const std::string stack : {"enc.", "dec."}) {
    for (uint32_t i = 0; i < options.n_layers; ++i) {
      const std::string layer = stack + "blk." + std::to_string(i) + ".";
      for (const char* kind : {"attn", "cross_attn"}) {
        if (stack == "enc." && kind[0] == 'c') continue;
        tensors.layer_norm(layer + kind + "_norm");
        for (const char* which : {"_q", "_k", "_v", "_output"}) tensors.matrix(layer + kind + which + ".weight", d, d);
      }
      tensors.layer_norm(layer + "ffn_norm");
      tensors.linear(layer + "ffn_up", options.d_ff, d);
      tensors.linear(layer + "ffn_down", d, options.d_ff);
    }
    tensors.layer_norm(stack + "output_norm");
  }
  if (!options.tied) tensors.matrix("output.weight", options.output, options.n_vocab, d);
  return model;
}

const char* name_of(ToyModel toy) {
  constexpr std::pair<ToyModel, const char*> kNames[] = {{toy_llama, "llama"},
                                                         {toy_phi3, "phi3"},
                                                         {toy_bert, "bert"},
                                                         {toy_t5, "t5"},
                                                         {toy_rnn, "rnn"},
                                                         {toy_classifier, "classifier"},
                                                         {toy_transducer, "transducer"}};
  for (const auto& [model, name] : kNames)
    if (model == toy) return name;
  return "another";
}

}   // namespace mote::test
