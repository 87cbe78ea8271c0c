// f16 to f32 and back in integers, as core/base/half.h does it: devices may flush subnormal halves or round them
// otherwise in their own conversions.

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

// The lower 16 bits of `bits`.
float half_value(uint bits) {
  uint sign = (bits & 0x8000u) << 16;
  uint magnitude = bits & 0x7fffu;
  uint small = floatBitsToUint(float(magnitude) * 5.9604644775390625e-8) | sign;   // 2^-24, exact
  uint usual = ((magnitude << 13) + (112u << 23)) | sign;
  uint special = (magnitude << 13) | 0x7f800000u | sign;
  return uintBitsToFloat(magnitude < 0x400u ? small : (magnitude >= 0x7c00u ? special : usual));
}

// To the nearest, ties to even. Not for a NaN.
uint half_bits(float x) {
  uint bits = floatBitsToUint(x);
  uint sign = bits >> 16 & 0x8000u;
  uint magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;
  if (magnitude >= 0x38800000u) return sign | ((magnitude - (112u << 23) + 0x0fffu + (magnitude >> 13 & 1u)) >> 13);
  if (magnitude <= 0x33000000u) return sign;
  uint shift = 126u - (magnitude >> 23);
  uint mantissa = (magnitude & 0x007fffffu) | 0x00800000u;
  return sign | ((mantissa + (1u << (shift - 1u)) - 1u + (mantissa >> shift & 1u)) >> shift);
}
