#include "core/model_opening.h"

#include "core/model/architecture.h"

namespace mote {

ModelFiles take_files(Arena& arena, const ModelSource& source) {
  ModelFiles files;
  files.maps = arena.take<FileMap>(source.count());
  files.parts = arena.take<gguf::Part>(source.count() - 1);
  files.copy = arena.take<uint8_t>(source.copied_bytes());
  return files;
}

Status read_model_options(const mote_model_options* given, mote_model_options* options) {
  MOTE_RETURN_IF_ERROR(read_options(given, "mote_model_options", options));
  if (options->pooling < MOTE_POOLING_OF_MODEL || options->pooling > MOTE_POOLING_LAST)
    return Status::error(Code::invalid_argument, "pooling is {}; it must be a mote_pooling, {} to {}", options->pooling,
                         static_cast<int>(MOTE_POOLING_OF_MODEL), static_cast<int>(MOTE_POOLING_LAST));
  if (options->taps >> kAttendings != 0)
    return Status::error(Code::invalid_argument, "taps are {}; the bits of all mote_taps are {}", options->taps,
                         (1 << kAttendings) - 1);
  return {};
}

namespace {

Taps taps_of(const mote_model_options& options) {
  Taps taps{options.taps, options.tap_first_layer, UINT32_MAX};
  if (options.tap_layers != 0 && options.tap_layers < UINT32_MAX - taps.first_layer)
    taps.end_layer = taps.first_layer + options.tap_layers;
  return taps;
}

}   // namespace

Status ModelOpening::run(const ModelSource& source) {
  arena_.create<mote_model>();
  take_files(arena_, source);
  bytes_.copied_bytes = round_up(source.copied_bytes(), kArenaAlignment);
  bytes_.tables_bytes = arena_.used_bytes() - bytes_.copied_bytes;
  return layout(nullptr);
}

Status ModelOpening::run_into(mote_model* model) { return layout(model); }

Status ModelOpening::layout(mote_model* model) {
  uint64_t before = arena_.used_bytes();
  const auto kind = [&](uint64_t* counter) {
    *counter += arena_.used_bytes() - before;
    before = arena_.used_bytes();
  };
  MOTE_ASSIGN_OR_RETURN(index_, gguf::TensorIndex::create(file_, arena_));
  if (arena_.measuring()) {
    MOTE_ASSIGN_OR_RETURN(index_, gguf::TensorIndex::create(file_, *scratch_));
    MOTE_RETURN_IF_ERROR(scratch_->status("the quote"));
  }
  kind(&bytes_.tables_bytes);

  MOTE_RETURN_IF_ERROR(layout_tokenizer());
  kind(&bytes_.tokenizer_bytes);
  MOTE_RETURN_IF_ERROR(arena_.status("the model"));
  if (!is_vocabulary_only()) MOTE_RETURN_IF_ERROR(layout_plan(model));
  if (is_vocabulary_only()) bytes_.compiled_from_bytes = arena_.used_bytes();
  if (model == nullptr) return arena_.status("the model");

  model->index = index_;
  model->config = config_;
  model->tokenizer = tokenizer_;
  model->no_tokenizer = no_tokenizer_;
  for (const gguf::Tensor& tensor : index_.tensors()) {
    uint64_t count = 1;
    for (const uint64_t dimension : tensor.dimensions) count *= dimension;   // the reader checked that they fit
    model->n_parameters += count;
    model->weight_bytes += tensor.bytes;
  }
  const Result<std::string_view> architecture = read_architecture(file_);
  const std::string_view name = architecture.ok() ? architecture.value() : std::string_view("none");
  for (size_t i = 0; i < name.size() && i + 1 < sizeof model->architecture; ++i) model->architecture[i] = name[i];
  return {};
}

// A tokenizer of an unknown kind leaves the ids, the metadata and the tensors.
Status ModelOpening::layout_tokenizer() {
  if (gguf::Entry entry; !file_.find("tokenizer.ggml.model", &entry)) {
    no_tokenizer_ = Status::error(Code::unsupported,
                                  "the model has no tokenizer: there is no tokenizer.ggml.model in its metadata");
    return {};
  }
  const Result<Tokenizer*> tokenizer = Tokenizer::create(file_, arena_, &piece_bytes_);
  if (!tokenizer.ok()) {
    no_tokenizer_ = tokenizer.status();
    return no_tokenizer_.code() == Code::unsupported ? Status() : no_tokenizer_;
  }
  tokenizer_ = tokenizer.value();
  return {};
}

Status ModelOpening::layout_plan(mote_model* model) {
  MOTE_ASSIGN_OR_RETURN(const std::string_view name, read_architecture(file_));
  MOTE_ASSIGN_OR_RETURN(const ArchitectureEntry* architecture, find_architecture(name));
  MOTE_ASSIGN_OR_RETURN(const uint32_t n_vocab, read_vocabulary_rows(index_));
  MOTE_ASSIGN_OR_RETURN(config_, read_config(file_, n_vocab, architecture->runs));
  config_.has_pooling = options_.pooling != MOTE_POOLING_OF_MODEL;
  if (config_.has_pooling) config_.pooling = static_cast<Pooling>(options_.pooling - MOTE_POOLING_NONE);
  if (gguf::Entry pieces; file_.find("tokenizer.ggml.tokens", &pieces) && pieces.count != n_vocab)
    return Status::error(Code::bad_model, "tokenizer.ggml.tokens has {} entries, token_embd.weight has {} rows",
                         pieces.count, n_vocab);

  const auto build = [&](PlanBuilder& builder, Arena& vectors) {
    Weights weights(index_, vectors);
    const Status built = architecture->build(builder, weights, file_, config_);
    if (!weights.status().ok()) return weights.status();
    return built.ok() ? weights.check_all_used(name) : built;
  };
  PlanBuilder counter;
  counter.tap(taps_of(options_));
  Arena vectors;
  MOTE_RETURN_IF_ERROR(build(counter, vectors));
  if (options_.taps != 0 && counter.tapped() == 0)
    return Status::error(Code::invalid_argument,
                         "taps are {} from tap_first_layer {} on; the model has no such attention there", options_.taps,
                         options_.tap_first_layer);

  uint64_t before = arena_.used_bytes();
  const PlanBuilder::Counts& counts = counter.counts();
  const std::span<Step> steps = take<Step>(counts.steps);
  const std::span<ValueInfo> values = take<ValueInfo>(counts.values);
  const std::span<StateInfo> states = take<StateInfo>(counts.states);
  const std::span<uint64_t> quote_offsets = arena_.take<uint64_t>(counts.values);
  if (model != nullptr) model->quote_offsets = quote_offsets;
  bytes_.plan_bytes += arena_.used_bytes() - before;
  MOTE_RETURN_IF_ERROR(arena_.status("the model"));
  if (scratch_ != nullptr) MOTE_RETURN_IF_ERROR(scratch_->status("the quote"));
  before = arena_.used_bytes();
  PlanBuilder builder(steps, values, states);
  builder.tap(taps_of(options_));
  MOTE_RETURN_IF_ERROR(build(builder, arena_));
  bytes_.vectors_bytes += arena_.used_bytes() - before;
  MOTE_RETURN_IF_ERROR(arena_.status("the model"));
  MOTE_ASSIGN_OR_RETURN(plan_, builder.finish());

  before = arena_.used_bytes();
  if (model != nullptr) model->plan = plan_;
  const Plan& plan = model != nullptr ? model->plan : plan_;   // parts point at it
  MOTE_ASSIGN_OR_RETURN(const Placement placement, place_steps(plan, engine_.backends, arena_, excluded_));
  bytes_.plan_bytes += arena_.used_bytes() - before;
  MOTE_RETURN_IF_ERROR(arena_.status("the model"));
  bytes_.compiled_from_bytes = arena_.used_bytes();
  CompiledPlan first{excluded_, placement.parts, nullptr, {}};
  CompiledPlans& plans = model != nullptr ? model->plans : measured_;
  plans.begin(plan, engine_.backends, first, engine_.log);
  MOTE_RETURN_IF_ERROR(compile_parts(plans.walk(first), first.parts, arena_, &bytes_.footprint, &failed_));
  plans.set_reserve(Reserve(arena_.rest(arena_.used_bytes())));
  return {};
}

uint64_t ModelOpening::fallback_bytes() const {
  if (is_vocabulary_only()) return 0;
  return measured_.fallback_bytes(
      excluded_, [this](BackendSet& excluded, Arena& sizes) { return measured_.measure(&excluded, sizes); });
}

Status ModelOpening::quote_session(const mote_session_options* options, mote_quote* quote) {
  if (is_vocabulary_only()) return Status::error(Code::wrong_state, "a vocabulary-only model has no sessions");
  mote_session_options read;
  MOTE_RETURN_IF_ERROR(read_options(options, "mote_session_options", &read));
  const std::span<uint64_t> offsets = scratch_->take<uint64_t>(plan_.values.size());
  MOTE_RETURN_IF_ERROR(scratch_->status("the quote"));
  Arena arena;
  SessionBytes bytes;
  mote_session* none = nullptr;
  const SessionGround ground = {measured_, measured_.current(), piece_bytes_, config_.context_length,
                                engine_.services.parallel.lanes};
  MOTE_RETURN_IF_ERROR(layout_session(ground, read, arena, offsets, &bytes, &none));
  return fill_session_quote(bytes, arena.used_bytes(), quote);
}

}   // namespace mote
