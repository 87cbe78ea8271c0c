// Builds GGUF bytes in memory for tests, sense and nonsense alike: every count, length, type and offset can be set to
// something else than the truth. Independent of core/gguf/writer.h, so that the two check each other.
//
//   GgufBuilder model = toy_llama({.n_layers = 2});
//   model.set("llama.block_count", Type::uint32, uint32_t{7});
//   model.tensor("output.weight").offset = 12345;
//   std::vector<uint8_t> bytes = model.bytes();
#pragma once
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/gguf/file.h"

namespace mote::test {

using gguf::Type;
using Bytes = std::vector<uint8_t>;

template <class T>
void append(Bytes& to, const T& value) {
  const auto* from = reinterpret_cast<const uint8_t*>(&value);
  to.insert(to.end(), from, from + sizeof value);
}
void append_text(Bytes& to, std::string_view text);   // its u64 length, then its bytes

class GgufBuilder {
 public:
  struct Metadata {
    std::string key;
    uint32_t type = 0;
    Bytes value;   // as in the file; of an array with its element type and count
  };
  struct TensorPart {
    std::string name;
    std::vector<uint64_t> dimensions;
    uint32_t type = 0;
    Bytes data;
    std::optional<uint64_t> offset;         // in the tensor data; else behind the tensor before, aligned
    std::optional<uint32_t> n_dimensions;   // what is claimed; dimensions are written as they are
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> n_tensors, n_entries;   // what is claimed
  uint64_t alignment = 32;                        // what is laid out; no key is written for it
  uint8_t gap = 0;                                // the byte between tensors
  std::vector<Metadata> entries;
  std::vector<TensorPart> parts;

  // Replaces the entry of this key or adds one behind the others.
  void set_raw(std::string_view key, uint32_t type, Bytes value);
  template <class T>
  void set(std::string_view key, Type type, T value) {   // T is the type that `type` stands for
    Bytes bytes;
    append(bytes, value);
    set_raw(key, static_cast<uint32_t>(type), bytes);
  }
  void set_u32(std::string_view key, uint32_t value) { set(key, Type::uint32, value); }
  void set_f32(std::string_view key, float value) { set(key, Type::float32, value); }
  void set_bool(std::string_view key, bool value) { set(key, Type::boolean, static_cast<uint8_t>(value)); }
  void set_string(std::string_view key, std::string_view value);
  void set_strings(std::string_view key, const std::vector<std::string>& values);
  template <class T>
  void set_array(std::string_view key, Type element_type, const std::vector<T>& values) {
    Bytes bytes = array_head(static_cast<uint32_t>(element_type), values.size());
    for (const T& value : values) append(bytes, value);
    set_raw(key, static_cast<uint32_t>(Type::array), bytes);
  }
  void set_alignment(uint64_t value);   // laid out and written as general.alignment
  void remove(std::string_view key);
  void remove_tensor(std::string_view name);

  void add_tensor(std::string_view name, Format format, std::vector<uint64_t> dimensions, Bytes data);
  TensorPart& tensor(std::string_view name);   // throws when it is not there

  Bytes header() const;   // up to the end of the tensor table
  Bytes bytes() const;    // the whole file

  static Bytes array_head(uint32_t element_type, uint64_t count);

  // The same model in so many files, as gguf-split writes them: the metadata in the first, the tensors in their order.
  // `tensors_in_first` false: the first one has the metadata alone.
  std::vector<GgufBuilder> split(size_t n_parts, bool tensors_in_first = true) const;

 private:
  std::vector<uint64_t> offsets() const;
};

}   // namespace mote::test
