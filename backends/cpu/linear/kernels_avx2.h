// The table of the kernels in 256-bit registers as they were compiled in the including source: the formats that models
// come in. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/blocks_avx2.h"
#include "backends/cpu/linear/elements_avx2.h"
#include "backends/cpu/linear/super_blocks_avx2.h"
#include "mote_build.h"

namespace mote {
namespace {

// The kernel of a format; without a specialisation none.
template <Format format>
constexpr LinearKernel kKernel = {};
#if !MOTE_YMM_DOT   // nothing here multiplies bytes
template <>
constexpr LinearKernel kKernel<Format::f32> = kElementsKernel<ElementsF32>;
template <>
constexpr LinearKernel kKernel<Format::f16> = kElementsKernel<ElementsF16>;
template <>
constexpr LinearKernel kKernel<Format::bf16> = kElementsKernel<ElementsBf16>;
#endif
template <>
constexpr LinearKernel kKernel<Format::q4_0> = kBlocksKernel<Format::q4_0>;
template <>
constexpr LinearKernel kKernel<Format::q4_1> = kBlocksKernel<Format::q4_1>;
template <>
constexpr LinearKernel kKernel<Format::q5_0> = kBlocksKernel<Format::q5_0>;
template <>
constexpr LinearKernel kKernel<Format::q5_1> = kBlocksKernel<Format::q5_1>;
template <>
constexpr LinearKernel kKernel<Format::q8_0> = kBlocksKernel<Format::q8_0>;
template <>
constexpr LinearKernel kKernel<Format::iq4_nl> = kBlocksKernel<Format::iq4_nl>;
template <>
constexpr LinearKernel kKernel<Format::q4_k> = kSuperKernel<Format::q4_k>;
template <>
constexpr LinearKernel kKernel<Format::q6_k> = kSuperKernel<Format::q6_k>;

}   // namespace
}   // namespace mote
