// What the pre-tokenisers, NFC and WordPiece need to know about a code point. The data is tables.inc, written by
// make_tables.py.
#pragma once
#include <cstdint>

namespace mote {

enum class CharacterClass : uint8_t {
  other = 0,
  letter = 1,   // \p{L}
  number = 2,   // \p{N}
  mark = 3,     // \p{M}
  space = 4,    // White_Space, what \s means in the reference's expressions
};

CharacterClass character_class(uint32_t code_point);

bool is_nonspacing_mark(uint32_t code_point);   // Mn
bool is_punctuation(uint32_t code_point);       // \p{P}
// Cc, Cf and Co, but not those that are white space too: U+0009..D and U+0085.
bool is_control(uint32_t code_point);

// The lower case of a character that has no canonical decomposition, one code point as in the reference; other
// characters stay.
uint32_t lower_case(uint32_t code_point);

// False: a text in which this holds for every character is in NFC already.
bool may_change_under_nfc(uint32_t code_point);

// Canonical combining class, 0 for starters.
uint8_t combining_class(uint32_t code_point);

// One step of the canonical decomposition: writes one or two code points, returns how many, 0 when there is none.
// Only the first of two can decompose further. Hangul syllables included.
uint32_t decompose(uint32_t code_point, uint32_t (&parts)[2]);

// The primary composite of two code points, or 0. Hangul included.
uint32_t compose(uint32_t first, uint32_t second);

}   // namespace mote
