// The values of every format, one multiplication at a time in the order that ggml defines, so that the results are
// equal to the bit. Clarity first: this is the reference that faster code is compared with.
#include "core/format/blocks.h"
#include "core/format/format.h"
#include "mote_build.h"

namespace mote {
namespace {

[[maybe_unused]] void values_of(const Block<Format::f32>& block, float* to) { *to = load_le<float>(block.value); }
[[maybe_unused]] void values_of(const Block<Format::f16>& block, float* to) { *to = block.value.value(); }
[[maybe_unused]] void values_of(const Block<Format::bf16>& block, float* to) {
  *to = bf16_to_f32(load_le<uint16_t>(block.value));
}

[[maybe_unused]] void values_of(const Block<Format::q4_0>& block, float* to) {
  const float d = block.d.value();
  for (int i = 0; i < 16; ++i) {
    to[i] = d * static_cast<float>((block.codes[i] & 15) - 8);
    to[i + 16] = d * static_cast<float>((block.codes[i] >> 4) - 8);
  }
}

[[maybe_unused]] void values_of(const Block<Format::q4_1>& block, float* to) {
  const float d = block.d.value(), m = block.m.value();
  for (int i = 0; i < 16; ++i) {
    to[i] = d * static_cast<float>(block.codes[i] & 15) + m;
    to[i + 16] = d * static_cast<float>(block.codes[i] >> 4) + m;
  }
}

// Code 0 .. 31 of value `i` in a block of q5_0 or q5_1.
int five_bits(const uint8_t (&codes)[16], uint32_t high, int i) {
  const int low = i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
  return low | static_cast<int>(high >> i & 1) << 4;
}

[[maybe_unused]] void values_of(const Block<Format::q5_0>& block, float* to) {
  const float d = block.d.value();
  const auto high = load_le<uint32_t>(block.high);
  for (int i = 0; i < 32; ++i) to[i] = d * static_cast<float>(five_bits(block.codes, high, i) - 16);
}

[[maybe_unused]] void values_of(const Block<Format::q5_1>& block, float* to) {
  const float d = block.d.value(), m = block.m.value();
  const auto high = load_le<uint32_t>(block.high);
  for (int i = 0; i < 32; ++i) to[i] = d * static_cast<float>(five_bits(block.codes, high, i)) + m;
}

[[maybe_unused]] void values_of(const Block<Format::q8_0>& block, float* to) {
  const float d = block.d.value();
  for (int i = 0; i < 32; ++i) to[i] = d * static_cast<float>(block.codes[i]);
}

[[maybe_unused]] void values_of(const Block<Format::iq4_nl>& block, float* to) {
  const float d = block.d.value();
  for (int i = 0; i < 16; ++i) {
    to[i] = d * static_cast<float>(kIq4Values[block.codes[i] & 15]);
    to[i + 16] = d * static_cast<float>(kIq4Values[block.codes[i] >> 4]);
  }
}

[[maybe_unused]] void values_of(const Block<Format::mxfp4>& block, float* to) {
  const float d = mxfp4_scale(block.exponent);
  for (int i = 0; i < 16; ++i) {
    to[i] = d * static_cast<float>(kMxfp4Values[block.codes[i] & 15]);
    to[i + 16] = d * static_cast<float>(kMxfp4Values[block.codes[i] >> 4]);
  }
}

[[maybe_unused]] void values_of(const Block<Format::q2_k>& block, float* to) {
  const float d = block.d.value(), dmin = block.dmin.value();
  for (int i = 0; i < 256; ++i) {
    const int scales = block.scales[i / 16];
    const int code = block.codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    to[i] = d * static_cast<float>(scales & 15) * static_cast<float>(code) - dmin * static_cast<float>(scales >> 4);
  }
}

[[maybe_unused]] void values_of(const Block<Format::q3_k>& block, float* to) {
  const float d = block.d.value();
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(q3_k_scale(block.scales, static_cast<uint32_t>(i) / 16));
    const int low = block.codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    const int high = block.high[i % 32] >> (i / 32) & 1;
    to[i] = scale * static_cast<float>((low | high << 2) - 4);
  }
}

[[maybe_unused]] void values_of(const Block<Format::q4_k>& block, float* to) {
  const float d = block.d.value(), dmin = block.dmin.value();
  for (uint32_t sub = 0; sub < 8; ++sub) {
    const ScaleMin packed = k_scale_min(block.scales, sub);
    const float scale = d * static_cast<float>(packed.scale), min = dmin * static_cast<float>(packed.min);
    for (uint32_t i = 0; i < 32; ++i) {
      const int code = block.codes[sub / 2 * 32 + i] >> (sub % 2 * 4) & 15;
      to[sub * 32 + i] = scale * static_cast<float>(code) - min;
    }
  }
}

[[maybe_unused]] void values_of(const Block<Format::q5_k>& block, float* to) {
  const float d = block.d.value(), dmin = block.dmin.value();
  for (uint32_t sub = 0; sub < 8; ++sub) {
    const ScaleMin packed = k_scale_min(block.scales, sub);
    const float scale = d * static_cast<float>(packed.scale), min = dmin * static_cast<float>(packed.min);
    for (uint32_t i = 0; i < 32; ++i) {
      const int low = block.codes[sub / 2 * 32 + i] >> (sub % 2 * 4) & 15;
      const int high = block.high[i] >> sub & 1;
      to[sub * 32 + i] = scale * static_cast<float>(low | high << 4) - min;
    }
  }
}

[[maybe_unused]] void values_of(const Block<Format::q6_k>& block, float* to) {
  const float d = block.d.value();
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32;
    const int low = block.low[half * 64 + quarter % 2 * 32 + i % 32] >> (quarter / 2 * 4) & 15;
    const int high = block.high[half * 32 + i % 32] >> (quarter * 2) & 3;
    to[i] = d * static_cast<float>(block.scales[i / 16]) * static_cast<float>((low | high << 4) - 32);
  }
}

[[maybe_unused]] void values_of(const Block<Format::iq4_xs>& block, float* to) {
  const float d = block.d.value();
  for (uint32_t sub = 0; sub < 8; ++sub) {
    const float scale = d * static_cast<float>(iq4_xs_scale(block, sub));
    for (uint32_t i = 0; i < 32; ++i) {
      const int code = block.codes[sub * 16 + i % 16] >> (i / 16 * 4) & 15;
      to[sub * 32 + i] = scale * static_cast<float>(kIq4Values[code]);
    }
  }
}

template <Format format>
void values_of_row(const uint8_t* from, uint64_t values, uint32_t block_values, float* to) {
  for (uint64_t i = 0; i < values; i += block_values, from += sizeof(Block<format>)) {
    values_of(*reinterpret_cast<const Block<format>*>(from), to + i);
  }
}

}   // namespace

void dequantize_row(Format format, const uint8_t* from, uint64_t values, float* to) {
  switch (format) {
#define MOTE_FORMAT(name, number, block_values, block_bytes)                                            \
  case Format::name:                                                                                    \
    if constexpr (MOTE_FORMAT_##name != 0) values_of_row<Format::name>(from, values, block_values, to); \
    break;
#include "core/format/formats.inc"
#undef MOTE_FORMAT
  }
}

}   // namespace mote
