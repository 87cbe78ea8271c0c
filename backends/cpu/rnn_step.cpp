// rnn: h = tanh(x[row] + (matrix h)), y[row] = h, row by row. matrix h has the order of `linear` (linear/linear.h),
// also in how h becomes int8 blocks where the format has them; the sum is one f32 addition, tanh that of
// core/base/math.h. Rows depend on each other, so lanes share the elements of one, where that is worth a region.
#include <algorithm>
#include <cstring>

#include "backends/cpu/step.h"
#include "core/base/math.h"

namespace mote {

Status run_rnn(const PreparedStep& prepared, const RunContext& context) {
  const Step& step = *prepared.step;
  const Matrix& matrix = step.matrix;
  const uint32_t width = matrix.rows, rows = context.rows(step.output);
  const StepScratch& scratch = context.scratch;
  RecurrentState& state = context.recurrent[step.state.id];
  const float* x = context.input(prepared, 0);
  float* y = context.output(prepared);
  float* const h = state.next();
  if (context.batch.first_position == 0)
    std::fill_n(h, width, 0.0f);
  else
    std::memcpy(h, state.last(), width * sizeof(float));

  LinearJob job = {};
  job.weights = matrix.data;
  job.weight_row_bytes = static_cast<size_t>(row_bytes(matrix.format, matrix.columns));
  job.columns = matrix.columns;
  job.x_rows = 1;
  job.x = h;
  job.input = scratch.input.data();
  job.y = scratch.row.data();
  job.y_columns = width;
  const uint32_t piece = width / context.parallel.lanes + 1;
  for (uint32_t row = 0; row < rows; ++row) {
    if (const InputForm* form = prepared.linear->form; form != nullptr)
      form->make({h, width, 1, 0, 1, scratch.input.data()});
    for_pieces(context.parallel, width, piece, uint64_t{width} * width,
               [&](uint32_t begin, uint32_t end, uint32_t lane) {
                 LinearJob part = job;
                 part.first_row = begin;
                 part.end_row = end;
                 part.scratch = scratch.lane(lane);
                 prepared.linear->run(part);
               });
    bool has_nan = false;
    for (uint32_t i = 0; i < width; ++i) {
      h[i] = tanh_f32(x[size_t{row} * width + i] + scratch.row[i]);
      has_nan = has_nan || h[i] != h[i];
    }
    std::memcpy(y + size_t{row} * width, h, width * sizeof(float));
    if (has_nan) context.first_nan.note(context.batch.first_position + row, step);
  }
  return {};
}

}   // namespace mote
