// Reads GGUF versions 2 and 3 in place: views into the caller's bytes, which may start at any address.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
// `File::open` walks the header once and checks all of it: magic, version, endianness, counts, lengths, value types,
// keys (non-empty, unique), alignment, tensor dimensions, formats and byte ranges against the bytes that are there.
// What needs memory, tensors of one name and tensors that overlap, is found by TensorIndex. Nothing behind the two
// needs to check structure again. Neither reads any tensor data.
//
// Work: every header byte is read once (string bytes not at all), and the keys are sorted, which compares at most
// 4 x log2(n_entries) <= 40 times their bytes.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/result.h"
#include "core/format/format.h"

namespace mote::gguf {

enum class Type : uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};
std::string_view type_name(Type type);

// One metadata value, as it lies in the file.
struct Entry {
  std::string_view key;
  Type type = Type::uint8;           // of the value; for an array see element_type
  Type element_type = Type::uint8;   // arrays: of the elements; otherwise equal to type
  uint64_t count = 0;                // arrays: number of elements; otherwise 1
  const uint8_t* value = nullptr;    // first byte of the (first) value; of a string its u64 length
  uint64_t value_bytes = 0;          // bytes up to the end of the value, all elements included
};

struct Tensor {
  static constexpr uint32_t kMaxDimensions = 4;
  std::string_view name;
  Format format = Format::f32;
  uint32_t format_number = 0;   // ggml's; with Formats::any it may be none of ours, and format says nothing
  uint32_t n_dimensions = 0;
  uint64_t dimensions[kMaxDimensions] = {1, 1, 1, 1};   // innermost (columns) first, as GGUF stores them; unused: 1
  const uint8_t* data = nullptr;                        // in the caller's bytes, any address; nullptr: not at hand
  uint64_t bytes = 0;
  uint64_t offset_bytes = 0;   // from the start of the file
};

// Walks the elements of a string array once, in order.
class StringCursor {
 public:
  explicit StringCursor(const Entry& entry) : at_(entry.value), left_(entry.count) {}
  bool next(std::string_view* text);   // false after the last one
 private:
  const uint8_t* at_;
  uint64_t left_;
};

// Which weight formats a file may hold. With `any`, tensors of a format that mote does not know have 0 bytes: enough to
// list them.
enum class Formats : uint8_t { built_in, any };

class File {
 public:
  // Limits of this reader, each named in the sentence that refuses a file.
  static constexpr uint64_t kMaxEntries = 1024;   // metadata entries; real files have about 40
  static constexpr uint64_t kMaxTensors = 16384;
  static constexpr uint64_t kMaxMetadataBytes = uint64_t{1} << 30;   // real files have 20 MB at most
  static constexpr uint32_t kMaxArrayDepth = 8;                      // arrays within arrays
  static constexpr uint64_t kMinAlignment = 8;                       // GGUF asks for a multiple of 8
  static constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
  static constexpr uint64_t kDefaultAlignment = 32;

  // `bytes` may end right after the tensor table (a vocabulary-only file, or the head of a bigger file whose whole
  // size is `file_bytes`): tensor ranges are checked against `file_bytes`, which counts as bytes.size() if less.
  // The result views `bytes`, which must outlive it. bad_model or unsupported with one sentence.
  // A File takes 6 KiB: keep it in an arena or let it be the only one on the stack.
  static Result<File> open(std::span<const uint8_t> bytes, uint64_t file_bytes, Formats formats = Formats::built_in);
  static Result<File> open(std::span<const uint8_t> bytes, Formats formats = Formats::built_in) {
    return open(bytes, bytes.size(), formats);
  }

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  uint64_t n_entries() const { return n_entries_; }
  uint64_t n_tensors() const { return n_tensors_; }
  uint64_t header_bytes() const { return data_offset_; }   // everything before the tensor data, padding included
  uint64_t file_bytes() const { return file_bytes_; }

  Entry entry(uint64_t index) const;                     // index < n_entries()
  bool find(std::string_view key, Entry* entry) const;   // false: not there

  // Typed getters. Any integer width that holds the value serves (bad_model names the key, what was found and what is
  // allowed). The first form fails when the key is missing, the second yields `otherwise`.
  Result<uint64_t> get_unsigned(std::string_view key, uint64_t lowest, uint64_t highest) const;
  Result<uint64_t> get_unsigned(std::string_view key, uint64_t lowest, uint64_t highest, uint64_t otherwise) const;
  Result<double> get_real(std::string_view key) const;   // finite; f32, f64 or an integer
  Result<double> get_real(std::string_view key, double otherwise) const;
  Result<bool> get_bool(std::string_view key, bool otherwise) const;   // a bool, or an integer 0 or 1
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key, std::string_view otherwise) const;
  // A scalar counts for every index; a list must have `count` elements.
  Result<uint64_t> get_unsigned_at(std::string_view key, uint64_t index, uint64_t count, uint64_t lowest,
                                   uint64_t highest) const;
  Result<bool> get_bool_at(std::string_view key, uint64_t index, uint64_t count, bool otherwise) const;
  // An array with elements of `element_type`; bad_model when it is missing or of another type.
  Result<Entry> get_array(std::string_view key, Type element_type) const;

  // The tensors in file order; walking them all costs one pass over the tensor table.
  class TensorCursor {
   public:
    explicit TensorCursor(const File& file) : file_(&file), at_(file.tensor_table_), left_(file.n_tensors_) {}
    bool next(Tensor* tensor);   // false after the last one
   private:
    const File* file_;
    const uint8_t* at_;
    uint64_t left_;
  };
  TensorCursor tensors() const { return TensorCursor(*this); }

 private:
  Status read(std::span<const uint8_t> bytes, uint64_t file_bytes, Formats formats);
  Status read_counts(class HeaderReader& reader);
  Status read_entries(class HeaderReader& reader);
  Status sort_keys();
  Status read_conventions();
  Status read_tensors(class HeaderReader& reader, Formats formats);
  std::string_view key(uint64_t index) const;

  const uint8_t* begin_ = nullptr;
  const uint8_t* tensor_table_ = nullptr;
  uint32_t version_ = 0;
  uint64_t n_bytes_ = 0;   // of the caller's span
  uint64_t alignment_ = kDefaultAlignment, n_entries_ = 0, n_tensors_ = 0, data_offset_ = 0, file_bytes_ = 0;
  // Where the entries begin, and their numbers in the order of the keys: looking a key up walks over nothing.
  uint32_t entry_offset_[kMaxEntries];
  uint16_t by_key_[kMaxEntries];
};

}   // namespace mote::gguf
