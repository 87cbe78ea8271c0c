// Few large buffers for many pieces: pieces follow each other, and one that does not fit any more begins the next slab.
// The same calls measure the slabs and lay them out.
#pragma once
#include <span>

#include "backends/vulkan/device.h"
#include "core/base/checked.h"

namespace mote {

struct Place {
  uint32_t slab = 0;
  uint64_t offset_bytes = 0;
};

class SlabLayout {
 public:
  static constexpr uint64_t kSlabBytes = uint64_t{256} << 20;

  // `slabs`: their sizes are noted there; empty: only counted.
  explicit SlabLayout(std::span<Buffer> slabs) : slabs_(slabs) {}
  // Also adds up what the device will give for them.
  explicit SlabLayout(const VulkanDevice& device) : device_(&device) {}

  Place place(uint64_t bytes) {
    const uint64_t rounded = round_up(bytes, VulkanDevice::kPlaceBytes);
    if (used_ != 0 && used_ + rounded > kSlabBytes) close_slab();
    const Place made = {count_, used_};
    used_ += rounded;
    return made;
  }
  // After the last piece.
  void finish() {
    if (used_ != 0) close_slab();
  }

  uint32_t count() const { return count_; }
  uint64_t device_bytes() const { return device_bytes_; }

 private:
  void close_slab() {
    if (count_ < slabs_.size()) slabs_[count_].bytes = used_;
    if (device_ != nullptr) device_bytes_ += device_->measure_buffer(used_);
    ++count_;
    used_ = 0;
  }

  std::span<Buffer> slabs_;
  const VulkanDevice* device_ = nullptr;
  uint32_t count_ = 0;
  uint64_t used_ = 0, device_bytes_ = 0;
};

}   // namespace mote
