// The LinearTable of linear_kernels.h as it was compiled in the including source, made from formats.inc.
#pragma once
#include "backends/cpu/linear/linear_kernels.h"
#include "mote_build.h"

namespace mote {
namespace {

// A kernel needs an address that stays: forms and tables of this file are constants of the including source.
template <uint32_t unit>
constexpr InputForm kCodesForm = {make_codes<unit>, codes_bytes<unit>, 1};

template <Format format, uint32_t unit, uint32_t bytes>
constexpr LinearKernel kernel_of() {
  static_assert(Unpack<format>::kUnit == unit && Unpack<format>::kBytes == bytes, "not the blocks of core/format");
  if constexpr (unit == 1)
    return {linear_elements<Unpack<format>>, nullptr, panel_scratch_bytes, kPanelRows};
  else
    return {linear_blocks<Unpack<format>>, &kCodesForm<unit>, panel_scratch_bytes, kPanelRows};
}

// A format that is not in the build has no kernel.
constexpr LinearTable kTable = {{
#define MOTE_FORMAT(name, number, values, bytes) \
  MOTE_FORMAT_##name ? kernel_of<Format::name, values, bytes>() : LinearKernel{},
#include "core/format/formats.inc"
#undef MOTE_FORMAT
}};

}   // namespace
}   // namespace mote
