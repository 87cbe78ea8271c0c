// One session on the device: its Values, its states, and the commands that run its part, recorded once.
#pragma once
#include <span>

#include "backends/vulkan/lowering.h"
#include "core/ops/first_nan.h"

namespace mote {

class VulkanExecutor final : public Executor {
 public:
  // Takes the tables from the arena and, unless it only measures, makes everything on the device. `executor` is null
  // while measuring. After a failure nothing is left on the device.
  static Status layout(VulkanDevice& device, const PlanPart& part, const VulkanProgram* program,
                       const SessionShape& shape, const ValueMemory& values, Arena& arena, VulkanExecutor* executor,
                       Footprint* footprint);

  Status run(const Batch& batch, CancelFlag cancel) override;
  Status begin(uint32_t first_position, uint32_t rows) override;
  void commit() override;
  void discard() override;
  Status truncate(uint32_t positions) override;
  Status export_row(State state, uint32_t position, std::span<uint8_t> to) override;
  Status import_row(State state, uint32_t position, std::span<const uint8_t> from) override;
  void close() override;

 private:
  friend class Recorder;

  Status make(std::span<Binding> windows, const VulkanProgram* program);
  Status make_buffers(std::span<Binding> windows);

  Status check_batch(const Batch& batch) const;
  void write_exchange(const Batch& batch);
  bool write_grids(const Batch& batch);
  void read_exchange(const Batch& batch);
  Status first_nan(const Batch& batch) const;

  Status check_row(State state, uint32_t position, size_t bytes) const;
  Status move_row(const KvCache& cache, uint32_t position, bool to_device);

  VulkanDevice* device_ = nullptr;
  PlanPart part_;
  SessionShape shape_;
  ValueMemory values_of_host_;
  Lowered lowered_;
  std::span<KvCache> caches_;   // by State::id
  std::span<Buffer> slabs_;     // of the caches
  Buffer values_, exchange_;
  uint64_t row_offset_bytes_ = 0;   // in the exchange: one position of a state
  uint64_t row_bytes_ = 0;

  VkDescriptorPool sets_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  // [submissions] for runs of one row, [submissions] for more, one for moving a row of a state.
  std::span<VkCommandBuffer> commands_;
  VkFence fence_ = VK_NULL_HANDLE;

  uint32_t length_ = 0;   // positions that are committed
  uint32_t pending_first_ = 0, pending_rows_ = 0;
};

}   // namespace mote
