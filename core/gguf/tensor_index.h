// Finds a tensor by name in constant time. Lives in an arena; one slot table of hashes, no heap.
#pragma once
#include <span>

#include "core/base/arena.h"
#include "core/gguf/file.h"

namespace mote::gguf {

class TensorIndex {
 public:
  // Takes the index's memory; while measuring only the size counts. Two tensors of one name: bad_model.
  static Result<TensorIndex> create(const File& file, Arena& arena);

  const Tensor* find(std::string_view name) const;   // nullptr: not there
  std::span<const Tensor> tensors() const { return tensors_; }

 private:
  std::span<Tensor> tensors_;      // in file order
  std::span<uint32_t> slots_;      // open addressing; tensor number + 1, 0: free
};

}  // namespace mote::gguf
