#include "tests/support/toy_weights.h"

#include <bit>
#include <cmath>
#include <stdexcept>

#include "core/format/blocks.h"

namespace mote::test {

uint64_t Random::bits() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

float Random::uniform(float lowest, float highest) {
  return lowest + static_cast<float>(bits() >> 40) * 0x1p-24f * (highest - lowest);
}

float Random::normal() {
  float sum = -6.0f;
  for (int i = 0; i < 12; ++i) sum += static_cast<float>(bits() >> 40) * 0x1p-24f;
  return sum;
}

namespace {

template <class T>
void fill(T& bytes, Random& random) {
  for (auto& byte : bytes) byte = static_cast<std::remove_reference_t<decltype(byte)>>(random.bits());
}

void set_half(F16Bytes& to, float value) { store_le(to.bytes, f32_to_f16(value)); }

// The inverse of k_scale_min, with the min of each sub-block equal to its scale.
void pack_scales(uint8_t (&to)[12], Random& random) {
  for (uint8_t& byte : to) byte = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t scale = random.below(64), min = scale;
    if (i < 4) {
      to[i] = static_cast<uint8_t>(to[i] | scale);
      to[i + 4] = static_cast<uint8_t>(to[i + 4] | min);
    } else {
      to[i + 4] = static_cast<uint8_t>((scale & 15) | (min & 15) << 4);
      to[i - 4] = static_cast<uint8_t>(to[i - 4] | scale >> 4 << 6);
      to[i] = static_cast<uint8_t>(to[i] | min >> 4 << 6);
    }
  }
}

// One block of random codes. The divisors are the root mean square of what d is multiplied with.
void make(Block<Format::f32>& block, float s, Random& random) { store_le(block.value, s * random.normal()); }
void make(Block<Format::f16>& block, float s, Random& random) { set_half(block.value, s * random.normal()); }
void make(Block<Format::bf16>& block, float s, Random& random) {
  store_le(block.value, f32_to_bf16(s * random.normal()));
}
void make(Block<Format::q4_0>& block, float s, Random& random) {
  fill(block.codes, random);
  set_half(block.d, s / 4.6f);
}
void make(Block<Format::q4_1>& block, float s, Random& random) {
  fill(block.codes, random);
  set_half(block.d, s / 4.6f);
  set_half(block.m, -7.5f * s / 4.6f);
}
void make(Block<Format::q5_0>& block, float s, Random& random) {
  fill(block.codes, random);
  fill(block.high, random);
  set_half(block.d, s / 9.2f);
}
void make(Block<Format::q5_1>& block, float s, Random& random) {
  fill(block.codes, random);
  fill(block.high, random);
  set_half(block.d, s / 9.2f);
  set_half(block.m, -15.5f * s / 9.2f);
}
void make(Block<Format::q8_0>& block, float s, Random& random) {
  fill(block.codes, random);
  set_half(block.d, s / 74.0f);
}
void make(Block<Format::q2_k>& block, float s, Random& random) {
  fill(block.codes, random);
  for (uint8_t& scale : block.scales) scale = static_cast<uint8_t>(random.below(16) * 0x11);
  set_half(block.d, s / (1.1f * 8.8f));
  set_half(block.dmin, 1.5f * s / (1.1f * 8.8f));
}
void make(Block<Format::q3_k>& block, float s, Random& random) {
  fill(block.codes, random);
  fill(block.high, random);
  fill(block.scales, random);
  set_half(block.d, s / (2.3f * 18.5f));
}
void make(Block<Format::q4_k>& block, float s, Random& random) {
  fill(block.codes, random);
  pack_scales(block.scales, random);
  set_half(block.d, s / (4.6f * 36.5f));
  set_half(block.dmin, 7.5f * s / (4.6f * 36.5f));
}
void make(Block<Format::q5_k>& block, float s, Random& random) {
  fill(block.codes, random);
  fill(block.high, random);
  pack_scales(block.scales, random);
  set_half(block.d, s / (9.2f * 36.5f));
  set_half(block.dmin, 15.5f * s / (9.2f * 36.5f));
}
void make(Block<Format::q6_k>& block, float s, Random& random) {
  fill(block.low, random);
  fill(block.high, random);
  fill(block.scales, random);
  set_half(block.d, s / (18.5f * 74.0f));
}
void make(Block<Format::iq4_nl>& block, float s, Random& random) {
  fill(block.codes, random);
  set_half(block.d, s / 69.0f);
}
void make(Block<Format::iq4_xs>& block, float s, Random& random) {
  fill(block.codes, random);
  fill(block.scales_high, random);
  fill(block.scales_low, random);
  set_half(block.d, s / (69.0f * 18.5f));
}
void make(Block<Format::mxfp4>& block, float s, Random& random) {
  fill(block.codes, random);
  block.exponent = static_cast<uint8_t>(128 + static_cast<int>(std::lround(std::log2(s / 5.6f))));
}

template <Format format>
std::vector<uint8_t> make_all(uint64_t blocks, float deviation, Random& random) {
  std::vector<uint8_t> bytes(blocks * sizeof(Block<format>));
  for (uint64_t i = 0; i < blocks; ++i) {
    // Blocks differ in size by up to a factor of two, as real ones do.
    make(reinterpret_cast<Block<format>*>(bytes.data())[i], deviation * random.uniform(0.7f, 1.4f), random);
  }
  return bytes;
}

}   // namespace

std::vector<uint8_t> random_weights(Format format, uint64_t rows, uint64_t columns, float deviation, Random& random) {
  const FormatInfo& info = format_info(format);
  if (columns % info.block_values != 0)
    throw std::invalid_argument("toy weights: the block does not divide the columns");
  const uint64_t blocks = rows * columns / info.block_values;
  switch (format) {
#define MOTE_FORMAT(name, number, values, bytes) \
  case Format::name:                             \
    return make_all<Format::name>(blocks, deviation, random);
#include "core/format/formats.inc"
#undef MOTE_FORMAT
  }
  throw std::invalid_argument("toy weights: no such format");
}

std::vector<uint8_t> float_weights(Format format, const std::vector<float>& values) {
  const size_t width = format_info(format).block_bytes;
  std::vector<uint8_t> bytes(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) {
    if (format == Format::f32) {
      store_le(bytes.data() + i * width, values[i]);
    } else if (format == Format::f16) {
      store_le(bytes.data() + i * width, f32_to_f16(values[i]));
    } else if (format == Format::bf16) {
      store_le(bytes.data() + i * width, f32_to_bf16(values[i]));
    } else {
      throw std::invalid_argument("float_weights: f32, f16 or bf16");
    }
  }
  return bytes;
}

}   // namespace mote::test
