// Opening and closing a session: tables, buffers, states, descriptors, recorded commands.
#include <algorithm>
#include <new>

#include "backends/vulkan/executor.h"

namespace mote {
namespace {

// What a session's states take: visit(state, KvLayout) for those of the part.
template <class Visit>
void visit_states(const PlanPart& part, const SessionShape& shape, uint64_t binding_bytes, Visit visit) {
  for (uint16_t id = 0; id < part.plan->states.size(); ++id)
    if (part.owns(State{id})) visit(id, kv_layout(part.plan->states[id], shape, binding_bytes));
}

struct StateNeeds {
  uint32_t windows = 0;
  uint64_t row_bytes = 0;   // of the largest state
};

StateNeeds state_needs(const PlanPart& part, const SessionShape& shape, uint64_t binding_bytes, SlabLayout& slabs) {
  StateNeeds needs;
  visit_states(part, shape, binding_bytes, [&](uint16_t, const KvLayout& layout) {
    needs.windows += layout.windows;
    needs.row_bytes = std::max(needs.row_bytes, layout.row_bytes());
    for (uint32_t window = 0; window < layout.windows; ++window) {
      slabs.place(layout.key_bytes(window));
      slabs.place(layout.value_bytes(window));
    }
  });
  slabs.finish();
  return needs;
}

Lowered take_tables(const Lowered& counted, Arena& arena) {
  Lowered tables = counted;
  tables.n_submissions_planned = counted.n_submissions;
  tables.grids = arena.take<Grid>(counted.n_dispatches);
  tables.uploads = arena.take<Transfer>(counted.n_uploads);
  tables.downloads = arena.take<Transfer>(counted.n_downloads);
  tables.angles = arena.take<AnglesRows>(counted.n_angles);
  tables.nan_rows = arena.take<NanRows>(counted.n_nan_rows);
  return tables;
}

}   // namespace

// Writes a descriptor set for each dispatch and records it twice: for runs of one row and for runs of more.
class Recorder final : public DispatchSink {
 public:
  explicit Recorder(VulkanExecutor& executor) : executor_(executor), device_(*executor.device_) {}

  Status begin() {
    const auto info = vulkan_struct<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    for (const bool many : {false, true}) MOTE_VK_TRY(device_, vkBeginCommandBuffer, commands(many), &info);
    open_ = true;
    return {};
  }

  Status take(const Dispatch& dispatch) override {
    if (!open_) MOTE_RETURN_IF_ERROR(begin());
    VkDescriptorSet set = VK_NULL_HANDLE;
    MOTE_RETURN_IF_ERROR(write_set(dispatch, &set));
    for (const bool many : {false, true}) {
      const VkCommandBuffer to = commands(many);
      device_.vk.vkCmdBindPipeline(to, VK_PIPELINE_BIND_POINT_COMPUTE,
                                   device_.pipeline(many ? dispatch.many : dispatch.one));
      device_.vk.vkCmdBindDescriptorSets(to, VK_PIPELINE_BIND_POINT_COMPUTE, device_.pipeline_layout(), 0, 1, &set, 0,
                                         nullptr);
      device_.vk.vkCmdPushConstants(to, device_.pipeline_layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                    VulkanDevice::kPushBytes, dispatch.words);
      device_.vk.vkCmdDispatchIndirect(
          to, executor_.exchange_.buffer,
          executor_.lowered_.grids_offset_bytes + uint64_t{dispatch_} * sizeof(VkDispatchIndirectCommand));
      barrier(to, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    }
    ++dispatch_;
    return {};
  }

  Status end_submission() override {
    for (const bool many : {false, true}) {
      barrier(commands(many), VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
      MOTE_VK_TRY(device_, vkEndCommandBuffer, commands(many));
    }
    ++submission_;
    open_ = false;
    return {};
  }

 private:
  VkCommandBuffer commands(bool many) const {
    return executor_.commands_[submission_ + (many ? executor_.lowered_.n_submissions_planned : 0)];
  }

  // Whatever comes next waits for what was dispatched.
  void barrier(VkCommandBuffer to, VkPipelineStageFlags stage, VkAccessFlags access) {
    auto info = vulkan_struct<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
    info.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    info.dstAccessMask = access;
    device_.vk.vkCmdPipelineBarrier(to, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, stage, 0, 1, &info, 0, nullptr, 0,
                                    nullptr);
  }

  Status write_set(const Dispatch& dispatch, VkDescriptorSet* set) {
    const VkDescriptorSetLayout layout = device_.set_layout();
    auto allocation = vulkan_struct<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
    allocation.descriptorPool = executor_.sets_;
    allocation.descriptorSetCount = 1;
    allocation.pSetLayouts = &layout;
    MOTE_VK_MAKE(device_, vkAllocateDescriptorSets, set, device_.handle(), &allocation);
    VkDescriptorBufferInfo buffers[VulkanDevice::kMostBindings];
    for (uint32_t i = 0; i < dispatch.n_bindings; ++i)
      buffers[i] = {dispatch.bindings[i].buffer, dispatch.bindings[i].offset_bytes, dispatch.bindings[i].bytes};
    auto write = vulkan_struct<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    write.dstSet = *set;
    write.descriptorCount = dispatch.n_bindings;   // the bindings of the layout from 0 on
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = buffers;
    device_.vk.vkUpdateDescriptorSets(device_.handle(), 1, &write, 0, nullptr);
    return {};
  }

  VulkanExecutor& executor_;
  VulkanDevice& device_;
  uint32_t dispatch_ = 0, submission_ = 0;
  bool open_ = false;
};

Status VulkanExecutor::layout(VulkanDevice& device, const PlanPart& part, const VulkanProgram* program,
                              const SessionShape& shape, const ValueMemory& values, Arena& arena,
                              VulkanExecutor* executor, Footprint* footprint) {
  const bool measures = arena.measuring();
  SlabLayout slab_layout = measures ? SlabLayout(device) : SlabLayout(std::span<Buffer>());
  const StateNeeds states = state_needs(part, shape, device.limits().binding_bytes, slab_layout);
  Lowered counted;
  MOTE_RETURN_IF_ERROR(lower({part, shape, device.limits(), values}, nullptr, &counted));

  const Lowered tables = take_tables(counted, arena);
  const std::span<KvCache> caches = arena.take<KvCache>(part.plan->states.size());
  const std::span<Binding> windows = arena.take<Binding>(uint64_t{states.windows} * 2);
  const std::span<Buffer> slabs = arena.take<Buffer>(slab_layout.count());
  const std::span<VkCommandBuffer> commands = arena.take<VkCommandBuffer>(uint64_t{counted.n_submissions} * 2 + 1);
  MOTE_RETURN_IF_ERROR(arena.status("the session on backend vulkan"));

  // Behind everything else in the exchange: a row of a state.
  const uint64_t row_offset = round_up(counted.exchange_bytes, VulkanDevice::kPlaceBytes);
  const uint64_t exchange_bytes = row_offset + round_up(states.row_bytes, VulkanDevice::kPlaceBytes);
  const uint64_t values_bytes = std::max<uint64_t>(counted.values_bytes, VulkanDevice::kPlaceBytes);
  if (executor == nullptr) {
    if (footprint != nullptr)
      footprint->device_bytes +=
          slab_layout.device_bytes() + device.measure_buffer(values_bytes) + device.measure_buffer(exchange_bytes);
    return {};
  }

  executor->device_ = &device;
  executor->part_ = part;
  executor->shape_ = shape;
  executor->values_of_host_ = values;
  executor->lowered_ = tables;
  executor->caches_ = caches;
  executor->slabs_ = slabs;
  executor->commands_ = commands;
  executor->row_offset_bytes_ = row_offset;
  executor->row_bytes_ = states.row_bytes;
  executor->values_.bytes = values_bytes;
  executor->exchange_.bytes = exchange_bytes;
  for (KvCache& cache : caches) new (&cache) KvCache();
  for (Buffer& slab : slabs) slab = {};
  for (VkCommandBuffer& buffer : commands) buffer = VK_NULL_HANDLE;
  const Status status = executor->make(windows, program);
  if (!status.ok()) {
    executor->close();
    return status;
  }
  if (footprint != nullptr) {
    for (const Buffer& slab : slabs) footprint->device_bytes += slab.allocated_bytes;
    footprint->device_bytes += executor->values_.allocated_bytes + executor->exchange_.allocated_bytes;
  }
  return {};
}

Status VulkanExecutor::make(std::span<Binding> windows, const VulkanProgram* program) {
  MOTE_RETURN_IF_ERROR(device_->usable());
  MOTE_RETURN_IF_ERROR(make_buffers(windows));
  const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                     lowered_.n_dispatches * VulkanDevice::kMostBindings};
  if (lowered_.n_dispatches != 0) {
    auto pool = vulkan_struct<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
    pool.maxSets = lowered_.n_dispatches;
    pool.poolSizeCount = 1;
    pool.pPoolSizes = &size;
    MOTE_VK_MAKE(*device_, vkCreateDescriptorPool, &sets_, device_->handle(), &pool, nullptr);
  }
  MOTE_RETURN_IF_ERROR(device_->make_commands(&pool_, commands_.data(), static_cast<uint32_t>(commands_.size())));
  MOTE_RETURN_IF_ERROR(device_->make_fence(&fence_));
  Recorder recorder(*this);
  return lower({part_, shape_, device_->limits(), values_of_host_, program, caches_, values_.buffer, exchange_.buffer},
               &recorder, &lowered_);
}

Status VulkanExecutor::make_buffers(std::span<Binding> windows) {
  const uint64_t binding_bytes = device_->limits().binding_bytes;
  SlabLayout sizes(slabs_);
  static_cast<void>(state_needs(part_, shape_, binding_bytes, sizes));
  for (Buffer& slab : slabs_) MOTE_RETURN_IF_ERROR(device_->make_buffer(slab.bytes, MemoryKind::device, &slab));
  MOTE_RETURN_IF_ERROR(device_->make_buffer(values_.bytes, MemoryKind::device, &values_));
  MOTE_RETURN_IF_ERROR(device_->make_buffer(exchange_.bytes, MemoryKind::host, &exchange_));

  SlabLayout places{std::span<Buffer>()};
  const auto bind = [&](uint64_t bytes) {
    const Place place = places.place(bytes);
    return Binding{slabs_[place.slab].buffer, place.offset_bytes, bytes};
  };
  size_t used = 0;
  visit_states(part_, shape_, binding_bytes, [&](uint16_t id, const KvLayout& layout) {
    KvCache& cache = caches_[id];
    cache.info = &part_.plan->states[id];
    cache.layout = layout;
    cache.keys = windows.subspan(used, layout.windows);
    cache.values = windows.subspan(used + layout.windows, layout.windows);
    used += size_t{layout.windows} * 2;
    for (uint32_t window = 0; window < layout.windows; ++window) {
      cache.keys[window] = bind(layout.key_bytes(window));
      cache.values[window] = bind(layout.value_bytes(window));
    }
  });
  return {};
}

void VulkanExecutor::close() {
  if (!device_->is_ours()) return;
  const VkDevice device = device_->handle();
  if (fence_ != VK_NULL_HANDLE) device_->vk.vkDestroyFence(device, fence_, nullptr);
  if (pool_ != VK_NULL_HANDLE) device_->vk.vkDestroyCommandPool(device, pool_, nullptr);
  if (sets_ != VK_NULL_HANDLE) device_->vk.vkDestroyDescriptorPool(device, sets_, nullptr);
  fence_ = VK_NULL_HANDLE;
  pool_ = VK_NULL_HANDLE;
  sets_ = VK_NULL_HANDLE;
  for (Buffer& slab : slabs_) device_->release_buffer(&slab);
  device_->release_buffer(&values_);
  device_->release_buffer(&exchange_);
}

}   // namespace mote
