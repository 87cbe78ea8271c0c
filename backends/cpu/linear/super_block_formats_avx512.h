// Super-blocks of 256 weights into unsigned bytes and sub-block scales, 16 pieces of 16 codes at a time: a struct per
// format, the same shape for all, for the kernels of super_blocks_avx512.h. Internal linkage: see kernel_base.h.
//
// Every format:
//   Input            the form of x that it multiplies with (`SuperBlockInput`)
//   kBytes           of a super-block
//   unpack_step(at, codes, scales)   four super-blocks at addresses at(0..3) for the few-row kernel: codes[4 g + w] is
//                    word w of group g, scales[g] the sub-block scale of each lane, as `Input::source` places them
//   kOddShift        by how many bits the codes of groups 1 and 3 come shifted to the left
//   load_mins(at, mins)   kMinVectors vectors of int16 [4 super-blocks][sub-blocks]; only with mins
//   load_scales(at)  d of the four, then dmin of the four
//   unpack_rows(at, to)   one super-block of each of 16 rows at addresses at(0..15), into a strip (`Strip`)
#pragma once
#include "backends/cpu/linear/avx512.h"

namespace mote {
namespace {

// Where the 16 codes of a lane of the few-row kernel come from: super-block `slot` of the step, piece (16 codes) of it.
struct Source {
  uint32_t slot, piece;
};

// Codes less `zero`; either a zero or mins. kPairs: groups 0 and 1 hold super-blocks 0 and 1, eight lanes each, groups
// 2 and 3 the other two; else each group holds four lanes of all.
template <uint32_t sub, int zero, bool mins, bool pairs>
struct SuperBlockInput {
  static constexpr uint32_t kSub = sub, kSubs = 256 / sub;
  static constexpr int kZero = zero;
  static constexpr bool kMins = mins, kPairs = pairs;
  static constexpr uint32_t kMinVectors = mins ? kSubs / 8 : 0;
};

// A strip holds 32 weight rows; for each super-block, in visiting order: codes [64][32 rows][4], int32 sub-block scales
// [kSubs][32], d [32]; with mins also pairs of int16 mins [kSubs / 2][32][2] and dmin [32].
template <class Input>
struct Strip {
  static constexpr uint32_t kScales = 256 * kStripRows, kD = kScales + Input::kSubs * 128, kMin = kD + 128;
  static constexpr uint32_t kMinD = kMin + Input::kSubs / 2 * 128;
  static constexpr uint32_t kBytes = Input::kMins ? kMinD + 128 : kMin;
};

MOTE_INLINE __m512i bytes_of(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }

// The low four bits of every byte of `low`, the others of `high`.
MOTE_INLINE __m512i low_nibbles(__m512i low, __m512i high) {
  return _mm512_ternarylogic_epi32(bytes_of(15), low, high, 0xCA);
}
// The same, of which only `bits` stay.
MOTE_INLINE __m512i merge(__m512i low, __m512i high, int bits) {
  return _mm512_and_si512(low_nibbles(low, high), bytes_of(bits));
}

// 32 bytes of each of two super-blocks.
MOTE_INLINE __m512i load_pair(const uint8_t* block0, const uint8_t* block1, size_t offset) {
  const auto load = [&](const uint8_t* b) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + offset)); };
  return _mm512_inserti64x4(_mm512_castsi256_si512(load(block0)), load(block1), 1);
}
// 128 bytes of each: lane 8 block + 4 h + r holds piece 2 r + h, 16 bytes, in its four words. (Loads of 64 bytes would
// do without inserts, but cross a line of the cache three times of four.)
MOTE_INLINE void load_pair_words(const uint8_t* block0, const uint8_t* block1, size_t offset, __m512i words[4]) {
  __m512i rows[4];
#pragma GCC unroll 4
  for (size_t r = 0; r < 4; ++r) rows[r] = load_pair(block0, block1, offset + r * 32);
  transpose_words(rows, words);
}

MOTE_INLINE void store_d(uint8_t* to, __m512i halves_in_words) {
  _mm512_store_ps(to, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(halves_in_words)));
}
// Byte `byte` of each word, as a number of 32 bits.
MOTE_INLINE __m512i byte_of(__m512i words, uint32_t byte) {
  return _mm512_and_si512(_mm512_srli_epi32(words, byte * 8), _mm512_set1_epi32(255));
}
MOTE_INLINE __m512i signed_byte_of(__m512i words, uint32_t byte) {
  return _mm512_srai_epi32(_mm512_slli_epi32(words, 24 - byte * 8), 24);
}
// Bytes `byte` and `byte` + 1 of each word, as two numbers of 16 bits.
MOTE_INLINE __m512i two_bytes_of(__m512i words, uint32_t byte) {
  const __m512i two = _mm512_srli_epi32(words, byte * 8);
  return _mm512_or_si512(_mm512_and_si512(two, _mm512_set1_epi32(255)),
                         _mm512_and_si512(_mm512_slli_epi32(two, 8), _mm512_set1_epi32(0xff0000)));
}

// ------------------------------------------------------------------------------------------ Q4_K, Q5_K

// Bytes 32 j .. 32 j + 31 of the nibbles hold sub-blocks 2 j (low) and 2 j + 1 (high): a lane is 16 of these bytes, and
// the group the nibble.
struct NibblesBy32 : SuperBlockInput<32, 0, true, true> {
  static constexpr Source source(uint32_t group, uint32_t lane) {
    return {group / 2 * 2 + lane / 8, lane % 4 * 4 + group % 2 * 2 + lane % 8 / 4};
  }
};

// Head: d, dmin, then eight 6-bit scales and mins in 12 bytes.
struct K4Head {
  // Of four super-blocks.
  template <class At>
  MOTE_INLINE static __m512i load_heads(At at) {
    const auto head = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at(i))); };
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(head(0)), head(1), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(head(2)), head(3), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  // The 12 bytes of each: scales 0-3, mins 0-3, scales 4-7, mins 4-7 as bytes.
  MOTE_INLINE static __m512i unpack_12(__m512i heads) {
    const __m512i low = _mm512_srlv_epi32(_mm512_shuffle_epi32(heads, _MM_PERM_CBCB), _mm512_set4_epi32(2, 2, 0, 0));
    const __m512i last = _mm512_srlv_epi32(_mm512_shuffle_epi32(heads, _MM_PERM_DDDD), _mm512_set4_epi32(4, 0, 0, 0));
    return _mm512_or_si512(_mm512_and_si512(low, _mm512_set4_epi32(0x30303030, 0x30303030, 0x3f3f3f3f, 0x3f3f3f3f)),
                           _mm512_and_si512(last, _mm512_set4_epi32(0x0f0f0f0f, 0x0f0f0f0f, 0, 0)));
  }
  template <class At>
  MOTE_INLINE static void load_lane_scales(At at, __m512i scales[4]) {
    const __m512i bytes = unpack_12(load_heads(at));
    const __m512i even =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, -1, -1, -1, 2, -1, -1, -1, 8, -1, -1, -1, 10, -1, -1, -1));
    const __m512i odd =
        _mm512_broadcast_i32x4(_mm_setr_epi8(1, -1, -1, -1, 3, -1, -1, -1, 9, -1, -1, -1, 11, -1, -1, -1));
    const __m512i pairs[2] = {_mm512_shuffle_i32x4(bytes, bytes, 0x50), _mm512_shuffle_i32x4(bytes, bytes, 0xFA)};
#pragma GCC unroll 2
    for (int pair = 0; pair < 2; ++pair) {
      scales[2 * pair] = _mm512_shuffle_epi8(pairs[pair], even);
      scales[2 * pair + 1] = _mm512_shuffle_epi8(pairs[pair], odd);
    }
  }
  template <class At>
  MOTE_INLINE static void load_mins(At at, __m512i mins[1]) {
    const __m128i order = _mm_setr_epi8(4, -1, 5, -1, 6, -1, 7, -1, 12, -1, 13, -1, 14, -1, 15, -1);
    mins[0] = _mm512_shuffle_epi8(unpack_12(load_heads(at)), _mm512_broadcast_i32x4(order));
  }
  template <class At>
  MOTE_INLINE static __m256 load_scales(At at) {
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m128i both = _mm512_castsi512_si128(_mm512_permutexvar_epi32(first, load_heads(at)));
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    return _mm256_cvtph_ps(_mm_shuffle_epi8(both, order));
  }
  template <class At>
  MOTE_INLINE static void unpack_head(At at, uint8_t* to) {
    using Place = Strip<NibblesBy32>;
    __m512i head[4];
    load_words(at, 0, head);
    const auto top = [](__m512i v) { return _mm512_and_si512(_mm512_srli_epi32(v, 2), _mm512_set1_epi32(0x30303030)); };
    const __m512i low6 = bytes_of(63), low4 = bytes_of(15);
    const __m512i scales[2] = {_mm512_and_si512(head[1], low6),
                               _mm512_or_si512(_mm512_and_si512(head[3], low4), top(head[1]))};
    const __m512i mins[2] = {_mm512_and_si512(head[2], low6),
                             _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(head[3], 4), low4), top(head[2]))};
#pragma GCC unroll 8
    for (uint32_t j = 0; j < 8; ++j) _mm512_store_si512(to + Place::kScales + j * 128, byte_of(scales[j / 4], j % 4));
#pragma GCC unroll 4
    for (uint32_t j = 0; j < 4; ++j)
      _mm512_store_si512(to + Place::kMin + j * 128, two_bytes_of(mins[j / 2], j % 2 * 2));
    store_d(to + Place::kD, head[0]);
    store_d(to + Place::kMinD, _mm512_srli_epi32(head[0], 16));
  }
};

struct SuperBlockQ4K : K4Head {
  using Input = NibblesBy32;
  static constexpr uint32_t kBytes = 144;
  static constexpr int kOddShift = 4;

  template <class At>
  MOTE_INLINE static void unpack_step(At at, __m512i codes[16], __m512i scales[4]) {
#pragma GCC unroll 2
    for (int pair = 0; pair < 2; ++pair) {
      __m512i raw[4];
      load_pair_words(at(2 * pair), at(2 * pair + 1), 16, raw);
#pragma GCC unroll 4
      for (int w = 0; w < 4; ++w) {
        codes[8 * pair + w] = _mm512_and_si512(raw[w], bytes_of(15));
        codes[8 * pair + 4 + w] = _mm512_andnot_si512(bytes_of(15), raw[w]);
      }
    }
    load_lane_scales(at, scales);
  }
  template <class At>
  MOTE_INLINE static void unpack_rows(At at, uint8_t* to) {
    for (uint32_t piece = 0; piece < 8; ++piece) {
      __m512i raw[4];
      load_words(at, 16 + piece * 16, raw);
#pragma GCC unroll 4
      for (uint32_t w = 0; w < 4; ++w) {
        const uint32_t word = piece / 2 * 16 + piece % 2 * 4 + w;
        _mm512_store_si512(to + word * 128, _mm512_and_si512(raw[w], bytes_of(15)));
        _mm512_store_si512(to + (word + 8) * 128, _mm512_and_si512(_mm512_srli_epi16(raw[w], 4), bytes_of(15)));
      }
    }
    unpack_head(at, to);
  }
};

// Bit j of fifth byte i belongs to code i of sub-block j.
struct SuperBlockQ5K : K4Head {
  using Input = NibblesBy32;
  static constexpr uint32_t kBytes = 176;
  static constexpr int kOddShift = 0;

  template <class At>
  MOTE_INLINE static void unpack_step(At at, __m512i codes[16], __m512i scales[4]) {
    const __m512i shift = _mm512_set4_epi32(6, 4, 2, 0);
#pragma GCC unroll 2
    for (int pair = 0; pair < 2; ++pair) {
      __m512i raw[4];
      load_pair_words(at(2 * pair), at(2 * pair + 1), 48, raw);
      const __m512i all = load_pair(at(2 * pair), at(2 * pair + 1), 16);
      const __m512i fifth[4] = {_mm512_shuffle_epi32(all, _MM_PERM_AAAA), _mm512_shuffle_epi32(all, _MM_PERM_BBBB),
                                _mm512_shuffle_epi32(all, _MM_PERM_CCCC), _mm512_shuffle_epi32(all, _MM_PERM_DDDD)};
#pragma GCC unroll 4
      for (int w = 0; w < 4; ++w) {
        const __m512i bits = _mm512_srlv_epi32(fifth[w], shift);
        codes[8 * pair + w] = merge(raw[w], _mm512_slli_epi32(bits, 4), 31);
        codes[8 * pair + 4 + w] = merge(_mm512_srli_epi32(raw[w], 4), _mm512_slli_epi32(bits, 3), 31);
      }
    }
    load_lane_scales(at, scales);
  }
  template <class At>
  MOTE_INLINE static void unpack_rows(At at, uint8_t* to) {
    __m512i fifth[2][4];
    load_words(at, 16, fifth[0]);
    load_words(at, 32, fifth[1]);
    for (uint32_t j = 0; j < 4; ++j)
#pragma GCC unroll 2
      for (uint32_t half = 0; half < 2; ++half) {
        __m512i raw[4];
        load_words(at, 48 + j * 32 + half * 16, raw);
#pragma GCC unroll 4
        for (uint32_t w = 0; w < 4; ++w) {
          const __m512i bits = _mm512_srl_epi32(fifth[half][w], _mm_cvtsi32_si128(static_cast<int>(2 * j)));
          const uint32_t word = j * 16 + half * 4 + w;
          _mm512_store_si512(to + word * 128, merge(raw[w], _mm512_slli_epi32(bits, 4), 31));
          _mm512_store_si512(to + (word + 8) * 128,
                             merge(_mm512_srli_epi32(raw[w], 4), _mm512_slli_epi32(bits, 3), 31));
        }
      }
    unpack_head(at, to);
  }
};

// ------------------------------------------------------------------------------------------ Q6_K

// 16 sub-blocks of 16. Sub-block 8 n + s: low bits in bytes 64 n + 16 (s % 4), nibble s / 4; high bits in bytes
// 128 + 32 n + 16 (s % 2), bit pair s / 2. A lane is 16 bytes of low bits, the group the nibble.
struct NibblesBy64 : SuperBlockInput<16, 32, false, true> {
  static constexpr Source source(uint32_t group, uint32_t lane) {
    return {group / 2 * 2 + lane / 8, lane % 4 / 2 * 8 + group % 2 * 4 + lane % 2 * 2 + lane % 8 / 4};
  }
};

struct SuperBlockQ6K {
  using Input = NibblesBy64;
  static constexpr uint32_t kBytes = 210;
  static constexpr int kOddShift = 0;

  template <class At>
  MOTE_INLINE static void unpack_step(At at, __m512i codes[16], __m512i scales[4]) {
    const __m512i shift = _mm512_set4_epi32(2, 0, 2, 0);   // r odd: the next two bits
#pragma GCC unroll 2
    for (int pair = 0; pair < 2; ++pair) {
      const uint8_t *block0 = at(2 * pair), *block1 = at(2 * pair + 1);
      __m512i low[4];
      load_pair_words(block0, block1, 0, low);
      const __m512 half0 = _mm512_castsi512_ps(load_pair(block0, block1, 128));
      const __m512 half1 = _mm512_castsi512_ps(load_pair(block0, block1, 160));
      const __m512 high[4] = {_mm512_shuffle_ps(half0, half1, 0x00), _mm512_shuffle_ps(half0, half1, 0x55),
                              _mm512_shuffle_ps(half0, half1, 0xAA), _mm512_shuffle_ps(half0, half1, 0xFF)};
#pragma GCC unroll 4
      for (int w = 0; w < 4; ++w) {
        const __m512i own = _mm512_srlv_epi32(_mm512_castps_si512(high[w]), shift);
        const __m512i bits = _mm512_and_si512(own, bytes_of(0x33));   // of the low nibble and, four above, of the high
        codes[8 * pair + w] = low_nibbles(low[w], _mm512_slli_epi32(bits, 4));
        codes[8 * pair + 4 + w] = low_nibbles(_mm512_srli_epi32(low[w], 4), bits);
      }
      const __m128i order = _mm_setr_epi8(0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15);
      const auto placed = [&](const uint8_t* b) {
        return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + 192)), order);
      };
      const __m128i s0 = placed(block0), s1 = placed(block1);
      scales[2 * pair] = _mm512_cvtepi8_epi32(_mm_unpacklo_epi64(s0, s1));
      scales[2 * pair + 1] = _mm512_cvtepi8_epi32(_mm_unpackhi_epi64(s0, s1));
    }
  }
  template <class At>
  MOTE_INLINE static __m256 load_scales(At at) {
    const auto word = [&](int i) { return load_at<int32_t>(at(i) + 206); };   // d in its upper half
    const __m128i d = _mm_srli_epi32(_mm_setr_epi32(word(0), word(1), word(2), word(3)), 16);
    return _mm256_cvtph_ps(_mm_packus_epi32(d, d));
  }
  template <class At>
  MOTE_INLINE static void unpack_rows(At at, uint8_t* to) {
    using Place = Strip<Input>;
    for (uint32_t n = 0; n < 2; ++n)
      for (uint32_t r = 0; r < 2; ++r) {   // sub-blocks r, r + 2, r + 4, r + 6 of half n
        __m512i high[4], low[2][4];
        load_words(at, 128 + 32 * n + 16 * r, high);
        load_words(at, 64 * n + 16 * r, low[0]);
        load_words(at, 64 * n + 16 * (r + 2), low[1]);
#pragma GCC unroll 4
        for (uint32_t w = 0; w < 4; ++w) {
          uint8_t* word = to + ((8 * n + r) * 4 + w) * 128;
          _mm512_store_si512(word, merge(low[0][w], _mm512_slli_epi32(high[w], 4), 63));
          _mm512_store_si512(word + 2 * 512, merge(low[1][w], _mm512_slli_epi32(high[w], 2), 63));
          _mm512_store_si512(word + 4 * 512, merge(_mm512_srli_epi32(low[0][w], 4), high[w], 63));
          _mm512_store_si512(word + 6 * 512, merge(_mm512_srli_epi32(low[1][w], 4), _mm512_srli_epi32(high[w], 2), 63));
        }
      }
    __m512i scales[4];
    load_words(at, 192, scales);
#pragma GCC unroll 16
    for (uint32_t j = 0; j < 16; ++j)
      _mm512_store_si512(to + Place::kScales + j * 128, signed_byte_of(scales[j / 4], j % 4));
    _mm512_store_ps(to + Place::kD, load_halves(at, 208));
  }
};

}   // namespace
}   // namespace mote
