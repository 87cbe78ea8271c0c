// Weight formats: how many values a block holds, how many bytes it takes, and what the values are.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/result.h"

namespace mote {

enum class Format : uint8_t {
#define MOTE_FORMAT(name, number, values, bytes) name,
#include "core/format/formats.inc"
#undef MOTE_FORMAT
};

struct FormatInfo {
  std::string_view name;   // "q4_0"
  uint32_t number;         // ggml's type number, as a GGUF file stores it
  uint32_t block_values;   // values per block: 1, 32 or 256
  uint32_t block_bytes;
  bool enabled;   // chosen at configure time (MOTE_FORMATS)
};

// All formats in the order of the enumeration.
std::span<const FormatInfo> format_table();
const FormatInfo& format_info(Format format);

// The row of this ggml type number, whether it is built in or not; nullptr: mote does not know its blocks.
const FormatInfo* find_format(uint32_t number);
// What ggml calls this type number, zero-terminated, also of types that mote does not read; "unknown" otherwise.
std::string_view format_name(uint32_t number);

// The format with this ggml type number; unsupported, with the number and ggml's name for it, otherwise.
// `tensor` names the tensor in the sentence.
Result<Format> format_from_number(uint32_t number, std::string_view tensor);

// Bytes of `values` values in a row; `values` is a multiple of the block's values.
uint64_t row_bytes(Format format, uint64_t values);

// to[values] = the exact f32 values of a row (bit for bit as ggml defines them). `from` has row_bytes(format,
// values) bytes at any address; `values` is a multiple of the block's values.
void dequantize_row(Format format, const uint8_t* from, uint64_t values, float* to);

}   // namespace mote
