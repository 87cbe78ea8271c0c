// What one encode call works with: the caller's scratch bytes, the ids that come out, and a count of the steps taken.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/checked.h"

namespace mote {

// Hands out parts of the caller's bytes. A part that does not fit is a null pointer; needed_bytes() then says how much
// would have been enough to get this far.
class Scratch {
 public:
  explicit Scratch(std::span<std::byte> bytes) : bytes_(bytes) {
    // Callers may hand over bytes at any address.
    const uint64_t address = reinterpret_cast<uintptr_t>(bytes.data());
    base_ = used_ = round_up(address, kAlignment) - address;
  }

  template <class T>
  T* take(uint64_t count) {
    static_assert(alignof(T) <= kAlignment);
    const uint64_t end = used_ + round_up(count * sizeof(T), kAlignment);
    if (end > bytes_.size()) return refuse<T>(count);
    T* at = reinterpret_cast<T*>(bytes_.data() + used_);
    used_ = end;
    return at;
  }
  // As if there were not enough.
  template <class T>
  T* refuse(uint64_t count) {
    needed_ = used_ + round_up(count * sizeof(T), kAlignment) - base_ + kAlignment;
    return nullptr;
  }
  // Everything taken since `mark` is free again.
  uint64_t mark() const { return used_; }
  void release(uint64_t mark) { used_ = mark; }
  uint64_t needed_bytes() const { return needed_; }

  static constexpr uint64_t kAlignment = 8;

 private:
  std::span<std::byte> bytes_;
  uint64_t base_ = 0, used_ = 0, needed_ = 0;
};

// Counts every id and writes those that fit.
class TokenSink {
 public:
  explicit TokenSink(std::span<int32_t> out) : out_(out) {}
  void put(int32_t id) {
    if (count_ < out_.size()) out_[static_cast<size_t>(count_)] = id;
    ++count_;
  }
  uint64_t count() const { return count_; }

 private:
  std::span<int32_t> out_;
  uint64_t count_ = 0;
};

}   // namespace mote
