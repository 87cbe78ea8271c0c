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

// A step whose output has the shape of its inputs, each element by itself.
struct Elements {
  ElementwiseKernel kernel = nullptr;
  uint32_t cost = 0;
  float factor = 0;
  const float *a = nullptr, *b = nullptr;
  float* out = nullptr;

  Elements(const PreparedStep& prepared, const RunContext& context) {
    const ElementwiseTable& table = *prepared.elementwise;
    const auto& attributes = prepared.step->attributes;
    const Op op = prepared.step->op;
    const auto function = static_cast<uint8_t>(attributes.activate.function);
    kernel = op == Op::activate ? table.activate[function]
             : op == Op::gate   ? table.gate[function]
             : op == Op::add    ? table.add
             : op == Op::scale  ? table.scale
                                : table.softcap;
    cost = op == Op::add || op == Op::scale ? kCheap : kDear;
    if (op == Op::scale || op == Op::softcap) factor = attributes.scale.factor;
    a = context.input(prepared, 0);
    if (op_info(op).n_inputs > 1) b = context.input(prepared, 1);
    out = context.output(prepared);
  }
  void run(size_t first, uint64_t count) const {
    kernel({a + first, b == nullptr ? nullptr : b + first, out + first, count, factor});
  }
};

Status run_elements(const PreparedStep& prepared, const RunContext& context) {
  const Elements elements(prepared, context);
  const uint32_t rows = context.rows(prepared.step->output), columns = prepared.step->output.columns;
  for_rows(context.parallel, rows, uint64_t{columns} * elements.cost, [&](uint32_t begin, uint32_t end, uint32_t) {
    elements.run(size_t{begin} * columns, uint64_t{end - begin} * columns);
  });
  return {};
}

}   // namespace

std::span<const ElementwiseVariant> elementwise_variants() { return kVariants; }

Status run_activate(const PreparedStep& prepared, const RunContext& context) { return run_elements(prepared, context); }
Status run_gate(const PreparedStep& prepared, const RunContext& context) { return run_elements(prepared, context); }
Status run_add(const PreparedStep& prepared, const RunContext& context) { return run_elements(prepared, context); }
Status run_scale(const PreparedStep& prepared, const RunContext& context) { return run_elements(prepared, context); }
Status run_softcap(const PreparedStep& prepared, const RunContext& context) { return run_elements(prepared, context); }

void run_columns(const PreparedStep& prepared, const RunContext& context, uint32_t begin, uint32_t end) {
  const Elements elements(prepared, context);
  const uint32_t rows = context.rows(prepared.step->output), columns = prepared.step->output.columns;
  for (size_t row = 0; row < rows; ++row) elements.run(row * columns + begin, end - begin);
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
