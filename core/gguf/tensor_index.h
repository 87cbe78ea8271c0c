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

  // `find` that remembers, for first_left, that somebody wanted the tensor.
  const Tensor* take(std::string_view name);
  // The first tensor in file order that nobody took and `may_stay` is false for; nullptr: none. One pass.
  const Tensor* first_left(bool (*may_stay)(std::string_view name)) const;

 private:
  struct Named {
    uint16_t number;   // of the tensor in the file
    bool taken;
  };
  static_assert(File::kMaxTensors <= UINT16_MAX);
  Named* look_up(std::string_view name) const;

  std::span<Tensor> tensors_;   // in file order
  std::span<Named> by_name_;    // in the order of the names
};

}   // namespace mote::gguf
