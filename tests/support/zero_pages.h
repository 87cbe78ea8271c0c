// A file that begins with some bytes and goes on in zeros that take address space and no memory.
#pragma once
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <span>

namespace mote::test {

class ZeroPages {
 public:
  ZeroPages(std::span<const uint8_t> head, uint64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ != MAP_FAILED && !head.empty()) std::memcpy(memory_, head.data(), head.size());
  }
  ZeroPages(const ZeroPages&) = delete;
  ZeroPages& operator=(const ZeroPages&) = delete;
  ~ZeroPages() {
    if (memory_ != MAP_FAILED) munmap(memory_, bytes_);
  }
  // Empty where the address space was not to be had.
  std::span<const uint8_t> span() const {
    return memory_ == MAP_FAILED ? std::span<const uint8_t>() : std::span(static_cast<const uint8_t*>(memory_), bytes_);
  }

 private:
  size_t bytes_;
  void* memory_;
};

}   // namespace mote::test
