// What a kernel may require of the processor, as bits, so that a row of a kernels.inc says it in one word.
#pragma once
#include <cstdint>

#include "platform/cpu_features.h"

namespace mote {

using IsaBits = uint32_t;
inline constexpr IsaBits kIsaBaseline = 0;   // what the whole library is compiled for: SSE2 on x86-64
inline constexpr IsaBits kIsaAvx2 = 1u << 0;
inline constexpr IsaBits kIsaFma = 1u << 1;
inline constexpr IsaBits kIsaF16c = 1u << 2;
// Files compiled with -mavx2 -mfma -mf16c.
inline constexpr IsaBits kIsaHaswell = kIsaAvx2 | kIsaFma | kIsaF16c;

inline IsaBits isa_bits(const CpuFeatures& features) {
  return (features.avx2 ? kIsaAvx2 : 0) | (features.fma ? kIsaFma : 0) | (features.f16c ? kIsaF16c : 0);
}

// The last variant whose requirement `available` meets: variants stand in order of preference, the scalar one first.
// Variant needs a member `required`; the first one requires nothing.
template <class Variant>
const Variant& choose_kernel(const Variant* variants, uint32_t count, IsaBits available) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < count; ++i)
    if ((variants[i].required & ~available) == 0) best = i;
  return variants[best];
}

}   // namespace mote
