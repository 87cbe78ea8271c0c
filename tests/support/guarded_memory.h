// Memory that tells on whoever writes beside it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace mote::test {

enum class Guard {
  bands,   // 128 bytes of a pattern before and after, compared by `damage`
  pages,   // unreadable pages before and after: the access itself faults
};

// `bytes` bytes whose end lies as near as `alignment` allows to what must not be touched.
class GuardedMemory {
 public:
  GuardedMemory() = default;
  // Filled with `fill`. With alignment 1 and bands it starts at an odd address; with pages it ends where
  // the page does.
  GuardedMemory(uint64_t bytes, uint64_t alignment, Guard guard, uint8_t fill);
  GuardedMemory(GuardedMemory&& other) noexcept { swap(other); }
  GuardedMemory& operator=(GuardedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  // Empty, or which byte beside the memory was written.
  std::string damage() const;

 private:
  void swap(GuardedMemory& other) noexcept;

  std::byte* mapped_ = nullptr;
  uint64_t mapped_bytes_ = 0;
  std::byte* low_ = nullptr;   // the writable surroundings [low_, high_) are filled with the pattern
  std::byte* high_ = nullptr;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}   // namespace mote::test
