// The loops over memory and of f32, for registers of MOTE_PROBE_BYTES bytes, which the including source defines before:
// one source for each instruction set. Internal linkage, and no function of any header.
#pragma once
#include "backends/cpu/probe/probe.h"

namespace mote {
namespace {

typedef uint32_t Wide __attribute__((vector_size(MOTE_PROBE_BYTES)));
typedef float WideFloats __attribute__((vector_size(MOTE_PROBE_BYTES)));
constexpr size_t kWide = sizeof(Wide);

inline void add_wide(Wide* sum, const uint8_t* from) {
  Wide value;
  __builtin_memcpy(&value, __builtin_assume_aligned(from, 64), kWide);
  *sum ^= value;
}

template <class Vector>
inline uint64_t folded(const Vector& vector) {
  uint64_t words[sizeof vector / 8], sum = 0;
  __builtin_memcpy(words, &vector, sizeof vector);
  for (const uint64_t word : words) sum ^= word;
  return sum;
}

// Of 32-bit lanes, and of f32 ones.
template <class Vector>
inline uint64_t sum_of_lanes(const Vector& vector) {
  uint32_t lanes[sizeof vector / 4], sum = 0;
  __builtin_memcpy(lanes, &vector, sizeof vector);
  for (const uint32_t lane : lanes) sum += lane;
  return sum;
}
template <class Vector>
inline uint64_t sum_of_floats(const Vector& vector) {
  float lanes[sizeof vector / 4], sum = 0;
  __builtin_memcpy(lanes, &vector, sizeof vector);
  for (const float lane : lanes) sum += lane;
  return static_cast<uint64_t>(sum);
}

// From the first byte to the last, `ahead` bytes of them asked for early; 0: left to the processor.
template <size_t ahead>
inline uint64_t read_forward(const uint8_t* block, size_t count) {
  Wide sum0 = {}, sum1 = {}, sum2 = {}, sum3 = {};
  for (const uint8_t* at = block; at != block + count; at += 4 * kWide) {
    if constexpr (ahead != 0)
      for (size_t line = 0; line < 4 * kWide; line += 64)   // into the cache behind the first
        __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(at) + ahead + line), 0, 2);
    add_wide(&sum0, at);
    add_wide(&sum1, at + kWide);
    add_wide(&sum2, at + 2 * kWide);
    add_wide(&sum3, at + 3 * kWide);
  }
  return folded(sum0 ^ sum1 ^ sum2 ^ sum3);
}

// Four quarters at the same time, a cache line of each in turn.
inline uint64_t read_quarters(const uint8_t* block, size_t count) {
  Wide sum0 = {}, sum1 = {}, sum2 = {}, sum3 = {};
  const size_t quarter = count / 4;
  for (const uint8_t* at = block; at != block + quarter; at += 64) {
    for (size_t i = 0; i < 64; i += kWide) {
      add_wide(&sum0, at + i);
      add_wide(&sum1, at + quarter + i);
      add_wide(&sum2, at + 2 * quarter + i);
      add_wide(&sum3, at + 3 * quarter + i);
    }
  }
  return folded(sum0 ^ sum1 ^ sum2 ^ sum3);
}

constexpr size_t kAhead = 4096;

#define MOTE_PROBE_READS(width)                                                  \
  {Limit::read, width ", in order", read_forward<0>, 0},                         \
      {Limit::read, width ", in order, fetched ahead", read_forward<kAhead>, 0}, \
      {Limit::read, width ", four places at once", read_quarters, 0}

}   // namespace
}   // namespace mote
