#include "backends/cpu/probe/probe.h"
#include "mote_build.h"

namespace mote {

#define MOTE_CPU_KERNEL(required, name) extern const ProbeTable probe_##name;
#include "backends/cpu/probe/kernels.inc"
#undef MOTE_CPU_KERNEL

namespace {

constexpr ProbeVariant kVariants[] = {
#define MOTE_CPU_KERNEL(required, name) {required, #name, &probe_##name},
#include "backends/cpu/probe/kernels.inc"
#undef MOTE_CPU_KERNEL
};

}   // namespace

std::span<const ProbeVariant> cpu_probe_variants() { return kVariants; }

}   // namespace mote
