#include "core/gguf/tensor_index.h"

#include "core/base/slice.h"

#include <algorithm>

namespace mote::gguf {

Result<TensorIndex> TensorIndex::create(const File& file, Arena& arena) {
  TensorIndex index;
  index.tensors_ = arena.take<Tensor>(file.n_tensors());
  index.by_name_ = arena.take<uint32_t>(file.n_tensors());
  MOTE_RETURN_IF_ERROR(arena.status("the index of the tensors"));
  if (arena.measuring()) return index;

  const std::span<Tensor> tensors = index.tensors_;
  const std::span<uint32_t> order = index.by_name_;
  File::TensorCursor cursor = file.tensors();
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    cursor.next(&tensors[i]);
    order[i] = i;
  }

  std::sort(order.begin(), order.end(), [tensors](uint32_t a, uint32_t b) {
    return tensors[a].offset_bytes != tensors[b].offset_bytes ? tensors[a].offset_bytes < tensors[b].offset_bytes
                                                              : a < b;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const Tensor &before = tensors[order[i - 1]], &after = tensors[order[i]];
    const uint64_t end = before.offset_bytes + before.bytes;   // within the file, so it cannot wrap
    if (end <= after.offset_bytes) continue;
    return Status::error(Code::bad_model, "tensors {} and {} overlap: the one ends at byte {}, the other begins at {}",
                         slice(before.name, 0, 48), slice(after.name, 0, 48), end, after.offset_bytes);
  }

  std::sort(order.begin(), order.end(),
            [tensors](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (tensors[order[i - 1]].name != tensors[order[i]].name) continue;
    return Status::error(Code::bad_model, "tensor {} is there twice, as numbers {} and {} of {}",
                         tensors[order[i]].name, std::min(order[i - 1], order[i]), std::max(order[i - 1], order[i]),
                         tensors.size());
  }
  return index;
}

const Tensor* TensorIndex::find(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [this](uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  return at == by_name_.end() || tensors_[*at].name != name ? nullptr : &tensors_[*at];
}

}   // namespace mote::gguf
