// Input: a GGUF file. Opened, walked whole, written again by our own writer: the copy must open and hold the same.
#include <cstring>
#include <string>

#include "core/base/arena.h"
#include "core/base/bytes.h"
#include "core/gguf/file.h"
#include "core/gguf/tensor_index.h"
#include "core/gguf/writer.h"
#include "tests/fuzz/fuzz.h"

namespace mote::fuzz {
namespace {

using gguf::Entry;
using gguf::File;
using gguf::Tensor;
using gguf::Writer;

// Writes the entry through the call for its type, which must come to the same as copying it.
void write_entry(Writer& writer, const Entry& entry, const File& file) {
  using gguf::Type;
  const std::string_view key = entry.key;
  switch (entry.type) {
    case Type::uint8:
    case Type::uint16:
    case Type::uint32:
    case Type::uint64:
      if (const auto value = file.get_unsigned(key, 0, UINT64_MAX); value.ok())
        return writer.add_unsigned(key, entry.type, value.value());
      break;
    case Type::int8:
      return writer.add_signed(key, entry.type, static_cast<int8_t>(*entry.value));
    case Type::float32:
      return writer.add_f32(key, load_le<float>(entry.value));
    case Type::float64:
      return writer.add_f64(key, load_le<double>(entry.value));
    case Type::boolean:
      return writer.add_bool(key, *entry.value != 0);
    case Type::string:
      if (const auto value = file.get_string(key); value.ok()) return writer.add_string(key, value.value());
      break;
    case Type::array:
      if (entry.element_type == Type::string) {
        writer.begin_strings(key, entry.count);
        std::string_view text;
        for (gguf::StringCursor cursor(entry); cursor.next(&text);) writer.put_string(text);
        return;
      }
      if (entry.element_type != Type::array) return writer.add_array(key, entry.element_type, entry.value, entry.count);
      break;
    default:
      break;
  }
  writer.add_entry(entry);
}

// What a copy need not have, or has of its own.
bool is_about_the_file(std::string_view key) { return key == "general.alignment" || key.substr(0, 6) == "split."; }

// As one file, or the part of this number of two: the first half of the tensors, and all of the metadata, or the rest.
std::vector<uint8_t> rewritten(const File& file, gguf::PartNumber part) {
  std::vector<uint8_t> copy;
  const gguf::Sink sink = {&copy, [](void* user, const void* data, size_t bytes) {
                             auto* to = static_cast<std::vector<uint8_t>*>(user);
                             const auto* from = static_cast<const uint8_t*>(data);
                             to->insert(to->end(), from, from + bytes);
                             return true;
                           }};
  const bool is_split = part.count != 1;
  uint64_t n_entries = is_split ? 3 : 0;
  for (uint64_t i = 0; i < file.n_entries() && part.number == 0; ++i)
    n_entries += !is_about_the_file(file.entry(i).key);
  const uint64_t half = is_split ? file.n_tensors() / 2 : file.n_tensors();
  const uint64_t first = part.number == 0 ? 0 : half, end = part.number == 0 ? half : file.n_tensors();
  Writer writer(
      sink,
      {.n_entries = n_entries, .n_tensors = end - first, .alignment = file.alignment(), .version = file.version()});
  if (is_split) {
    writer.add_unsigned("split.no", gguf::Type::uint16, part.number);
    writer.add_unsigned("split.count", gguf::Type::uint16, part.count);
    writer.add_unsigned("split.tensors.count", gguf::Type::int32, file.n_tensors());
  }
  for (uint64_t i = 0; i < file.n_entries() && part.number == 0; ++i)
    if (!is_about_the_file(file.entry(i).key)) write_entry(writer, file.entry(i), file);
  Tensor tensor;
  uint64_t i = 0;
  for (File::TensorCursor cursor(file); cursor.next(&tensor); ++i)
    if (i >= first && i < end)
      writer.add_tensor(tensor.name, tensor.format, std::span(tensor.dimensions, tensor.n_dimensions));
  i = 0;
  for (File::TensorCursor cursor(file); cursor.next(&tensor); ++i) {
    if (i < first || i >= end) continue;
    writer.add_data({tensor.data, static_cast<size_t>(tensor.bytes)});
    writer.end_tensor();
  }
  const Status status = writer.finish();
  if (!status.ok()) wrong(std::string(status.message()).c_str());
  return copy;
}

bool same(const Entry& a, const Entry& b) {
  return a.key == b.key && a.type == b.type && a.element_type == b.element_type && a.count == b.count &&
         a.value_bytes == b.value_bytes && std::memcmp(a.value, b.value, static_cast<size_t>(a.value_bytes)) == 0;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.name == b.name && a.format == b.format && a.n_dimensions == b.n_dimensions && a.bytes == b.bytes &&
         std::memcmp(a.dimensions, b.dimensions, sizeof a.dimensions) == 0 &&
         std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes)) == 0;
}

void check_copy(const File& file, const File& copy) {
  if (copy.n_tensors() != file.n_tensors() || copy.alignment() != file.alignment()) wrong("the copy has other counts");
  Entry other;
  for (uint64_t i = 0; i < file.n_entries(); ++i)
    if (!is_about_the_file(file.entry(i).key) && (!copy.find(file.entry(i).key, &other) || !same(file.entry(i), other)))
      wrong("an entry of the copy differs");
  Tensor left, right;
  File::TensorCursor of_copy(copy);
  for (File::TensorCursor cursor(file); cursor.next(&left);)
    if (!of_copy.next(&right) || !same(left, right)) wrong("a tensor of the copy differs");
}

void ask_everything(const File& file) {
  for (uint64_t i = 0; i < file.n_entries(); ++i) {
    const Entry entry = file.entry(i);
    (void)file.get_unsigned(entry.key, 1, 1000);
    (void)file.get_unsigned(entry.key, 0, UINT64_MAX, 7);
    (void)file.get_unsigned_at(entry.key, 1, 2, 0, 1000);
    (void)file.get_real(entry.key);
    (void)file.get_real(entry.key, 0.5);
    (void)file.get_bool(entry.key, true);
    (void)file.get_string(entry.key);
    (void)file.get_string(entry.key, "");
    (void)file.get_array(entry.key, gguf::Type::float32);
    if (entry.type == gguf::Type::array && entry.element_type == gguf::Type::string) {
      std::string_view text;
      size_t bytes = 0;
      for (gguf::StringCursor cursor(entry); cursor.next(&text);) bytes += text.size();
      if (bytes > entry.value_bytes) wrong("strings longer than their array");
    }
  }
}

// The file as two parts, joined, holds the same; and no part is taken for another or for the whole.
void check_parts(const File& file) {
  if (file.n_entries() + 3 > File::kMaxEntries) return;
  const std::vector<uint8_t> first = rewritten(file, {0, 2}), second = rewritten(file, {1, 2});
  auto opened = File::open(first, first.size(), gguf::Formats::built_in, {0, 2});
  gguf::Part other;
  if (opened.ok()) {
    const auto part = File::read_part(second, second.size(), gguf::Formats::built_in, {1, 2});
    opened.set_status(part.status());
    other = part.value();
  }
  if (opened.ok()) opened.set_status(opened.value().join({&other, 1}));
  if (!opened.ok()) wrong(std::string(opened.status().message()).c_str());
  check_copy(file, opened.value());
  if (opened.value().file_bytes() != first.size() + second.size()) wrong("the parts have other bytes");
  const gguf::Part twice[] = {other, other};
  if (file.n_tensors() > 1 && opened.value().join(twice).ok()) wrong("more tensors than there should be");
  for (const gguf::PartNumber number : {gguf::PartNumber{0, 1}, gguf::PartNumber{0, 2}, gguf::PartNumber{1, 3}})
    if (File::read_part(second, second.size(), gguf::Formats::built_in, number).ok())
      wrong("a part is taken for another");
}

void run(Input input) {
  const ExactBytes bytes(input);
  const auto opened = File::open(bytes.span());
  if (!opened.ok()) return;
  const File& file = opened.value();
  ask_everything(file);
  Arena measuring;
  if (!gguf::TensorIndex::create(file, measuring).ok()) return;
  struct alignas(kArenaAlignment) Line {
    std::byte bytes[kArenaAlignment];
  };
  std::vector<Line> memory(static_cast<size_t>(measuring.used_bytes() / kArenaAlignment));
  Arena arena(memory.data(), measuring.used_bytes());
  const auto index = gguf::TensorIndex::create(file, arena);
  if (!index.ok()) return;
  Tensor tensor;
  for (File::TensorCursor cursor(file); cursor.next(&tensor);)
    if (index.value().find(tensor.name) == nullptr) wrong("a tensor is not found by its name");
  uint64_t kept = 0;   // entries that say something about the model, without which no file is one
  for (uint64_t i = 0; i < file.n_entries(); ++i) kept += is_about_the_file(file.entry(i).key) ? 0 : 1;
  if (kept == 0) return;
  const std::vector<uint8_t> copy = rewritten(file, {0, 1});
  const auto reopened = File::open(copy);
  if (!reopened.ok()) wrong(std::string(reopened.status().message()).c_str());
  check_copy(file, reopened.value());
  check_parts(file);
}

}   // namespace
}   // namespace mote::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const mote::fuzz::WorkBound bound(bytes, 250, 50000);   // it is written and read twice, whole and in parts
  mote::fuzz::run({data, bytes});
  return 0;
}
