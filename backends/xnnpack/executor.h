// What `open` makes: the operators of one session, its states and its working memory.
//
// An operator lives so: created when the session opens, then for each step that uses it reshaped to the rows of the
// batch, set up with the addresses, run. XNNPACK takes memory for itself only when it creates.
#pragma once
#include <span>

#include "backends/xnnpack/kv_state.h"
#include "backends/xnnpack/program.h"
#include "backends/xnnpack/threads.h"
#include "core/ops/first_nan.h"

namespace mote {

// Operators that steps use one after the other.
struct SharedOperators {
  static constexpr uint32_t kCount = 5;
  xnn_operator_t add = nullptr, multiply = nullptr, sigmoid = nullptr, rope = nullptr, quantize = nullptr;
};

// What one lane needs to attend: operators of its own, run on the lane's thread alone, and memory for one query row of
// one KV head, at most.
struct AttentionLane {
  static constexpr uint32_t kOperators = 5;
  xnn_operator_t multiply = nullptr, scores = nullptr, softmax = nullptr, sums = nullptr, widen = nullptr;
  std::span<float> q;                 // [group, key_dim], scaled
  std::span<float> keys, values;      // [context, key_dim], [context, value_dim]: f16 states, widened
  std::span<float> scores_of_group;   // [group, visible keys]
  std::span<float> weights;           // the same
  std::span<std::byte> workspace;     // of the batch matrix multiply, which packs its second operand there
  Status status;                      // of the lane's share of a step
};

// XNNPACK's f32 kernels for one row on ARM split each sum over two or four registers, those for more rows do not: the
// same row would have other bits alone than in a batch. There one row is run as two, twice the same.
#if defined(__aarch64__) || defined(__arm__)
inline constexpr bool kOneRowAsTwo = true;
#else
inline constexpr bool kOneRowAsTwo = false;
#endif

// Working memory of a session, used by one step after the other. Each ends with what XNNPACK may read behind it.
struct SessionScratch {
  std::span<int8_t> codes;                     // linear: x as int8, [rows, columns]
  std::span<xnn_quantization_params> scales;   // linear: of each row
  std::span<float> rows;                       // activate, gate, rope, position_embed: up to a Value
  std::span<float> angles;                     // rope: [rows, n_rotated], all cosines of a row before its sines
  std::span<float> two_in, two_out;            // linear with kOneRowAsTwo: [2, columns], [2, rows of the matrix]
  std::span<AttentionLane> lanes;
};

class XnnExecutor final : public Executor {
 public:
  Status run(const Batch& batch, CancelFlag cancel) override;
  Status begin(uint32_t first_position, uint32_t rows) override;
  void commit() override;
  void discard() override;
  Status truncate(uint32_t positions) override;
  Status export_row(State state, uint32_t position, std::span<uint8_t> to) override;
  Status import_row(State state, uint32_t position, std::span<const uint8_t> from) override;
  void close() override;

  // When all below is set; whoever calls closes after a failure.
  Status create_operators();

  // Set by `open`, once.
  PlanPart part;
  XnnProgram* program = nullptr;
  std::span<xnn_operator_t> operators;   // by step: of `linear` alone
  SharedOperators shared;
  SessionScratch scratch;
  std::span<XnnKvState> states;   // by State::id; those of other parts do not exist
  SessionShape shape;
  ValueMemory values;
  Parallel parallel;   // all lanes of the engine
  pthreadpool pool;    // those that the batch may take

 private:
  Status check_row(State state, uint32_t position, size_t bytes) const;
  uint32_t length_ = 0;   // positions that are committed
  uint32_t pending_first_ = 0, pending_rows_ = 0;
};

// Takes a session's working memory from the arena (or only measures it).
Result<SessionScratch> take_session_scratch(const PlanPart& part, const SessionShape& shape, uint32_t lanes,
                                            Arena& arena);
// How many operators a session creates.
uint64_t operator_count(const PlanPart& part, uint32_t lanes);

// What passes between the executor and the code of each op.
struct StepContext {
  XnnExecutor& session;
  const XnnStep& prepared;
  uint32_t index;   // in the part
  const Batch& batch;
  FirstNan& first_nan;

  const Step& step() const { return *prepared.step; }
  uint32_t rows(Value value) const { return rows_of(value, batch); }
  const float* input(uint32_t i) const { return session.values.data(step().inputs[i]); }
  float* output() const { return session.values.data(step().output); }
  // Of the output, in this batch.
  size_t elements() const { return size_t{rows(step().output)} * step().output.columns; }
  pthreadpool* pool() const { return &session.pool; }
};

// One per row of runners.inc.
using XnnRunner = Status (*)(const StepContext&);
#define MOTE_XNNPACK_RUNS(name) Status xnn_run_##name(const StepContext& context);
#include "backends/xnnpack/runners.inc"
#undef MOTE_XNNPACK_RUNS

// Whether this backend runs the step.
bool xnn_supports(const Step& step, const Plan& plan);

// out[i] = f(in[i]), and of a[i] and b[i] for i < count; out may be in or a. `count_b` 1: the same b for all. A null
// pool: on this thread.
Status run_unary(xnn_operator_t op, const float* in, float* out, size_t count, pthreadpool* pool);
Status run_binary(xnn_operator_t op, const float* a, const float* b, size_t count_b, float* out, size_t count,
                  pthreadpool* pool);

// out[i] = the soft cap of in[i] (core/base), factor * in[i] by an operator that multiplies.
void run_softcap(float factor, const float* in, float* out, size_t count);   // out may be in
Status run_scale(xnn_operator_t multiply, const float* in, float factor, float* out, size_t count, pthreadpool* pool);

}   // namespace mote
