#include "backends/cpu/step.h"
#include "mote_build.h"

namespace mote {

#define MOTE_CPU_KERNEL(required, name) extern const ElementwiseTable elementwise_##name;
#include "backends/cpu/elementwise/kernels.inc"
#undef MOTE_CPU_KERNEL

namespace {

constexpr ElementwiseVariant kVariants[] = {
#define MOTE_CPU_KERNEL(required, name) {required, #name, &elementwise_##name},
#include "backends/cpu/elementwise/kernels.inc"
#undef MOTE_CPU_KERNEL
};

// What an element costs, in simple operations, to decide whether a region is worth while.
constexpr uint32_t kCheap = 1, kDear = 20;

Status run_elements(const PreparedStep& prepared, const RunContext& context, ElementwiseKernel kernel, uint32_t cost,
                    float factor = 0) {
  const Value output = prepared.step->output;
  const uint32_t rows = context.rows(output), columns = output.columns;
  const float* a = context.input(prepared, 0);
  const float* b = op_info(prepared.step->op).n_inputs > 1 ? context.input(prepared, 1) : nullptr;
  float* out = context.output(prepared);
  for_rows(context.parallel, rows, uint64_t{columns} * cost, [&](uint32_t begin, uint32_t end, uint32_t) {
    const size_t first = size_t{begin} * columns;
    kernel({a + first, b == nullptr ? nullptr : b + first, out + first, uint64_t{end - begin} * columns, factor});
  });
  return {};
}

uint8_t index_of(const PreparedStep& prepared) {
  return static_cast<uint8_t>(prepared.step->attributes.activate.function);
}

}   // namespace

std::span<const ElementwiseVariant> elementwise_variants() { return kVariants; }

Status run_activate(const PreparedStep& prepared, const RunContext& context) {
  return run_elements(prepared, context, prepared.elementwise->activate[index_of(prepared)], kDear);
}
Status run_gate(const PreparedStep& prepared, const RunContext& context) {
  return run_elements(prepared, context, prepared.elementwise->gate[index_of(prepared)], kDear);
}
Status run_add(const PreparedStep& prepared, const RunContext& context) {
  return run_elements(prepared, context, prepared.elementwise->add, kCheap);
}
Status run_scale(const PreparedStep& prepared, const RunContext& context) {
  return run_elements(prepared, context, prepared.elementwise->scale, kCheap, prepared.step->attributes.scale.factor);
}
Status run_softcap(const PreparedStep& prepared, const RunContext& context) {
  return run_elements(prepared, context, prepared.elementwise->softcap, kDear, prepared.step->attributes.scale.factor);
}

Status run_rope(const PreparedStep& prepared, const RunContext& context) {
  const Step& step = *prepared.step;
  const uint32_t rows = context.rows(step.output), columns = step.output.columns;
  const float *x = context.input(prepared, 0), *angles = context.input(prepared, 1);
  float* y = context.output(prepared);
  const RopeAttributes& attributes = step.attributes.rope;
  for_rows(context.parallel, rows, uint64_t{columns} * 2, [&](uint32_t begin, uint32_t end, uint32_t) {
    for (size_t row = begin; row < end; ++row)
      prepared.elementwise->rope(
          {x + row * columns, angles + row * attributes.n_rotated, y + row * columns, attributes});
  });
  return {};
}

}   // namespace mote
