// The header of a .npy file of float32 (NumPy Enhancement Proposal 1, version 1.0).
#pragma once
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace cli {

// For an array of this shape, of two dimensions or more, outermost first. The data follows at a multiple of 64 bytes.
inline std::string npy_header(std::initializer_list<uint64_t> shape) {
  static_assert(std::endian::native == std::endian::little);   // '<f4', written as it lies in memory
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (", comma;
  for (const uint64_t count : shape) text += comma + std::to_string(count), comma = ", ";
  text += "), }";
  const size_t before = 10;   // magic, version, length
  text.append(63 - (before + text.size()) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}   // namespace cli
