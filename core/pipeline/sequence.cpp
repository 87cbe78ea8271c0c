#include "core/pipeline/sequence.h"

namespace mote {
namespace {

// Learned positions end where their matrix does.
Status check_positions(const Plan& plan, const SessionShape& shape) {
  for (const Step& step : plan.steps) {
    if (step.op != Op::position_embed || step.matrix.rows == 0) continue;   // sines and cosines do not end
    const bool encodes = step.phase == Phase::encode;
    const uint32_t positions = encodes ? shape.max_batch : shape.context;
    if (positions > step.matrix.rows)
      return Status::error(
          Code::invalid_argument,
          encodes ? "inputs of {} tokens are asked for; {} has {} positions" : "context is {}; {} has {} positions",
          positions, step.matrix.name, step.matrix.rows);
  }
  return {};
}

}   // namespace

Result<Sequence*> Sequence::create(CompiledPlans& plans, const CompiledPlan& now, const SequenceOptions& options,
                                   Arena& arena, std::span<uint64_t> offset_scratch, SequenceBytes* bytes) {
  MOTE_RETURN_IF_ERROR(check_positions(plans.plan(), options.shape));
  uint64_t before = arena.used_bytes();
  Sequence* sequence = arena.create<Sequence>();
  bytes->plan_bytes += arena.used_bytes() - before;
  before = arena.used_bytes();
  const std::span<int32_t> history = arena.take<int32_t>(uint64_t{options.shape.context} + 1);
  const std::span<uint32_t> output_rows = arena.take<uint32_t>(options.shape.max_outputs);
  const std::span<int32_t> input = arena.take<int32_t>(plans.plan().encodes() ? options.shape.max_batch : 0);
  const uint64_t executions_from = arena.used_bytes();
  bytes->history_bytes += executions_from - before;
  MOTE_RETURN_IF_ERROR(arena.status("the session"));

  if (arena.measuring()) {
    BackendSet excluded = now.excluded;
    Refusal refusal;
    MOTE_RETURN_IF_ERROR(measure_execution(plans, options.shape, offset_scratch, &excluded, arena, bytes, &refusal));
    if (!options.falls_back) return refusal.whose == nullptr ? Result<Sequence*>(sequence) : refusal.why;
    bytes->fallback_bytes = fallback_session_bytes(plans, excluded, options.shape, offset_scratch);
    return sequence;
  }
  Execution execution;
  Backend* failed = nullptr;
  Status status = execution.open(plans.plan(), plans.walk(now), options.shape, arena, {}, bytes, &failed);
  for (uint32_t i = 0; i < output_rows.size(); ++i) output_rows[i] = i;
  sequence->plan_ = &plans.plan();
  sequence->options_ = options;
  sequence->history_ = history;
  sequence->output_rows_ = output_rows;
  sequence->input_ = input;
  sequence->execution_ = execution;
  sequence->fallback_ = Fallback(plans, now, options.falls_back);
  sequence->fallback_.set_reserve(Reserve(arena.rest(status.ok() ? arena.used_bytes() : executions_from)));
  if (status.code() == Code::out_of_memory || status.code() == Code::unsupported)
    MOTE_RETURN_IF_ERROR(sequence->find_refusal(executions_from, arena.capacity_bytes(), &status, &failed));
  if (!status.ok() && !sequence->fall_back(status, failed, Fallback::Moment::opening, 0)) return status;
  return sequence;
}

// An opening that failed in memory of the quote's size may have failed because the quote has left a backend out, which
// is the one that *failed then is. What the quote says has to be there; without it the platform is not asked.
Status Sequence::find_refusal(uint64_t executions_from, uint64_t room_bytes, Status* status, Backend** failed) {
  Refusal refusal;
  uint64_t execution_bytes = 0;
  const Status measured = fallback_.measure_again(options_.shape, &refusal, &execution_bytes);
  if (refusal.whose == nullptr) return {};
  MOTE_RETURN_IF_ERROR(measured);
  if (execution_bytes > room_bytes - executions_from)
    return Status::error(Code::out_of_memory, "the session needs {} bytes of memory, {} were handed over",
                         executions_from + execution_bytes, room_bytes);
  *status = refusal.why;
  *failed = refusal.whose;
  return {};
}

void Sequence::close() {
  execution_.close();
  fallback_.close();
}

Status Sequence::check_tokens(std::span<const int32_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= n_vocab())
      return Status::error(Code::invalid_argument, "token {} at index {} is outside the vocabulary of {}", tokens[i], i,
                           n_vocab());
  return {};
}

Status Sequence::check_decodes() const {
  if (!plan_->decodes())
    return Status::error(Code::unsupported, "this model only encodes: mote_encode takes its tokens");
  if (plan_->encodes() && n_input_ == 0)
    return Status::error(Code::wrong_state, "this model reads an input first: mote_encode takes it");
  return {};
}

Status Sequence::check_room(size_t count) const {
  const uint64_t context = options_.shape.context;
  if (n_history_ <= context && count <= context - n_history_) return {};
  const uint64_t keep = options_.keep;
  const uint64_t least = options_.slide && keep < n_history_ ? keep : n_history_;
  if (least > context || count > context - least)
    return Status::error(Code::context_full, "{} tokens do not fit behind the {} that stay in a context of {}", count,
                         least, context);
  return {};
}

// Refuses, or slides until `count` more tokens fit. What stays after a slide has to be run again; run_until does that.
Status Sequence::make_room(size_t count) {
  MOTE_RETURN_IF_ERROR(check_room(count));
  const uint64_t context = options_.shape.context, keep = options_.keep;
  if (n_history_ <= context && count <= context - n_history_) return {};
  while (n_history_ + count > context) {
    const auto drop = static_cast<uint32_t>((n_history_ - keep + 1) / 2);
    for (size_t i = options_.keep; i + drop < n_history_; ++i) history_[i] = history_[i + drop];
    n_history_ -= drop;
    n_dropped_ += drop;
  }
  if (n_run_ > keep) truncate_to(static_cast<uint32_t>(keep));
  return {};
}

void Sequence::forget_states() {
  execution_.forget();
  n_run_ = n_tapped_ = no_return_below_ = 0;
  has_logits_ = false;
}

// Forgets what was run from position `n_run` on. States that are addressed by position
// need a shorter length alone; one that cannot go back (a ring, a recurrent vector) says so and is emptied, and the
// history is run again from its start.
void Sequence::truncate_to(uint32_t n_run) {
  if (n_run < no_return_below_ || !execution_.truncate(n_run)) return forget_states();
  n_run_ = n_run;
  n_tapped_ = 0;
  has_logits_ = false;
}

Status Sequence::encode_once(Backend** failed) {
  has_logits_ = false;   // as below; of rows that were tapped there are none by now
  const Batch batch = {input_.first(n_input_), 0, {}, Phase::encode, n_input_, observer_, lanes_for(n_input_)};
  const Status status = execution_.run(batch, cancel_, failed);
  is_encoded_ = status.ok();
  if (status.code() == Code::cancelled) static_cast<void>(take_cancel());
  return status;
}

Status Sequence::run_once(uint32_t rows, std::span<const uint32_t> output_rows, Backend** failed) {
  has_logits_ = false;   // what runs uses their memory, also when it does not get to its end
  n_tapped_ = 0;
  const Batch batch = {
      history_.subspan(n_run_, rows), n_run_, output_rows, Phase::decode, n_input_, observer_, lanes_for(rows)};
  const Status status = execution_.run(batch, cancel_, failed);
  if (status.ok()) n_run_ += rows, n_tapped_ = rows;
  if (status.code() == Code::cancelled) static_cast<void>(take_cancel());
  return status;
}

// Encodes the input, if that is pending, and runs the next `rows` tokens of the history. Where a backend fails, the
// next ones run what lies before them again, and then the batch: to the caller it is as if they had done it from the
// beginning. When that does not get to its end, less than before has been run; what is missing is pending.
Status Sequence::run_batch(uint32_t rows, std::span<const uint32_t> output_rows) {
  const uint32_t first = n_run_;
  for (;;) {
    Backend* failed = nullptr;
    Status status;
    if (n_input_ != 0 && !is_encoded_) status = encode_once(&failed);
    while (n_run_ < first && status.ok()) {
      const uint32_t left = first - n_run_;
      status = run_once(left < options_.shape.max_batch ? left : options_.shape.max_batch, {}, &failed);
    }
    if (status.ok() && rows != 0) status = run_once(rows, output_rows, &failed);
    if (status.ok() || !fall_back(status, failed, Fallback::Moment::running, n_input_ + first)) return status;
  }
}

// False: nothing has changed, the failure stands.
bool Sequence::fall_back(const Status& why, const Backend* failed, Fallback::Moment moment, uint32_t n_again) {
  if (!Fallback::may_go_on(why, failed, moment)) return false;
  if (!fallback_.go_on(why, *failed, moment, options_.shape, n_again, &execution_)) return false;
  n_run_ = n_tapped_ = no_return_below_ = 0;
  has_logits_ = is_encoded_ = false;
  return true;
}

// Runs the history up to position `end`, without logits or with those of the last row. *finished rises with the batches
// that got to their end.
Status Sequence::run_until(uint32_t end, Logits logits, uint32_t* finished) {
  while (n_run_ < end) {
    const uint32_t left = end - n_run_, most = options_.shape.max_batch, rows = left < most ? left : most;
    const uint32_t last_row = rows - 1;
    const bool wanted = logits == Logits::of_last && rows == left;
    MOTE_RETURN_IF_ERROR(run_batch(rows, {&last_row, size_t{wanted}}));
    has_logits_ = wanted;
    if (finished != nullptr && *finished < n_run_) *finished = n_run_;
  }
  return {};
}

Status Sequence::check_encode(std::span<const int32_t> tokens) const {
  if (!plan_->encodes())
    return Status::error(Code::unsupported, "this model has no encoder: mote_feed takes its tokens");
  if (tokens.empty()) return Status::error(Code::invalid_argument, "an encoder's input needs at least one token");
  if (tokens.size() > input_.size())
    return Status::error(Code::context_full,
                         "an input of {} tokens is more than the session's max_batch of {}, and is encoded at once",
                         tokens.size(), input_.size());
  return check_tokens(tokens);
}

Status Sequence::check_feed(std::span<const int32_t> tokens) const {
  MOTE_RETURN_IF_ERROR(check_decodes());
  MOTE_RETURN_IF_ERROR(check_tokens(tokens));
  return tokens.empty() ? Status() : check_room(tokens.size());
}

Status Sequence::check_prompt(std::span<const int32_t> tokens) const {
  MOTE_RETURN_IF_ERROR(check_decodes());
  if (tokens.empty()) return Status::error(Code::invalid_argument, "a prompt needs at least one token");
  MOTE_RETURN_IF_ERROR(check_tokens(tokens));
  if (tokens.size() > options_.shape.context)
    return Status::error(Code::context_full, "a prompt of {} tokens does not fit a context of {}", tokens.size(),
                         options_.shape.context);
  return {};
}

Status Sequence::check_rewind(size_t n_tokens) const {
  if (n_tokens <= n_history_) return {};
  return Status::error(Code::invalid_argument, "cannot rewind to {} tokens; the history has {}", n_tokens, n_history_);
}

// After a batch that did not get to its end: whose logits it has overwritten is pending again, so that a step brings
// them back.
void Sequence::make_last_pending() {
  if (n_history_ != 0 && n_run_ == n_history_ && !has_logits_) truncate_to(n_history_ - 1);
}

// A new sequence begins. One whose input was not encoded to its end has none.
Status Sequence::encode(std::span<const int32_t> tokens) {
  MOTE_RETURN_IF_ERROR(check_encode(tokens));
  static_cast<void>(rewind(0).ok());
  for (size_t i = 0; i < tokens.size(); ++i) input_[i] = tokens[i];
  n_input_ = static_cast<uint32_t>(tokens.size());
  is_encoded_ = false;
  const Status status = run_batch(0, {});
  if (!status.ok()) n_input_ = 0;
  return status;
}

// All but the last token of them, or with logits that one too.
Status Sequence::append_and_run(std::span<const int32_t> tokens, Logits logits, size_t* done) {
  *done = 0;
  MOTE_RETURN_IF_ERROR(check_decodes());
  MOTE_RETURN_IF_ERROR(check_tokens(tokens));
  if (tokens.empty()) return {};
  MOTE_RETURN_IF_ERROR(make_room(tokens.size()));
  const uint32_t before = n_history_;
  for (const int32_t token : tokens) history_[n_history_++] = token;
  has_logits_ = false;   // they were those of a token that is no longer the last
  uint32_t finished = before;
  const Status status = run_until(logits == Logits::of_last ? n_history_ : n_history_ - 1, logits, &finished);
  if (!status.ok()) n_history_ = finished;
  *done = n_history_ - before;
  if (!status.ok()) make_last_pending();
  return status;
}

Status Sequence::feed(std::span<const int32_t> tokens, size_t* done) {
  return append_and_run(tokens, Logits::none, done);
}

Status Sequence::evaluate(std::span<const int32_t> tokens, const LogitsSink& sink, size_t* done) {
  if (sink.accept == nullptr) return append_and_run(tokens, Logits::of_last, done);
  *done = 0;
  MOTE_RETURN_IF_ERROR(check_decodes());
  MOTE_RETURN_IF_ERROR(check_tokens(tokens));
  if (tokens.empty()) return {};
  MOTE_RETURN_IF_ERROR(make_room(tokens.size()));
  const uint32_t before = n_history_;
  MOTE_RETURN_IF_ERROR(run_until(before, Logits::none));
  for (const int32_t token : tokens) history_[n_history_++] = token;
  const uint32_t end = n_history_;
  uint32_t finished = before;
  Status status;
  while (n_run_ < end && status.ok()) {
    const uint32_t most = options_.shape.max_outputs, left = end - n_run_;
    const uint32_t rows = left < most ? left : most;
    const uint32_t first = n_run_ - before;
    status = run_batch(rows, output_rows_.first(rows));
    if (!status.ok()) break;
    finished = n_run_;
    float* const logits = execution_.values().data(plan_->logits);
    if (!sink.accept(sink.self, first, rows, logits, n_vocab()))
      status = Status::error(Code::cancelled, "the receiver of the logits stopped at token {}", n_run_ - before);
    // The last row's logits become those of the sequence.
    for (uint32_t i = 0; rows > 1 && i < n_vocab(); ++i) logits[i] = logits[uint64_t{rows - 1} * n_vocab() + i];
    has_logits_ = true;
  }
  if (!status.ok()) n_history_ = finished;
  *done = n_history_ - before;
  make_last_pending();
  return status;
}

Status Sequence::step() {
  MOTE_RETURN_IF_ERROR(check_decodes());
  if (!has_pending()) {
    if (has_logits_) return {};
    return Status::error(Code::wrong_state, "no token is pending; feed one first");
  }
  MOTE_RETURN_IF_ERROR(make_room(0));
  MOTE_RETURN_IF_ERROR(run_until(n_history_ - 1, Logits::none));
  return run_until(n_history_, Logits::of_last);
}

Status Sequence::rewind(size_t n_tokens) {
  MOTE_RETURN_IF_ERROR(check_rewind(n_tokens));
  n_history_ = static_cast<uint32_t>(n_tokens);
  if (n_tokens <= options_.keep) n_dropped_ = 0;   // what is left stood there from the beginning
  const uint32_t n_run = n_history_ == 0 ? 0 : n_history_ - 1;
  if (n_run_ > n_run) truncate_to(n_run);
  has_logits_ = false;
  return {};
}

Status Sequence::prompt(std::span<const int32_t> tokens, size_t* reused, size_t* done) {
  *reused = *done = 0;
  MOTE_RETURN_IF_ERROR(check_prompt(tokens));
  uint32_t common = 0;
  while (common < n_history_ && common < tokens.size() && history_[common] == tokens[common]) ++common;
  MOTE_RETURN_IF_ERROR(rewind(common));
  *reused = n_run_;
  *done = common;
  if (common == tokens.size()) return run_until(n_history_, Logits::of_last);
  const Status status = append_and_run(tokens.subspan(common), Logits::of_last, done);
  *done += common;
  return status;
}

Status Sequence::append(int32_t token) {
  MOTE_RETURN_IF_ERROR(check_tokens({&token, 1}));
  if (n_history_ >= history_.size() || full())
    return Status::error(Code::context_full, "the context of {} tokens is full", options_.shape.context);
  history_[n_history_++] = token;   // one over the context when sliding: the next step makes room for it
  has_logits_ = false;
  return {};
}

std::span<const float> Sequence::logits() const {
  if (!has_logits_) return {};
  return {execution_.values().data(plan_->logits), n_vocab()};
}

std::span<const float> Sequence::hidden() const {
  if (!is_encoded_) return {};
  return {execution_.values().data(plan_->hidden), size_t{n_input_} * d_hidden()};
}

Result<Sequence::Attention> Sequence::attention(Attending attending, uint32_t layer) const {
  const Step* found = nullptr;
  uint32_t n_layers = 0;
  bool is_tapped = false;
  for (const Step& step : plan_->steps) {
    const bool is_weights = step.op == Op::attention_weights;
    if ((step.op != Op::attention && !is_weights) || attending_of(step) != attending) continue;
    if (step.layer >= n_layers) n_layers = uint32_t{step.layer} + 1;
    is_tapped = is_tapped || is_weights;
    if (is_weights && step.layer == layer) found = &step;
  }
  constexpr std::string_view kWhose[kAttendings] = {"decoder's", "encoder's", "cross"};
  const std::string_view whose = kWhose[static_cast<size_t>(attending)];
  if (n_layers == 0) return Status::error(Code::unsupported, "this model has no {} attention", whose);
  if (layer >= n_layers)
    return Status::error(Code::invalid_argument, "layer is {}; the {} attention has {}", layer, whose, n_layers);
  if (found == nullptr)
    return Status::error(Code::unsupported,
                         is_tapped ? "layer {} of the {} attention is not tapped: tap_first_layer and tap_layers of "
                                     "mote_model_options chose others"
                                   : "layer {} of the {} attention is not tapped: mote_model_options.taps asks for it",
                         layer, whose);
  const bool has_rows = attending == Attending::encoder ? is_encoded_ : n_tapped_ != 0;
  if (!has_rows)
    return Status::error(Code::wrong_state, attending == Attending::encoder
                                                ? "nothing is encoded yet; mote_encode takes an input"
                                                : "no batch has been run yet, or its rows are gone; step first");
  const bool reads_input = found->output.extent == Extent::input;
  return Attention{execution_.values().data(found->output), attending == Attending::encoder ? n_input_ : n_tapped_,
                   found->output.columns, reads_input ? n_input_ : n_run_};
}

std::span<const float> Sequence::pooled() const {
  if (!is_encoded_ || !plan_->pooled.exists()) return {};
  return {execution_.values().data(plan_->pooled), plan_->pooled.columns};
}

}   // namespace mote
