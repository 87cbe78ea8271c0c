// A hash of bits (FNV-1a), printed by one program for comparison with what another one prints.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace mote::test {

class Hash {
 public:
  void add(const void* data, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) value_ = (value_ ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001B3u;
  }
  void add(const std::vector<float>& values) { add(values.data(), values.size() * sizeof(float)); }
  void print(const char* what) const { std::printf("%s %016llx\n", what, static_cast<unsigned long long>(value_)); }

 private:
  uint64_t value_ = 0xCBF29CE484222325u;
};

}   // namespace mote::test
