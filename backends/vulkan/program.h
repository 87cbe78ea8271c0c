// A model's part on the device: the weights of its steps. Shared by the sessions.
#pragma once
#include <span>

#include "backends/vulkan/slabs.h"
#include "backends/vulkan/weights.h"
#include "core/ops/backend.h"

namespace mote {

// Where the weights of one step lie.
struct StepWeights {
  uint32_t first_window = 0;   // of its matrix
  Binding vector, bias;
};

class VulkanProgram final : public Program {
 public:
  // Takes the tables from the arena and, unless it only measures, brings the weights to the device. `program` is null
  // while measuring. After a failure nothing is left on the device.
  static Status layout(VulkanDevice& device, const PlanPart& part, Arena& arena, VulkanProgram* program,
                       Footprint* footprint);
  void close() override;

  // By the step's number in the part.
  const StepWeights& weights(uint32_t step) const { return steps_[step]; }
  // A window of the step's matrix.
  const Binding& window(uint32_t step, uint32_t index) const { return windows_[steps_[step].first_window + index]; }

 private:
  Status upload(const PlanPart& part);

  VulkanDevice* device_ = nullptr;
  std::span<StepWeights> steps_;
  std::span<Binding> windows_;
  std::span<Buffer> slabs_;
};

}   // namespace mote
