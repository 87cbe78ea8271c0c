// AVX-512 with the 8-bit dot product: the formats that models come in. The others keep the kernels before this row of
// kernels.inc.
#include "backends/cpu/linear/blocks_avx512.h"
#include "backends/cpu/linear/elements_avx512.h"
#include "backends/cpu/linear/super_block_rare_formats_avx512.h"
#include "backends/cpu/linear/super_blocks_avx512.h"
#include "mote_build.h"

namespace mote {
namespace {

// The kernel of a format; without a specialisation none.
template <Format format>
constexpr LinearKernel kKernel = {};
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
constexpr LinearKernel kKernel<Format::q4_k> = kSuperBlockKernel<SuperBlockQ4K>;
template <>
constexpr LinearKernel kKernel<Format::q5_k> = kSuperBlockKernel<SuperBlockQ5K>;
template <>
constexpr LinearKernel kKernel<Format::q6_k> = kSuperBlockKernel<SuperBlockQ6K>;
template <>
constexpr LinearKernel kKernel<Format::q2_k> = kSuperBlockKernel<SuperBlockQ2K>;
template <>
constexpr LinearKernel kKernel<Format::q3_k> = kSuperBlockKernel<SuperBlockQ3K>;
template <>
constexpr LinearKernel kKernel<Format::iq4_xs> = kSuperBlockKernel<SuperBlockIq4Xs>;
template <>
constexpr LinearKernel kKernel<Format::f32> = kElementsKernel<ElementsF32>;
template <>
constexpr LinearKernel kKernel<Format::f16> = kElementsKernel<ElementsF16>;
template <>
constexpr LinearKernel kKernel<Format::bf16> = kElementsKernel<ElementsBf16>;

}   // namespace

extern const LinearTable linear_avx512vnni;
const LinearTable linear_avx512vnni = {{
#define MOTE_FORMAT(name, number, values, bytes) MOTE_FORMAT_##name ? kKernel<Format::name> : LinearKernel{},
#include "core/format/formats.inc"
#undef MOTE_FORMAT
}};

}   // namespace mote
