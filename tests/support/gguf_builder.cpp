#include "tests/support/gguf_builder.h"

#include <algorithm>
#include <stdexcept>

namespace mote::test {

void append_text(Bytes& to, std::string_view text) {
  append(to, static_cast<uint64_t>(text.size()));
  to.insert(to.end(), text.begin(), text.end());
}

Bytes GgufBuilder::array_head(uint32_t element_type, uint64_t count) {
  Bytes bytes;
  append(bytes, element_type);
  append(bytes, count);
  return bytes;
}

void GgufBuilder::set_raw(std::string_view key, uint32_t type, Bytes value) {
  for (Metadata& entry : entries) {
    if (entry.key != key) continue;
    entry.type = type;
    entry.value = std::move(value);
    return;
  }
  entries.push_back({std::string(key), type, std::move(value)});
}

void GgufBuilder::set_string(std::string_view key, std::string_view value) {
  Bytes bytes;
  append_text(bytes, value);
  set_raw(key, static_cast<uint32_t>(Type::string), bytes);
}

void GgufBuilder::set_strings(std::string_view key, const std::vector<std::string>& values) {
  Bytes bytes = array_head(static_cast<uint32_t>(Type::string), values.size());
  for (const std::string& value : values) append_text(bytes, value);
  set_raw(key, static_cast<uint32_t>(Type::array), bytes);
}

void GgufBuilder::set_alignment(uint64_t value) {
  alignment = value;
  set_u32("general.alignment", static_cast<uint32_t>(value));
}

void GgufBuilder::remove(std::string_view key) {
  std::erase_if(entries, [key](const Metadata& entry) { return entry.key == key; });
}

void GgufBuilder::remove_tensor(std::string_view name) {
  std::erase_if(parts, [name](const TensorPart& part) { return part.name == name; });
}

void GgufBuilder::add_tensor(std::string_view name, Format format, std::vector<uint64_t> dimensions, Bytes data) {
  parts.push_back({std::string(name), std::move(dimensions), format_info(format).number, std::move(data), {}, {}});
}

GgufBuilder::TensorPart& GgufBuilder::tensor(std::string_view name) {
  const auto at =
      std::find_if(parts.begin(), parts.end(), [name](const TensorPart& part) { return part.name == name; });
  if (at == parts.end()) throw std::runtime_error("the builder has no tensor " + std::string(name));
  return *at;
}

// Where the tensors really lie in the data; a part's own `offset` only changes what the table says.
std::vector<uint64_t> GgufBuilder::offsets() const {
  std::vector<uint64_t> list;
  uint64_t end = 0;
  for (const TensorPart& part : parts) {
    list.push_back((end + alignment - 1) / alignment * alignment);
    end = list.back() + part.data.size();
  }
  return list;
}

std::vector<GgufBuilder> GgufBuilder::split(size_t n_parts, bool tensors_in_first) const {
  std::vector<GgufBuilder> files(n_parts);
  files[0].entries = entries;
  const size_t first = tensors_in_first ? 0 : 1;
  for (size_t i = 0; i < n_parts; ++i) {
    files[i].alignment = alignment;
    if (const auto at = std::find_if(entries.begin(), entries.end(),
                                     [](const Metadata& e) { return e.key == "general.alignment"; });
        i > 0 && at != entries.end())
      files[i].entries.push_back(*at);
    files[i].set("split.no", Type::uint16, static_cast<uint16_t>(i));
    files[i].set("split.count", Type::uint16, static_cast<uint16_t>(n_parts));
    files[i].set("split.tensors.count", Type::int32, static_cast<int32_t>(parts.size()));
  }
  for (size_t i = 0; i < parts.size(); ++i)
    files[first + i * (n_parts - first) / parts.size()].parts.push_back(parts[i]);
  return files;
}

Bytes GgufBuilder::header() const {
  Bytes bytes(magic.begin(), magic.end());
  append(bytes, version);
  append(bytes, n_tensors.value_or(parts.size()));
  append(bytes, n_entries.value_or(entries.size()));
  for (const Metadata& entry : entries) {
    append_text(bytes, entry.key);
    append(bytes, entry.type);
    bytes.insert(bytes.end(), entry.value.begin(), entry.value.end());
  }
  const std::vector<uint64_t> laid_out = offsets();
  for (size_t i = 0; i < parts.size(); ++i) {
    append_text(bytes, parts[i].name);
    append(bytes, parts[i].n_dimensions.value_or(static_cast<uint32_t>(parts[i].dimensions.size())));
    for (const uint64_t dimension : parts[i].dimensions) append(bytes, dimension);
    append(bytes, parts[i].type);
    append(bytes, parts[i].offset.value_or(laid_out[i]));
  }
  return bytes;
}

Bytes GgufBuilder::bytes() const {
  Bytes bytes = header();
  if (parts.empty()) return bytes;
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, gap);
  const size_t data_offset = bytes.size();
  const std::vector<uint64_t> laid_out = offsets();
  for (size_t i = 0; i < parts.size(); ++i) {
    bytes.resize(data_offset + laid_out[i], gap);
    bytes.insert(bytes.end(), parts[i].data.begin(), parts[i].data.end());
  }
  return bytes;
}

}   // namespace mote::test
