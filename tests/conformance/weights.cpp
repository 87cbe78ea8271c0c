#include "tests/conformance/weights.h"

#include <cstring>

#include "core/format/blocks.h"

namespace mote::test {
namespace {

void put_f16(F16Bytes& to, double value) { store_le(to.bytes, f32_to_f16(static_cast<float>(value))); }

// Puts scales into a block of random bytes; `size` is about the largest weight.
template <Format format>
void set_scales(Block<format>& block, CaseRandom& random, double size) {
  const double some = random.uniform(0.5, 1.0) * size;
  if constexpr (format == Format::f32) {
    store_le(block.value, static_cast<float>(size * random.normal()));
  } else if constexpr (format == Format::f16) {
    put_f16(block.value, size * random.normal());
  } else if constexpr (format == Format::bf16) {
    store_le(block.value, f32_to_bf16(static_cast<float>(size * random.normal())));
  } else if constexpr (format == Format::mxfp4) {
    block.exponent = static_cast<uint8_t>(122 + random.below(4));
  } else if constexpr (format == Format::q4_1 || format == Format::q5_1) {
    put_f16(block.d, some / (format == Format::q4_1 ? 8 : 16));
    put_f16(block.m, -some * random.uniform(0.6, 1.2));
  } else if constexpr (format == Format::q2_k) {
    put_f16(block.d, some / 30);
    put_f16(block.dmin, some / 15);
  } else if constexpr (format == Format::q4_k || format == Format::q5_k) {
    put_f16(block.d, some / (format == Format::q4_k ? 500 : 1000));
    put_f16(block.dmin, some / 63);
  } else if constexpr (format == Format::q3_k) {
    put_f16(block.d, some / 64);
  } else if constexpr (format == Format::q6_k || format == Format::iq4_xs) {
    put_f16(block.d, (random.below(2) ? some : -some) / 3000);
  } else {
    constexpr double kLargestCode = format == Format::q4_0 ? 8 : format == Format::q5_0 ? 16 : 127;
    put_f16(block.d, (random.below(2) ? some : -some) / kLargestCode);
  }
}

template <Format format>
void fill(std::vector<uint8_t>& bytes, CaseRandom& random, double size) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(Block<format>)) {
    Block<format> block;
    std::memcpy(&block, &bytes[at], sizeof block);
    set_scales<format>(block, random, size);
    std::memcpy(&bytes[at], &block, sizeof block);
  }
}

}   // namespace

std::vector<uint8_t> random_matrix(Format format, uint32_t rows, uint32_t columns, CaseRandom& random, double size) {
  std::vector<uint8_t> bytes = random.bytes(row_bytes(format, columns) * rows);
  switch (format) {
#define MOTE_FORMAT(name, number, values, bytes_) \
  case Format::name:                              \
    fill<Format::name>(bytes, random, size);      \
    break;
#include "core/format/formats.inc"
#undef MOTE_FORMAT
  }
  return bytes;
}

std::vector<float> dequantized(Format format, uint32_t rows, uint32_t columns, const std::vector<uint8_t>& bytes) {
  std::vector<float> values(size_t{rows} * columns);
  for (size_t row = 0; row < rows; ++row)
    dequantize_row(format, bytes.data() + row * row_bytes(format, columns), columns, values.data() + row * columns);
  return values;
}

uint32_t activation_block(Format format) {
  const uint32_t block = format_info(format).block_values;
  return block == 1 ? 0 : block;
}

std::vector<Format> enabled_formats() {
  std::vector<Format> formats;
  for (size_t i = 0; i < format_table().size(); ++i)
    if (format_table()[i].enabled) formats.push_back(static_cast<Format>(i));
  return formats;
}

}   // namespace mote::test
