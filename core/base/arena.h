// A bump allocator over memory that somebody else owns. In measuring mode (no memory) it only adds up, so the
// same `layout` function serves the quote and the opening: what was quoted is what is taken, to the byte.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "core/base/checked.h"
#include "core/base/result.h"

namespace mote {

inline constexpr uint64_t kArenaAlignment = 64;

class Arena {
 public:
  // Measures: every take succeeds and yields a span without memory.
  Arena() = default;
  // Hands out `bytes` bytes at `memory`, which must be aligned to kArenaAlignment.
  Arena(void* memory, uint64_t bytes) : memory_(static_cast<std::byte*>(memory)), capacity_(bytes) {}

  bool measuring() const { return memory_ == nullptr; }
  uint64_t used_bytes() const { return used_; }   // always a multiple of kArenaAlignment
  uint64_t capacity_bytes() const { return capacity_; }
  bool failed() const { return failed_; }

  // `count` objects of T at a multiple of 64 bytes, not initialised: the caller writes every element. While
  // measuring, or after the arena has run out (see `status`), the span is empty.
  template <class T>
  std::span<T> take(uint64_t count) {
    static_assert(alignof(T) <= kArenaAlignment);
    std::byte* const at = take_array(count, sizeof(T));
    return at == nullptr ? std::span<T>() : std::span<T>(reinterpret_cast<T*>(at), static_cast<size_t>(count));
  }

  // One default-constructed T, or nullptr while measuring or after the arena has run out.
  template <class T>
  T* create() {
    std::byte* at = take_bytes(sizeof(T));
    return at == nullptr ? nullptr : new (at) T();
  }

  // The memory behind the first `used_bytes`, a multiple of kArenaAlignment. Empty while measuring.
  std::span<std::byte> rest(uint64_t used_bytes) const {
    if (memory_ == nullptr || used_bytes >= capacity_) return {};
    return {memory_ + used_bytes, static_cast<size_t>(capacity_ - used_bytes)};
  }

  // Ok, or out_of_memory: "`what` needs at least N bytes, M were handed over". Asked once after a layout.
  Status status(std::string_view what) const;

 private:
  std::byte* take_array(uint64_t count, uint64_t element_bytes);
  std::byte* take_bytes(uint64_t bytes);
  std::byte* fail();

  std::byte* memory_ = nullptr;
  uint64_t capacity_ = 0, used_ = 0, wanted_ = 0;
  bool failed_ = false;
};

}   // namespace mote
