// Instruction sets as bits, what kernels require of the processor and what an engine may be held to by name.
#pragma once
#include <cstdint>
#include <string_view>

#include "platform/cpu_features.h"

namespace mote {

using IsaBits = uint32_t;
inline constexpr IsaBits kIsaBaseline = 0;   // what the whole library is compiled for: SSE2 on x86-64, NEON on aarch64
inline constexpr IsaBits kIsaAvx2 = 1u << 0;
inline constexpr IsaBits kIsaFma = 1u << 1;
inline constexpr IsaBits kIsaF16c = 1u << 2;
inline constexpr IsaBits kIsaAvx512 = 1u << 3;   // F, BW, VL and DQ together
inline constexpr IsaBits kIsaAvx512Vnni = 1u << 4;
inline constexpr IsaBits kIsaAvxVnni = 1u << 5;
inline constexpr IsaBits kIsaDotprod = 1u << 6;
inline constexpr IsaBits kIsaI8mm = 1u << 7;
// Files compiled with -mavx2 -mfma -mf16c; with -mavxvnni besides, or with -mavx512{f,bw,vl,dq}; with -mavx512vnni
// besides.
inline constexpr IsaBits kIsaHaswell = kIsaAvx2 | kIsaFma | kIsaF16c;
inline constexpr IsaBits kIsaAlderLake = kIsaHaswell | kIsaAvxVnni;
inline constexpr IsaBits kIsaSkylakeX = kIsaHaswell | kIsaAvx512;
inline constexpr IsaBits kIsaIceLake = kIsaSkylakeX | kIsaAvx512Vnni;

IsaBits isa_bits(const CpuFeatures& features);

// The bits that a name of instruction_sets.inc allows, all for "auto"; false for another name.
bool find_instruction_set(std::string_view name, IsaBits* allowed);
// "auto, baseline, avx2, ...": every name, for a sentence.
extern const char* const kInstructionSetNames;

}   // namespace mote
