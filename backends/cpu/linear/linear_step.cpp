// Runs one `linear` step: the input to int8 blocks, then chunks of output rows, claimed by whoever is free.
#include <algorithm>

#include "backends/cpu/step.h"

namespace mote {
namespace {

void quantize_input(const PreparedStep& prepared, const RunContext& context, uint32_t rows) {
  const uint32_t columns = prepared.step->matrix.columns, unit = prepared.linear.unit;
  const float* x = context.input(prepared, 0);
  const StepScratch& scratch = context.scratch;
  for_pieces(context.parallel, rows, 4, uint64_t{rows} * columns, [&](uint32_t begin, uint32_t end, uint32_t) {
    for (size_t row = begin; row < end; ++row)
      prepared.linear.quantize({x + row * columns, columns, unit, scratch.codes.data() + row * columns,
                                scratch.scales.data() + row * (columns / unit),
                                scratch.sums.data() + row * (columns / 16)});
  });
}

}   // namespace

Status run_linear(const PreparedStep& prepared, const RunContext& context) {
  const Step& step = *prepared.step;
  const Matrix& matrix = step.matrix;
  const uint32_t rows = context.rows(step.output);
  if (rows == 0) return {};
  if (prepared.linear.unit != 0 && !prepared.input_quantized) quantize_input(prepared, context, rows);

  LinearJob job = {};
  job.weights = matrix.data;
  job.weight_row_bytes = static_cast<size_t>(row_bytes(matrix.format, matrix.columns));
  job.columns = matrix.columns;
  job.x_rows = rows;
  job.x = context.input(prepared, 0);
  job.codes = context.scratch.codes.data();
  job.scales = context.scratch.scales.data();
  job.sums = context.scratch.sums.data();
  job.bias = step.bias.data;
  job.y = context.output(prepared);
  job.y_columns = matrix.rows;

  // About eight chunks per lane, so that a slow core does not hold up the others; whole panels of four rows.
  const uint32_t share = matrix.rows / (context.parallel.lanes * 8);
  const uint32_t chunk = std::clamp<uint32_t>(static_cast<uint32_t>(round_up(share, 4)), 8, 256);
  const uint64_t cost = uint64_t{matrix.rows} * matrix.columns * rows;
  for_pieces(context.parallel, matrix.rows, chunk, cost, [&](uint32_t begin, uint32_t end, uint32_t lane) {
    LinearJob part = job;
    part.first_row = begin;
    part.end_row = end;
    part.scratch = context.scratch.lane(lane);
    prepared.linear.kernel(part);
  });
  return {};
}

}   // namespace mote
