// Session calls of mote.h: a sequence, a sampler and the buffers of its text, in one arena.
#include "core/model_opening.h"
#include "core/session.h"

namespace mote {
namespace {

constexpr uint32_t kDefaultContext = 4096, kDefaultBatch = 512;
constexpr size_t kMaxStops = 16, kMaxStopBytes = 1024;
constexpr size_t kMaxLogitBias = 65536;

template <class T>
std::span<const T> list_of(const T* items, size_t count) {
  return {items, items == nullptr ? 0 : count};
}

// Of an enum with the values 0 and 1.
Status check_choice(const char* name, int32_t value, const char* zero, const char* one) {
  if (value == 0 || value == 1) return {};
  return Status::error(Code::invalid_argument, "{} is {}; it must be {} or {}", name, value, zero, one);
}

Status check_lists(const mote_session_options& options) {
  if (options.n_samplers > kMaxSamplerStages)
    return Status::error(Code::invalid_argument, "n_samplers is {}; at most {} are allowed", options.n_samplers,
                         kMaxSamplerStages);
  if (options.n_logit_bias > kMaxLogitBias)
    return Status::error(Code::invalid_argument, "n_logit_bias is {}; at most {} are allowed", options.n_logit_bias,
                         kMaxLogitBias);
  if (options.n_stops > kMaxStops)
    return Status::error(Code::invalid_argument, "n_stops is {}; at most {} are allowed", options.n_stops, kMaxStops);
  const bool missing = (options.samplers == nullptr && options.n_samplers != 0) ||
                       (options.logit_bias == nullptr && options.n_logit_bias != 0) ||
                       (options.stops == nullptr && options.n_stops != 0);
  if (missing)
    return Status::error(Code::invalid_argument, "samplers, logit_bias or stops is NULL with a count that is not 0");
  return {};
}

// The chain and the biases in the sampler's own terms. No chain at all is greedy. `only_check` for a measured sampler.
Status set_samplers(Sampler& sampler, const mote_session_options& options, bool only_check = false) {
  SamplerStage stages[kMaxSamplerStages] = {{SamplerKind::greedy}};
  size_t n_stages = options.n_samplers == 0 ? 1 : 0;
  for (const mote_sampler& given : list_of(options.samplers, options.n_samplers))
    stages[n_stages++] = {static_cast<SamplerKind>(given.kind), given.count, given.value, given.value2};
  const auto bias_at = [](const void* biases, size_t index) -> TokenBias {
    const mote_logit_bias& given = static_cast<const mote_logit_bias*>(biases)[index];
    return {given.token, given.bias};
  };
  const Listing<TokenBias> biases(options.logit_bias, options.n_logit_bias, bias_at);
  return only_check ? sampler.check({stages, n_stages}, biases) : sampler.set({stages, n_stages}, biases);
}

Status read_stops(const mote_session_options& options, std::span<std::string_view> stops) {
  for (size_t i = 0; i < options.n_stops; ++i) {
    if (options.stops[i] == nullptr) return Status::error(Code::invalid_argument, "stop text {} is NULL", i);
    stops[i] = options.stops[i];
    if (stops[i].empty() || stops[i].size() > kMaxStopBytes)
      return Status::error(Code::invalid_argument, "stop text {} has {} bytes; 1 to {} are allowed", i, stops[i].size(),
                           kMaxStopBytes);
  }
  return {};
}

SessionGround ground_of(mote_model& model) {
  const uint64_t piece_bytes = model.tokenizer == nullptr ? 0 : model.tokenizer->longest_piece_bytes();
  return {model.plans, model.plans.current(), piece_bytes, model.config.context_length,
          model.engine->services.parallel.lanes};
}

Status measure_session(mote_model& model, const SessionGround& ground, const mote_session_options& options,
                       SessionBytes* bytes, uint64_t* total_bytes) {
  mote_session* none = nullptr;
  Arena arena;
  const QuoteRoom room(model);
  MOTE_RETURN_IF_ERROR(room.status());
  MOTE_RETURN_IF_ERROR(layout_session(ground, options, arena, room.offsets(), bytes, &none));
  *total_bytes = arena.used_bytes();
  return {};
}

Status open_session(mote_model* model, const mote_session_options* given, const mote_memory& given_memory,
                    mote_session** session) {
  if (session == nullptr) return Status::error(Code::invalid_argument, "session is NULL");
  *session = nullptr;
  if (model == nullptr) return Status::error(Code::invalid_argument, "model is NULL");
  if (model->config.n_layers == 0) return Status::error(Code::wrong_state, "a vocabulary-only model has no sessions");
  mote_session_options options;
  MOTE_RETURN_IF_ERROR(read_options(given, "mote_session_options", &options));
  uint64_t bytes = given_memory.bytes;
  const SessionGround ground = ground_of(*model);
  SessionBytes measured, taken;
  if (given_memory.data == nullptr) MOTE_RETURN_IF_ERROR(measure_session(*model, ground, options, &measured, &bytes));
  MOTE_ASSIGN_OR_RETURN(const Memory memory, obtain_memory(given_memory, bytes, "the session"));
  Arena arena(memory.data, memory.bytes);
  mote_session* opened = nullptr;
  const Status status = layout_session(ground, options, arena, {}, &taken, &opened);
  if (!status.ok()) return release_memory(memory), status;
  opened->memory = memory;
  opened->model = model;
  model->n_sessions.fetch_add(1);
  *session = opened;
  return {};
}

Status check_feed(const int32_t* tokens, size_t n) {
  if (tokens == nullptr && n != 0) return Status::error(Code::invalid_argument, "tokens is NULL with n {}", n);
  return {};
}

Status sample_token(mote_session& session, int32_t* token) {
  Sequence& sequence = *session.sequence;
  const std::span<const float> logits = sequence.logits();
  if (logits.empty()) return Status::error(Code::wrong_state, "there are no logits to sample from; step first");
  if (sequence.full())
    return Status::error(Code::context_full, "the context is full: all {} positions are used",
                         sequence.history().size());
  MOTE_ASSIGN_OR_RETURN(*token,
                        session.sampler->sample(logits, sequence.history(), session.seed, sequence.stream_index()));
  return sequence.append(*token);
}

mote_status call_for_token(Status (*call_for)(mote_session&, int32_t*), mote_session* session, int32_t* token,
                           mote_error* error) {
  const SessionCall call(session);
  if (!call.status().ok()) return report(call.status(), error);
  int32_t found = -1;
  const Status status = call_for(*session, &found);
  if (token != nullptr) *token = found;
  return report(status, error);
}

}   // namespace

Result<SequenceOptions> read_sequence_options(const SessionGround& ground, const mote_session_options& options) {
  SequenceOptions out;
  SessionShape& shape = out.shape;
  const uint32_t usual = ground.trained_context < kDefaultContext ? ground.trained_context : kDefaultContext;
  shape.context = options.context != 0 ? options.context : usual;
  if (shape.context > Config::kMaxContext)
    return Status::error(Code::invalid_argument, "context is {}; at most {} are allowed", shape.context,
                         Config::kMaxContext);
  const uint32_t batch = options.max_batch != 0 ? options.max_batch : kDefaultBatch;
  shape.max_batch = batch < shape.context ? batch : shape.context;
  const uint32_t outputs = options.max_output_rows != 0 ? options.max_output_rows : 1;
  shape.max_outputs = outputs < shape.max_batch ? outputs : shape.max_batch;
  MOTE_RETURN_IF_ERROR(check_choice("kv_type", options.kv_type, "MOTE_KV_F16", "MOTE_KV_F32"));
  MOTE_RETURN_IF_ERROR(check_choice("on_full", options.on_full, "MOTE_ON_FULL_STOP", "MOTE_ON_FULL_SLIDE"));
  MOTE_RETURN_IF_ERROR(check_choice("on_backend_failure", options.on_backend_failure, "MOTE_ON_BACKEND_FAILURE_GO_ON",
                                    "MOTE_ON_BACKEND_FAILURE_STOP"));
  shape.kv_type = options.kv_type == MOTE_KV_F16 ? KvType::f16 : KvType::f32;
  if (options.decode_threads > ground.lanes)
    return Status::error(Code::invalid_argument, "decode_threads is {}; the engine has {}", options.decode_threads,
                         ground.lanes);
  out.decode_lanes = options.decode_threads;
  out.falls_back = options.on_backend_failure == MOTE_ON_BACKEND_FAILURE_GO_ON;
  out.slide = options.on_full == MOTE_ON_FULL_SLIDE;
  out.keep = options.keep;
  if (out.slide && out.keep >= shape.context)
    return Status::error(Code::invalid_argument, "keep is {}; it must be below the context of {}", out.keep,
                         shape.context);
  return out;
}

Status layout_session(const SessionGround& ground, const mote_session_options& options, Arena& arena,
                      std::span<uint64_t> offset_scratch, SessionBytes* bytes, mote_session** session) {
  MOTE_RETURN_IF_ERROR(check_lists(options));
  MOTE_ASSIGN_OR_RETURN(const SequenceOptions sequence_options, read_sequence_options(ground, options));
  std::string_view stops[kMaxStops];
  MOTE_RETURN_IF_ERROR(read_stops(options, stops));
  const auto piece_bytes = static_cast<size_t>(ground.piece_bytes);
  const Plan& plan = ground.plans.plan();

  mote_session* opened = arena.create<mote_session>();
  Sampler* sampler = arena.create<Sampler>();
  StopMatcher* matcher = arena.create<StopMatcher>();
  bytes->tables_bytes = arena.used_bytes();
  Sampler measured;
  (sampler != nullptr ? *sampler : measured)
      .layout(arena, {plan.logits.columns, static_cast<uint32_t>(options.n_logit_bias)});
  const std::span<char> piece = arena.take<char>(piece_bytes);
  const std::span<char> characters = arena.take<char>(TextStream::room(piece_bytes));
  StopShape stop_shape{static_cast<uint32_t>(options.n_stops), 0};
  for (size_t i = 0; i < options.n_stops; ++i) stop_shape.max_bytes += static_cast<uint32_t>(stops[i].size());
  StopMatcher unopened;
  (matcher != nullptr ? *matcher : unopened).layout(arena, stop_shape);
  const std::span<char> text = arena.take<char>(TextStream::room(piece_bytes) + stop_shape.max_bytes);
  const std::span<float> embedding = arena.take<float>(plan.pooled.columns);
  bytes->sampler_bytes = arena.used_bytes() - bytes->tables_bytes;
  MOTE_RETURN_IF_ERROR(arena.status("the session"));
  if (opened == nullptr) {
    MOTE_RETURN_IF_ERROR(set_samplers(measured, options, true));
  } else {
    MOTE_RETURN_IF_ERROR(set_samplers(*sampler, options));
    MOTE_RETURN_IF_ERROR(matcher->set({stops, options.n_stops}));
  }

  MOTE_ASSIGN_OR_RETURN(Sequence * sequence, Sequence::create(ground.plans, ground.now, sequence_options, arena,
                                                              offset_scratch, &bytes->sequence));
  if (opened == nullptr) return {};
  opened->sequence = sequence;
  opened->sampler = sampler;
  opened->embedding = embedding;
  opened->stops = matcher;
  opened->piece = piece;
  opened->characters = characters;
  opened->text = text;
  opened->seed = options.seed;
  *session = opened;
  return {};
}

Status fill_session_quote(const SessionBytes& bytes, uint64_t total_bytes, mote_quote* quote) {
  mote_quote filled{};
  const SequenceBytes& sequence = bytes.sequence;
  filled.total_bytes = total_bytes;
  filled.tables_bytes = bytes.tables_bytes;
  filled.plan_bytes = sequence.plan_bytes;
  filled.state_bytes = sequence.footprint.state_bytes;
  filled.activation_bytes = sequence.activation_bytes;
  filled.sampler_bytes = bytes.sampler_bytes;
  filled.history_bytes = sequence.history_bytes;
  filled.scratch_bytes = total_bytes - filled.tables_bytes - filled.plan_bytes - filled.state_bytes -
                         filled.activation_bytes - filled.sampler_bytes - filled.history_bytes;
  filled.device_bytes = sequence.footprint.device_bytes;
  filled.library_bytes = sequence.footprint.library_bytes;
  filled.fallback_bytes = sequence.fallback_bytes;
  return write_struct(filled, "quote", quote);
}

Status next_token(mote_session& session, int32_t* token) {
  MOTE_RETURN_IF_ERROR(session.sequence->step());
  return sample_token(session, token);
}

}   // namespace mote

extern "C" {

mote_status mote_session_quote(mote_model* model, const mote_session_options* options, mote_quote* quote,
                               mote_error* error) {
  using namespace mote;
  if (model == nullptr) return report(Status::error(Code::invalid_argument, "model is NULL"), error);
  if (model->config.n_layers == 0)
    return report(Status::error(Code::wrong_state, "a vocabulary-only model has no sessions"), error);
  mote_session_options read;
  Status status = read_options(options, "mote_session_options", &read);
  if (!status.ok()) return report(status, error);
  SessionBytes bytes;
  uint64_t total_bytes = 0;
  const FloatMode float_mode;
  status = measure_session(*model, ground_of(*model), read, &bytes, &total_bytes);
  if (status.ok()) status = fill_session_quote(bytes, total_bytes, quote);
  return report(status, error);
}

mote_status mote_session_open(mote_model* model, const mote_session_options* options, mote_memory memory,
                              mote_session** session, mote_error* error) {
  const mote::FloatMode float_mode;
  return mote::report(mote::open_session(model, options, memory, session), error);
}

mote_status mote_session_close(mote_session* session, mote_error* error) {
  using namespace mote;
  if (session == nullptr) return MOTE_OK;
  if (session->in_call.exchange(1, std::memory_order_acquire) != 0)
    return report(Status::error(Code::busy, "the session is inside another call"), error);
  session->sequence->close();
  session->model->n_sessions.fetch_sub(1);
  const Memory memory = session->memory;
  release_memory(memory);
  return MOTE_OK;
}

mote_status mote_feed(mote_session* session, const int32_t* tokens, size_t n, size_t* done, mote_error* error) {
  using namespace mote;
  size_t fed = 0;
  if (done != nullptr) *done = 0;
  const SessionCall call(session);
  Status status = call.status();
  if (status.ok()) status = check_feed(tokens, n);
  if (status.ok()) status = session->sequence->check_feed({tokens, n});   // a refused call changes nothing
  if (status.ok()) {
    begin_text(*session);
    status = session->sequence->feed({tokens, n}, &fed);
  }
  if (done != nullptr) *done = fed;
  return report(status, error);
}

mote_status mote_prompt(mote_session* session, const int32_t* tokens, size_t n, size_t* reused, size_t* done,
                        mote_error* error) {
  using namespace mote;
  size_t kept = 0, fed = 0;
  const SessionCall call(session);
  Status status = call.status();
  if (status.ok()) status = check_feed(tokens, n);
  if (status.ok()) status = session->sequence->check_prompt({tokens, n});   // a refused call changes nothing
  if (status.ok()) {
    begin_text(*session);
    status = session->sequence->prompt({tokens, n}, &kept, &fed);
  }
  if (reused != nullptr) *reused = kept;
  if (done != nullptr) *done = fed;
  return report(status, error);
}

mote_status mote_evaluate(mote_session* session, const int32_t* tokens, size_t n, mote_on_logits on_logits, void* user,
                          size_t* done, mote_error* error) {
  using namespace mote;
  struct Receiver {
    mote_on_logits on_logits;
    void* user;
  } receiver{on_logits, user};
  size_t fed = 0;
  const SessionCall call(session);
  Status status = call.status();
  if (status.ok()) status = check_feed(tokens, n);
  if (status.ok()) status = session->sequence->check_feed({tokens, n});
  if (status.ok()) {
    begin_text(*session);
    const LogitsSink sink{[](void* self, size_t first, size_t rows, const float* logits, size_t n_vocab) {
                            const auto* to = static_cast<const Receiver*>(self);
                            return to->on_logits(to->user, first, rows, logits, n_vocab) == 0;
                          },
                          &receiver};
    status = session->sequence->evaluate({tokens, n}, on_logits == nullptr ? LogitsSink{} : sink, &fed);
  }
  if (done != nullptr) *done = fed;
  return report(status, error);
}

mote_status mote_step(mote_session* session, mote_error* error) {
  const mote::SessionCall call(session);
  return mote::report(call.status().ok() ? session->sequence->step() : call.status(), error);
}

mote_status mote_logits(mote_session* session, const float** logits, size_t* n_vocab, mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  if (!call.status().ok()) return report(call.status(), error);
  const std::span<const float> found = session->sequence->logits();
  if (logits == nullptr || n_vocab == nullptr)
    return report(Status::error(Code::invalid_argument, "logits or n_vocab is NULL"), error);
  if (found.empty()) return report(Status::error(Code::wrong_state, "there are no logits; step first"), error);
  *logits = found.data();
  *n_vocab = found.size();
  return MOTE_OK;
}

mote_status mote_sample(mote_session* session, int32_t* token, mote_error* error) {
  return mote::call_for_token(mote::sample_token, session, token, error);
}

mote_status mote_next(mote_session* session, int32_t* token, mote_error* error) {
  return mote::call_for_token(mote::next_token, session, token, error);
}

mote_status mote_rewind(mote_session* session, size_t n_tokens, mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  Status status = call.status();
  if (status.ok()) status = session->sequence->check_rewind(n_tokens);
  if (status.ok()) {
    begin_text(*session);
    status = session->sequence->rewind(n_tokens);
  }
  return report(status, error);
}

mote_status mote_history(const mote_session* session, const int32_t** tokens, size_t* n_tokens, mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  if (!call.status().ok()) return report(call.status(), error);
  if (tokens == nullptr || n_tokens == nullptr)
    return report(Status::error(Code::invalid_argument, "tokens or n_tokens is NULL"), error);
  const std::span<const int32_t> history = session->sequence->history();
  *tokens = history.data();
  *n_tokens = history.size();
  return MOTE_OK;
}

mote_status mote_set_samplers(mote_session* session, const mote_session_options* options, mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  if (!call.status().ok()) return report(call.status(), error);
  mote_session_options read;
  Status status = read_options(options, "mote_session_options", &read);
  if (status.ok()) status = check_lists(read);
  if (status.ok()) status = set_samplers(*session->sampler, read);
  if (status.ok()) session->seed = read.seed;
  return report(status, error);
}

void mote_cancel(mote_session* session) {
  if (session != nullptr) session->sequence->cancel_flag().store(1, std::memory_order_relaxed);
}

}   // extern "C"
