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

}   // namespace

Status run_linear(const PreparedStep& prepared, const RunContext& context) {
  const Step& step = *prepared.step;
  const Matrix& matrix = step.matrix;
  const uint32_t rows = context.rows(step.output);
  if (rows == 0) return {};
  if (prepared.linear->form != nullptr && !prepared.input_formed) form_input(prepared, context, rows);

  LinearJob job = {};
  job.weights = matrix.data;
  job.weight_row_bytes = static_cast<size_t>(row_bytes(matrix.format, matrix.columns));
  job.columns = matrix.columns;
  job.x_rows = rows;
  job.x = context.input(prepared, 0);
  job.input = context.scratch.input.data();
  job.bias = step.bias.data;
  job.y = context.output(prepared);
  job.y_columns = matrix.rows;

  // About eight chunks per lane, so that a slow core does not hold up the others; whole groups of rows.
  const uint32_t share = std::clamp(matrix.rows / (context.parallel.lanes * 8), 8u, 256u);
  const uint32_t chunk = whole_groups(share, prepared.linear->rows_together);
  const uint64_t cost = uint64_t{matrix.rows} * matrix.columns * rows;
  for_pieces(context.parallel, matrix.rows, chunk, cost, [&](uint32_t begin, uint32_t end, uint32_t lane) {
    LinearJob part = job;
    part.first_row = begin;
    part.end_row = end;
    part.scratch = context.scratch.lane(lane);
    prepared.linear->run(part);
  });
  return {};
}

}   // namespace mote
