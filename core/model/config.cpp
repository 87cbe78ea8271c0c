#include "core/model/config.h"

#include <algorithm>

namespace mote {
namespace {

// "llama" and ".block_count" become one key without a heap.
class Key {
 public:
  Key(std::string_view architecture, std::string_view name) {
    const auto append = [this](std::string_view text) {
      for (const char c : text)
        if (length_ < sizeof text_) text_[length_++] = c;
    };
    append(architecture), append("."), append(name);
  }
  operator std::string_view() const { return {text_, length_}; }

 private:
  char text_[96];
  size_t length_ = 0;
};

class Reader {
 public:
  Reader(const gguf::File& file, std::string_view architecture) : file_(file), architecture_(architecture) {}

  bool has(std::string_view name) const {
    gguf::Entry entry;
    return file_.find(Key(architecture_, name), &entry);
  }
  uint32_t count(std::string_view name, uint64_t lowest, uint64_t highest) {
    return take(file_.get_unsigned(Key(architecture_, name), lowest, highest));
  }
  uint32_t count(std::string_view name, uint64_t lowest, uint64_t highest, uint64_t otherwise) {
    return take(file_.get_unsigned(Key(architecture_, name), lowest, highest, otherwise));
  }
  // A finite number in [lowest, highest].
  double real(std::string_view name, double lowest, double highest) {
    return in_range(name, lowest, highest, file_.get_real(Key(architecture_, name)));
  }
  double real(std::string_view name, double lowest, double highest, double otherwise) {
    return in_range(name, lowest, highest, file_.get_real(Key(architecture_, name), otherwise));
  }
  std::string_view text(std::string_view name, std::string_view otherwise) {
    const Result<std::string_view> result = file_.get_string(Key(architecture_, name), otherwise);
    keep(result.status());
    return result.value();
  }
  bool flag(std::string_view name, bool otherwise) {
    const Result<bool> result = file_.get_bool(Key(architecture_, name), otherwise);
    keep(result.status());
    return result.value();
  }
  std::string_view architecture() const { return architecture_; }
  bool keep(const Status& status) {
    if (status_.ok()) status_ = status;
    return status.ok();
  }
  const Status& status() const { return status_; }

 private:
  double in_range(std::string_view name, double lowest, double highest, const Result<double>& result) {
    if (!keep(result.status())) return lowest;
    if (!(result.value() >= lowest && result.value() <= highest))
      keep(Status::error(Code::bad_model, "{} is {}; allowed is {} to {}", std::string_view(Key(architecture_, name)),
                         result.value(), lowest, highest));
    return result.value();
  }
  uint32_t take(const Result<uint64_t>& result) {
    return keep(result.status()) ? static_cast<uint32_t>(result.value()) : 1;
  }

  const gguf::File& file_;
  std::string_view architecture_;
  Status status_;
};

// Settings that change the mathematics, with the value that changes nothing (which is also that of a file without the
// key). An architecture that runs one reads it and has it in its row of arches.inc; the others refuse it.
struct Unrun {
  enum Kind : uint8_t { count, real, flag } kind;
  std::string_view name;
  double harmless;
};
constexpr Unrun kUnrun[] = {
    {Unrun::count, "expert_count", 0},
    {Unrun::flag, "attention.causal", 1},
    {Unrun::count, "attention.sliding_window", 0},
    {Unrun::real, "attn_logit_softcapping", 0},
    {Unrun::real, "final_logit_softcapping", 0},
    {Unrun::real, "attention.clamp_kqv", 0},
    {Unrun::real, "attention.max_alibi_bias", 0},
    {Unrun::real, "attention.scale", 0},   // 0: one over the root of the head's width
    {Unrun::real, "logit_scale", 1},
    {Unrun::real, "residual_scale", 1},
    {Unrun::real, "embedding_scale", 1},
    {Unrun::flag, "use_parallel_residual", 0},
};

Status check_unrun(const gguf::File& file, std::string_view architecture, std::span<const std::string_view> runs) {
  MOTE_ASSIGN_OR_RETURN(const std::string_view type, file.get_string("general.type", "model"));
  if (type != "model")
    return Status::error(Code::unsupported, "general.type is {}; this build runs files of type model", type);
  for (const Unrun& setting : kUnrun) {
    if (std::find(runs.begin(), runs.end(), setting.name) != runs.end()) continue;
    const Key key(architecture, setting.name);
    double value = 0;
    if (setting.kind == Unrun::flag) {
      MOTE_ASSIGN_OR_RETURN(const bool found, file.get_bool(key, setting.harmless != 0));
      value = found ? 1 : 0;
    } else if (setting.kind == Unrun::count) {
      MOTE_ASSIGN_OR_RETURN(const uint64_t found, file.get_unsigned(key, 0, UINT32_MAX, 0));
      value = static_cast<double>(found);
    } else {
      MOTE_ASSIGN_OR_RETURN(value, file.get_real(key, setting.harmless));
    }
    if (value != setting.harmless)
      return Status::error(Code::unsupported, "{} is {}; this build runs only {}", std::string_view(key), value,
                           setting.harmless);
  }
  return {};
}

}   // namespace

Result<std::string_view> read_architecture(const gguf::File& file) { return file.get_string("general.architecture"); }

Result<Config> read_config(const gguf::File& file, uint32_t n_vocab, std::span<const std::string_view> runs) {
  MOTE_ASSIGN_OR_RETURN(const std::string_view architecture, read_architecture(file));
  Reader reader(file, architecture);
  Config config{};
  config.architecture = architecture;
  config.n_vocab = n_vocab;
  config.n_layers = reader.count("block_count", 1, Config::kMaxLayers);
  config.d_model = reader.count("embedding_length", 1, Config::kMaxWidth);
  config.context_length = reader.count("context_length", 1, Config::kMaxContext);
  // Which of the two there is depends on the norm that the architecture has.
  const bool other = !reader.has("attention.layer_norm_rms_epsilon") && reader.has("attention.layer_norm_epsilon");
  config.norm_epsilon = static_cast<float>(
      reader.real(other ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 0, 1));
  const uint32_t vocab_size = reader.count("vocab_size", 1, Config::kMaxVocab, n_vocab);
  config.decoder_start = reader.count("decoder_start_token_id", 0, n_vocab - 1, n_vocab);
  reader.keep(check_unrun(file, architecture, runs));
  if (!reader.status().ok()) return reader.status();
  if (vocab_size != n_vocab)
    return Status::error(Code::bad_model, "{}.vocab_size is {}, token_embd.weight has {} rows", architecture,
                         vocab_size, n_vocab);

  // Without key_length a head is the width divided by the heads, which then must be the same in every layer.
  if (!reader.has("attention.key_length")) {
    MOTE_ASSIGN_OR_RETURN(const LayerConfig first, read_layer_config(file, config, 0));
    if (config.d_model % first.n_heads != 0)
      return Status::error(Code::bad_model,
                           "{}.embedding_length {} is not a multiple of {}.attention.head_count {}, and there is no "
                           "{}.attention.key_length",
                           architecture, config.d_model, architecture, first.n_heads, architecture);
    config.key_dim = config.d_model / first.n_heads;
  } else {
    config.key_dim = reader.count("attention.key_length", 1, Config::kMaxWidth);
  }
  config.value_dim = reader.count("attention.value_length", 1, Config::kMaxWidth, config.key_dim);
  if (!reader.status().ok()) return reader.status();
  return config;
}

Result<RopeConfig> read_rope(const gguf::File& file, const Config& config) {
  if (config.key_dim < 2)
    return Status::error(Code::bad_model, "heads of {} values are too small; at least 2 are needed", config.key_dim);
  Reader reader(file, config.architecture);
  RopeConfig rope{};
  rope.n_rotated = reader.count("rope.dimension_count", 2, config.key_dim, config.key_dim);
  if (rope.n_rotated % 2 != 0)
    reader.keep(Status::error(Code::bad_model, "{}.rope.dimension_count is {}; it must be even", reader.architecture(),
                              rope.n_rotated));
  rope.base = reader.real("rope.freq_base", 1, 1e15, 10000);
  rope.factor = 1;
  rope.attention_factor = 1;
  // The oldest files give a linear factor alone.
  const double old_factor = reader.real("rope.scale_linear", RopeConfig::kLeastFactor, 1e6, 1);
  const std::string_view kind = reader.text("rope.scaling.type", old_factor == 1 ? "none" : "linear");
  if (kind == "none") return reader.status().ok() ? Result<RopeConfig>(rope) : reader.status();
  rope.factor = reader.real("rope.scaling.factor", RopeConfig::kLeastFactor, 1e6, old_factor);
  if (kind == "linear") {
    rope.scaling = RopeScaling::linear;
  } else if (kind == "yarn") {
    rope.scaling = RopeScaling::yarn;
    // Turns are counted by the logarithm to this base.
    if (rope.base <= 1)
      reader.keep(Status::error(Code::bad_model, "{}.rope.freq_base is {}; yarn scaling needs one above 1",
                                reader.architecture(), rope.base));
    rope.original_context =
        reader.count("rope.scaling.original_context_length", 1, Config::kMaxContext, config.context_length);
    rope.attention_factor = reader.real("rope.scaling.attn_factor", 1e-3, 1e3, 1);
    rope.beta_fast = reader.real("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32);
    rope.beta_slow = reader.real("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1);
  } else {
    reader.keep(Status::error(Code::unsupported, "{}.rope.scaling.type is {}; this build knows none, linear and yarn",
                              reader.architecture(), kind));
  }
  if (!reader.status().ok()) return reader.status();
  return rope;
}

Result<LayerConfig> read_layer_config(const gguf::File& file, const Config& config, uint32_t layer) {
  LayerConfig out{};
  const Key heads(config.architecture, "attention.head_count"),
      kv_heads(config.architecture, "attention.head_count_kv");
  const Key width(config.architecture, "feed_forward_length");
  MOTE_ASSIGN_OR_RETURN(const uint64_t n_heads,
                        file.get_unsigned_at(heads, layer, config.n_layers, 1, Config::kMaxHeads));
  uint64_t n_kv_heads = n_heads;
  gguf::Entry entry;
  if (file.find(kv_heads, &entry)) {
    MOTE_ASSIGN_OR_RETURN(n_kv_heads, file.get_unsigned_at(kv_heads, layer, config.n_layers, 1, Config::kMaxHeads));
  }
  if (n_heads % n_kv_heads != 0)
    return Status::error(Code::bad_model, "{} is {} in layer {}; it must divide {}, which is {}",
                         std::string_view(kv_heads), n_kv_heads, layer, std::string_view(heads), n_heads);
  MOTE_ASSIGN_OR_RETURN(const uint64_t d_ff, file.get_unsigned_at(width, layer, config.n_layers, 1, Config::kMaxWidth));
  out.n_heads = static_cast<uint32_t>(n_heads);
  out.n_kv_heads = static_cast<uint32_t>(n_kv_heads);
  out.d_ff = static_cast<uint32_t>(d_ff);
  if (uint64_t{out.n_heads} * config.key_dim > Config::kMaxWidth ||
      uint64_t{out.n_heads} * config.value_dim > Config::kMaxWidth)
    return Status::error(Code::bad_model, "layer {} has {} heads of {} values; together at most {} are allowed", layer,
                         out.n_heads, config.key_dim > config.value_dim ? config.key_dim : config.value_dim,
                         Config::kMaxWidth);
  return out;
}

Result<uint32_t> read_window(const gguf::File& file, const Config& config, uint32_t layer, uint32_t window,
                             uint32_t period) {
  Reader reader(file, config.architecture);
  window = reader.count("attention.sliding_window", 0, Config::kMaxContext, window);
  const Key pattern(config.architecture, "attention.sliding_window_pattern");
  gguf::Entry entry;
  bool windowed = false;
  if (file.find(pattern, &entry) && entry.type == gguf::Type::array) {
    const Result<bool> listed = file.get_bool_at(pattern, layer, config.n_layers, false);
    reader.keep(listed.status());
    windowed = listed.value();
  } else {
    period = reader.count("attention.sliding_window_pattern", 0, Config::kMaxLayers, period);
    windowed = period == 0 || layer % period + 1 != period;
  }
  if (!reader.status().ok()) return reader.status();
  return windowed ? window : 0;
}

Result<double> read_real(const gguf::File& file, const Config& config, std::string_view name, double lowest,
                         double highest, double otherwise) {
  Reader reader(file, config.architecture);
  const double value = reader.real(name, lowest, highest, otherwise);
  if (!reader.status().ok()) return reader.status();
  return value;
}

Result<Pooling> read_pooling(const gguf::File& file, const Config& config, Pooling otherwise) {
  constexpr uint64_t kRank = 4;   // a head that scores pairs of texts
  const Key key(config.architecture, "pooling_type");
  MOTE_ASSIGN_OR_RETURN(const uint64_t found, file.get_unsigned(key, 0, kRank, static_cast<uint64_t>(otherwise)));
  if (found == kRank)
    return Status::error(Code::unsupported, "{} is 4, which ranks; this build pools 1 (mean), 2 (cls) and 3 (last)",
                         std::string_view(key));
  return config.has_pooling ? config.pooling : static_cast<Pooling>(found);
}

}   // namespace mote
