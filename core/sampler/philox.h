// Philox 4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as easy
// as 1, 2, 3", SC 2011): a number is a function of (seed, position) alone, so rewinding repeats the text and
// nothing has to be stored.
#pragma once
#include <cstdint>

namespace mote {

struct PhiloxBlock {
  uint32_t word[4];
};

constexpr PhiloxBlock philox4x32(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter.word[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter.word[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

// Uniform in [0, 1), a multiple of 2^-53. The seed is the key, the position the low half of the counter.
constexpr double philox_uniform(uint64_t seed, uint64_t position) {
  const PhiloxBlock block = philox4x32({{static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0}},
                                       static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  const uint64_t bits = uint64_t{block.word[0]} << 32 | block.word[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}   // namespace mote
