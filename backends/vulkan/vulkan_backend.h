// The whole pipeline as compute shaders on a Vulkan device.
#pragma once
#include "backends/vulkan/device.h"
#include "core/ops/backend.h"

namespace mote {

// unsupported or backend_failed, with the reason, where there is no device that will do.
Result<Backend*> create_vulkan_backend(const BackendServices& services, Arena& engine_arena);
// The same with options, for tests.
Result<Backend*> create_vulkan_backend_with(const VulkanOptions& options, Arena& engine_arena);

}   // namespace mote
