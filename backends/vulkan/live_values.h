// The Values that are on the device at one step of a walk through a plan, and where. Few live at one time, so a list in
// the order of their places is enough, and a walk needs no memory of anybody.
#pragma once
#include <cstdint>

#include "backends/vulkan/device.h"
#include "core/base/checked.h"

namespace mote {

class LiveValues {
 public:
  static constexpr uint32_t kMost = 128;

  uint64_t peak_bytes() const { return peak_; }
  bool has(uint16_t id) const { return find(id) < count_; }
  // 0 for a Value that is not here.
  uint64_t offset_bytes(uint16_t id) const {
    const uint32_t i = find(id);
    return i < count_ ? entries_[i].at : 0;
  }

  // In the first gap that is large enough. False: there are too many.
  bool add(uint16_t id, uint64_t bytes, uint64_t last_step) {
    if (count_ == kMost) return false;
    const uint64_t rounded = round_up(bytes, VulkanDevice::kPlaceBytes);
    uint64_t at = 0;
    uint32_t i = 0;
    for (; i < count_ && entries_[i].at - at < rounded; ++i) at = entries_[i].at + entries_[i].bytes;
    for (uint32_t j = count_++; j > i; --j) entries_[j] = entries_[j - 1];
    entries_[i] = {at, rounded, last_step, id};
    if (at + rounded > peak_) peak_ = at + rounded;
    return true;
  }

  // Forgets the Values that no step after `step` reads.
  void release_up_to(uint64_t step) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count_; ++i)
      if (entries_[i].last_step > step) entries_[kept++] = entries_[i];
    count_ = kept;
  }

 private:
  struct Entry {
    uint64_t at, bytes, last_step;
    uint16_t id;
  };
  uint32_t find(uint16_t id) const {
    uint32_t i = 0;
    while (i < count_ && entries_[i].id != id) ++i;
    return i;
  }

  Entry entries_[kMost];
  uint32_t count_ = 0;
  uint64_t peak_ = 0;
};

}   // namespace mote
