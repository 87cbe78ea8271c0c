// Runs `linear` steps of one input: it is put into int8 blocks, then chunks of output rows are claimed by whoever is
// free.
#include <algorithm>

#include "backends/cpu/step.h"

namespace mote {
namespace {

uint32_t whole_groups(uint32_t count, uint32_t together) { return (count + together - 1) / together * together; }

void form_input(const PreparedStep& prepared, const RunContext& context, uint32_t rows) {
  const uint32_t columns = prepared.step->matrix.columns;
  const InputForm& form = *prepared.linear->form;
  const float* x = context.input(prepared, 0);
  const uint32_t piece = whole_groups(4, form.rows_together);
  for_pieces(context.parallel, rows, piece, uint64_t{rows} * columns, [&](uint32_t begin, uint32_t end, uint32_t) {
    form.make({x, columns, rows, begin, end, context.scratch.input.data()});
  });
}

// Outputs [begin, end) of one of the steps that run together.
void run_job(const PreparedStep& prepared, const RunContext& context, uint32_t rows, uint32_t begin, uint32_t end,
             uint32_t lane) {
  const Matrix& matrix = prepared.step->matrix;
  LinearJob job = {};
  job.weights = matrix.data;
  job.weight_row_bytes = static_cast<size_t>(row_bytes(matrix.format, matrix.columns));
  job.columns = matrix.columns;
  job.first_row = begin;
  job.end_row = end;
  job.x_rows = rows;
  job.x = context.input(prepared, 0);
  job.input = context.scratch.input.data();
  job.bias = prepared.step->bias.data;
  job.y = context.output(prepared);
  job.y_columns = matrix.rows;
  job.scratch = context.scratch.lane(lane);
  prepared.linear->run(job);
}

// The smallest chunks that lanes take: about eight for each lane, whole groups of rows.
uint32_t chunk_of(const PreparedStep& prepared, uint32_t lanes) {
  const uint32_t share = std::clamp<uint32_t>(prepared.step->matrix.rows / (lanes * 8), 8, 256);
  return whole_groups(share, prepared.linear->rows_together);
}

// The step behind that takes columns, in stripes: whoever makes the last output that a stripe waits for runs it. So
// nobody waits, and matrices are read in the order in which they are read without it.
class Stripes {
 public:
  // `taker` may be null.
  Stripes(const PreparedStep* taker, const RunContext& context, uint32_t matrices) : taker_(taker), context_(context) {
    if (taker == nullptr) return;
    columns_ = taker->step->output.columns;
    width_ = whole_groups(columns_ / kMost + 1, 16);
    for (uint32_t stripe = 0; stripe * width_ < columns_; ++stripe)
      left_[stripe].store((end_of(stripe) - stripe * width_) * matrices, std::memory_order_relaxed);
  }
  // Outputs [begin, end) of one of the matrices are there.
  void made(uint32_t begin, uint32_t end) {
    if (taker_ == nullptr) return;
    for (uint32_t stripe = begin / width_; begin < end; ++stripe) {
      const uint32_t behind = std::min(end, end_of(stripe)), outputs = behind - begin;
      if (left_[stripe].fetch_sub(outputs) == outputs) run_columns(*taker_, context_, stripe * width_, end_of(stripe));
      begin = behind;
    }
  }

 private:
  uint32_t end_of(uint32_t stripe) const { return std::min((stripe + 1) * width_, columns_); }
  static constexpr uint32_t kMost = 16;
  const PreparedStep* taker_;
  const RunContext& context_;
  uint32_t columns_ = 0, width_ = 0;
  std::atomic<uint32_t> left_[kMost];   // outputs that a stripe waits for
};

}   // namespace

Status run_linear(const PreparedStep& first, const RunContext& context) {
  const uint32_t rows = context.rows(first.step->output), lanes = context.parallel.lanes;
  if (rows == 0) return {};
  if (first.linear->form != nullptr && !first.input_formed)
    form_input(first, context.fused ? context.on_one_lane() : context, rows);

  const std::span<const PreparedStep> steps(&first, first.together);
  Stripes stripes(context.fused && first.by_columns ? &first + first.together : nullptr, context, first.together);
  uint32_t pieces = 0;
  uint64_t cost = 0;
  for (const PreparedStep& prepared : steps) {
    const Matrix& matrix = prepared.step->matrix;
    pieces += (matrix.rows + chunk_of(prepared, lanes) - 1) / chunk_of(prepared, lanes);
    cost += uint64_t{matrix.rows} * matrix.columns * rows;
  }
  for_shrinking_pieces(context.parallel, pieces, cost, [&](uint32_t begin, uint32_t end, uint32_t lane) {
    uint32_t before = 0;   // pieces of the steps so far
    for (const PreparedStep& prepared : steps) {
      const uint32_t chunk = chunk_of(prepared, lanes), matrix_rows = prepared.step->matrix.rows;
      const uint32_t own = (matrix_rows + chunk - 1) / chunk;
      const uint32_t from = std::max(begin, before) - before, to = std::min(std::max(end, before) - before, own);
      before += own;
      if (from >= to) continue;
      const uint32_t first_output = from * chunk, end_output = std::min(to * chunk, matrix_rows);
      run_job(prepared, context, rows, first_output, end_output, lane);
      stripes.made(first_output, end_output);
    }
  });
  return {};
}

}   // namespace mote
