// Defines a LinearTable from linear_rows.h as it was compiled in the including source.
#pragma once
#include "backends/cpu/linear/linear_rows.h"
#include "mote_build.h"

namespace mote {
namespace {

// The structs in the order of Format, with the sizes of core/format.
constexpr uint32_t kUnpackedBytes[] = {
    F32::kBytes, F16::kBytes, Q4_0::kBytes, Q4_1::kBytes, Q5_0::kBytes,  Q5_1::kBytes,  Q8_0::kBytes, Q2K::kBytes,
    Q3K::kBytes, Q4K::kBytes, Q5K::kBytes,  Q6K::kBytes,  Iq4Nl::kBytes, Iq4Xs::kBytes, Bf16::kBytes, Mxfp4::kBytes};
static_assert(sizeof kUnpackedBytes / sizeof kUnpackedBytes[0] == kFormatCount, "a format has no kernel here");
#define MOTE_FORMAT(name, number, values, bytes) \
  static_assert(kUnpackedBytes[static_cast<uint32_t>(Format::name)] == (bytes));
#include "core/format/formats.inc"
#undef MOTE_FORMAT

}   // namespace
}   // namespace mote

// A format that is not in the build has no kernel.
#define MOTE_CPU_LINEAR_TABLE                               \
  {{                                                        \
       MOTE_FORMAT_F32 ? linear_elements<F32> : nullptr,    \
       MOTE_FORMAT_F16 ? linear_elements<F16> : nullptr,    \
       MOTE_FORMAT_Q4_0 ? linear_blocks<Q4_0> : nullptr,    \
       MOTE_FORMAT_Q4_1 ? linear_blocks<Q4_1> : nullptr,    \
       MOTE_FORMAT_Q5_0 ? linear_blocks<Q5_0> : nullptr,    \
       MOTE_FORMAT_Q5_1 ? linear_blocks<Q5_1> : nullptr,    \
       MOTE_FORMAT_Q8_0 ? linear_blocks<Q8_0> : nullptr,    \
       MOTE_FORMAT_Q2_K ? linear_blocks<Q2K> : nullptr,     \
       MOTE_FORMAT_Q3_K ? linear_blocks<Q3K> : nullptr,     \
       MOTE_FORMAT_Q4_K ? linear_blocks<Q4K> : nullptr,     \
       MOTE_FORMAT_Q5_K ? linear_blocks<Q5K> : nullptr,     \
       MOTE_FORMAT_Q6_K ? linear_blocks<Q6K> : nullptr,     \
       MOTE_FORMAT_IQ4_NL ? linear_blocks<Iq4Nl> : nullptr, \
       MOTE_FORMAT_IQ4_XS ? linear_blocks<Iq4Xs> : nullptr, \
       MOTE_FORMAT_BF16 ? linear_elements<Bf16> : nullptr,  \
       MOTE_FORMAT_MXFP4 ? linear_blocks<Mxfp4> : nullptr,  \
   },                                                       \
   quantize_rows}
