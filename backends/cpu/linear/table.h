// The LinearTable of linear_kernels.h as it was compiled in the including source, made from formats.inc.
#pragma once
#include "backends/cpu/linear/linear_kernels.h"
#include "mote_build.h"

namespace mote {
namespace {

template <Format format, uint32_t unit, uint32_t bytes>
constexpr LinearKernel kernel_of() {
  static_assert(Unpack<format>::kUnit == unit && Unpack<format>::kBytes == bytes, "not the blocks of core/format");
  if constexpr (unit == 1)
    return linear_elements<Unpack<format>>;
  else
    return linear_blocks<Unpack<format>>;
}

// A format that is not in the build has no kernel.
constexpr LinearTable kTable = {{
#define MOTE_FORMAT(name, number, values, bytes) \
  MOTE_FORMAT_##name ? kernel_of<Format::name, values, bytes>() : nullptr,
#include "core/format/formats.inc"
#undef MOTE_FORMAT
                                },
                                quantize_rows};

}   // namespace
}   // namespace mote
