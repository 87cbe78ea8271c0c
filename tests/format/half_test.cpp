// f16 and bf16 against long double arithmetic written from the definition of the types.
#include "core/base/half.h"

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace {

using namespace mote;

// The value that `bits` stands for in a type with this many exponent and mantissa bits.
long double value_of(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const auto mantissa = static_cast<long double>(bits & ((1u << mantissa_bits) - 1));
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const long double scale = std::ldexp(1.0L, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
  const long double magnitude = (mantissa + (exponent == 0 ? 0.0L : std::ldexp(1.0L, mantissa_bits))) * scale;
  return (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -magnitude : magnitude;
}

TEST_CASE("every f16 widens to the value it stands for", "[base][half]") {
  int wrong = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float found = f16_to_f32(static_cast<uint16_t>(bits));
    const uint32_t sign = bits >> 15;
    if ((bits & 0x7c00) != 0x7c00) {
      wrong += static_cast<long double>(found) != value_of(bits, 5, 10) || std::signbit(found) != (sign != 0);
    } else if ((bits & 0x03ff) == 0) {
      wrong += !std::isinf(found) || std::signbit(found) != (sign != 0);
    } else {   // quiet, sign and payload kept
      wrong += std::bit_cast<uint32_t>(found) != (sign << 31 | 0x7fc00000u | (bits & 0x03ffu) << 13);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("every f16 and bf16 narrows back to itself", "[base][half]") {
  int wrong = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const bool f16_nan = (bits & 0x7fff) > 0x7c00, bf16_nan = (bits & 0x7fff) > 0x7f80;
    wrong += f32_to_f16(f16_to_f32(half)) != (f16_nan ? bits | 0x0200 : bits);
    wrong += f32_to_bf16(std::bit_cast<float>(bits << 16)) != (bf16_nan ? bits | 0x0040 : bits);
    wrong += std::bit_cast<uint32_t>(bf16_to_f32(half)) != bits << 16;
  }
  CHECK(wrong == 0);
}

// Walks the midpoints between neighbours and the floats next to them: everything rounding can get wrong.
int wrong_roundings(int exponent_bits, int mantissa_bits, uint16_t (*narrow)(float)) {
  const uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  int wrong = 0;
  for (uint32_t lower = 0; lower < infinity; ++lower) {
    const long double a = value_of(lower, exponent_bits, mantissa_bits);
    const long double b = value_of(lower + 1, exponent_bits, mantissa_bits);   // infinity: what would come next
    const auto middle = static_cast<float>(a + (b - a) / 2);
    const uint32_t even = (lower & 1) == 0 ? lower : lower + 1;
    const float below = std::nextafterf(middle, 0.0f), above = std::nextafterf(middle, INFINITY);
    for (const uint32_t sign : {0u, 0x8000u}) {
      const float factor = sign != 0 ? -1.0f : 1.0f;
      wrong += narrow(middle * factor) != (even | sign);
      wrong += narrow(below * factor) != (lower | sign);
      wrong += narrow(above * factor) != ((lower + 1) | sign);
    }
  }
  return wrong;
}

TEST_CASE("f16 and bf16 round to nearest with ties to even, up to infinity", "[base][half]") {
  CHECK(wrong_roundings(5, 10, f32_to_f16) == 0);
  CHECK(wrong_roundings(8, 7, f32_to_bf16) == 0);
}

TEST_CASE("values far outside the range of f16 become infinity or zero with their sign", "[base][half]") {
  CHECK(f32_to_f16(65519.996f) == 0x7bff);
  CHECK(f32_to_f16(65520.0f) == 0x7c00);
  CHECK(f32_to_f16(-3.4e38f) == 0xfc00);
  CHECK(f32_to_f16(-INFINITY) == 0xfc00);
  CHECK(f32_to_f16(0x1p-25f) == 0x0000);   // a tie between 0 and the smallest subnormal
  CHECK(f32_to_f16(0x1.000002p-25f) == 0x0001);
  CHECK(f32_to_f16(-1e-40f) == 0x8000);
  CHECK(f32_to_f16(std::bit_cast<float>(0x7f800001u)) == 0x7e00);
  CHECK(f32_to_f16(std::bit_cast<float>(0xffffffffu)) == 0xffff);
  CHECK(f32_to_bf16(std::bit_cast<float>(0xff800001u)) == 0xffc0);
}

}   // namespace
