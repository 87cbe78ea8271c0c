// Leaks and Vulkan drivers. A driver keeps some memory in globals of its own, and is unloaded with the last instance:
// by the time LeakSanitizer looks, what it kept is reachable from nowhere, and its functions have no names that could
// be passed over. While the driver stays loaded there is no leak.
#pragma once

#if defined(__SANITIZE_ADDRESS__) && defined(__linux__)
#include "mote_build.h"
#define MOTE_TEST_KEEPS_DRIVERS MOTE_BACKEND_VULKAN
#endif

#if MOTE_TEST_KEEPS_DRIVERS
#include <dlfcn.h>
#include <link.h>

#include "backends/vulkan/device.h"

namespace mote::test {

// Before the first instance: all libraries that one brings stay to the end of the process.
inline void keep_vulkan_drivers_loaded() {
  VulkanOptions options;
  options.replace = [](VulkanFunctions*) {   // the instance is open
    const auto keep = [](dl_phdr_info* library, size_t, void*) {
      if (void* at = dlopen(library->dlpi_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE); at != nullptr) dlclose(at);
      return 0;
    };
    dl_iterate_phdr(keep, nullptr);
  };
  VulkanDevice device;
  static_cast<void>(device.probe(options).ok());
}

}   // namespace mote::test
#else
namespace mote::test {
inline void keep_vulkan_drivers_loaded() {}
}   // namespace mote::test
#endif
