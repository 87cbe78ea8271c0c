// Opening and closing a device: the loader, the instance, the choice, the queue, the pipelines.
#include "backends/vulkan/device.h"

#include <algorithm>

#include "core/base/checked.h"
#include "shaders/shared.h"

namespace mote {
namespace {

constexpr uint32_t kMostCandidates = 16, kMostFamilies = 32;
constexpr uint32_t kNeededVersion = VK_API_VERSION_1_1;

// GPUs first. What emulates one on the processor is there to be asked for by name, and the whole backend is.
uint32_t rank_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    default:
      return 1;
  }
}

// Of a list of functions.h, by a `find` of the place: `complete` is whether all were found.
#define MOTE_VK_LOAD(name)                             \
  vk.name = reinterpret_cast<PFN_##name>(find(#name)); \
  complete = complete && vk.name != nullptr;

// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/
uint32_t hash_of(uint32_t hash, const void* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) hash = (hash ^ static_cast<const uint8_t*>(bytes)[i]) * 16777619u;
  return hash;
}

}   // namespace

Status VulkanDevice::open_instance() {
  if (!open_dyn_lib("libvulkan.so.1", &library_).ok() && !open_dyn_lib("libvulkan.so", &library_).ok())
    return Status::error(Code::unsupported, "vulkan is off: there is no Vulkan loader (libvulkan.so.1) on this system");
  vk.vkGetInstanceProcAddr =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(dyn_lib_symbol(library_, "vkGetInstanceProcAddr"));
  if (vk.vkGetInstanceProcAddr == nullptr)
    return Status::error(Code::unsupported, "vulkan is off: the loader has no vkGetInstanceProcAddr");
  bool complete = true;
  const auto find = [this](const char* name) { return vk.vkGetInstanceProcAddr(instance_, name); };
  MOTE_VK_GLOBAL_FUNCTIONS(MOTE_VK_LOAD)   // while there is no instance; 1.0 has them not all
  uint32_t version = VK_API_VERSION_1_0;
  if (vk.vkEnumerateInstanceVersion != nullptr) static_cast<void>(vk.vkEnumerateInstanceVersion(&version));
  if (vk.vkCreateInstance == nullptr || version < kNeededVersion)
    return Status::error(Code::unsupported, "vulkan is off: the loader knows Vulkan 1.0 only, 1.1 is needed");

  auto application = vulkan_struct<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  application.pApplicationName = "mote";
  application.apiVersion = kNeededVersion;
  auto info = vulkan_struct<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  info.pApplicationInfo = &application;
  const VkResult result = vk.vkCreateInstance(&info, nullptr, &instance_);
  if (result != VK_SUCCESS) {
    instance_ = VK_NULL_HANDLE;
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
      return Status::error(Code::unsupported, "vulkan is off: there is no Vulkan driver on this system");
    return Status::error(Code::unsupported, "vulkan is off: {}", outcome("vkCreateInstance", result).message());
  }
  complete = true;
  MOTE_VK_INSTANCE_FUNCTIONS(MOTE_VK_LOAD)
  if (!complete) return Status::error(Code::unsupported, "vulkan is off: the loader lacks functions of Vulkan 1.1");
  if (options_.replace != nullptr) options_.replace(&vk);
  return {};
}

// nullptr: it will do.
const char* VulkanDevice::reason_against(VkPhysicalDevice candidate, uint32_t* family, uint32_t* rank) const {
  auto properties = vulkan_struct<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  vk.vkGetPhysicalDeviceProperties2(candidate, &properties);
  const VkPhysicalDeviceLimits& limits = properties.properties.limits;
  *rank = rank_of(properties.properties.deviceType);
  if (properties.properties.apiVersion < kNeededVersion) return "has Vulkan 1.0 only, 1.1 is needed";
  if (limits.maxComputeWorkGroupInvocations < MOTE_VK_GROUP || limits.maxComputeWorkGroupSize[0] < MOTE_VK_GROUP)
    return "has no work groups of 64";
  if (limits.maxPerStageDescriptorStorageBuffers < kMostBindings) return "allows fewer than 6 buffers in a shader";
  if (limits.maxPushConstantsSize < kPushBytes || limits.maxComputeSharedMemorySize < 16384)
    return "has less memory for shaders than Vulkan promises";
  VkQueueFamilyProperties families[kMostFamilies];
  uint32_t count = kMostFamilies;
  vk.vkGetPhysicalDeviceQueueFamilyProperties(candidate, &count, families);
  for (*family = 0; *family < count; ++*family)
    if ((families[*family].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0 && families[*family].queueCount != 0) return nullptr;
  return "has no queue that computes";
}

void VulkanDevice::read_limits(const VkPhysicalDeviceProperties& properties, uint64_t allocation_bytes) {
  const VkPhysicalDeviceLimits& limits = properties.limits;
  limits_.alignment_bytes =
      static_cast<uint32_t>(std::clamp<uint64_t>(limits.minStorageBufferOffsetAlignment, 16, kPlaceBytes));
  limits_.binding_bytes = std::min<uint64_t>(limits.maxStorageBufferRange, options_.most_binding_bytes) &
                          ~uint64_t{limits_.alignment_bytes - 1};
  limits_.allocation_bytes = allocation_bytes;

  uint32_t hash = hash_of(2166136261u, &properties.vendorID, sizeof properties.vendorID);
  hash = hash_of(hash, &properties.deviceID, sizeof properties.deviceID);
  hash = hash_of(hash, &properties.driverVersion, sizeof properties.driverVersion);
  hash = hash_of(hash, properties.pipelineCacheUUID, sizeof properties.pipelineCacheUUID);
  char digits[9] = {};
  for (uint32_t i = 0; i < 8; ++i) digits[i] = "0123456789abcdef"[hash >> (28 - 4 * i) & 15];
  const FormatArgument arguments[] = {FormatArgument(digits), FormatArgument(properties.deviceName)};
  format_sentence(name_, sizeof name_, "vulkan {} {}", arguments, 2);
}

Status VulkanDevice::choose_device() {
  VkPhysicalDevice candidates[kMostCandidates];
  uint32_t count = kMostCandidates, best_rank = 0;
  const VkResult result = vk.vkEnumeratePhysicalDevices(instance_, &count, candidates);
  if (result != VK_SUCCESS && result != VK_INCOMPLETE)
    return Status::error(Code::unsupported, "vulkan is off: {}",
                         outcome("vkEnumeratePhysicalDevices", result).message());
  const char* reason = nullptr;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t family = 0, rank = 0;
    if (const char* against = reason_against(candidates[i], &family, &rank); against != nullptr) {
      reason = against;
    } else if (rank > best_rank) {
      physical_ = candidates[i];
      family_ = family;
      best_rank = rank;
    }
  }
  if (best_rank == 0)
    return reason == nullptr
               ? Status::error(Code::unsupported, "vulkan is off: there is no device on this system")
               : Status::error(Code::unsupported, "vulkan is off: the only device that is left {}", reason);
  auto memory =
      vulkan_struct<VkPhysicalDeviceMaintenance3Properties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
  auto properties = vulkan_struct<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  properties.pNext = &memory;
  vk.vkGetPhysicalDeviceProperties2(physical_, &properties);
  read_limits(properties.properties, memory.maxMemoryAllocationSize);
  return {};
}

Status VulkanDevice::open_device() {
  const float priority = 1;
  auto queue = vulkan_struct<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queue.queueFamilyIndex = family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  auto info = vulkan_struct<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  const VkResult result = vk.vkCreateDevice(physical_, &info, nullptr, &device_);
  if (result != VK_SUCCESS) {
    device_ = VK_NULL_HANDLE;
    return outcome("vkCreateDevice", result);
  }
  bool complete = true;
  const auto find = [this](const char* name) { return vk.vkGetDeviceProcAddr(device_, name); };
  MOTE_VK_DEVICE_FUNCTIONS(MOTE_VK_LOAD)
  if (!complete) return Status::error(Code::unsupported, "vulkan is off: the driver lacks functions of Vulkan 1.1");
  if (options_.replace != nullptr) options_.replace(&vk);
  vk.vkGetDeviceQueue(device_, family_, 0, &queue_);
  return {};
}

// One layout for all kernels: who needs fewer buffers leaves the rest alone.
Status VulkanDevice::make_layouts() {
  VkDescriptorSetLayoutBinding bindings[kMostBindings] = {};
  for (uint32_t i = 0; i < kMostBindings; ++i) {
    bindings[i].binding = i;
    bindings[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    bindings[i].descriptorCount = 1;
    bindings[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  auto set = vulkan_struct<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
  set.bindingCount = kMostBindings;
  set.pBindings = bindings;
  MOTE_VK_MAKE(*this, vkCreateDescriptorSetLayout, &set_layout_, device_, &set, nullptr);
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
  auto layout = vulkan_struct<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &set_layout_;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  MOTE_VK_MAKE(*this, vkCreatePipelineLayout, &pipeline_layout_, device_, &layout, nullptr);
  return {};
}

Status VulkanDevice::make_pipelines() {
  for (uint32_t i = 0; i < kKernelCount; ++i) {
    const ShaderCode code = shader_code(static_cast<Kernel>(i));
    auto shader = vulkan_struct<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    shader.codeSize = code.bytes;
    shader.pCode = code.words;
    VkShaderModule module = VK_NULL_HANDLE;
    MOTE_VK_MAKE(*this, vkCreateShaderModule, &module, device_, &shader, nullptr);
    auto info = vulkan_struct<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
    info.stage = vulkan_struct<VkPipelineShaderStageCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.layout = pipeline_layout_;
    const VkResult result = vk.vkCreateComputePipelines(device_, VK_NULL_HANDLE, 1, &info, nullptr, &pipelines_[i]);
    vk.vkDestroyShaderModule(device_, module, nullptr);
    if (result == VK_SUCCESS) continue;
    pipelines_[i] = VK_NULL_HANDLE;
    return Status::error(Code::backend_failed, "vulkan is off: kernel {}: {}", code.name,
                         outcome("vkCreateComputePipelines", result).message());
  }
  return {};
}

Status VulkanDevice::probe(const VulkanOptions& options) {
  options_ = options;
  Status status = open_instance();
  if (status.ok()) status = choose_device();
  close();
  return status;
}

Status VulkanDevice::open(const VulkanOptions& options) {
  options_ = options;
  Status status = open_instance();
  if (status.ok()) status = choose_device();
  if (status.ok()) status = open_device();
  if (status.ok()) status = make_layouts();
  if (status.ok()) status = make_pipelines();
  if (!status.ok()) close();
  return status;
}

void VulkanDevice::close() {
  if (!is_ours()) return;
  if (device_ != VK_NULL_HANDLE && vk.vkDestroyDevice != nullptr) {
    for (VkPipeline& pipeline : pipelines_)
      if (pipeline != VK_NULL_HANDLE) vk.vkDestroyPipeline(device_, pipeline, nullptr), pipeline = VK_NULL_HANDLE;
    if (pipeline_layout_ != VK_NULL_HANDLE) vk.vkDestroyPipelineLayout(device_, pipeline_layout_, nullptr);
    if (set_layout_ != VK_NULL_HANDLE) vk.vkDestroyDescriptorSetLayout(device_, set_layout_, nullptr);
    vk.vkDestroyDevice(device_, nullptr);
  }
  if (instance_ != VK_NULL_HANDLE && vk.vkDestroyInstance != nullptr) vk.vkDestroyInstance(instance_, nullptr);
  pipeline_layout_ = VK_NULL_HANDLE;
  set_layout_ = VK_NULL_HANDLE;
  device_ = VK_NULL_HANDLE;
  instance_ = VK_NULL_HANDLE;
  close_dyn_lib(&library_);
}

}   // namespace mote
