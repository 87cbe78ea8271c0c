// SHA-256 (FIPS 180-4) of bytes in memory.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace mote {

std::array<uint8_t, 32> sha256(std::string_view bytes);

// True when `hex`, 64 lower-case digits, is the digest of `bytes`.
bool sha256_is(std::string_view bytes, std::string_view hex);

}   // namespace mote
