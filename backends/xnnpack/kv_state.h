// Keys and values of one layer in one session, as XNNPACK's batch matrix multiply takes them:
//   keys    [n_kv_heads, context, key_dim]
//   values  [n_kv_heads, context, value_dim]
// in the session's KV type. Every position has its place, also where a window would allow a ring: the operator wants
// the visible keys of a head in one piece.
//
// What is stored is finite: NaN becomes 0 (and the run fails, core/ops/first_nan.h), anything beyond the type's range
// its largest number of that sign.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/arena.h"
#include "core/ops/backend.h"

namespace mote {

class XnnKvState {
 public:
  XnnKvState() = default;
  // Takes the memory (or only measures it).
  void take(const StateInfo& info, const SessionShape& shape, Arena& arena);
  bool exists() const { return info_ != nullptr; }
  const StateInfo& info() const { return *info_; }
  bool is_f32() const { return element_bytes_ == 4; }

  // Of one head, from a position on. In the session's type; f32 alone may be used where it lies.
  const uint8_t* keys(uint32_t kv_head, uint32_t position) const {
    return keys_.data() + (size_t{kv_head} * context_ + position) * info_->key_dim * element_bytes_;
  }
  const uint8_t* values(uint32_t kv_head, uint32_t position) const {
    return values_.data() + (size_t{kv_head} * context_ + position) * info_->value_dim * element_bytes_;
  }

  // keys [n_kv_heads * key_dim], values [n_kv_heads * value_dim]. Different positions may be written at the same time.
  // False: there was a NaN among them (stored as 0).
  bool write_row(uint32_t position, const float* keys, const float* values);

  uint64_t row_bytes() const {
    return uint64_t{info_->n_kv_heads} * (uint64_t{info_->key_dim} + info_->value_dim) * element_bytes_;
  }
  void export_row(uint32_t position, uint8_t* to) const;   // row_bytes: keys of all heads, then values
  void import_row(uint32_t position, const uint8_t* from);

 private:
  template <class Visit>
  void visit_row(uint32_t position, Visit visit) const;

  const StateInfo* info_ = nullptr;
  std::span<uint8_t> keys_, values_;
  uint32_t element_bytes_ = 0;
  uint32_t context_ = 0;
};

}   // namespace mote
