// Which device is taken and which are refused: by devices that exist only here, told by functions of the test's.
#include <vector>

#include "tests/backends/vulkan/rig.h"

namespace mote::test {
namespace {

struct Device {
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  std::string name;
  uint32_t api_version = VK_API_VERSION_1_1;
  VkPhysicalDeviceLimits limits{};
  VkQueueFlags queues = VK_QUEUE_COMPUTE_BIT;

  // What just will do.
  explicit Device(const char* called) : name(called) {
    limits.maxComputeWorkGroupInvocations = limits.maxComputeWorkGroupSize[0] = 64;
    limits.maxPerStageDescriptorStorageBuffers = 6;
    limits.maxPushConstantsSize = 64;
    limits.maxComputeSharedMemorySize = 16384;
    limits.maxStorageBufferRange = 1 << 27;
    limits.minStorageBufferOffsetAlignment = 64;
  }
};
std::vector<Device> devices;

const Device& device_of(VkPhysicalDevice handle) { return devices[reinterpret_cast<uintptr_t>(handle) - 1]; }

void pretend(VulkanFunctions* functions) {
  functions->vkEnumeratePhysicalDevices = [](VkInstance, uint32_t* count, VkPhysicalDevice* handles) {
    *count = std::min(*count, static_cast<uint32_t>(devices.size()));
    for (uintptr_t i = 0; i < *count; ++i) handles[i] = reinterpret_cast<VkPhysicalDevice>(i + 1);
    return *count < devices.size() ? VK_INCOMPLETE : VK_SUCCESS;
  };
  functions->vkGetPhysicalDeviceProperties2 = [](VkPhysicalDevice handle, VkPhysicalDeviceProperties2* to) {
    const Device& device = device_of(handle);
    to->properties.deviceType = device.type;
    to->properties.apiVersion = device.api_version;
    to->properties.limits = device.limits;
    device.name.copy(to->properties.deviceName, sizeof to->properties.deviceName - 1);
  };
  functions->vkGetPhysicalDeviceQueueFamilyProperties = [](VkPhysicalDevice handle, uint32_t* count,
                                                           VkQueueFamilyProperties* to) {
    *count = 2;
    to[0] = {VK_QUEUE_TRANSFER_BIT, 1, 0, {}};
    to[1] = {device_of(handle).queues, 1, 0, {}};
  };
}

struct Chosen {
  Status status;
  std::string name;
  DeviceLimits limits;
  uint32_t family;
};
Chosen choose(std::vector<Device> among) {
  devices = std::move(among);
  VulkanOptions options;
  options.replace = pretend;
  VulkanDevice device;
  const Status status = device.probe(options);
  const std::string name = device.arithmetic_name();
  return {status, name.substr(std::min<size_t>(16, name.size())), device.limits(), device.queue_family()};
}

}   // namespace

TEST_CASE("A device that lacks something is refused by name, at exactly the limit", "[vulkan][choice]") {
  need_device();
  const Chosen least = choose({Device("just enough")});
  CHECK(least.status.ok());
  CHECK(least.name == "just enough");
  CHECK(least.family == 1);
  struct Lack {
    const char* reason;
    void (*take)(Device&);
  };
  const Lack lacks[] = {
      {"has Vulkan 1.0 only, 1.1 is needed", [](Device& d) { d.api_version = VK_MAKE_API_VERSION(0, 1, 0, 999); }},
      {"has no work groups of 64", [](Device& d) { d.limits.maxComputeWorkGroupInvocations = 63; }},
      {"has no work groups of 64", [](Device& d) { d.limits.maxComputeWorkGroupSize[0] = 63; }},
      {"allows fewer than 6 buffers in a shader", [](Device& d) { d.limits.maxPerStageDescriptorStorageBuffers = 5; }},
      {"has less memory for shaders than Vulkan promises", [](Device& d) { d.limits.maxPushConstantsSize = 63; }},
      {"has less memory for shaders than Vulkan promises",
       [](Device& d) { d.limits.maxComputeSharedMemorySize = 16383; }},
      {"has no queue that computes", [](Device& d) { d.queues = VK_QUEUE_GRAPHICS_BIT; }},
  };
  for (const Lack& lack : lacks) {
    Device device("poor");
    lack.take(device);
    const Status status = choose({device}).status;
    CHECK(status.code() == Code::unsupported);
    CHECK(status.message() == std::string("vulkan is off: the only device that is left ") + lack.reason);
    CHECK(choose({device, Device("other")}).name == "other");
  }
  CHECK(choose({}).status.message() == "vulkan is off: there is no device on this system");
}

TEST_CASE("A GPU is taken before what emulates one, the first of the best", "[vulkan][choice]") {
  need_device();
  const auto made = [](const char* name, VkPhysicalDeviceType type) {
    Device device(name);
    device.type = type;
    return device;
  };
  const Device emulated = made("emulated", VK_PHYSICAL_DEVICE_TYPE_CPU),
               built_in = made("built in", VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU),
               card = made("card", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU),
               second = made("second card", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU),
               shared = made("virtual", VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU);
  CHECK(choose({emulated, built_in, card, second}).name == "card");
  CHECK(choose({emulated, shared, built_in}).name == "built in");
  CHECK(choose({emulated, shared}).name == "virtual");
  CHECK(choose(std::vector<Device>(40, emulated)).name == "emulated");   // more than are looked at
}

TEST_CASE("What a device says of buffers becomes limits that places are rounded to", "[vulkan][choice]") {
  need_device();
  const auto limits_of = [](uint64_t alignment, uint32_t range) {
    Device device("any");
    device.limits.minStorageBufferOffsetAlignment = alignment;
    device.limits.maxStorageBufferRange = range;
    return choose({device}).limits;
  };
  CHECK(limits_of(1, 1 << 27).alignment_bytes == 16);
  CHECK(limits_of(64, 1 << 27).alignment_bytes == 64);
  CHECK(limits_of(1024, 1 << 27).alignment_bytes == 256);   // more than Vulkan allows a device to want
  CHECK(limits_of(64, 1000003).binding_bytes == 1000003 / 64 * 64);
  CHECK(limits_of(64, UINT32_MAX).binding_bytes == 1 << 27);
}

namespace {

PFN_vkGetPhysicalDeviceProperties2 real_properties = nullptr;
constexpr uint64_t kPieceBytes = 4096;

void give_small_pieces(VulkanFunctions* functions) {
  if (functions->vkQueueSubmit != nullptr) return;   // once, with the functions of the instance
  real_properties = functions->vkGetPhysicalDeviceProperties2;
  functions->vkGetPhysicalDeviceProperties2 = [](VkPhysicalDevice device, VkPhysicalDeviceProperties2* to) {
    real_properties(device, to);
    if (to->pNext != nullptr)
      static_cast<VkPhysicalDeviceMaintenance3Properties*>(to->pNext)->maxMemoryAllocationSize = kPieceBytes;
  };
}

}   // namespace

TEST_CASE("More than a device gives in one piece is a sentence", "[vulkan][choice]") {
  need_device();
  VulkanOptions options;
  options.replace = give_small_pieces;
  VulkanDevice device;
  REQUIRE(device.open(options).ok());
  Buffer fits, too_large;
  CHECK(device.make_buffer(kPieceBytes, MemoryKind::device, &fits).ok());
  const Status status = device.make_buffer(kPieceBytes + 1, MemoryKind::device, &too_large);
  CHECK(status.code() == Code::backend_failed);
  CHECK(status.message() == "vulkan: 4097 bytes are wanted in one piece, the device gives 4096");
  device.release_buffer(&fits);
  device.release_buffer(&too_large);
  device.close();
}

}   // namespace mote::test
