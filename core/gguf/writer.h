// Writes GGUF through a caller's sink, in one pass and without memory of its own: first the metadata, then the table
// of tensors, then their data in the same order. Without a sink it only counts, so the size of a file is known before
// it is written.
//
//   Writer writer({.user = file, .write = write_to_file}, {.n_entries = 2, .n_tensors = 1});
//   writer.add_string("general.architecture", "llama");
//   writer.add_unsigned("llama.block_count", Type::uint32, 30);
//   writer.add_tensor("output.weight", Format::q8_0, {{576, 49152}});
//   writer.add_data(bytes);   // in as many calls as the caller likes
//   writer.end_tensor();
//   Status status = writer.finish();
//
// A call out of turn, a number that does not fit or a sink that fails makes `status` an error, and every later call
// does nothing: one check, at the end, is enough.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/gguf/file.h"

namespace mote::gguf {

struct Sink {
  void* user = nullptr;
  bool (*write)(void* user, const void* data, size_t bytes) = nullptr;   // false: failed; nullptr: nothing is written
};

class Writer {
 public:
  struct Options {
    uint64_t n_entries = 0;   // the caller's; general.alignment comes on top where it is not the default
    uint64_t n_tensors = 0;
    uint64_t alignment = File::kDefaultAlignment;
    uint32_t version = 3;   // 2 or 3; the bytes behind it are the same
  };
  Writer(Sink sink, const Options& options);

  // Metadata, exactly n_entries of them. Keys must differ; the reader checks that.
  void add_unsigned(std::string_view key, Type type, uint64_t value);   // any integer type that holds the value
  void add_signed(std::string_view key, Type type, int64_t value);      // any signed integer type that holds the value
  void add_f32(std::string_view key, float value);
  void add_f64(std::string_view key, double value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  // An array of a type of fixed size; `values` points at count little-endian elements.
  void add_array(std::string_view key, Type element_type, const void* values, uint64_t count);
  void add_strings(std::string_view key, std::span<const std::string_view> values);
  // An array of `count` strings that follow one by one.
  void begin_strings(std::string_view key, uint64_t count);
  void put_string(std::string_view value);
  // An entry of another file, whatever it holds. general.alignment is left to `Options`.
  void add_entry(const Entry& entry);

  // Tensors, exactly n_tensors of them. The first dimension (columns) is a multiple of the format's block. Returns the
  // tensor's bytes, which is how many `add_data` must bring for it.
  uint64_t add_tensor(std::string_view name, Format format, std::span<const uint64_t> dimensions);

  // The data of the tensors in the order of the table, each ended by end_tensor, which pads to the alignment.
  void add_data(std::span<const uint8_t> bytes);
  void end_tensor();

  Status finish();   // ok when everything announced was written
  const Status& status() const { return status_; }
  uint64_t written_bytes() const { return written_; }

 private:
  enum class Stage : uint8_t { metadata, strings, tensors, data };

  bool fail(const Status& status);
  bool begin_entry(std::string_view key);
  bool begin_data();
  void put(const void* data, uint64_t bytes);
  template <class T>
  void put_value(T value);
  void put_text(std::string_view text);
  void pad();

  Sink sink_;
  Options options_;
  Status status_;
  Stage stage_ = Stage::metadata;
  uint64_t written_ = 0, entries_ = 0, strings_ = 0, tensors_ = 0, ended_ = 0;
  uint64_t data_offset_ = 0, table_end_ = 0;   // start of the data in the file; its end as the table says it
  uint64_t announced_ = 0, delivered_ = 0;     // a running digest of the ends of the tensors, said and written
};

}   // namespace mote::gguf
