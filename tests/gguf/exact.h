// Bytes in a heap block of exactly their size, at an address of a chosen remainder: one byte read too many is an error
// under AddressSanitizer.
#pragma once
#include <cstring>
#include <memory>
#include <span>

#include "tests/support/gguf_builder.h"

namespace mote::test {

class Exact {
 public:
  explicit Exact(std::span<const uint8_t> bytes, size_t shift = 0)
      : size_(bytes.size()), shift_(shift), memory_(new uint8_t[bytes.size() + shift]) {
    if (size_ > 0) std::memcpy(memory_.get() + shift, bytes.data(), size_);
  }
  std::span<const uint8_t> span() const { return {memory_.get() + shift_, size_}; }

 private:
  size_t size_, shift_;
  std::unique_ptr<uint8_t[]> memory_;
};

// Walks the tensors until one has this name.
inline bool find_tensor(const gguf::File& file, std::string_view name, gguf::Tensor* tensor) {
  gguf::File::TensorCursor cursor = file.tensors();
  while (cursor.next(tensor))
    if (tensor->name == name) return true;
  return false;
}

}   // namespace mote::test
