#include "backends/cpu/step.h"
#include "mote_build.h"

namespace mote {

#define MOTE_CPU_KERNEL(required, name) extern const NormTable norm_##name;
#include "backends/cpu/norm/kernels.inc"
#undef MOTE_CPU_KERNEL

namespace {

constexpr NormVariant kVariants[] = {
#define MOTE_CPU_KERNEL(required, name) {required, #name, &norm_##name},
#include "backends/cpu/norm/kernels.inc"
#undef MOTE_CPU_KERNEL
};

Status run_norm(const PreparedStep& prepared, const RunContext& context, void (*kernel)(const NormJob&)) {
  const Step& step = *prepared.step;
  const uint32_t rows = context.rows(step.output), columns = step.output.columns, width = norm_width(step);
  const float* x = context.input(prepared, 0);
  float* y = context.output(prepared);
  for_rows(context.parallel, rows, columns, [&](uint32_t begin, uint32_t end, uint32_t) {
    for (size_t at = size_t{begin} * columns; at < size_t{end} * columns; at += width)
      kernel({x + at, step.vector.data, step.bias.data, y + at, width, step.attributes.norm.epsilon});
  });
  return {};
}

}   // namespace

std::span<const NormVariant> norm_variants() { return kVariants; }

Status run_rms_norm(const PreparedStep& prepared, const RunContext& context) {
  return run_norm(prepared, context, prepared.norm->rms_norm);
}
Status run_layer_norm(const PreparedStep& prepared, const RunContext& context) {
  return run_norm(prepared, context, prepared.norm->layer_norm);
}

}   // namespace mote
