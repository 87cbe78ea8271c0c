// The backend with options of its own, for the conformance suite's harness.
#pragma once
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>

#include "backends/vulkan/vulkan_backend.h"
#include "tests/conformance/harness.h"

namespace mote::test {

inline const BackendEntry kVulkan = {"vulkan", create_vulkan_backend, false};

inline Result<Backend*> create_with_small_windows(const BackendServices&, Arena& arena) {
  VulkanOptions options;
  options.most_binding_bytes = 8192;
  return create_vulkan_backend_with(options, arena);
}
inline const BackendEntry kSmallWindows = {"vulkan with bindings of 8 KiB", create_with_small_windows, false};

// A bug that synchronization validation must find.
inline Result<Backend*> create_without_barriers(const BackendServices&, Arena& arena) {
  VulkanOptions options;
  options.replace = [](VulkanFunctions* functions) { functions->vkCmdPipelineBarrier = [](auto...) {}; };
  return create_vulkan_backend_with(options, arena);
}
inline const BackendEntry kWithoutBarriers = {"vulkan without barriers", create_without_barriers, false};

// Ends the test as skipped where there is no device; as failed when tests/run.sh has installed a driver.
inline void need_device() {
  const std::string problem = why_unusable(kVulkan);
  if (problem.empty()) return;
  if (std::getenv("MOTE_VULKAN_MUST_RUN") != nullptr) FAIL(problem);
  SKIP(problem);
}

}   // namespace mote::test
