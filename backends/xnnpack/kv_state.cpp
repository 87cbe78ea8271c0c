#include "backends/xnnpack/kv_state.h"

#include <bit>
#include <cstring>

#include "core/base/half.h"

namespace mote {
namespace {

uint16_t to_finite_f16(float value) {
  if (value != value) return 0;
  const uint16_t half = f32_to_f16(value);
  return (half & 0x7fffu) >= 0x7c00u ? static_cast<uint16_t>((half & 0x8000u) | 0x7bffu) : half;
}
float to_finite_f32(float value) {
  if (value != value) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x7fffffffu) == 0x7f800000u ? std::bit_cast<float>((bits & 0x80000000u) | 0x7f7fffffu) : value;
}

uint64_t bytes_of(uint64_t positions, uint32_t n_heads, uint32_t dim, uint32_t element_bytes) {
  uint64_t bytes = 0;   // 2^64 - 1 is more than any arena has: it says so
  return checked_multiply(positions * n_heads, uint64_t{dim} * element_bytes, &bytes) ? bytes : UINT64_MAX;
}

}   // namespace

void XnnKvState::take(const StateInfo& info, const SessionShape& shape, Arena& arena) {
  info_ = &info;
  element_bytes_ = shape.kv_type == KvType::f16 ? 2 : 4;
  context_ = shape.context;
  keys_ = arena.take<uint8_t>(bytes_of(context_, info.n_kv_heads, info.key_dim, element_bytes_));
  values_ = arena.take<uint8_t>(bytes_of(context_, info.n_kv_heads, info.value_dim, element_bytes_));
}

// visit(where the element lies, its index): every element of a position in the order of the shared row form.
template <class Visit>
void XnnKvState::visit_row(uint32_t position, Visit visit) const {
  size_t index = 0;
  const auto visit_heads = [&](std::span<uint8_t> memory, uint32_t dim) {
    for (uint32_t head = 0; head < info_->n_kv_heads; ++head) {
      uint8_t* at = memory.data() + (size_t{head} * context_ + position) * dim * element_bytes_;
      for (uint32_t d = 0; d < dim; ++d, at += element_bytes_) visit(at, index++);
    }
  };
  visit_heads(keys_, info_->key_dim);
  visit_heads(values_, info_->value_dim);
}

bool XnnKvState::write_row(uint32_t position, const float* keys, const float* values) {
  const size_t n_keys = size_t{info_->n_kv_heads} * info_->key_dim;
  bool has_nan = false;
  visit_row(position, [&](uint8_t* at, size_t index) {
    const float value = index < n_keys ? keys[index] : values[index - n_keys];
    has_nan |= value != value;
    if (is_f32()) {
      const float kept = to_finite_f32(value);
      std::memcpy(at, &kept, sizeof kept);
    } else {
      const uint16_t kept = to_finite_f16(value);
      std::memcpy(at, &kept, sizeof kept);
    }
  });
  return !has_nan;
}

void XnnKvState::export_row(uint32_t position, uint8_t* to) const {
  visit_row(position,
            [&](const uint8_t* at, size_t index) { std::memcpy(to + index * element_bytes_, at, element_bytes_); });
}

// The bytes may come from a file: what is not finite is brought into range as in write_row.
void XnnKvState::import_row(uint32_t position, const uint8_t* from) {
  visit_row(position, [&](uint8_t* at, size_t index) {
    if (is_f32()) {
      float value;
      std::memcpy(&value, from + index * sizeof value, sizeof value);
      value = to_finite_f32(value);
      std::memcpy(at, &value, sizeof value);
    } else {
      uint16_t value;
      std::memcpy(&value, from + index * sizeof value, sizeof value);
      value = to_finite_f16(f16_to_f32(value));
      std::memcpy(at, &value, sizeof value);
    }
  });
}

}   // namespace mote
