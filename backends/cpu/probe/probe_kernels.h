// The loops for registers of MOTE_PROBE_BYTES bytes, which the including source defines before: one source for each
// instruction set. Internal linkage, and no function of any header.
#pragma once
#include "backends/cpu/probe/probe.h"

namespace mote {
namespace {

#define MOTE_INLINE inline __attribute__((always_inline))

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

// From here on the compiler does not know the value, or it would compute what comes of it once and for all, and sums of
// the same numbers only once.
template <class Vector>
MOTE_INLINE void forget(Vector& value) {
#if defined(__x86_64__)
  __asm__("" : "+v"(value));
#elif defined(__aarch64__)
  __asm__("" : "+w"(value));
#else
  __asm__("" : "+m"(value));
#endif
}

MOTE_INLINE Wide load_wide(const uint8_t* from) {
  Wide value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

// Chains of an instruction that adds products of int8 to lanes of 32 bits.
template <Wide add_products(Wide sum, Wide a, Wide b)>
uint64_t int8_chains(const uint8_t* block, size_t rounds) {
  const Wide a = load_wide(block), b = load_wide(block + kWide);
  Wide sum[12] = {};
  for (Wide& one : sum) forget(one);
  for (; rounds != 0; --rounds)
    for (Wide& one : sum) one = add_products(one, a, b);
  for (int i = 1; i < 12; ++i) sum[0] += sum[i];
  return sum_of_lanes(sum[0]);
}
template <WideFloats fused(WideFloats a, WideFloats b, WideFloats c)>
uint64_t f32_chains(const uint8_t*, size_t rounds) {
  WideFloats sum[12] = {}, one = sum[0] + 1.0f;
  forget(one);
  for (WideFloats& chain : sum) forget(chain);
  for (; rounds != 0; --rounds)
    for (WideFloats& chain : sum) chain = fused(chain, one, one);
  for (int i = 1; i < 12; ++i) sum[0] += sum[i];
  return sum_of_floats(sum[0]);
}

// Products of int8 added in 16 bits, by pairs(a, b), and these in 32 after eight: as much as codes of 4 bits allow, so
// no kernel does with fewer instructions.
template <Wide pairs(Wide a, Wide b), Wide widen(Wide words)>
uint64_t int8_pairs(const uint8_t* block, size_t rounds) {
  typedef uint16_t Words __attribute__((vector_size(MOTE_PROBE_BYTES)));
  const Wide a = load_wide(block), b = load_wide(block + kWide);
  Wide c[4], sum = {};
  for (size_t i = 0; i < 4; ++i) c[i] = load_wide(block + (2 + i) * kWide);
  for (; rounds != 0; --rounds) {
    Words x = {}, y = {};
    for (Wide& one : c) {
      forget(one);
      x += Words(pairs(a, one));
      y += Words(pairs(b, one));
    }
    sum += widen(Wide(x + y));
  }
  return sum_of_lanes(sum);
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
