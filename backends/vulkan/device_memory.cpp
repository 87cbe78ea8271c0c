// What a device is asked for while models and sessions open and run: buffers, commands, submissions.
#include <algorithm>

#include "backends/vulkan/device.h"

namespace mote {
namespace {

const char* name_of(VkResult result) {
  switch (result) {
#define MOTE_VK_RESULT(name) \
  case name:                 \
    return #name;
    MOTE_VK_RESULT(VK_NOT_READY)
    MOTE_VK_RESULT(VK_TIMEOUT)
    MOTE_VK_RESULT(VK_INCOMPLETE)
    MOTE_VK_RESULT(VK_ERROR_OUT_OF_HOST_MEMORY)
    MOTE_VK_RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    MOTE_VK_RESULT(VK_ERROR_INITIALIZATION_FAILED)
    MOTE_VK_RESULT(VK_ERROR_DEVICE_LOST)
    MOTE_VK_RESULT(VK_ERROR_MEMORY_MAP_FAILED)
    MOTE_VK_RESULT(VK_ERROR_LAYER_NOT_PRESENT)
    MOTE_VK_RESULT(VK_ERROR_EXTENSION_NOT_PRESENT)
    MOTE_VK_RESULT(VK_ERROR_FEATURE_NOT_PRESENT)
    MOTE_VK_RESULT(VK_ERROR_INCOMPATIBLE_DRIVER)
    MOTE_VK_RESULT(VK_ERROR_TOO_MANY_OBJECTS)
    MOTE_VK_RESULT(VK_ERROR_FRAGMENTED_POOL)
    MOTE_VK_RESULT(VK_ERROR_OUT_OF_POOL_MEMORY)
    MOTE_VK_RESULT(VK_ERROR_UNKNOWN)
#undef MOTE_VK_RESULT
    default:
      return nullptr;
  }
}

VkBufferCreateInfo buffer_info(uint64_t bytes) {
  auto info = vulkan_struct<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  return info;
}

}   // namespace

Status VulkanDevice::outcome(const char* call, VkResult result) {
  if (result == VK_SUCCESS) return {};
  if (result == VK_ERROR_DEVICE_LOST) lost_.store(1);
  if (const char* name = name_of(result); name != nullptr)
    return Status::error(Code::backend_failed, "vulkan: {} gave {}", call, name);
  return Status::error(Code::backend_failed, "vulkan: {} gave the result {}", call, static_cast<int>(result));
}

Status VulkanDevice::usable() const {
  if (!is_ours())
    return Status::error(Code::backend_failed,
                         "vulkan: the device belongs to the process that this one was forked off; open another engine");
  if (lost_.load() == 0) return {};
  return Status::error(Code::backend_failed, "vulkan: the device was lost; open another engine");
}

Status VulkanDevice::find_memory_type(uint32_t allowed, MemoryKind kind, uint32_t* type) const {
  constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const VkMemoryPropertyFlags needed = kind == MemoryKind::host ? kHost : 0;
  const VkMemoryPropertyFlags wished =
      kind == MemoryKind::host ? VK_MEMORY_PROPERTY_HOST_CACHED_BIT : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  VkPhysicalDeviceMemoryProperties memory;
  vk.vkGetPhysicalDeviceMemoryProperties(physical_, &memory);
  for (const VkMemoryPropertyFlags flags : {needed | wished, needed}) {
    for (*type = 0; *type < memory.memoryTypeCount; ++*type)
      if ((allowed >> *type & 1) != 0 && (memory.memoryTypes[*type].propertyFlags & flags) == flags) return {};
  }
  return Status::error(Code::backend_failed, "vulkan: the device has no memory for a buffer of this kind");
}

uint64_t VulkanDevice::measure_buffer(uint64_t bytes) const {
  VkBuffer buffer = VK_NULL_HANDLE;
  const VkBufferCreateInfo info = buffer_info(bytes);
  if (!usable().ok() || vk.vkCreateBuffer(device_, &info, nullptr, &buffer) != VK_SUCCESS) return bytes;
  VkMemoryRequirements needs;
  vk.vkGetBufferMemoryRequirements(device_, buffer, &needs);
  vk.vkDestroyBuffer(device_, buffer, nullptr);
  return needs.size;
}

Status VulkanDevice::make_buffer(uint64_t bytes, MemoryKind kind, Buffer* buffer) {
  MOTE_RETURN_IF_ERROR(usable());
  if (bytes > limits_.allocation_bytes)
    return Status::error(Code::backend_failed, "vulkan: {} bytes are wanted in one piece, the device gives {}", bytes,
                         limits_.allocation_bytes);
  buffer->bytes = bytes;
  const VkBufferCreateInfo info = buffer_info(bytes);
  MOTE_VK_MAKE(*this, vkCreateBuffer, &buffer->buffer, device_, &info, nullptr);
  VkMemoryRequirements needs;
  vk.vkGetBufferMemoryRequirements(device_, buffer->buffer, &needs);
  auto allocation = vulkan_struct<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
  allocation.allocationSize = needs.size;
  MOTE_RETURN_IF_ERROR(find_memory_type(needs.memoryTypeBits, kind, &allocation.memoryTypeIndex));
  if (const VkResult result = vk.vkAllocateMemory(device_, &allocation, nullptr, &buffer->memory);
      result != VK_SUCCESS) {
    buffer->memory = VK_NULL_HANDLE;
    return Status::error(Code::backend_failed, "{} for {} bytes", outcome("vkAllocateMemory", result).message(),
                         uint64_t{needs.size});
  }
  buffer->allocated_bytes = needs.size;
  MOTE_VK_TRY(*this, vkBindBufferMemory, device_, buffer->buffer, buffer->memory, 0);
  if (kind != MemoryKind::host) return {};
  void* mapped = nullptr;
  MOTE_VK_TRY(*this, vkMapMemory, device_, buffer->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
  buffer->mapped = static_cast<std::byte*>(mapped);
  return {};
}

void VulkanDevice::release_buffer(Buffer* buffer) {
  if (!is_ours()) return;
  if (buffer->buffer != VK_NULL_HANDLE) vk.vkDestroyBuffer(device_, buffer->buffer, nullptr);
  if (buffer->memory != VK_NULL_HANDLE) vk.vkFreeMemory(device_, buffer->memory, nullptr);   // unmaps
  *buffer = {};
}

Status VulkanDevice::make_fence(VkFence* fence) {
  const auto info = vulkan_struct<VkFenceCreateInfo>(VK_STRUCTURE_TYPE_FENCE_CREATE_INFO);
  MOTE_VK_MAKE(*this, vkCreateFence, fence, device_, &info, nullptr);
  return {};
}

Status VulkanDevice::make_commands(VkCommandPool* pool, VkCommandBuffer* commands, uint32_t count) {
  auto info = vulkan_struct<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  info.queueFamilyIndex = family_;
  MOTE_VK_MAKE(*this, vkCreateCommandPool, pool, device_, &info, nullptr);
  auto allocation = vulkan_struct<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  allocation.commandPool = *pool;
  allocation.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocation.commandBufferCount = count;
  MOTE_VK_TRY(*this, vkAllocateCommandBuffers, device_, &allocation, commands);
  return {};
}

Status VulkanDevice::run(VkCommandBuffer commands, VkFence fence) {
  MOTE_RETURN_IF_ERROR(usable());
  auto submit = vulkan_struct<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands;
  MOTE_VK_TRY(*this, vkResetFences, device_, 1, &fence);   // before, so that a failure leaves no fence that is done
  take_queue();
  const VkResult result = vk.vkQueueSubmit(queue_, 1, &submit, fence);
  leave_queue();
  MOTE_RETURN_IF_ERROR(outcome("vkQueueSubmit", result));
  const Status waited = outcome("vkWaitForFences", vk.vkWaitForFences(device_, 1, &fence, VK_TRUE, UINT64_MAX));
  // What the caller releases next may still be in use.
  if (!waited.ok()) {
    take_queue();   // no other session may submit meanwhile
    static_cast<void>(vk.vkDeviceWaitIdle(device_));
    leave_queue();
  }
  return waited;
}

}   // namespace mote
