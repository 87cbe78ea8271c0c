// What passes between the executor and the code of each op.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/kv_state.h"
#include "backends/cpu/elementwise/elementwise.h"
#include "backends/cpu/linear/linear.h"
#include "backends/cpu/norm/norm.h"
#include "backends/cpu/recurrent_state.h"
#include "core/base/arena.h"
#include "core/ops/backend.h"
#include "core/ops/first_nan.h"

namespace mote {

// A step with its kernels chosen: made once per model.
struct PreparedStep {
  const Step* step = nullptr;
  const LinearKernel* linear = nullptr;            // ops linear, rnn
  bool input_formed = false;                       // linear: an earlier step has left this input in the kernel's form
  uint32_t together = 1;                           // steps from this one on that run as one; 0: an earlier one runs it
  uint32_t group = 1;                              // linear: those that do in a batch of few rows (fusions.inc)
  bool by_columns = false;                         // linear: the first behind those together takes columns as they come
  const AttentionTable* attention = nullptr;       // ops attention, attention_weights
  const NormTable* norm = nullptr;                 // ops rms_norm, layer_norm
  const ElementwiseTable* elementwise = nullptr;   // ops activate, gate, add, scale, softcap, rope
};

// Working memory of a session, used by one step after the other. What a part needs depends on its steps and the
// session's shape alone.
struct StepScratch {
  std::span<uint8_t> input;   // the Value that `linear` read last, in the form of its kernel: see InputForm
  std::span<float> row;       // position_embed: what it adds to one row; rnn: its product
  std::span<float> records;   // attention split over chunks: [heads, chunks, record]
  uint32_t record_chunks = 0;
  std::span<uint8_t> lanes;   // [lanes, lane_bytes], a kernel's own
  uint64_t lane_bytes = 0;

  void* lane(uint32_t index) const { return lanes.data() + index * lane_bytes; }
};
// Takes all of it from the arena (or only measures). Needs the part alone, not the program.
StepScratch take_scratch(const PlanPart& part, const SessionShape& shape, uint32_t lanes, IsaBits available,
                         Arena& arena);

struct RunContext {
  const Batch& batch;
  const ValueMemory& values;
  Parallel parallel;
  const StepScratch& scratch;
  std::span<KvState> states;             // by State::id
  std::span<RecurrentState> recurrent;   // likewise
  KvType kv_type;
  FirstNan& first_nan;
  CancelFlag cancel;    // a step that may be long looks at it between its pieces
  bool fused = false;   // `linear`: as the first of its group

  RunContext on_one_lane() const {
    RunContext context = *this;
    context.parallel = parallel.on_at_most(1);
    return context;
  }
  Status not_cancelled() const { return cancel.requested() ? Status::error(Code::cancelled, "cancelled") : Status(); }
  uint32_t rows(Value value) const { return rows_of(value, batch); }
  const float* input(const PreparedStep& prepared, uint32_t i) const { return values.data(prepared.step->inputs[i]); }
  float* output(const PreparedStep& prepared) const { return values.data(prepared.step->output); }
};

// One per row of runners.inc.
using StepRunner = Status (*)(const PreparedStep&, const RunContext&);
#define MOTE_CPU_RUNS(name) Status run_##name(const PreparedStep& prepared, const RunContext& context);
#include "backends/cpu/runners.inc"
#undef MOTE_CPU_RUNS

// Elements [begin, end) of every row of an op that is fused by columns (fusions.inc).
void run_columns(const PreparedStep& prepared, const RunContext& context, uint32_t begin, uint32_t end);

// A batch of at most so many runs groups as one: what follows a matrix there costs less than sharing it out.
constexpr uint32_t kFusedRows = 4;

constexpr uint64_t kWorthARegion = 30'000;   // simple operations

// Calls body(begin, end, lane) for pieces of [0, count): all at once on lane 0 when the whole is worth less than a
// region (`cost` counts simple operations), else `piece` at a time, claimed by whoever is free.
template <class Body>
void for_pieces(const Parallel& parallel, uint32_t count, uint32_t piece, uint64_t cost, Body&& body) {
  if (parallel.lanes <= 1 || cost < kWorthARegion || count <= piece) return body(0u, count, 0u);
  std::atomic<uint32_t> next{0};
  parallel.region([&](uint32_t lane) {
    for (;;) {
      const uint32_t begin = next.fetch_add(piece, std::memory_order_relaxed);
      if (begin >= count) return;
      body(begin, count - begin < piece ? count : begin + piece, lane);
    }
  });
}

// The same with long pieces first: a lane takes three quarters of what would be its share of the rest. It reads long
// stretches of memory in order, and no slow lane holds up the others at the end.
template <class Body>
void for_shrinking_pieces(const Parallel& parallel, uint32_t count, uint64_t cost, Body&& body) {
  if (parallel.lanes <= 1 || cost < kWorthARegion || count <= 1) return body(0u, count, 0u);
  std::atomic<uint32_t> next{0};
  parallel.region([&](uint32_t lane) {
    for (uint32_t begin = next.load(std::memory_order_relaxed); begin < count;) {
      const uint32_t share = (count - begin) * 3 / (4 * parallel.lanes), piece = share == 0 ? 1 : share;
      if (!next.compare_exchange_weak(begin, begin + piece, std::memory_order_relaxed)) continue;
      body(begin, begin + piece, lane);
      begin = next.load(std::memory_order_relaxed);
    }
  });
}

// The same for rows that cost `row_cost` each: pieces that are worth claiming, of one row where rows are dear.
template <class Body>
void for_rows(const Parallel& parallel, uint32_t rows, uint64_t row_cost, Body&& body) {
  constexpr uint64_t kPiece = 8'000;
  const uint64_t piece = row_cost >= kPiece ? 1 : kPiece / (row_cost + 1);
  for_pieces(parallel, rows, static_cast<uint32_t>(piece), rows * row_cost, body);
}

}   // namespace mote
