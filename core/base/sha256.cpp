#include "core/base/sha256.h"

#include <bit>
#include <cstring>

namespace mote {
namespace {

constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// One round. Instead of moving every word on by one, the next call names them so; d and h are what changes.
inline void add_round(uint32_t a, uint32_t b, uint32_t c, uint32_t& d, uint32_t e, uint32_t f, uint32_t g, uint32_t& h,
                      uint32_t word) {
  const uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + word;
  d += t1;
  h = t1 + (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

void add_block(uint32_t (&state)[8], const uint8_t* block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 |
           block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  uint32_t s[8];
  std::memcpy(s, state, sizeof s);
  for (int i = 0; i < 64; i += 8) {   // eight rounds bring every word back to its place
    add_round(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], kRound[i] + w[i]);
    add_round(s[7], s[0], s[1], s[2], s[3], s[4], s[5], s[6], kRound[i + 1] + w[i + 1]);
    add_round(s[6], s[7], s[0], s[1], s[2], s[3], s[4], s[5], kRound[i + 2] + w[i + 2]);
    add_round(s[5], s[6], s[7], s[0], s[1], s[2], s[3], s[4], kRound[i + 3] + w[i + 3]);
    add_round(s[4], s[5], s[6], s[7], s[0], s[1], s[2], s[3], kRound[i + 4] + w[i + 4]);
    add_round(s[3], s[4], s[5], s[6], s[7], s[0], s[1], s[2], kRound[i + 5] + w[i + 5]);
    add_round(s[2], s[3], s[4], s[5], s[6], s[7], s[0], s[1], kRound[i + 6] + w[i + 6]);
    add_round(s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[0], kRound[i + 7] + w[i + 7]);
  }
  for (int i = 0; i < 8; ++i) state[i] += s[i];
}

}   // namespace

void Sha256::add(const void* bytes, size_t count) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  const size_t held = n_bytes_ % sizeof rest_;
  n_bytes_ += count;
  if (held != 0) {
    const size_t fits = sizeof rest_ - held < count ? sizeof rest_ - held : count;
    if (fits != 0) std::memcpy(rest_ + held, at, fits);
    at += fits, count -= fits;
    if (held + fits < sizeof rest_) return;
    add_block(state_, rest_);
  }
  for (; count >= sizeof rest_; count -= sizeof rest_, at += sizeof rest_) add_block(state_, at);
  if (count != 0) std::memcpy(rest_, at, count);
}

Sha256Digest Sha256::finish() {
  const uint64_t bits = n_bytes_ * 8;
  const uint8_t end[64] = {0x80};
  add(end, 1 + (64 + 55 - n_bytes_ % 64) % 64);   // up to 8 bytes before the end of a block
  uint8_t length[8];
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  add(length, sizeof length);
  Sha256Digest digest;
  for (size_t i = 0; i < 32; ++i) digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Sha256Digest sha256(std::string_view bytes) {
  Sha256 sha;
  sha.add(bytes);
  return sha.finish();
}

bool digest_is(const Sha256Digest& digest, std::string_view hex) {
  constexpr char kHex[] = "0123456789abcdef";
  if (hex.size() != 64) return false;
  for (size_t i = 0; i < 64; ++i)
    if (hex[i] != kHex[digest[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15]) return false;
  return true;
}

}   // namespace mote
