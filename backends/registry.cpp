// The one table of compiled-in backends, in the order of preference. A row per folder.
#include "core/ops/backend.h"
#include "core/ops/probe_loop.h"
#include "mote_build.h"

#if MOTE_BACKEND_CPU
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/probe/probe.h"
#endif
#if MOTE_BACKEND_REFERENCE
#include "backends/reference/reference.h"
#endif
#if MOTE_BACKEND_VULKAN
#include "backends/vulkan/vulkan_backend.h"
#endif
#if MOTE_BACKEND_XNNPACK
#include "backends/xnnpack/xnnpack_backend.h"
#endif

namespace mote {
namespace {

constexpr BackendEntry kBackends[] = {
#if MOTE_BACKEND_CPU
    {"cpu", create_cpu_backend},
#endif
#if MOTE_BACKEND_VULKAN
    {"vulkan", create_vulkan_backend, false},   // slower than cpu so far
#endif
#if MOTE_BACKEND_REFERENCE
    {"reference", create_reference_backend},
#endif
#if MOTE_BACKEND_XNNPACK
    {"xnnpack", create_xnnpack_backend, false},
#endif
    {nullptr, nullptr},   // keeps the table from being empty
};

static_assert(std::size(kBackends) - 1 == MOTE_BACKEND_COUNT, "MOTE_BACKENDS names a backend without a row here");

}   // namespace

std::span<const BackendEntry> built_in_backends() { return std::span(kBackends).first(std::size(kBackends) - 1); }

std::span<const ProbeVariant> probe_variants() {
#if MOTE_BACKEND_CPU
  return cpu_probe_variants();
#else
  return {};
#endif
}

}   // namespace mote
