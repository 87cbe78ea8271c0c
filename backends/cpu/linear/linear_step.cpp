// Runs one `linear` step: the input to int8 blocks, then chunks of output rows, claimed by whoever is free.
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

// One of the steps that run together, and its pieces among those of all.
LinearJob job_of(const PreparedStep& prepared, const RunContext& context, uint32_t rows) {
  const Matrix& matrix = prepared.step->matrix;
  LinearJob job = {};
  job.weights = matrix.data;
  job.weight_row_bytes = static_cast<size_t>(row_bytes(matrix.format, matrix.columns));
  job.columns = matrix.columns;
  job.x_rows = rows;
  job.x = context.input(prepared, 0);
  job.input = context.scratch.input.data();
  job.bias = prepared.step->bias.data;
  job.y = context.output(prepared);
  job.y_columns = matrix.rows;
  return job;
}

// The smallest chunks that lanes take: about eight for each lane, whole groups of rows.
uint32_t chunk_of(const PreparedStep& prepared, uint32_t lanes) {
  const uint32_t share = std::clamp<uint32_t>(prepared.step->matrix.rows / (lanes * 8), 8, 256);
  return whole_groups(share, prepared.linear->rows_together);
}

}   // namespace

Status run_linear(const PreparedStep& first, const RunContext& context) {
  const uint32_t rows = context.rows(first.step->output), lanes = context.parallel.lanes;
  if (rows == 0) return {};
  if (first.linear->form != nullptr && !first.input_formed) form_input(first, context, rows);

  const std::span<const PreparedStep> steps(&first, first.together);
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
      LinearJob job = job_of(prepared, context, rows);
      job.first_row = from * chunk;
      job.end_row = std::min(to * chunk, matrix_rows);
      job.scratch = context.scratch.lane(lane);
      prepared.linear->run(job);
    }
  });
  return {};
}

}   // namespace mote
