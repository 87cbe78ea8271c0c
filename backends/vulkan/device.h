// One Vulkan device: the loader, the instance, a queue, the pipelines of all kernels, buffers. Shared by the models and
// sessions of an engine, from any thread.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/vulkan/functions.h"
#include "backends/vulkan/kernels.h"
#include "core/base/result.h"
#include "platform/dyn_lib.h"
#include "platform/process.h"

namespace mote {

// For tests. The registry's backend has the defaults.
struct VulkanOptions {
  uint64_t most_binding_bytes = uint64_t{128} << 20;   // of one buffer in a shader
  // Called with the functions that were found, the instance's and then the device's too, to put others in their place:
  // ones that fail, count, tell something else, or do nothing.
  void (*replace)(VulkanFunctions* functions) = nullptr;
};

struct DeviceLimits {
  uint64_t binding_bytes = 0;      // of one buffer in a shader, a multiple of alignment_bytes
  uint64_t allocation_bytes = 0;   // of one piece of memory
  uint32_t alignment_bytes = 0;    // where the buffers of a shader may begin: a power of two, at most 256
};

enum class MemoryKind : uint8_t {
  device,   // weights, Values, states
  host,     // written and read by the host: mapped, coherent
};

struct Buffer {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::byte* mapped = nullptr;    // of kind host
  uint64_t bytes = 0;             // usable
  uint64_t allocated_bytes = 0;   // taken from the device
};

// A piece of a buffer, as a shader sees it.
struct Binding {
  VkBuffer buffer = VK_NULL_HANDLE;
  uint64_t offset_bytes = 0, bytes = 0;
};

class VulkanDevice {
 public:
  static constexpr uint32_t kMostBindings = 6;
  static constexpr uint32_t kPushBytes = 64;
  // Buffers and pieces of buffers begin at multiples of this: the largest alignment that a device may ask for.
  static constexpr uint32_t kPlaceBytes = 256;

  // Whether there is a device that will do; everything is closed again.
  Status probe(const VulkanOptions& options);
  // unsupported, with the reason, where there is no Vulkan or no device that will do. After a failure nothing is open.
  Status open(const VulkanOptions& options);
  void close();

  const DeviceLimits& limits() const { return limits_; }
  // "vulkan", a number made of the device and its driver, the device's name.
  const char* arithmetic_name() const { return name_; }
  VkDevice handle() const { return device_; }
  uint32_t queue_family() const { return family_; }
  VkPipeline pipeline(Kernel kernel) const { return pipelines_[static_cast<uint8_t>(kernel)]; }
  VkPipelineLayout pipeline_layout() const { return pipeline_layout_; }
  VkDescriptorSetLayout set_layout() const { return set_layout_; }

  // What make_buffer would take from the device; the bytes themselves where the device is not to be asked, or refuses:
  // then opening says why. A quote does not fail for a device.
  uint64_t measure_buffer(uint64_t bytes) const;
  Status make_buffer(uint64_t bytes, MemoryKind kind, Buffer* buffer);
  void release_buffer(Buffer* buffer);
  Status make_fence(VkFence* fence);
  // A pool whose command buffers may be recorded again, and `count` of these.
  Status make_commands(VkCommandPool* pool, VkCommandBuffer* commands, uint32_t count);

  // Runs recorded commands to their end.
  Status run(VkCommandBuffer commands, VkFence fence);
  // backend_failed, naming the call and its result. A device that was lost is not used again.
  Status outcome(const char* call, VkResult result);
  // backend_failed after the device was lost, and in a process that was forked off: drivers have threads of their own.
  Status usable() const;
  // Whether this is the process that opened the device. Another one releases nothing: a driver would wait for its
  // threads.
  bool is_ours() const { return process_id() == process_; }

  VulkanFunctions vk;

 private:
  Status open_instance();
  Status choose_device();
  const char* reason_against(VkPhysicalDevice candidate, uint32_t* family, uint32_t* rank) const;
  void read_limits(const VkPhysicalDeviceProperties& properties, uint64_t allocation_bytes);
  Status open_device();
  Status make_layouts();
  Status make_pipelines();
  Status find_memory_type(uint32_t allowed, MemoryKind kind, uint32_t* type) const;

  DynLib library_;
  VulkanOptions options_;
  DeviceLimits limits_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  uint32_t family_ = 0;
  uint64_t process_ = process_id();
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout pipeline_layout_ = VK_NULL_HANDLE;
  VkPipeline pipelines_[kKernelCount] = {};
  // The queue is one thread's at a time.
  void take_queue() {
    while (queue_taken_.exchange(1, std::memory_order_acquire) != 0) {
    }
  }
  void leave_queue() { queue_taken_.store(0, std::memory_order_release); }
  std::atomic<uint32_t> queue_taken_{0};
  std::atomic<uint32_t> lost_{0};
  char name_[320] = {};
};

// Leaves the calling function with a status unless the call gave VK_SUCCESS.
#define MOTE_VK_TRY(device, call, ...) MOTE_RETURN_IF_ERROR((device).outcome(#call, (device).vk.call(__VA_ARGS__)))
// The same for a call that makes `*handle`, its last argument. After a failure that is undefined; here it is null, so
// that nobody destroys it.
#define MOTE_VK_MAKE(device, call, handle, ...)                             \
  do {                                                                      \
    const VkResult mote_vk_result_ = (device).vk.call(__VA_ARGS__, handle); \
    if (mote_vk_result_ != VK_SUCCESS) *(handle) = VK_NULL_HANDLE;          \
    MOTE_RETURN_IF_ERROR((device).outcome(#call, mote_vk_result_));         \
  } while (false)

}   // namespace mote
