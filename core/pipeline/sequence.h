// One sequence of tokens moving through a plan: an encoder's input, where the plan encodes; the history, the states
// behind both, and the batches that bring them along. Positions 0 .. n_run_ - 1 have been run; what stands behind them
// is pending: one token after a feed, all that were kept after a slide. The input is encoded whole, before them.
#pragma once
#include <atomic>
#include <span>

#include "core/base/arena.h"
#include "core/ops/plan_builder.h"
#include "core/pipeline/compiled_plans.h"
#include "core/pipeline/execution.h"
#include "core/pipeline/fallback.h"

namespace mote {

struct SequenceOptions {
  SessionShape shape;
  bool slide = false;          // a full context drops tokens instead of refusing
  uint32_t keep = 0;           // slide: tokens at the start that stay; below shape.context
  uint32_t decode_lanes = 0;   // that a batch of one row takes of the engine's; 0: all
  bool falls_back = true;      // a backend that fails is left for the next ones, in memory that the quote lists apart
};

// Bytes by kind, as they were taken from the arena.
struct SequenceBytes : ExecutionBytes {
  uint64_t history_bytes = 0;
  uint64_t fallback_bytes = 0;   // measuring: what fall-backs would take beside, at worst
};

// Logits [rows, n_vocab] of the tokens first .. first + rows - 1 of one evaluate call. False: stop. Without `accept`
// only those of the last token are made.
struct LogitsSink {
  bool (*accept)(void* self, size_t first, size_t rows, const float* logits, size_t n_vocab);
  void* self;
};

class Sequence {
 public:
  // Takes everything from `arena`. Measuring yields a null pointer; `offset_scratch` [plan.values] is then written to
  // in place of the sequence's own table, and `plans` may be without programs. What the arena has beyond that is kept
  // for fall-backs. `now` is one of `plans`, which must outlive it.
  static Result<Sequence*> create(CompiledPlans& plans, const CompiledPlan& now, const SequenceOptions& options,
                                  Arena& arena, std::span<uint64_t> offset_scratch, SequenceBytes* bytes);
  void close();

  // mote_encode, mote_feed, mote_evaluate, mote_prompt, mote_step, mote_rewind of mote.h. Tokens must be below n_vocab
  // (checked).
  Status encode(std::span<const int32_t> tokens);
  Status feed(std::span<const int32_t> tokens, size_t* done);
  Status evaluate(std::span<const int32_t> tokens, const LogitsSink& sink, size_t* done);
  Status prompt(std::span<const int32_t> tokens, size_t* reused, size_t* done);
  Status step();
  Status rewind(size_t n_tokens);
  // Whether the call of that name would be accepted; changes nothing. What these pass can still fail while it runs.
  Status check_encode(std::span<const int32_t> tokens) const;
  Status check_feed(std::span<const int32_t> tokens) const;   // evaluate too
  Status check_prompt(std::span<const int32_t> tokens) const;
  Status check_rewind(size_t n_tokens) const;
  // Appends one sampled token, pending; context_full when it may not. A sliding sequence slides in the next call that
  // runs it.
  Status append(int32_t token);
  bool full() const { return !options_.slide && n_history_ >= options_.shape.context; }

  // [n_vocab] after the last token run, or empty.
  std::span<const float> logits() const;
  // [tokens, d_model] of the input and what it was pooled to, or empty.
  std::span<const float> hidden() const;
  std::span<const float> pooled() const;
  uint32_t d_hidden() const { return plan_->hidden.columns; }
  // What is kept of the last batch of the attention's phase, when the plan has that tap: weights [rows, heads,
  // positions]. unsupported, invalid_argument or wrong_state, as mote_attention says.
  struct Attention {
    const float* weights = nullptr;
    uint32_t rows = 0, heads = 0, positions = 0;
  };
  Result<Attention> attention(Attending attending, uint32_t layer) const;
  std::span<const int32_t> history() const { return history_.first(n_history_); }
  bool has_pending() const { return n_run_ < n_history_; }
  uint32_t n_vocab() const { return plan_->decodes() ? plan_->logits.columns : plan_->n_vocab; }
  // Tokens since the sequence began, dropped ones included: the index that keys the sampler.
  uint64_t stream_index() const { return n_dropped_ + n_history_; }

  // What runs it now, and how often that has changed because a backend failed.
  std::span<const PlacedPart> parts() const { return execution_.parts(); }
  uint32_t n_fallbacks() const { return fallback_.count(); }

  // Told of every run from now on; null: nobody.
  void observe(const StepObserver* observer) { observer_ = observer; }
  KvType kv_type() const { return options_.shape.kv_type; }

  std::atomic<uint32_t>& cancel_flag() { return cancel_; }
  // True when a cancel was asked for; it is then done with.
  bool take_cancel() {
    if (cancel_.load(std::memory_order_relaxed) == 0) return false;
    cancel_.store(0, std::memory_order_relaxed);
    return true;
  }

  // The sequence's part of a snapshot; its bytes are described in snapshot.h.
  uint64_t snapshot_bytes() const;
  Status write_snapshot(std::span<uint8_t> to);   // snapshot_bytes() of them
  // Whether this sequence can be restored from these bytes, whoever made them; changes nothing.
  Status check_snapshot(std::span<const uint8_t> from) const;
  // From bytes that were checked. When it fails or is cancelled, the tokens are the old ones, none of them run.
  Status restore(std::span<const uint8_t> from);

 private:
  Status check_tokens(std::span<const int32_t> tokens) const;
  Status check_decodes() const;
  Status check_room(size_t count) const;
  Status make_room(size_t count);
  void make_last_pending();
  enum class Logits : uint8_t { none, of_last };
  Status append_and_run(std::span<const int32_t> tokens, Logits logits, size_t* done);
  Status run_until(uint32_t end, Logits logits, uint32_t* finished = nullptr);
  Status run_batch(uint32_t rows, std::span<const uint32_t> output_rows);
  uint32_t lanes_for(uint32_t rows) const { return rows == 1 ? options_.decode_lanes : 0; }
  Status run_once(uint32_t rows, std::span<const uint32_t> output_rows, Backend** failed);
  Status encode_once(Backend** failed);
  Status find_refusal(uint64_t executions_from, uint64_t room_bytes, Status* status, Backend** failed);
  bool fall_back(const Status& why, const Backend* failed, Fallback::Moment moment, uint32_t n_again);
  void truncate_to(uint32_t n_run);

  uint64_t bytes_of(const struct SequenceHeader& header) const;
  struct SequenceHeader make_header() const;
  Status check_numbers(const struct SequenceHeader& header) const;
  template <class Byte, class Visit>
  Result<Byte*> visit_rows(uint32_t n_run, Byte* at, Visit visit) const;
  Status check_restored_tokens(const uint8_t* from, uint32_t count, const char* kind) const;
  Status write_as_is(std::span<uint8_t> to, const Backend** failed) const;
  Status run_again(uint32_t n_run, bool with_logits);
  void run_restored(uint32_t n_run, bool with_logits);
  void forget_states();

  const Plan* plan_ = nullptr;
  SequenceOptions options_;
  Execution execution_;
  Fallback fallback_;
  std::span<int32_t> history_;        // [context + 1]
  std::span<uint32_t> output_rows_;   // [max_outputs], 0, 1, 2 ...
  std::span<int32_t> input_;          // [max_batch], of a plan that encodes
  uint32_t n_input_ = 0;
  bool is_encoded_ = false;   // the states and the results hold the input; otherwise it is pending too
  uint32_t n_history_ = 0, n_run_ = 0;
  uint32_t n_tapped_ = 0;     // rows up to n_run_ that the last batch had, and whose taps are there
  bool has_logits_ = false;   // of token n_run_ - 1, in the first row of the plan's result
  uint64_t n_dropped_ = 0;
  // After a restore whose windows do not reach back to the beginning: shorter than this, a sequence lacks positions.
  uint32_t no_return_below_ = 0;
  const StepObserver* observer_ = nullptr;
  std::atomic<uint32_t> cancel_{0};
};

}   // namespace mote
