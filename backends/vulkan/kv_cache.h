// Keys and values of one layer in one session, on the device.
//
//   keys [n_kv_heads, capacity, key words], values [n_kv_heads, capacity, value words]; f16: two numbers in a word
//
// Position p lies in slot p % capacity: a ring where the layer has a window (StateInfo::window), which holds that and
// one batch. The windows of KvLayout are another thing: pieces of whole heads that a shader can see at once, as those
// of MatrixLayout are pieces of whole rows. Memory that nobody has written is never read.
#pragma once
#include <span>

#include "backends/vulkan/device.h"
#include "core/ops/backend.h"

namespace mote {

struct KvLayout {
  uint32_t capacity = 0;
  uint32_t key_words = 0, value_words = 0;                // of one head at one position
  uint32_t heads = 0, heads_in_window = 0, windows = 0;   // 0 windows: one head is too much for a shader

  uint32_t first_head(uint32_t window) const { return window * heads_in_window; }
  uint32_t window_heads(uint32_t window) const {
    const uint32_t left = heads - first_head(window);
    return left < heads_in_window ? left : heads_in_window;
  }
  uint64_t key_bytes(uint32_t window) const { return uint64_t{window_heads(window)} * capacity * key_words * 4; }
  uint64_t value_bytes(uint32_t window) const { return uint64_t{window_heads(window)} * capacity * value_words * 4; }
  uint64_t row_bytes() const { return uint64_t{heads} * (uint64_t{key_words} + value_words) * 4; }
};
KvLayout kv_layout(const StateInfo& info, const SessionShape& shape, uint64_t binding_bytes);

// What is known about a state whose numbers lie on the device: which positions it holds.
class KvCache {
 public:
  const StateInfo* info = nullptr;   // nullptr: not one of the part
  KvLayout layout;
  std::span<Binding> keys, values;   // by window

  // Positions held_from .. are there; an earlier one was overwritten.
  uint32_t held_from() const { return held_from_; }
  void overwrite_up_to(uint32_t end) {
    if (end > layout.capacity && end - layout.capacity > held_from_) held_from_ = end - layout.capacity;
  }
  // Whether a sequence of `positions` positions may go on: everything its next query sees is held.
  bool can_continue_at(uint32_t positions) const {
    const uint32_t begin = info->window == 0 || positions < info->window ? 0 : positions - info->window + 1;
    return positions == 0 || begin >= held_from_;
  }
  void truncate(uint32_t positions) {
    if (positions == 0) held_from_ = 0;
  }

 private:
  uint32_t held_from_ = 0;
};

// The canonical row form of core/ops/backend.h from and to a row as it lies on the device, where a head of halves
// begins at a whole word. From the canonical form what is not finite is brought into the range of the type.
void row_from_device(const StateInfo& info, KvType type, const std::byte* row, uint8_t* to);
void row_to_device(const StateInfo& info, KvType type, const uint8_t* from, std::byte* row);

}   // namespace mote
