#include "core/gguf/tensor_index.h"

#include "core/base/slice.h"
#include "core/base/sort.h"

#include <algorithm>

namespace mote::gguf {

Result<TensorIndex> TensorIndex::create(const File& file, Arena& arena) {
  TensorIndex index;
  index.tensors_ = arena.take<Tensor>(file.n_tensors());
  index.by_name_ = arena.take<Named>(file.n_tensors());
  MOTE_RETURN_IF_ERROR(arena.status("the index of the tensors"));
  if (arena.measuring()) return index;

  const std::span<Tensor> tensors = index.tensors_;
  const std::span<Named> order = index.by_name_;
  File::TensorCursor cursor = file.tensors();
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    cursor.next(&tensors[i]);
    order[i] = {static_cast<uint16_t>(i), false};
  }

  heap_sort(order, [tensors](Named a, Named b) {
    const uint64_t at = tensors[a.number].offset_bytes, other = tensors[b.number].offset_bytes;
    return at != other ? at < other : a.number < b.number;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const Tensor &before = tensors[order[i - 1].number], &after = tensors[order[i].number];
    const uint64_t end = before.offset_bytes + before.bytes;   // within the file, so it cannot wrap
    if (end <= after.offset_bytes) continue;
    return Status::error(Code::bad_model, "tensors {} and {} overlap: the one ends at byte {}, the other begins at {}",
                         slice(before.name, 0, 48), slice(after.name, 0, 48), end, after.offset_bytes);
  }

  heap_sort(order, [tensors](Named a, Named b) { return tensors[a.number].name < tensors[b.number].name; });
  for (size_t i = 1; i < order.size(); ++i) {
    const uint32_t a = order[i - 1].number, b = order[i].number;
    if (tensors[a].name != tensors[b].name) continue;
    return Status::error(Code::bad_model, "tensor {} is there twice, as numbers {} and {} of {}", tensors[b].name,
                         std::min(a, b), std::max(a, b), tensors.size());
  }
  return index;
}

TensorIndex::Named* TensorIndex::look_up(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](Named entry, std::string_view wanted) { return tensors_[entry.number].name < wanted; });
  return at == by_name_.end() || tensors_[at->number].name != name ? nullptr : &*at;
}

const Tensor* TensorIndex::find(std::string_view name) const {
  const Named* entry = look_up(name);
  return entry == nullptr ? nullptr : &tensors_[entry->number];
}

const Tensor* TensorIndex::take(std::string_view name) {
  Named* entry = look_up(name);
  if (entry == nullptr) return nullptr;
  entry->taken = true;
  return &tensors_[entry->number];
}

const Tensor* TensorIndex::first_left(bool (*may_stay)(std::string_view name)) const {
  const Tensor* first = nullptr;
  for (const Named& entry : by_name_) {
    const Tensor* tensor = &tensors_[entry.number];
    if (!entry.taken && (first == nullptr || tensor < first) && !may_stay(tensor->name)) first = tensor;
  }
  return first;
}

}   // namespace mote::gguf
