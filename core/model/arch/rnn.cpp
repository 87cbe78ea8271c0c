// Elman's network, https://doi.org/10.1207/s15516709cog1402_1: h_i = tanh(W x_i + b + U h_{i-1}). With labels in its
// metadata it scores whole texts by the mean of the hidden states, or, with attention
// (https://arxiv.org/abs/1508.04025, the last hidden state asks all of them), by an average with learned weights.
// Without labels it continues texts.
#include "core/base/math.h"
#include "core/model/architecture.h"
#include "core/model/layer.h"

namespace mote {
namespace {

// The number of classes.
Result<uint32_t> count_labels(const gguf::Entry& labels) {
  if (labels.type != gguf::Type::array || labels.element_type != gguf::Type::string || labels.count == 0 ||
      labels.count > Config::kMaxVocab)
    return Status::error(Code::bad_model, "rnn.classifier.output_labels is not a list of 1 to {} texts",
                         Config::kMaxVocab);
  return static_cast<uint32_t>(labels.count);
}

// What each hidden state finds when it asks all of them: rows as wide as they are.
Result<Value> attend(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& c, Value h) {
  MOTE_ASSIGN_OR_RETURN(const LayerConfig layer, read_layer_config(file, c, 0));
  if (layer.n_heads != 1)
    return Status::error(Code::unsupported, "rnn.attention.head_count is {}; attention that pools has one head",
                         layer.n_heads);
  const uint32_t kd = c.key_dim;
  MOTE_RETURN_IF_ERROR(   // its values are the hidden states
      file.get_unsigned("rnn.attention.value_length", h.columns, h.columns, h.columns).status());
  b.enter_layer(0);                                                  // of attention there is one
  Value q = b.linear(h, w.matrix("attn_q.weight", kd, h.columns));   // [tokens, kd]
  Value k = b.linear(h, w.matrix("attn_k.weight", kd, h.columns));
  State seen = b.append(b.kv_state(1, kd, h.columns), k, h);
  Value found = b.full_attention(q, seen, {1, static_cast<float>(1 / sqrt_f64(kd)), 0});
  b.leave_layers();
  return found;
}

// [1, classes] of the hidden states [tokens, width].
Result<Value> score(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& c, Value h, uint32_t n_classes) {
  constexpr std::string_view kOfScores[] = {"attn_q.weight", "attn_k.weight", "cls.output.weight", "cls.output.bias"};
  MOTE_ASSIGN_OR_RETURN(const bool attends, file.get_bool("rnn.attention.pooling", false));
  MOTE_ASSIGN_OR_RETURN(const Pooling pooling, read_pooling(file, c, attends ? Pooling::last : Pooling::mean));
  if (pooling == Pooling::none) {   // the caller wants hidden states alone
    for (const std::string_view name : kOfScores) w.leave_out(name);
    return Value{};
  }
  if (attends) {
    MOTE_ASSIGN_OR_RETURN(h, attend(b, w, file, c, h));
  }
  const Matrix classes = w.matrix("cls.output.weight", n_classes, h.columns);
  return b.linear(b.pool(h, pooling), classes, w.vector("cls.output.bias", n_classes));
}

}   // namespace

Status build_rnn(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& c) {
  gguf::Entry labels;
  const bool classifies = file.find("rnn.classifier.output_labels", &labels);
  b.enter_phase(classifies ? Phase::encode : Phase::decode);
  Value h = b.embed(w.matrix("token_embd.weight", c.n_vocab, c.d_model));   // [tokens, d_model]
  for (uint32_t i = 0; i < c.n_layers && w.status().ok(); ++i) {
    MOTE_ASSIGN_OR_RETURN(const LayerConfig config, read_layer_config(file, c, i));
    const uint32_t width = config.d_ff;
    const Layer layer(b, w, c, i);
    Value x = layer.linear(h, "rnn_in", width, Bias::required);   // [tokens, width]
    h = b.rnn(x, b.recurrent_state(width), w.matrix(layer.tensor("rnn_hidden"), width, width));
  }
  b.leave_layers();
  if (!classifies) return b.logits(b.linear(b.take_wanted_rows(h), w.matrix("output.weight", c.n_vocab, h.columns)));
  MOTE_ASSIGN_OR_RETURN(const uint32_t n_classes, count_labels(labels));
  MOTE_ASSIGN_OR_RETURN(const Value scores, score(b, w, file, c, h, n_classes));
  return b.encoded(h, scores);
}

}   // namespace mote
