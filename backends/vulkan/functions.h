// The Vulkan functions that the backend calls, found at run time: no Vulkan library is linked, and a program starts
// where none is installed.
#pragma once
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#define MOTE_VK_GLOBAL_FUNCTIONS(X) X(vkCreateInstance) X(vkEnumerateInstanceVersion)

#define MOTE_VK_INSTANCE_FUNCTIONS(X)    \
  X(vkCreateDevice)                      \
  X(vkDestroyInstance)                   \
  X(vkEnumeratePhysicalDevices)          \
  X(vkGetDeviceProcAddr)                 \
  X(vkGetPhysicalDeviceMemoryProperties) \
  X(vkGetPhysicalDeviceProperties2)      \
  X(vkGetPhysicalDeviceQueueFamilyProperties)

#define MOTE_VK_DEVICE_FUNCTIONS(X) \
  X(vkAllocateCommandBuffers)       \
  X(vkAllocateDescriptorSets)       \
  X(vkAllocateMemory)               \
  X(vkBeginCommandBuffer)           \
  X(vkBindBufferMemory)             \
  X(vkCmdBindDescriptorSets)        \
  X(vkCmdBindPipeline)              \
  X(vkCmdCopyBuffer)                \
  X(vkCmdDispatchIndirect)          \
  X(vkCmdPipelineBarrier)           \
  X(vkCmdPushConstants)             \
  X(vkCreateBuffer)                 \
  X(vkCreateCommandPool)            \
  X(vkCreateComputePipelines)       \
  X(vkCreateDescriptorPool)         \
  X(vkCreateDescriptorSetLayout)    \
  X(vkCreateFence)                  \
  X(vkCreatePipelineLayout)         \
  X(vkCreateShaderModule)           \
  X(vkDestroyBuffer)                \
  X(vkDestroyCommandPool)           \
  X(vkDestroyDescriptorPool)        \
  X(vkDestroyDescriptorSetLayout)   \
  X(vkDestroyDevice)                \
  X(vkDestroyFence)                 \
  X(vkDestroyPipeline)              \
  X(vkDestroyPipelineLayout)        \
  X(vkDestroyShaderModule)          \
  X(vkDeviceWaitIdle)               \
  X(vkEndCommandBuffer)             \
  X(vkFreeMemory)                   \
  X(vkGetBufferMemoryRequirements)  \
  X(vkGetDeviceQueue)               \
  X(vkMapMemory)                    \
  X(vkQueueSubmit)                  \
  X(vkResetFences)                  \
  X(vkUpdateDescriptorSets)         \
  X(vkWaitForFences)

namespace mote {

struct VulkanFunctions {
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
#define MOTE_VK_DECLARE(name) PFN_##name name = nullptr;
  MOTE_VK_GLOBAL_FUNCTIONS(MOTE_VK_DECLARE)
  MOTE_VK_INSTANCE_FUNCTIONS(MOTE_VK_DECLARE)
  MOTE_VK_DEVICE_FUNCTIONS(MOTE_VK_DECLARE)
#undef MOTE_VK_DECLARE
};

// A struct of the API, all zero but for its type.
template <class Info>
Info vulkan_struct(VkStructureType type) {
  Info info = {};
  info.sType = type;
  return info;
}

}   // namespace mote
