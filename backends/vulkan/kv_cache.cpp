#include "backends/vulkan/kv_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/bytes.h"
#include "core/base/checked.h"
#include "shaders/shared.h"

namespace mote {
namespace {

uint16_t to_finite(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude > 0x7c00u) return 0;
  return static_cast<uint16_t>(magnitude == 0x7c00u ? half - 1 : half);
}
uint32_t to_finite(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0;
  return magnitude == 0x7f800000u ? bits - 1 : bits;
}

// visit(canonical index, byte of the device's row) for every number of a row.
template <class Number, class Visit>
void visit_row(const StateInfo& info, Visit visit) {
  size_t index = 0, at = 0;
  for (const uint32_t dim : {info.key_dim, info.value_dim}) {
    const size_t head_bytes = static_cast<size_t>(round_up(uint64_t{dim} * sizeof(Number), 4));
    for (uint32_t head = 0; head < info.n_kv_heads; ++head, at += head_bytes)
      for (uint32_t d = 0; d < dim; ++d) visit(index++, at + d * sizeof(Number));
  }
}

}   // namespace

KvLayout kv_layout(const StateInfo& info, const SessionShape& shape, uint64_t binding_bytes) {
  KvLayout layout;
  uint64_t capacity = round_up(shape.context, MOTE_VK_GROUP);
  if (info.window != 0)
    capacity = std::min(capacity, round_up(uint64_t{info.window} - 1 + shape.max_batch, MOTE_VK_GROUP));
  capacity = std::max<uint64_t>(capacity, MOTE_VK_GROUP);
  layout.capacity = static_cast<uint32_t>(capacity);
  layout.heads = info.n_kv_heads;
  const uint32_t in_word = shape.kv_type == KvType::f16 ? 2 : 1;
  layout.key_words = (info.key_dim + in_word - 1) / in_word;
  layout.value_words = (info.value_dim + in_word - 1) / in_word;
  const uint64_t head_bytes = capacity * std::max(layout.key_words, layout.value_words) * 4;
  layout.heads_in_window = static_cast<uint32_t>(std::min<uint64_t>(binding_bytes / head_bytes, info.n_kv_heads));
  if (layout.heads_in_window != 0) layout.windows = (info.n_kv_heads - 1) / layout.heads_in_window + 1;
  return layout;
}

void row_from_device(const StateInfo& info, KvType type, const std::byte* row, uint8_t* to) {
  if (type == KvType::f16)
    visit_row<uint16_t>(info, [&](size_t index, size_t at) { std::memcpy(to + index * 2, row + at, 2); });
  else
    visit_row<uint32_t>(info, [&](size_t index, size_t at) { std::memcpy(to + index * 4, row + at, 4); });
}

void row_to_device(const StateInfo& info, KvType type, const uint8_t* from, std::byte* row) {
  if (type == KvType::f16) {
    std::memset(row, 0,
                static_cast<size_t>(info.n_kv_heads * (round_up(uint64_t{info.key_dim} * 2, 4) +
                                                       round_up(uint64_t{info.value_dim} * 2, 4))));
    visit_row<uint16_t>(info, [&](size_t index, size_t at) {
      const uint16_t kept = to_finite(load_le<uint16_t>(from + index * 2));
      std::memcpy(row + at, &kept, 2);
    });
  } else {
    visit_row<uint32_t>(info, [&](size_t index, size_t at) {
      const uint32_t kept = to_finite(load_le<uint32_t>(from + index * 4));
      std::memcpy(row + at, &kept, 4);
    });
  }
}

}   // namespace mote
