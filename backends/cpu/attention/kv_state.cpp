#include "backends/cpu/attention/kv_state.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/attention/attention.h"
#include "core/base/half.h"

namespace mote {
namespace {

uint16_t to_finite(float value, uint16_t*) {
  if (value != value) return 0;
  const uint16_t half = f32_to_f16(value);
  return (half & 0x7fffu) >= 0x7c00u ? static_cast<uint16_t>((half & 0x8000u) | 0x7bffu) : half;
}
float to_finite(float value, float*) { return mote::to_finite(value); }

constexpr uint32_t kPiece = 64;   // elements that are narrowed at a time

// to[i] = to_finite(from[i]), f32_to_f16 included, without branches, so that compilers make vectors of it. Not 0: there
// is a NaN among them.
uint32_t narrow(const float* from, uint32_t count, uint16_t* to) {
  uint32_t nans = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(from[i]);
    const auto size = static_cast<int32_t>(bits & 0x7fffffffu);
    const int32_t finite = size < 0x477fe000 ? size : 0x477fe000;   // 65504
    // From 2^-14 on the exponent moves and 13 bits are rounded away; below, the last bit of a sum with 1/2 is 2^-24.
    const int32_t normal = (finite - (112 << 23) + 0x0fff + (finite >> 13 & 1)) >> 13;
    const int32_t small = std::bit_cast<int32_t>(std::bit_cast<float>(finite) + 0.5f) - 0x3f000000;
    const int32_t below = (finite - 0x38800000) >> 31, number = (size - 0x7f800001) >> 31;   // all ones or 0
    const int32_t half = (small & below) | (normal & ~below);
    nans |= ~static_cast<uint32_t>(number);
    to[i] =
        static_cast<uint16_t>((static_cast<uint32_t>(half) | (bits >> 16 & 0x8000u)) & static_cast<uint32_t>(number));
  }
  return nans;
}
uint32_t narrow(const float* from, uint32_t count, float* to) {
  uint32_t nans = 0;
  for (uint32_t i = 0; i < count; ++i) {
    nans |= from[i] != from[i] ? 1u : 0u;
    to[i] = mote::to_finite(from[i]);
  }
  return nans;
}

}   // namespace

float to_finite(float value) {
  if (value != value) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x7fffffffu) == 0x7f800000u ? std::bit_cast<float>((bits & 0x80000000u) | 0x7f7fffffu) : value;
}

void KvState::take(const StateInfo& info, const SessionShape& shape, Arena& arena) {
  info_ = &info;
  element_bytes_ = shape.kv_type == KvType::f16 ? 2 : 4;
  uint64_t capacity = round_up(capacity_of(info, shape), kAttentionBlock);
  if (info.window != 0)
    capacity = std::min(capacity, round_up(uint64_t{info.window} - 1 + shape.max_batch, kAttentionBlock));
  capacity = std::max<uint64_t>(capacity, kAttentionBlock);   // slots are counted modulo this
  capacity_ = static_cast<uint32_t>(capacity);
  const uint64_t elements = capacity * info.n_kv_heads;   // below 2^64: both are 32 bits wide
  uint64_t key_bytes = UINT64_MAX, value_bytes = UINT64_MAX;
  if (!checked_multiply(elements, uint64_t{info.key_dim} * element_bytes_, &key_bytes)) key_bytes = UINT64_MAX;
  if (!checked_multiply(elements, uint64_t{info.value_dim} * element_bytes_, &value_bytes)) value_bytes = UINT64_MAX;
  keys_ = arena.take<uint8_t>(key_bytes);
  values_ = arena.take<uint8_t>(value_bytes);
}

void KvState::enter(uint32_t first, uint32_t rows) {
  if (rows == 0) return;
  const uint32_t blocks = capacity_ / kAttentionBlock;
  uint32_t wanted = entered_blocks_;
  for (uint32_t block = first / kAttentionBlock; block <= (first + rows - 1) / kAttentionBlock; ++block)
    wanted = std::max(wanted, block % blocks + 1);
  for (; entered_blocks_ < wanted; ++entered_blocks_) {
    for (uint32_t head = 0; head < info_->n_kv_heads; ++head) {
      const size_t slot = size_t{head} * capacity_ + size_t{entered_blocks_} * kAttentionBlock;
      const size_t key_bytes = size_t{info_->key_dim} * element_bytes_,
                   value_bytes = size_t{info_->value_dim} * element_bytes_;
      std::memset(keys_.data() + slot * key_bytes, 0, kAttentionBlock * key_bytes);
      std::memset(values_.data() + slot * value_bytes, 0, kAttentionBlock * value_bytes);
    }
  }
}

// visit(element, index): every element of a position in the canonical row form's order.
template <class Element, class Visit>
void KvState::visit_row(uint32_t position, Visit visit) const {
  const size_t slot = position % capacity_;
  Element* keys = reinterpret_cast<Element*>(keys_.data());
  Element* values = reinterpret_cast<Element*>(values_.data());
  size_t index = 0;
  for (uint32_t head = 0; head < info_->n_kv_heads; ++head) {
    Element* at = keys + (size_t{head} * capacity_ + slot / 16 * 16) * info_->key_dim + slot % 16;
    for (uint32_t d = 0; d < info_->key_dim; ++d) visit(at[size_t{d} * 16], index++);
  }
  for (uint32_t head = 0; head < info_->n_kv_heads; ++head) {
    Element* at = values + (size_t{head} * capacity_ + slot) * info_->value_dim;
    for (uint32_t d = 0; d < info_->value_dim; ++d) visit(at[d], index++);
  }
}

template <class Element>
bool KvState::write(uint32_t position, const float* keys, const float* values) {
  const size_t slot = position % capacity_;
  uint32_t nans = 0;
  for (uint32_t head = 0; head < info_->n_kv_heads; ++head) {
    Element* at =
        reinterpret_cast<Element*>(keys_.data()) + (size_t{head} * capacity_ + slot / 16 * 16) * info_->key_dim;
    at += slot % 16;
    for (uint32_t d = 0; d < info_->key_dim; d += kPiece) {
      Element piece[kPiece];
      const uint32_t count = std::min(kPiece, info_->key_dim - d);
      nans |= narrow(keys + size_t{head} * info_->key_dim + d, count, piece);
      for (uint32_t i = 0; i < count; ++i) at[size_t{d + i} * 16] = piece[i];
    }
  }
  for (uint32_t head = 0; head < info_->n_kv_heads; ++head) {
    Element* at = reinterpret_cast<Element*>(values_.data()) + (size_t{head} * capacity_ + slot) * info_->value_dim;
    nans |= narrow(values + size_t{head} * info_->value_dim, info_->value_dim, at);
  }
  return nans == 0;
}

bool KvState::write_row(uint32_t position, const float* keys, const float* values) {
  return element_bytes_ == 2 ? write<uint16_t>(position, keys, values) : write<float>(position, keys, values);
}

void KvState::export_row(uint32_t position, uint8_t* to) const {
  const auto copy = [&](auto& element, size_t index) {
    std::memcpy(to + index * sizeof element, &element, sizeof element);
  };
  if (element_bytes_ == 2)
    visit_row<uint16_t>(position, copy);
  else
    visit_row<float>(position, copy);
}

// The bytes may come from a file: what is not finite is brought into range as in write_row.
void KvState::import_row(uint32_t position, const uint8_t* from) {
  const auto copy = [&](auto& element, size_t index) {
    using Element = std::remove_reference_t<decltype(element)>;
    Element value;
    std::memcpy(&value, from + index * sizeof value, sizeof value);
    if constexpr (sizeof(Element) == 2)
      element = to_finite(f16_to_f32(value), static_cast<Element*>(nullptr));
    else
      element = to_finite(value, static_cast<Element*>(nullptr));
  };
  if (element_bytes_ == 2)
    visit_row<uint16_t>(position, copy);
  else
    visit_row<float>(position, copy);
}

}   // namespace mote
