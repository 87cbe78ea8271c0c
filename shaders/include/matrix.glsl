// One value of a matrix in any of the formats on the device. The buffer `matrix` and FORMAT are the including shader's.
#include "halves.glsl"

// The scale of block `block` behind `words` words of codes of the row at `at`.
float block_scale(uint at, uint words, uint block) {
  return half_value(matrix[at + words + block / 2u] >> (block % 2u * 16u) & 0xffffu);
}

// Value `column` of the row of `columns` values that begins at word `at`.
float matrix_value(uint at, uint columns, uint column) {
#if FORMAT == MOTE_VK_F32
  return uintBitsToFloat(matrix[at + column]);
#elif FORMAT == MOTE_VK_F16
  return half_value(matrix[at + column / 2u] >> (column % 2u * 16u) & 0xffffu);
#elif FORMAT == MOTE_VK_Q8_0
  int code = bitfieldExtract(int(matrix[at + column / 4u]), int(column % 4u * 8u), 8);
  return block_scale(at, columns / 4u, column / 32u) * float(code);
#elif FORMAT == MOTE_VK_Q4_0
  uint in_block = column % 32u, byte = in_block % 16u;
  uint word = matrix[at + column / 32u * 4u + byte / 4u];
  int code = int(word >> (byte % 4u * 8u + in_block / 16u * 4u) & 15u) - 8;
  return block_scale(at, columns / 8u, column / 32u) * float(code);
#endif
}
