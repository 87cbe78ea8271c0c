#include "core/pipeline/sequence.h"

#include "core/pipeline/value_planner.h"

namespace mote {

Result<Sequence*> Sequence::create(const Plan& plan, std::span<const PlacedPart> parts, const SequenceOptions& options,
                                   Arena& arena, std::span<uint64_t> offset_scratch, SequenceBytes* bytes) {
  uint64_t before = arena.used_bytes();
  const auto kind = [&](uint64_t* counter) {
    *counter += arena.used_bytes() - before;
    before = arena.used_bytes();
  };
  Sequence* sequence = arena.create<Sequence>();
  const std::span<uint64_t> own_offsets = arena.take<uint64_t>(plan.values.size());
  const std::span<Executor*> executors = arena.take<Executor*>(parts.size());
  kind(&bytes->plan_bytes);
  const std::span<int32_t> history = arena.take<int32_t>(uint64_t{options.shape.context} + 1);
  const std::span<uint32_t> output_rows = arena.take<uint32_t>(options.shape.max_outputs);
  kind(&bytes->history_bytes);
  const std::span<uint64_t> offsets = arena.measuring() ? offset_scratch : own_offsets;
  if (offsets.size() < plan.values.size()) {
    MOTE_RETURN_IF_ERROR(arena.status("the session"));
    return Status::error(Code::out_of_memory, "no working memory for the places of {} Values", plan.values.size());
  }
  MOTE_ASSIGN_OR_RETURN(const uint64_t block_bytes, plan_values(plan, parts, options.shape, offsets));
  const std::span<std::byte> block = arena.take<std::byte>(block_bytes);
  kind(&bytes->activation_bytes);
  MOTE_RETURN_IF_ERROR(arena.status("the session"));

  const ValueMemory values(block.data(), offsets);
  for (size_t i = 0; i < parts.size(); ++i) {
    const PlacedPart& part = parts[i];
    const Result<Executor*> executor =
        part.backend->open(part.part, part.program, options.shape, values, arena, &bytes->footprint);
    const Status status = executor.ok() ? arena.status("the session") : executor.status();
    if (!status.ok()) {
      if (executor.ok() && executor.value() != nullptr) executor.value()->close();
      for (size_t opened = 0; opened < i && !executors.empty(); ++opened) executors[opened]->close();
      return status;
    }
    if (!executors.empty()) executors[i] = executor.value();
  }
  if (sequence == nullptr) return sequence;
  for (uint32_t i = 0; i < output_rows.size(); ++i) output_rows[i] = i;
  sequence->plan_ = &plan;
  sequence->parts_ = parts;
  sequence->options_ = options;
  sequence->history_ = history;
  sequence->output_rows_ = output_rows;
  sequence->executors_ = executors;
  sequence->values_ = values;
  return sequence;
}

void Sequence::close() {
  for (Executor* executor : executors_) executor->close();
}

Status Sequence::check_tokens(std::span<const int32_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= n_vocab())
      return Status::error(Code::invalid_argument, "token {} at index {} is outside the vocabulary of {}", tokens[i], i,
                           n_vocab());
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
  for (Executor* executor : executors_) static_cast<void>(executor->truncate(0).ok());
  n_run_ = no_return_below_ = 0;
  has_logits_ = false;
}

// Forgets what was run from position `n_run` on. The planned states of this build are position-addressed, so a shorter
// length is all they need; one that cannot go back says so and is emptied, and the history is run again from its start.
void Sequence::truncate_to(uint32_t n_run) {
  bool can_go_back = n_run >= no_return_below_;
  for (size_t i = 0; i < executors_.size() && can_go_back; ++i) can_go_back = executors_[i]->truncate(n_run).ok();
  if (!can_go_back) return forget_states();
  n_run_ = n_run;
  has_logits_ = false;
}

// Runs the next `rows` tokens of the history, all executors in order.
Status Sequence::run_batch(uint32_t rows, std::span<const uint32_t> output_rows) {
  has_logits_ = false;   // what runs uses their memory, also when it does not get to its end
  const Batch batch{history_.subspan(n_run_, rows), n_run_, output_rows};
  Status status;
  size_t begun = 0;
  for (; begun < executors_.size(); ++begun) {
    status = executors_[begun]->begin(n_run_, rows);
    if (!status.ok()) break;
  }
  for (size_t i = 0; i < executors_.size() && status.ok(); ++i) {
    // Also before the first part: a flag set between two calls counts for the next.
    if (cancel_.load(std::memory_order_relaxed) != 0)
      status = Status::error(Code::cancelled, "cancelled at position {}", n_run_);
    else
      status = executors_[i]->run(batch, CancelFlag(&cancel_));
  }
  if (!status.ok()) {
    for (size_t i = 0; i < begun; ++i) executors_[i]->discard();
    if (status.code() == Code::cancelled) static_cast<void>(take_cancel());
    return status;
  }
  for (Executor* executor : executors_) executor->commit();
  n_run_ += rows;
  return {};
}

// Runs the history up to position `end`, without logits.
Status Sequence::run_until(uint32_t end) {
  while (n_run_ < end) {
    const uint32_t left = end - n_run_;
    MOTE_RETURN_IF_ERROR(run_batch(left < options_.shape.max_batch ? left : options_.shape.max_batch, {}));
  }
  return {};
}

Status Sequence::check_feed(std::span<const int32_t> tokens) const {
  MOTE_RETURN_IF_ERROR(check_tokens(tokens));
  return tokens.empty() ? Status() : check_room(tokens.size());
}

Status Sequence::check_prompt(std::span<const int32_t> tokens) const {
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

Status Sequence::feed(std::span<const int32_t> tokens, size_t* done) {
  *done = 0;
  MOTE_RETURN_IF_ERROR(check_tokens(tokens));
  if (tokens.empty()) return {};
  MOTE_RETURN_IF_ERROR(make_room(tokens.size()));
  const uint32_t before = n_history_;
  for (const int32_t token : tokens) history_[n_history_++] = token;
  has_logits_ = false;   // they were those of a token that is no longer the last
  const Status status = run_until(n_history_ - 1);
  if (!status.ok()) n_history_ = n_run_ > before ? n_run_ : before;
  *done = n_history_ - before;
  if (!status.ok()) make_last_pending();
  return status;
}

Status Sequence::evaluate(std::span<const int32_t> tokens, const LogitsSink& sink, size_t* done) {
  *done = 0;
  MOTE_RETURN_IF_ERROR(check_tokens(tokens));
  if (tokens.empty()) return {};
  MOTE_RETURN_IF_ERROR(make_room(tokens.size()));
  const uint32_t before = n_history_;
  MOTE_RETURN_IF_ERROR(run_until(before));
  for (const int32_t token : tokens) history_[n_history_++] = token;
  const uint32_t end = n_history_;
  Status status;
  while (n_run_ < end && status.ok()) {
    const uint32_t most = options_.shape.max_outputs, left = end - n_run_;
    const uint32_t rows = left < most ? left : most;
    const uint32_t first = n_run_ - before;
    status = run_batch(rows, output_rows_.first(rows));
    if (!status.ok()) break;
    if (!sink.accept(sink.self, first, rows, values_.data(plan_->logits), n_vocab()))
      status = Status::error(Code::cancelled, "the receiver of the logits stopped at token {}", n_run_ - before);
    // The last row's logits become those of the sequence.
    float* const logits = values_.data(plan_->logits);
    for (uint32_t i = 0; rows > 1 && i < n_vocab(); ++i) logits[i] = logits[uint64_t{rows - 1} * n_vocab() + i];
    has_logits_ = true;
  }
  if (!status.ok()) n_history_ = n_run_;
  *done = n_history_ - before;
  make_last_pending();
  return status;
}

Status Sequence::step() {
  if (!has_pending()) {
    if (has_logits_) return {};
    return Status::error(Code::wrong_state, "no token is pending; feed one first");
  }
  MOTE_RETURN_IF_ERROR(make_room(0));
  MOTE_RETURN_IF_ERROR(run_until(n_history_ - 1));
  MOTE_RETURN_IF_ERROR(run_batch(1, output_rows_.first(1)));
  has_logits_ = true;
  return {};
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
  const Status status = feed(tokens.subspan(common), done);
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
  return {values_.data(plan_->logits), n_vocab()};
}

}   // namespace mote
