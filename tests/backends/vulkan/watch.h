// Functions of the test's before the driver's: they look for what a driver that emulates a device lets pass, and all
// memory that the host can see is full of NaN when it is handed over.
#pragma once
#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "tests/backends/vulkan/rig.h"

namespace mote::test {

struct Watch {
  struct Commands {
    bool dispatched = false, to_device = false, to_host = false;
    VkPipelineStageFlags last_to = 0;   // of the barrier that nothing follows
    VkAccessFlags last_access = 0;
    bool waited_for_shaders = false;   // a barrier let copies see what shaders wrote
  };
  VulkanFunctions real;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  uint64_t alignment_bytes = 0, most_binding_bytes = uint64_t{128} << 20;
  uint32_t bindings_in_set = 0;
  std::map<VkBuffer, uint64_t> buffers;   // bytes
  std::map<VkBuffer, VkDeviceMemory> memory_of;
  std::map<VkDeviceMemory, void*> visible;      // where the host sees it
  std::map<VkDeviceMemory, bool> is_of_host;    // it was mapped
  std::map<VkDescriptorPool, uint64_t> pools;   // descriptors that are left
  std::map<VkCommandBuffer, Commands> commands;
  uint64_t n_bound = 0;
  std::string wrong;

  void need(bool holds, const char* what) {
    if (!holds && wrong.size() < 1000) wrong += std::string("\n") + what;
  }
  bool is_mapped(VkBuffer buffer) { return is_of_host[memory_of[buffer]]; }
};
inline Watch watch;

inline void watch_memory(VulkanFunctions* functions) {
  functions->vkCreateBuffer = [](VkDevice device, const VkBufferCreateInfo* info, const VkAllocationCallbacks* by,
                                 VkBuffer* made) {
    const VkResult result = watch.real.vkCreateBuffer(device, info, by, made);
    watch.buffers[*made] = info->size;
    return result;
  };
  functions->vkAllocateMemory = [](VkDevice device, const VkMemoryAllocateInfo* info, const VkAllocationCallbacks* by,
                                   VkDeviceMemory* made) {
    const VkResult result = watch.real.vkAllocateMemory(device, info, by, made);
    VkPhysicalDeviceMemoryProperties types;
    watch.real.vkGetPhysicalDeviceMemoryProperties(watch.physical, &types);
    watch.is_of_host[*made] = false;
    if (result != VK_SUCCESS ||
        (types.memoryTypes[info->memoryTypeIndex].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) == 0)
      return result;
    void* at = nullptr;
    if (watch.real.vkMapMemory(device, *made, 0, VK_WHOLE_SIZE, 0, &at) == VK_SUCCESS)
      std::memset(at, 0xFF, static_cast<size_t>(info->allocationSize));
    watch.visible[*made] = at;
    return result;
  };
  functions->vkBindBufferMemory = [](VkDevice device, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset) {
    watch.memory_of[buffer] = memory;
    return watch.real.vkBindBufferMemory(device, buffer, memory, offset);
  };
  functions->vkMapMemory = [](VkDevice, VkDeviceMemory memory, VkDeviceSize, VkDeviceSize, VkMemoryMapFlags,
                              void** to) {
    watch.is_of_host[memory] = true;
    *to = watch.visible[memory];
    return VK_SUCCESS;
  };
}

inline void watch_bindings(VulkanFunctions* functions) {
  functions->vkCreateDescriptorSetLayout = [](VkDevice device, const VkDescriptorSetLayoutCreateInfo* info,
                                              const VkAllocationCallbacks* by, VkDescriptorSetLayout* made) {
    watch.bindings_in_set = info->bindingCount;
    return watch.real.vkCreateDescriptorSetLayout(device, info, by, made);
  };
  functions->vkCreateDescriptorPool = [](VkDevice device, const VkDescriptorPoolCreateInfo* info,
                                         const VkAllocationCallbacks* by, VkDescriptorPool* made) {
    const VkResult result = watch.real.vkCreateDescriptorPool(device, info, by, made);
    watch.pools[*made] = info->pPoolSizes[0].descriptorCount;
    return result;
  };
  functions->vkAllocateDescriptorSets = [](VkDevice device, const VkDescriptorSetAllocateInfo* info,
                                           VkDescriptorSet* made) {
    uint64_t& left = watch.pools[info->descriptorPool];
    watch.need(left >= watch.bindings_in_set, "a pool of descriptors has too few");
    left -= std::min<uint64_t>(left, watch.bindings_in_set);
    return watch.real.vkAllocateDescriptorSets(device, info, made);
  };
  functions->vkUpdateDescriptorSets = [](VkDevice device, uint32_t n_writes, const VkWriteDescriptorSet* writes,
                                         uint32_t n_copies, const VkCopyDescriptorSet* copies) {
    for (uint32_t i = 0; i < n_writes; ++i) {
      for (uint32_t j = 0; j < writes[i].descriptorCount; ++j, ++watch.n_bound) {
        const VkDescriptorBufferInfo& bound = writes[i].pBufferInfo[j];
        const uint64_t bytes = watch.buffers[bound.buffer];
        watch.need(bound.offset % watch.alignment_bytes == 0, "a binding begins where none may");
        watch.need(bound.range <= watch.most_binding_bytes, "a binding is larger than a shader may see");
        watch.need(bound.offset <= bytes && bound.range <= bytes - bound.offset, "a binding ends behind its buffer");
      }
    }
    watch.real.vkUpdateDescriptorSets(device, n_writes, writes, n_copies, copies);
  };
}

inline void watch_commands(VulkanFunctions* functions) {
  functions->vkBeginCommandBuffer = [](VkCommandBuffer to, const VkCommandBufferBeginInfo* info) {
    watch.commands[to] = {};
    return watch.real.vkBeginCommandBuffer(to, info);
  };
  functions->vkCmdDispatchIndirect = [](VkCommandBuffer to, VkBuffer buffer, VkDeviceSize offset) {
    Watch::Commands& commands = watch.commands[to];
    commands.dispatched = true;
    commands.last_to = commands.last_access = 0;
    watch.real.vkCmdDispatchIndirect(to, buffer, offset);
  };
  functions->vkCmdCopyBuffer = [](VkCommandBuffer to, VkBuffer from_buffer, VkBuffer to_buffer, uint32_t n_regions,
                                  const VkBufferCopy* regions) {
    Watch::Commands& commands = watch.commands[to];
    (watch.is_mapped(to_buffer) ? commands.to_host : commands.to_device) = true;
    commands.last_to = commands.last_access = 0;
    if (!watch.is_mapped(from_buffer))
      watch.need(commands.waited_for_shaders, "a copy does not wait for the shader that writes what it reads");
    for (uint32_t i = 0; i < n_regions; ++i) {
      watch.need(regions[i].srcOffset + regions[i].size <= watch.buffers[from_buffer], "a copy reads behind a buffer");
      watch.need(regions[i].dstOffset + regions[i].size <= watch.buffers[to_buffer], "a copy writes behind a buffer");
    }
    watch.real.vkCmdCopyBuffer(to, from_buffer, to_buffer, n_regions, regions);
  };
  functions->vkCmdPipelineBarrier =
      [](VkCommandBuffer to, VkPipelineStageFlags from_stage, VkPipelineStageFlags to_stage, VkDependencyFlags flags,
         uint32_t n_memory, const VkMemoryBarrier* memory, uint32_t n_buffers, const VkBufferMemoryBarrier* buffers,
         uint32_t n_images, const VkImageMemoryBarrier* images) {
        Watch::Commands& commands = watch.commands[to];
        commands.last_to |= to_stage;
        commands.last_access |= memory->dstAccessMask;
        if ((memory->srcAccessMask & VK_ACCESS_SHADER_WRITE_BIT) != 0 &&
            (memory->dstAccessMask & VK_ACCESS_TRANSFER_READ_BIT) != 0)
          commands.waited_for_shaders = true;
        watch.real.vkCmdPipelineBarrier(to, from_stage, to_stage, flags, n_memory, memory, n_buffers, buffers, n_images,
                                        images);
      };
  functions->vkEndCommandBuffer = [](VkCommandBuffer to) {
    const Watch::Commands& commands = watch.commands[to];
    const auto seen_by = [&](VkPipelineStageFlags stage, VkAccessFlags access) {
      return (commands.last_to & stage) != 0 && (commands.last_access & access) != 0;
    };
    if (commands.dispatched || commands.to_host)
      watch.need(seen_by(VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT), "the host may not see what it reads");
    if (commands.dispatched || commands.to_device)
      watch.need(seen_by(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT),
                 "the shaders that follow may not see what was written");
    return watch.real.vkEndCommandBuffer(to);
  };
}

inline void watch_all(VulkanFunctions* functions) {
  if (functions->vkQueueSubmit == nullptr) {   // those of the instance; lavapipe would let a binding begin anywhere
    watch.real = *functions;
    functions->vkGetPhysicalDeviceProperties2 = [](VkPhysicalDevice device, VkPhysicalDeviceProperties2* to) {
      watch.real.vkGetPhysicalDeviceProperties2(device, to);
      watch.physical = device;   // the last one that is asked is the one that is taken
      VkDeviceSize& alignment = to->properties.limits.minStorageBufferOffsetAlignment;
      alignment = std::max<VkDeviceSize>(alignment, 16);
      watch.alignment_bytes = alignment;
    };
    return;
  }
  const auto properties = watch.real.vkGetPhysicalDeviceProperties2;
  watch.real = *functions;
  watch.real.vkGetPhysicalDeviceProperties2 = properties;
  watch_memory(functions);
  watch_bindings(functions);
  watch_commands(functions);
}

// With bindings of at most so many bytes.
template <uint64_t kMostBindingBytes>
Result<Backend*> create_watched(const BackendServices&, Arena& arena) {
  VulkanOptions options;
  options.most_binding_bytes = watch.most_binding_bytes = kMostBindingBytes;
  options.replace = watch_all;
  return create_vulkan_backend_with(options, arena);
}
inline const BackendEntry kWatched = {"vulkan, watched", create_watched<uint64_t{128} << 20>, false};
inline const BackendEntry kWatchedSmall = {"vulkan with bindings of 8 KiB, watched", create_watched<8192>, false};

}   // namespace mote::test
