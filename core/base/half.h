// f16 (IEEE binary16) and bf16 to f32 and back, in integers: the same bits on every machine, whatever the host
// process has set in its floating-point control register (rounding mode, flush to zero).
//
// To the narrow types: round to nearest, ties to even; what is too large becomes infinity. A NaN stays a NaN with its
// sign and its upper payload bits and is made quiet, as the conversion instructions of x86 (F16C) and Arm do, so that
// vector kernels may use them. Widening is exact; bf16 is the upper half of an f32, so widening it is a shift and
// leaves a signalling NaN as it is.
#pragma once
#include <bit>
#include <cstdint>

namespace mote {

constexpr float f16_to_f32(uint16_t half) {
  const uint32_t sign = (uint32_t{half} & 0x8000u) << 16;
  const uint32_t exponent = uint32_t{half} & 0x7c00u;
  const uint32_t mantissa = uint32_t{half} & 0x03ffu;
  if (exponent == 0) {   // zero or subnormal: mantissa x 2^-24, a normal f32
    return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f) | sign);
  }
  if (exponent == 0x7c00u) {
    const uint32_t quiet = mantissa == 0 ? 0 : 0x00400000u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | mantissa << 13);
  }
  return std::bit_cast<float>(sign | (((exponent | mantissa) << 13) + (112u << 23)));   // the biases are 127 and 15
}

constexpr uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | (magnitude >> 13 & 0x03ffu);
  } else if (magnitude >= 0x47800000u) {   // 2^16 and more
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {   // 2^-14: normal in f16; from 65520 up the carry makes infinity
    half = (magnitude - (112u << 23) + 0x0fffu + (magnitude >> 13 & 1)) >> 13;
  } else if (magnitude > 0x33000000u) {                // above 2^-25: at least half of the smallest subnormal
    const uint32_t shift = 126u - (magnitude >> 23);   // 14 .. 24
    const uint32_t mantissa = (magnitude & 0x007fffffu) | 0x00800000u;
    half = (mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1)) >> shift;
  }
  return static_cast<uint16_t>(sign | half);
}

constexpr float bf16_to_f32(uint16_t upper) { return std::bit_cast<float>(uint32_t{upper} << 16); }

constexpr uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

}   // namespace mote
