// Models in several files, as gguf-split makes them: each part is a GGUF file with tensors of its own and the keys
// split.no, split.count and split.tensors.count; the first one also has the model's metadata.
// https://github.com/ggml-org/llama.cpp/tree/master/tools/gguf-split
#include "core/base/checked.h"
#include "core/gguf/file.h"

namespace mote::gguf {

Status File::read_split(PartNumber part) {
  MOTE_ASSIGN_OR_RETURN(uint64_t count, get_unsigned("split.count", 0, UINT32_MAX, 1));
  if (count == 0) count = 1;
  if (count == 1 && part.count == 1) return {};
  MOTE_ASSIGN_OR_RETURN(const uint64_t number, get_unsigned("split.no", 0, UINT32_MAX, 0));
  if (part.count == 1)
    return Status::error(Code::unsupported,
                         "the file is part {} of {} of a split model (split.no, split.count), and none but this one "
                         "was given",
                         number + 1, count);
  if (count != part.count)
    return Status::error(Code::bad_model, "it says that there are {} parts (split.count)", count);
  if (number != part.number)
    return Status::error(Code::bad_model, "it says that it is part {} (split.no {})", number + 1, number);
  MOTE_ASSIGN_OR_RETURN(first_.n_split_tensors, get_unsigned("split.tensors.count", 0, kMaxTensors));
  return {};
}

Result<Part> File::read_part(std::span<const uint8_t> bytes, uint64_t file_bytes, Formats formats, PartNumber part) {
  const Result<File> file = open(bytes, file_bytes, formats, part);   // 6 KiB: looked at where it lies
  if (!file.ok()) return file.status();
  return file.value().first_;
}

Status File::join(std::span<const Part> others) {
  others_ = others;
  n_tensors_ = first_.n_tensors;
  file_bytes_ = first_.file_bytes;
  for (const Part& part : others) {
    n_tensors_ += part.n_tensors;   // of each at most kMaxTensors
    if (!checked_add(file_bytes_, part.file_bytes, &file_bytes_))
      return Status::error(Code::bad_model, "the {} parts have more than 2^64 bytes", others.size() + 1);
  }
  for (size_t i = 0; i <= others.size() && !others.empty(); ++i) {
    const uint64_t said = (i == 0 ? first_ : others[i - 1]).n_split_tensors;
    if (said != n_tensors_)
      return Status::error(
          Code::bad_model,
          "part {} of {}: it says that the model has {} tensors (split.tensors.count), the parts have {}", i + 1,
          others.size() + 1, said, n_tensors_);
  }
  return {};
}

}   // namespace mote::gguf
