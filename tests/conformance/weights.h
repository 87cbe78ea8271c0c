// CaseRandom weights of every format, with scales of an ordinary size.
#pragma once
#include <vector>

#include "core/format/format.h"
#include "tests/conformance/random.h"

namespace mote::test {

// [rows, columns] in `format`; the values are of the order of `size`.
std::vector<uint8_t> random_matrix(Format format, uint32_t rows, uint32_t columns, CaseRandom& random,
                                   double size = 0.1);

// The same values as f32.
std::vector<float> dequantized(Format format, uint32_t rows, uint32_t columns, const std::vector<uint8_t>& bytes);

// How many values of x share a scale when a backend rounds x to 8 bits for this format (core/format/blocks.h); 0 when
// it must not round.
uint32_t activation_block(Format format);

std::vector<Format> enabled_formats();

}   // namespace mote::test
