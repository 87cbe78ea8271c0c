// All tensors of a file in an arena, found by name with a binary search. What needs memory to see is checked here:
// tensors of one name, and tensors whose bytes overlap.
//
// Sorting, not hashing: a file made to collide costs no more than any other.
#pragma once
#include <span>

#include "core/base/arena.h"
#include "core/gguf/file.h"

namespace mote::gguf {

class TensorIndex {
 public:
  // Takes the index's memory; while measuring only the size counts and the result is empty. bad_model for two tensors
  // of one name or for bytes that belong to two tensors; out_of_memory when the arena has run out.
  static Result<TensorIndex> create(const File& file, Arena& arena);

  const Tensor* find(std::string_view name) const;   // nullptr: not there
  std::span<const Tensor> tensors() const { return tensors_; }

 private:
  std::span<Tensor> tensors_;     // in file order
  std::span<uint32_t> by_name_;   // their numbers in the order of the names
};

}   // namespace mote::gguf
