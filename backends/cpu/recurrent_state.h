// The vector of a recurrent layer in one session: that of the last position, and the one that a batch is coming to. So
// a batch can be given up, but a sequence goes back to its beginning alone.
#pragma once
#include <cstdint>
#include <span>

#include "backends/cpu/attention/kv_state.h"
#include "core/base/arena.h"
#include "core/base/bytes.h"
#include "core/ops/backend.h"

namespace mote {

class RecurrentState {
 public:
  RecurrentState() = default;
  // Takes the memory (or only measures it).
  void take(const StateInfo& info, Arena& arena) {
    info_ = &info;
    vectors_ = arena.take<float>(uint64_t{2} * info.value_dim);
  }
  bool exists() const { return info_ != nullptr; }
  const StateInfo& info() const { return *info_; }
  uint32_t width() const { return info_->value_dim; }

  // [width]: after the last committed position; where a batch leaves its own. What they hold before the first position
  // means nothing.
  float* last() { return vectors_.data() + size_t{now_} * width(); }
  float* next() { return vectors_.data() + size_t{1 - now_} * width(); }
  // From bytes of a file: finite, as kept keys and values are.
  void import_row(const uint8_t* from) {
    for (uint32_t i = 0; i < width(); ++i) last()[i] = to_finite(load_le<float>(from + size_t{i} * sizeof(float)));
  }
  // A batch has come to its end: its vector is the last one.
  void commit() { now_ = 1 - now_; }

 private:
  const StateInfo* info_ = nullptr;
  std::span<float> vectors_;   // [2, width]
  uint32_t now_ = 0;
};

}   // namespace mote
