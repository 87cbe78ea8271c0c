// Keys and values of one layer in one session.
//
// Layout, so that decode and prefill walk the same numbers in the same order with no horizontal sums:
//   keys    [n_kv_heads, capacity / 16, key_dim, 16]: a lane is a position
//   values  [n_kv_heads, capacity, value_dim]: a lane is a dimension
// Position p lies in slot p % capacity. Without a window the capacity is the context (of an encoder's input: a batch);
// with one, a ring that holds the window and one batch, so a batch never overwrites what its own rows see.
//
// What is stored is finite: NaN becomes 0 (and the run fails, core/ops/first_nan.h), anything beyond the type's range
// its largest number of that sign. The memory of a block of 64 slots is zeroed when the first position enters it, so
// that positions which nobody has written yet are finite too.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/arena.h"
#include "core/base/status.h"
#include "core/ops/backend.h"

namespace mote {

// The nearest finite number of its type; a NaN is 0.
float to_finite(float value);

class KvState {
 public:
  KvState() = default;
  // Takes the memory (or only measures it). `shape.max_batch` rows may enter at once.
  void take(const StateInfo& info, const SessionShape& shape, Arena& arena);
  bool exists() const { return info_ != nullptr; }

  uint32_t capacity() const { return capacity_; }
  const void* keys(uint32_t kv_head) const {
    return keys_.data() + size_t{kv_head} * capacity_ * size_t{info_->key_dim} * element_bytes_;
  }
  const void* values(uint32_t kv_head) const {
    return values_.data() + size_t{kv_head} * capacity_ * size_t{info_->value_dim} * element_bytes_;
  }
  const StateInfo& info() const { return *info_; }

  // Before the rows of positions [first, first + rows) are written: zeroes blocks that are entered for the first time.
  void enter(uint32_t first, uint32_t rows);
  // keys [n_kv_heads * key_dim], values [n_kv_heads * value_dim]. Different positions may be written at the same time.
  // False: there was a NaN among them (stored as 0).
  bool write_row(uint32_t position, const float* keys, const float* values);

  void export_row(uint32_t position, uint8_t* to) const;   // state_row_bytes: keys of all heads, then values
  void import_row(uint32_t position, const uint8_t* from);

  // The ring holds positions held_from .. ; an earlier one was overwritten.
  uint32_t held_from() const { return held_from_; }
  void overwrite_up_to(uint32_t end) {
    if (end > capacity_ && end - capacity_ > held_from_) held_from_ = end - capacity_;
  }
  // Whether a sequence of `positions` positions may go on: everything its next query sees is held.
  bool can_continue_at(uint32_t positions) const {
    const uint32_t window = info_->window;
    const uint32_t begin = window == 0 || positions < window ? 0 : positions - window + 1;
    return positions == 0 || begin >= held_from_;
  }
  void truncate(uint32_t positions) {
    if (positions == 0) held_from_ = 0;
  }

 private:
  template <class Element, class Visit>
  void visit_row(uint32_t position, Visit visit) const;
  template <class Element>
  bool write(uint32_t position, const float* keys, const float* values);

  const StateInfo* info_ = nullptr;
  std::span<uint8_t> keys_, values_;
  uint32_t element_bytes_ = 0;
  uint32_t capacity_ = 0;
  uint32_t entered_blocks_ = 0;
  uint32_t held_from_ = 0;
};

}   // namespace mote
