#include "backends/cpu/linear/linear.h"

namespace mote {

#define MOTE_CPU_KERNEL(required, name) extern const LinearTable linear_##name;
#include "backends/cpu/linear/kernels.inc"
#undef MOTE_CPU_KERNEL

namespace {

constexpr LinearVariant kVariants[] = {
#define MOTE_CPU_KERNEL(required, name) {required, #name, &linear_##name},
#include "backends/cpu/linear/kernels.inc"
#undef MOTE_CPU_KERNEL
};

}   // namespace

std::span<const LinearVariant> linear_variants() { return kVariants; }

LinearChoice choose_linear(Format format, IsaBits available) {
  const uint32_t values = format_info(format).block_values;
  LinearChoice choice;
  choice.unit = values == 1 ? 0 : values;
  for (const LinearVariant& variant : kVariants) {
    if ((variant.required & ~available) != 0) continue;
    choice.quantize = variant.table->quantize;
    if (const LinearKernel kernel = variant.table->by_format[static_cast<uint8_t>(format)]; kernel != nullptr)
      choice.kernel = kernel;
  }
  return choice;
}

}   // namespace mote
