#include "tests/support/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace mote::test {
namespace {

constexpr std::byte kPattern{0xA5};
constexpr uint64_t kBandBytes = 128;

uint64_t round_to(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

}   // namespace

GuardedMemory::GuardedMemory(uint64_t bytes, uint64_t alignment, Guard guard, uint8_t fill) : bytes_(bytes) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t band = guard == Guard::bands ? kBandBytes : 0;
  const uint64_t room = round_to(bytes + 2 * band + alignment, page);
  mapped_bytes_ = room + 2 * page;
  void* mapped = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::runtime_error("mmap failed");
  mapped_ = static_cast<std::byte*>(mapped);
  low_ = mapped_ + page;
  high_ = low_ + room;
  if (mprotect(mapped_, page, PROT_NONE) != 0 || mprotect(high_, page, PROT_NONE) != 0)
    throw std::runtime_error("mprotect failed");
  std::memset(low_, static_cast<int>(kPattern), room);
  data_ = low_ + (room - band - bytes) / alignment * alignment;   // low_ is page aligned
  if (alignment == 1 && guard == Guard::bands) data_ -= reinterpret_cast<uintptr_t>(data_) % 2 == 0 ? 1 : 0;   // odd
  std::memset(data_, fill, bytes);
}

GuardedMemory::~GuardedMemory() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

void GuardedMemory::swap(GuardedMemory& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(low_, other.low_);
  std::swap(high_, other.high_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
}

std::string GuardedMemory::damage() const {
  for (const std::byte* at = low_; at != high_; ++at) {
    if (at == data_) at += bytes_;
    if (at == high_) break;
    if (*at != kPattern) {
      if (at < data_) return std::to_string(data_ - at) + " bytes before its start were written";
      return std::to_string(at - (data_ + bytes_)) + " bytes after its end were written";
    }
  }
  return {};
}

}   // namespace mote::test
