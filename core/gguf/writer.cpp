#include "core/gguf/writer.h"

#include "core/base/checked.h"
#include "core/gguf/header_reader.h"

namespace mote::gguf {
namespace {

// The writer has no memory for the size of every tensor, so it compares a digest of the ends that were announced with
// one of the ends that came (FNV-1a's step on whole words).
uint64_t digest(uint64_t so_far, uint64_t end) { return (so_far ^ end) * 0x100000001b3u + 1; }

constexpr bool is_signed(Type type) {
  return type == Type::int8 || type == Type::int16 || type == Type::int32 || type == Type::int64;
}
constexpr bool is_unsigned(Type type) {
  return type == Type::uint8 || type == Type::uint16 || type == Type::uint32 || type == Type::uint64;
}

}   // namespace

Writer::Writer(Sink sink, const Options& options) : sink_(sink), options_(options) {
  const bool default_alignment = options.alignment == File::kDefaultAlignment;
  if (options.version != 2 && options.version != 3) {
    fail(Status::error(Code::invalid_argument, "GGUF version {} cannot be written, 2 and 3 can", options.version));
  } else if (options.alignment < File::kMinAlignment || options.alignment > File::kMaxAlignment ||
             (options.alignment & (options.alignment - 1)) != 0) {
    fail(Status::error(Code::invalid_argument, "alignment {} cannot be written, a power of two from {} to {} can",
                       options.alignment, File::kMinAlignment, File::kMaxAlignment));
  } else if (options.n_entries + !default_alignment > File::kMaxEntries || options.n_tensors > File::kMaxTensors) {
    fail(Status::error(Code::invalid_argument,
                       "{} metadata entries and {} tensors are more than the reader's {} and {}", options.n_entries,
                       options.n_tensors, File::kMaxEntries, File::kMaxTensors));
  }
  if (!default_alignment) ++options_.n_entries;
  put("GGUF", 4);
  put_value(options_.version);
  put_value(options_.n_tensors);
  put_value(options_.n_entries);
  if (!default_alignment) add_unsigned("general.alignment", Type::uint32, options_.alignment);
}

bool Writer::fail(const Status& status) {
  if (status_.ok()) status_ = status;
  return false;
}

void Writer::put(const void* data, uint64_t bytes) {
  if (!status_.ok() || bytes == 0) return;
  if (sink_.write != nullptr && !sink_.write(sink_.user, data, static_cast<size_t>(bytes))) {
    fail(Status::error(Code::io, "writing failed at byte {}", written_));
    return;
  }
  written_ += bytes;
}

template <class T>
void Writer::put_value(T value) {
  uint8_t bytes[sizeof(T)];
  store_le(bytes, value);
  put(bytes, sizeof bytes);
}

void Writer::put_text(std::string_view text) {
  put_value(uint64_t{text.size()});
  put(text.data(), text.size());
}

void Writer::pad() {
  constexpr uint8_t kZeros[64] = {};
  uint64_t left = round_up(written_, options_.alignment) - written_;
  for (; left > 0 && status_.ok(); left -= left < 64 ? left : 64) put(kZeros, left < 64 ? left : 64);
}

bool Writer::begin_entry(std::string_view key) {
  if (!status_.ok()) return false;
  if (stage_ != Stage::metadata) {
    return fail(
        Status::error(Code::wrong_state, "{} comes too late: {}", key,
                      stage_ == Stage::strings ? "an array of strings is not finished" : "the tensors have begun"));
  }
  if (key.empty()) return fail(Status::error(Code::invalid_argument, "a metadata key is empty"));
  if (entries_ == options_.n_entries) {
    return fail(
        Status::error(Code::wrong_state, "{} is one more than the {} entries announced", key, options_.n_entries));
  }
  ++entries_;
  put_text(key);
  return true;
}

void Writer::add_unsigned(std::string_view key, Type type, uint64_t value) {
  const uint32_t bits = 8 * fixed_bytes(type) - (is_signed(type) ? 1 : 0);
  if ((!is_signed(type) && !is_unsigned(type)) || (bits < 64 && value >> bits != 0)) {
    fail(Status::error(Code::invalid_argument, "{} cannot be {} as {}", key, value, type_name(type)));
  }
  if (!begin_entry(key)) return;
  put_value(static_cast<uint32_t>(type));
  uint8_t bytes[8];
  store_le(bytes, value);
  put(bytes, fixed_bytes(type));
}

void Writer::add_signed(std::string_view key, Type type, int64_t value) {
  const uint32_t bits = 8 * fixed_bytes(type);
  if (!is_signed(type) || (bits < 64 && (value >= int64_t{1} << (bits - 1) || value < -(int64_t{1} << (bits - 1))))) {
    fail(Status::error(Code::invalid_argument, "{} cannot be {} as {}", key, value, type_name(type)));
  }
  if (!begin_entry(key)) return;
  put_value(static_cast<uint32_t>(type));
  uint8_t bytes[8];
  store_le(bytes, value);
  put(bytes, fixed_bytes(type));
}

void Writer::add_f32(std::string_view key, float value) {
  if (!begin_entry(key)) return;
  put_value(static_cast<uint32_t>(Type::float32));
  put_value(value);
}

void Writer::add_f64(std::string_view key, double value) {
  if (!begin_entry(key)) return;
  put_value(static_cast<uint32_t>(Type::float64));
  put_value(value);
}

void Writer::add_bool(std::string_view key, bool value) {
  if (!begin_entry(key)) return;
  put_value(static_cast<uint32_t>(Type::boolean));
  put_value(static_cast<uint8_t>(value));
}

void Writer::add_string(std::string_view key, std::string_view value) {
  if (!begin_entry(key)) return;
  put_value(static_cast<uint32_t>(Type::string));
  put_text(value);
}

void Writer::add_array(std::string_view key, Type element_type, const void* values, uint64_t count) {
  uint64_t bytes = 0;
  if (fixed_bytes(element_type) == 0 || !checked_multiply(count, fixed_bytes(element_type), &bytes)) {
    fail(Status::error(Code::invalid_argument, "{} cannot be an array of {} {}", key, count, type_name(element_type)));
  }
  if (!begin_entry(key)) return;
  put_value(static_cast<uint32_t>(Type::array));
  put_value(static_cast<uint32_t>(element_type));
  put_value(count);
  put(values, bytes);
}

void Writer::add_strings(std::string_view key, std::span<const std::string_view> values) {
  begin_strings(key, values.size());
  for (const std::string_view value : values) put_string(value);
}

void Writer::begin_strings(std::string_view key, uint64_t count) {
  if (!begin_entry(key)) return;
  put_value(static_cast<uint32_t>(Type::array));
  put_value(static_cast<uint32_t>(Type::string));
  put_value(count);
  strings_ = count;
  if (count > 0) stage_ = Stage::strings;
}

void Writer::put_string(std::string_view value) {
  if (!status_.ok()) return;
  if (stage_ != Stage::strings) {
    fail(Status::error(Code::wrong_state, "a string comes without an array that waits for it"));
    return;
  }
  put_text(value);
  if (--strings_ == 0) stage_ = Stage::metadata;
}

void Writer::add_entry(const Entry& entry) {
  if (entry.key == "general.alignment") {
    fail(Status::error(Code::invalid_argument, "general.alignment is written by the writer itself"));
  }
  if (!begin_entry(entry.key)) return;
  put_value(static_cast<uint32_t>(entry.type));
  if (entry.type == Type::array) {
    put_value(static_cast<uint32_t>(entry.element_type));
    put_value(entry.count);
  }
  put(entry.value, entry.value_bytes);
}

uint64_t Writer::add_tensor(std::string_view name, Format format, std::span<const uint64_t> dimensions) {
  if (!status_.ok()) return 0;
  if (stage_ == Stage::metadata && entries_ == options_.n_entries) stage_ = Stage::tensors;
  if (stage_ != Stage::tensors || tensors_ == options_.n_tensors) {
    fail(Status::error(Code::wrong_state,
                       "tensor {} comes out of turn: {} of {} entries and {} of {} tensors are written", name, entries_,
                       options_.n_entries, tensors_, options_.n_tensors));
    return 0;
  }
  const FormatInfo& info = format_info(format);
  uint64_t values = 1, bytes = 0;
  bool good = !name.empty() && !dimensions.empty() && dimensions.size() <= Tensor::kMaxDimensions &&
              dimensions[0] % info.block_values == 0;
  for (const uint64_t dimension : dimensions)
    good = good && dimension > 0 && checked_multiply(values, dimension, &values);
  good = good && checked_multiply(values / info.block_values, info.block_bytes, &bytes) && bytes < uint64_t{1} << 60 &&
         table_end_ < uint64_t{1} << 60;
  if (!good) {
    fail(Status::error(Code::invalid_argument, "tensor {} cannot be written: its name or dimensions do not fit {}",
                       name, info.name));
    return 0;
  }
  put_text(name);
  put_value(static_cast<uint32_t>(dimensions.size()));
  for (const uint64_t dimension : dimensions) put_value(dimension);
  put_value(info.number);
  put_value(table_end_);
  announced_ = digest(announced_, table_end_ + bytes);
  table_end_ = round_up(table_end_ + bytes, options_.alignment);
  ++tensors_;
  return bytes;
}

bool Writer::begin_data() {
  if (!status_.ok()) return false;
  if (stage_ == Stage::data) return true;
  if (stage_ == Stage::metadata && options_.n_tensors == 0) stage_ = Stage::tensors;
  if (stage_ != Stage::tensors || entries_ != options_.n_entries || tensors_ != options_.n_tensors) {
    return fail(Status::error(Code::wrong_state,
                              "data comes too early: {} of {} entries and {} of {} tensors are written", entries_,
                              options_.n_entries, tensors_, options_.n_tensors));
  }
  stage_ = Stage::data;
  if (tensors_ > 0) pad();
  data_offset_ = written_;
  return status_.ok();
}

void Writer::add_data(std::span<const uint8_t> bytes) {
  if (begin_data()) put(bytes.data(), bytes.size());
}

void Writer::end_tensor() {
  if (!begin_data()) return;
  ++ended_;
  delivered_ = digest(delivered_, written_ - data_offset_);
  pad();
}

Status Writer::finish() {
  if (!begin_data()) return status_;
  if (ended_ != tensors_ || delivered_ != announced_ || written_ != data_offset_ + table_end_) {
    fail(Status::error(Code::wrong_state, "{} tensors with {} bytes of data were announced, {} with {} bytes came",
                       tensors_, table_end_, ended_, written_ - data_offset_));
  }
  return status_;
}

}   // namespace mote::gguf
