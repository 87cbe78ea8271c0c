// Arithmetic on numbers that came from a file: wraps nothing, says when the result does not fit.
#pragma once
#include <cstdint>

namespace mote {

[[nodiscard]] inline bool checked_add(uint64_t a, uint64_t b, uint64_t* sum) {
  return !__builtin_add_overflow(a, b, sum);
}
[[nodiscard]] inline bool checked_multiply(uint64_t a, uint64_t b, uint64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

// Smallest multiple of `alignment` (a power of two) that is at least `value`. `value` must be below 2^63.
constexpr uint64_t round_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

}   // namespace mote
