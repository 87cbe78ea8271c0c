// The header of a .npy file of float32 rows (NumPy Enhancement Proposal 1, version 1.0).
#pragma once
#include <bit>
#include <cstdint>
#include <string>

namespace cli {

// For an array [rows, columns], outermost first. The data follows at a multiple of 64 bytes.
inline std::string npy_header(uint64_t rows, uint64_t columns) {
  static_assert(std::endian::native == std::endian::little);   // '<f4', written as it lies in memory
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                     std::to_string(columns) + "), }";
  const size_t before = 10;   // magic, version, length
  text.append(63 - (before + text.size()) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}   // namespace cli
