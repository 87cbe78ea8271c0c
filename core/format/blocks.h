// The blocks of each weight format as they lie in a GGUF file. Every member is bytes, so a block may be viewed at
// any address: `reinterpret_cast<const Block<Format::q4_0>*>(row)`.
//
// What the fields mean is written at each struct; `q` is a stored code, d and m are f16 unless said otherwise.
// The layouts are ggml's: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
#pragma once
#include <cstdint>

#include "core/base/bytes.h"
#include "core/base/half.h"
#include "core/format/format.h"

namespace mote {

struct F16Bytes {
  uint8_t bytes[2];
  uint16_t bits() const { return load_le<uint16_t>(bytes); }
  float value() const { return f16_to_f32(bits()); }
};

template <Format format>
struct Block;

template <>
struct Block<Format::f32> {
  uint8_t value[4];
};
template <>
struct Block<Format::f16> {
  F16Bytes value;
};
template <>
struct Block<Format::bf16> {
  uint8_t value[2];   // upper half of an f32
};

// Blocks of 32. Where two codes share a byte, the lower four bits are value i and the upper four value i + 16.

// d x (q - 8)
template <>
struct Block<Format::q4_0> {
  F16Bytes d;
  uint8_t codes[16];
};
// d x q + m
template <>
struct Block<Format::q4_1> {
  F16Bytes d, m;
  uint8_t codes[16];
};
// d x (q - 16); `high` is 32 bits, bit i the fifth bit of value i
template <>
struct Block<Format::q5_0> {
  F16Bytes d;
  uint8_t high[4];
  uint8_t codes[16];
};
// d x q + m
template <>
struct Block<Format::q5_1> {
  F16Bytes d, m;
  uint8_t high[4];
  uint8_t codes[16];
};
// d x q, q signed
template <>
struct Block<Format::q8_0> {
  F16Bytes d;
  int8_t codes[32];
};
// d x kIq4Values[q]
template <>
struct Block<Format::iq4_nl> {
  F16Bytes d;
  uint8_t codes[16];
};
// 2^(exponent - 128) x kMxfp4Values[q]; the table holds twice the E2M1 values, hence 128 and not the bias 127
template <>
struct Block<Format::mxfp4> {
  uint8_t exponent;
  uint8_t codes[16];
};

// Super-blocks of 256.

// Sub-blocks of 16: (d x scale) x q - (dmin x min); scales[s]: lower four bits the scale, upper four the min.
// Value 128h + 32k + i has the two bits 2k of codes[32h + i].
template <>
struct Block<Format::q2_k> {
  uint8_t scales[16];
  uint8_t codes[64];
  F16Bytes d, dmin;
};
// Sub-blocks of 16: (d x (scale - 32)) x (q - 4); two bits of q in `codes` as in q2_k, the third, of value
// 128h + 32k + i, is bit 4h + k of high[i]. The scales are 6 bits each, see `q3_k_scale`.
template <>
struct Block<Format::q3_k> {
  uint8_t high[32];
  uint8_t codes[64];
  uint8_t scales[12];
  F16Bytes d;
};
// Sub-blocks of 32: (d x scale) x q - (dmin x min); scales and mins are 6 bits each, see `k_scale_min`.
// Sub-blocks 2j and 2j + 1 are the lower and upper four bits of codes[32j .. 32j + 31].
template <>
struct Block<Format::q4_k> {
  F16Bytes d, dmin;
  uint8_t scales[12];
  uint8_t codes[128];
};
// As q4_k; the fifth bit of value i of sub-block s is bit s of high[i].
template <>
struct Block<Format::q5_k> {
  F16Bytes d, dmin;
  uint8_t scales[12];
  uint8_t high[32];
  uint8_t codes[128];
};
// Sub-blocks of 16: (d x scale) x (q - 32). Value 128h + 32k + i: its lower four bits are the lower (k < 2) or upper
// half of low[64h + 32(k % 2) + i], its upper two are bits 2k of high[32h + i].
template <>
struct Block<Format::q6_k> {
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  F16Bytes d;
};
// Sub-blocks of 32, codes as in a block of iq4_nl: (d x (scale - 32)) x kIq4Values[q]; the scale of sub-block s has
// its lower four bits in nibble s of scales_low and its upper two at bits 2s of scales_high.
template <>
struct Block<Format::iq4_xs> {
  F16Bytes d;
  uint8_t scales_high[2];
  uint8_t scales_low[4];
  uint8_t codes[128];
};

#define MOTE_FORMAT(name, number, values, bytes)                                              \
  static_assert(sizeof(Block<Format::name>) == (bytes) && alignof(Block<Format::name>) == 1); \
  static_assert((values) == 1 || (values) == 32 || (values) == 256);
#include "core/format/formats.inc"
#undef MOTE_FORMAT

inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
inline constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// The scale of an mxfp4 block for any exponent byte; 0 and 1 give subnormals.
constexpr float mxfp4_scale(uint8_t exponent) {
  const uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (uint32_t{exponent} - 1) << 23;
  return std::bit_cast<float>(bits);
}

struct ScaleMin {
  uint8_t scale, min;   // 0 .. 63
};
// Sub-block 0 .. 7 of q4_k and q5_k: twelve bytes hold eight scales and eight mins of six bits. The first four have
// bytes to themselves (scales 0 .. 3, mins 4 .. 7); the upper two bits of those bytes complete the last four, whose
// lower four bits share bytes 8 .. 11.
constexpr ScaleMin k_scale_min(const uint8_t (&scales)[12], uint32_t sub_block) {
  if (sub_block < 4) {
    return {static_cast<uint8_t>(scales[sub_block] & 63), static_cast<uint8_t>(scales[sub_block + 4] & 63)};
  }
  return {static_cast<uint8_t>((scales[sub_block + 4] & 15) | (scales[sub_block - 4] >> 6) << 4),
          static_cast<uint8_t>(scales[sub_block + 4] >> 4 | (scales[sub_block] >> 6) << 4)};
}
// Sub-block 0 .. 15 of q3_k: the scale less its offset, -32 .. 31. Bytes 0 .. 7 hold the lower four bits of scales
// 0 .. 7 and 8 .. 15; bytes 8 .. 11 the upper two of scales j, j + 4, j + 8, j + 12.
constexpr int32_t q3_k_scale(const uint8_t (&scales)[12], uint32_t sub_block) {
  const int32_t low = sub_block < 8 ? scales[sub_block] & 15 : scales[sub_block - 8] >> 4;
  const int32_t high = scales[8 + sub_block % 4] >> (2 * (sub_block / 4)) & 3;
  return (low | high << 4) - 32;
}
// Sub-block 0 .. 7 of iq4_xs: the scale less its offset, -32 .. 31.
inline int32_t iq4_xs_scale(const Block<Format::iq4_xs>& block, uint32_t sub_block) {
  const int32_t low = block.scales_low[sub_block / 2] >> (4 * (sub_block % 2)) & 15;
  const int32_t high = load_le<uint16_t>(block.scales_high) >> (2 * sub_block) & 3;
  return (low | high << 4) - 32;
}

}   // namespace mote
