#include "core/gguf/file.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/base/sort.h"
#include "core/gguf/header_reader.h"

namespace mote::gguf {
namespace {

constexpr uint32_t kTypes = 13;
constexpr uint64_t kFixedHeaderBytes = 24;             // magic, version, two counts
constexpr uint64_t kLeastEntryBytes = 8 + 1 + 4 + 1;   // a key of one byte and a value of one
constexpr uint64_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

constexpr uint64_t least_bytes(Type type) {
  if (type == Type::string) return 8;
  if (type == Type::array) return 12;
  return fixed_bytes(type);
}

// "inside" names the place: "the key of metadata entry 3".
template <class... Arguments>
Status cut_short(const HeaderReader& reader, std::string_view inside, const Arguments&... arguments) {
  char place[160];
  const FormatArgument list[] = {FormatArgument(arguments)..., FormatArgument(0)};
  const uint32_t length = format_sentence(place, sizeof place, inside, list, sizeof...(arguments));
  return Status::error(Code::bad_model, "the file is cut short: its bytes end at {}, inside {}",
                       reader.offset() + reader.left_bytes(), std::string_view(place, length));
}

Status walk_texts(HeaderReader& reader, std::string_view key, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view text;
    uint64_t length = 0;
    if (reader.take_text(&text, &length)) continue;
    return Status::error(Code::bad_model, "string {} of {} claims {} bytes at byte {}, the file has {} more", i, key,
                         length, reader.offset(), reader.left_bytes());
  }
  return {};
}

Status walk_bools(HeaderReader& reader, std::string_view key, uint64_t count) {
  const uint8_t* at = reader.at();
  for (uint64_t i = 0; i < count; ++i) {
    if (at[i] <= 1) continue;
    return Status::error(Code::bad_model, "{} has a bool of value {} at byte {}, only 0 and 1 are allowed", key, at[i],
                         reader.offset() + i);
  }
  reader.skip(count);
  return {};
}

// The elements of one array without arrays in it, or one scalar.
Status walk_values(HeaderReader& reader, std::string_view key, Type type, uint64_t count) {
  if (count > reader.left_bytes() / least_bytes(type)) {
    if (count == 1) return cut_short(reader, "the value of {}", key);
    return Status::error(Code::bad_model, "{} claims {} elements of {} at byte {}, the file has only {} bytes more",
                         key, count, type_name(type), reader.offset(), reader.left_bytes());
  }
  if (type == Type::string) return walk_texts(reader, key, count);
  if (type == Type::boolean) return walk_bools(reader, key, count);
  reader.skip(count * fixed_bytes(type));
  return {};
}

// An array and the arrays in it, without recursion: `left` counts what is still to come on each level above.
Status walk_array(HeaderReader& reader, std::string_view key) {
  uint64_t left[File::kMaxArrayDepth];
  uint32_t depth = 0;
  do {
    uint32_t number = 0;
    uint64_t count = 0;
    if (!reader.take(&number) || !reader.take(&count)) return cut_short(reader, "an array of {}", key);
    if (number >= kTypes) {
      return Status::error(Code::bad_model, "{} is an array of the unknown type {}, GGUF has types 0 to 12", key,
                           number);
    }
    const auto type = static_cast<Type>(number);
    if (type == Type::array && count > 0) {
      if (depth + 2 > File::kMaxArrayDepth) {
        return Status::error(Code::bad_model, "{} nests more than {} arrays", key, File::kMaxArrayDepth);
      }
      if (count > reader.left_bytes() / least_bytes(type)) {
        return Status::error(Code::bad_model, "{} claims {} arrays at byte {}, the file has only {} bytes more", key,
                             count, reader.offset(), reader.left_bytes());
      }
      left[depth++] = count;
      continue;
    }
    if (type != Type::array) MOTE_RETURN_IF_ERROR(walk_values(reader, key, type, count));
    while (depth > 0 && --left[depth - 1] == 0) --depth;
  } while (depth > 0);
  return {};
}

struct TensorRow {
  std::string_view name;
  uint32_t n_dimensions = 0;
  uint64_t dimensions[Tensor::kMaxDimensions] = {1, 1, 1, 1};
  uint32_t format_number = 0;
  uint64_t offset = 0;   // from the start of the tensor data
};

Status read_row(HeaderReader& reader, uint64_t index, uint64_t count, TensorRow* row) {
  uint64_t length = 0;
  if (!reader.take_text(&row->name, &length)) {
    if (length == 0) return cut_short(reader, "the name of tensor {} of {}", index, count);
    return Status::error(Code::bad_model, "the name of tensor {} of {} claims {} bytes, the file has {} more", index,
                         count, length, reader.left_bytes());
  }
  if (row->name.empty()) return Status::error(Code::bad_model, "tensor {} of {} has an empty name", index, count);
  if (!reader.take(&row->n_dimensions)) return cut_short(reader, "the dimensions of tensor {}", row->name);
  if (row->n_dimensions < 1 || row->n_dimensions > Tensor::kMaxDimensions) {
    return Status::error(Code::bad_model, "tensor {} has {} dimensions, 1 to {} are allowed", row->name,
                         row->n_dimensions, Tensor::kMaxDimensions);
  }
  for (uint32_t i = 0; i < row->n_dimensions; ++i) {
    if (!reader.take(&row->dimensions[i])) return cut_short(reader, "the dimensions of tensor {}", row->name);
  }
  if (!reader.take(&row->format_number)) return cut_short(reader, "the type of tensor {}", row->name);
  if (!reader.take(&row->offset)) return cut_short(reader, "the offset of tensor {}", row->name);
  return {};
}

// Stands in for a format whose blocks nobody here knows.
constexpr FormatInfo kNoFormat{"unknown", 0, 1, 0, false};

// Everything about one tensor but where its bytes lie in the file.
Status check_row(const TensorRow& row, uint64_t alignment, Formats formats, uint64_t* end) {
  if (formats == Formats::built_in) MOTE_RETURN_IF_ERROR(format_from_number(row.format_number, row.name).status());
  const FormatInfo* known = find_format(row.format_number);
  const FormatInfo& info = known == nullptr ? kNoFormat : *known;
  uint64_t values = 1;
  for (uint32_t i = 0; i < row.n_dimensions; ++i) {
    if (row.dimensions[i] == 0) {
      return Status::error(Code::bad_model, "dimension {} of tensor {} is 0", i, row.name);
    }
    if (!checked_multiply(values, row.dimensions[i], &values)) {
      return Status::error(Code::bad_model, "tensor {} has more than 2^64 values", row.name);
    }
  }
  if (row.dimensions[0] % info.block_values != 0) {
    return Status::error(Code::bad_model, "tensor {} has {} columns, not a multiple of the {} values in a block of {}",
                         row.name, row.dimensions[0], info.block_values, info.name);
  }
  uint64_t bytes = 0;
  if (!checked_multiply(values / info.block_values, info.block_bytes, &bytes) || !checked_add(row.offset, bytes, end)) {
    return Status::error(Code::bad_model, "tensor {} ends beyond byte 2^64 (offset {})", row.name, row.offset);
  }
  if (row.offset % alignment != 0) {
    return Status::error(Code::bad_model, "tensor {} is at offset {}, not a multiple of the alignment {}", row.name,
                         row.offset, alignment);
  }
  return {};
}

}   // namespace

std::string_view type_name(Type type) {
  constexpr std::string_view kNames[kTypes] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                               "bool",  "string", "array",  "uint64", "int64",  "float64"};
  const auto number = static_cast<uint32_t>(type);
  return number < kTypes ? kNames[number] : "unknown";
}

Result<File> File::open(std::span<const uint8_t> bytes, uint64_t file_bytes, Formats formats, PartNumber part) {
  Result<File> file{Status()};   // filled where the caller wants it: each copy would be 6 KiB more on the stack
  file.set_status(file.value().read(bytes, file_bytes, formats, part));
  return file;
}

Status File::read(std::span<const uint8_t> bytes, uint64_t file_bytes, Formats formats, PartNumber part) {
  first_.begin = bytes.data();
  first_.n_bytes = bytes.size();
  first_.file_bytes = file_bytes_ = std::max<uint64_t>(file_bytes, bytes.size());
  HeaderReader reader(bytes);
  Status status = read_counts(reader);
  if (status.ok()) status = read_entries(reader);
  if (status.ok()) status = sort_keys();
  if (status.ok()) status = read_alignment();
  if (status.ok()) status = read_split(part);
  if (status.ok()) status = read_tensors(reader, formats);
  return status;
}

Status File::read_counts(HeaderReader& reader) {
  uint32_t magic = 0;
  if (!reader.take(&magic) || magic != 0x46554747u)
    return not_gguf({first_.begin, static_cast<size_t>(first_.n_bytes)});
  if (!reader.take(&version_)) return cut_short(reader, "the version");
  if ((version_ & 0x00ffffffu) == 0 && version_ >= 1u << 24 && version_ < 10u << 24) {   // bytes the other way round
    return Status::error(Code::unsupported,
                         "the file is big-endian GGUF (version bytes 00 00 00 0{}); mote reads little-endian files",
                         version_ >> 24);
  }
  if (version_ != 2 && version_ != 3) {
    return Status::error(Code::unsupported, "the file is GGUF version {}; mote reads versions 2 and 3", version_);
  }
  if (!reader.take(&n_tensors_) || !reader.take(&n_entries_)) {
    return cut_short(reader, "the fixed part of the header, which has {} bytes", kFixedHeaderBytes);
  }
  if (n_entries_ > kMaxEntries || n_entries_ > reader.left_bytes() / kLeastEntryBytes) {
    return Status::error(Code::bad_model, "the file claims {} metadata entries in {} bytes; at most {} are read",
                         n_entries_, reader.left_bytes(), kMaxEntries);
  }
  if (n_tensors_ > kMaxTensors || n_tensors_ > reader.left_bytes() / kLeastTensorBytes) {
    return Status::error(Code::bad_model, "the file claims {} tensors in {} bytes; at most {} are read", n_tensors_,
                         reader.left_bytes(), kMaxTensors);
  }
  if (n_entries_ == 0)
    return Status::error(Code::bad_model, "the file has no metadata, so nothing says what model it is");
  return {};
}

Status File::read_entries(HeaderReader& reader) {
  for (uint64_t i = 0; i < n_entries_; ++i) {
    entry_offset_[i] = static_cast<uint32_t>(reader.offset());
    by_key_[i] = static_cast<uint16_t>(i);
    std::string_view key;
    uint64_t length = 0;
    if (!reader.take_text(&key, &length)) {
      if (length == 0) return cut_short(reader, "the key of metadata entry {} of {}", i, n_entries_);
      return Status::error(Code::bad_model, "the key of metadata entry {} of {} claims {} bytes, the file has {} more",
                           i, n_entries_, length, reader.left_bytes());
    }
    if (key.empty()) return Status::error(Code::bad_model, "metadata entry {} of {} has an empty key", i, n_entries_);
    uint32_t number = 0;
    if (!reader.take(&number)) return cut_short(reader, "the type of {}", key);
    if (number >= kTypes) {
      return Status::error(Code::bad_model, "{} is of the unknown type {}, GGUF has types 0 to 12", key, number);
    }
    const auto type = static_cast<Type>(number);
    MOTE_RETURN_IF_ERROR(type == Type::array ? walk_array(reader, key) : walk_values(reader, key, type, 1));
    if (reader.offset() > kMaxMetadataBytes) {
      return Status::error(Code::bad_model, "the metadata goes on beyond byte {} ({} ends at {})", kMaxMetadataBytes,
                           key, reader.offset());
    }
  }
  first_.tensor_table = reader.at();
  return {};
}

Status File::sort_keys() {
  heap_sort(std::span(by_key_, static_cast<size_t>(n_entries_)),
            [this](uint16_t a, uint16_t b) { return key(a) < key(b); });
  for (uint64_t i = 1; i < n_entries_; ++i) {
    if (key(by_key_[i - 1]) != key(by_key_[i])) continue;
    return Status::error(Code::bad_model, "{} is there twice, as metadata entries {} and {}", key(by_key_[i]),
                         std::min(by_key_[i - 1], by_key_[i]), std::max(by_key_[i - 1], by_key_[i]));
  }
  return {};
}

Status File::read_alignment() {
  MOTE_ASSIGN_OR_RETURN(alignment_, get_unsigned("general.alignment", kMinAlignment, kMaxAlignment, kDefaultAlignment));
  if ((alignment_ & (alignment_ - 1)) != 0) {
    return Status::error(Code::bad_model, "general.alignment is {}, a power of two from {} to {} is allowed",
                         alignment_, kMinAlignment, kMaxAlignment);
  }
  return {};
}

Status File::read_tensors(HeaderReader& reader, Formats formats) {
  uint64_t furthest = 0;
  std::string_view furthest_name;
  for (uint64_t i = 0; i < n_tensors_; ++i) {
    TensorRow row;
    MOTE_RETURN_IF_ERROR(read_row(reader, i, n_tensors_, &row));
    uint64_t end = 0;
    MOTE_RETURN_IF_ERROR(check_row(row, alignment_, formats, &end));
    if (end > furthest) furthest = end, furthest_name = row.name;
  }
  first_.n_tensors = n_tensors_;
  first_.data_offset = reader.offset();
  if (n_tensors_ == 0) return {};
  first_.data_offset = round_up(first_.data_offset, alignment_);
  uint64_t end = 0;
  if (!checked_add(first_.data_offset, furthest, &end)) {
    return Status::error(Code::bad_model, "tensor {} ends beyond byte 2^64", furthest_name);
  }
  if (end > file_bytes_) {
    return Status::error(Code::bad_model, "tensor {} ends at byte {}, file has {}", furthest_name, end, file_bytes_);
  }
  return {};
}

std::string_view File::key(uint64_t index) const {
  const uint8_t* at = first_.begin + entry_offset_[index];
  return text_at(&at);
}

Entry File::entry(uint64_t index) const {
  const uint8_t* at = first_.begin + entry_offset_[index];
  Entry entry;
  entry.key = text_at(&at);
  entry.type = entry.element_type = static_cast<Type>(load_le<uint32_t>(at));
  entry.count = 1;
  at += 4;
  if (entry.type == Type::array) {
    entry.element_type = static_cast<Type>(load_le<uint32_t>(at));
    entry.count = load_le<uint64_t>(at + 4);
    at += 12;
  }
  const uint8_t* end = index + 1 < n_entries_ ? first_.begin + entry_offset_[index + 1] : first_.tensor_table;
  entry.value = at;
  entry.value_bytes = static_cast<uint64_t>(end - at);
  return entry;
}

bool File::find(std::string_view wanted, Entry* entry) const {
  const uint16_t* const end = by_key_ + n_entries_;
  const uint16_t* at =
      std::lower_bound(by_key_, end, wanted, [this](uint16_t i, std::string_view k) { return key(i) < k; });
  if (at == end || key(*at) != wanted) return false;
  *entry = this->entry(*at);
  return true;
}

bool File::TensorCursor::next(Tensor* tensor) {
  while (left_ == 0) {
    if (others_.empty()) return false;
    part_offset_ += part_->file_bytes;
    part_ = &others_[0];
    others_ = others_.subspan(1);
    at_ = part_->tensor_table;
    left_ = part_->n_tensors;
  }
  --left_;
  tensor->name = text_at(&at_);
  tensor->n_dimensions = load_le<uint32_t>(at_);
  at_ += 4;
  uint64_t values = 1;
  for (uint32_t i = 0; i < Tensor::kMaxDimensions; ++i) {
    tensor->dimensions[i] = 1;
    if (i >= tensor->n_dimensions) continue;
    tensor->dimensions[i] = load_le<uint64_t>(at_);
    values *= tensor->dimensions[i];
    at_ += 8;
  }
  tensor->format_number = load_le<uint32_t>(at_);
  const FormatInfo* known = find_format(tensor->format_number);
  tensor->format = known == nullptr ? Format::f32 : static_cast<Format>(known - format_table().data());
  tensor->bytes = known == nullptr ? 0 : row_bytes(tensor->format, values);
  const uint64_t offset = part_->data_offset + load_le<uint64_t>(at_ + 4);
  tensor->offset_bytes = part_offset_ + offset;
  at_ += 12;
  // Where only the head of the file is at hand there is nothing to point at.
  const bool here = tensor->bytes <= part_->n_bytes && offset <= part_->n_bytes - tensor->bytes;
  tensor->data = here ? part_->begin + static_cast<size_t>(offset) : nullptr;
  return true;
}

bool StringCursor::next(std::string_view* text) {
  if (left_ == 0) return false;
  --left_;
  *text = text_at(&at_);
  return true;
}

}   // namespace mote::gguf
