// SHA-256 (FIPS 180-4) of bytes in memory.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mote {

using Sha256Digest = std::array<uint8_t, 32>;

// The digest of bytes that come in pieces.
class Sha256 {
 public:
  void add(const void* bytes, size_t count);
  void add(std::string_view bytes) { add(bytes.data(), bytes.size()); }
  // A number as its eight bytes, little-endian.
  void add_number(uint64_t number) { add(&number, sizeof number); }
  Sha256Digest finish();   // once, after the last piece

 private:
  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint64_t n_bytes_ = 0;
  uint8_t rest_[64] = {};   // the n_bytes_ mod 64 bytes that do not fill a block yet
};

Sha256Digest sha256(std::string_view bytes);

// True when `hex` is the digest in 64 lower-case digits.
bool digest_is(const Sha256Digest& digest, std::string_view hex);

}   // namespace mote
