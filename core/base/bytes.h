// Unaligned little-endian loads and stores. A caller's buffer may start at any address.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mote {

static_assert(std::endian::native == std::endian::little, "mote runs on little-endian machines only");

template <class T>
inline T load_le(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
inline void store_le(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

}   // namespace mote
