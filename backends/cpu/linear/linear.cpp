#include "backends/cpu/linear/linear.h"
#include "mote_build.h"

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

const LinearKernel* choose_linear(Format format, IsaBits available) {
  const LinearKernel* choice = nullptr;
  for (const LinearVariant& variant : kVariants) {
    const LinearKernel& kernel = variant.table->by_format[static_cast<uint8_t>(format)];
    if ((variant.required & ~available) == 0 && kernel.run != nullptr) choice = &kernel;
  }
  return choice;
}

}   // namespace mote
