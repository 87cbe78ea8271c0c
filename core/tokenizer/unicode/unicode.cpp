#include "core/tokenizer/unicode/unicode.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace mote {
namespace {

#include "core/tokenizer/unicode/tables.inc"

constexpr uint32_t kShortCount = std::size(kShortFrom);

// Hangul syllables compose by arithmetic (Unicode 15, section 3.12).
constexpr uint32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28;

// The classes of the table, finer than CharacterClass: see class_of in make_tables.py.
constexpr uint32_t kPunctuation = 5, kControl = 6, kNonspacing = 7;

uint32_t class_bits(uint32_t code_point) {
  if (code_point < kClassEnd) {
    const uint32_t block = kClassBlock[code_point >> 7], at = code_point & 127;
    return uint32_t{kClassBits[block * 64 + at / 2]} >> (4 * (at & 1)) & 15;
  }
  if (code_point >= 0xE0100 && code_point <= 0xE01EF) return kNonspacing;
  const bool tag = code_point == 0xE0001 || (code_point >= 0xE0020 && code_point <= 0xE007F);
  return tag || (code_point >= 0xF0000 && (code_point & 0xFFFF) < 0xFFFE) ? kControl : 0;
}

uint32_t fine_class(uint32_t code_point) { return class_bits(code_point) & 7; }

struct Decomposition {
  uint32_t from, first, second;   // second is 0 when there is only one
};

Decomposition decomposition(uint32_t index) {
  if (index < kShortCount) return {kShortFrom[index], kShortFirst[index], kShortSecond[index]};
  index -= kShortCount;
  return {kLongFrom[index], kLongFirst[index], kLongSecond[index]};
}

}   // namespace

CharacterClass character_class(uint32_t code_point) {
  const uint32_t fine = fine_class(code_point);
  if (fine == kNonspacing) return CharacterClass::mark;
  return fine == kPunctuation || fine == kControl ? CharacterClass::other : static_cast<CharacterClass>(fine);
}

bool is_nonspacing_mark(uint32_t code_point) { return fine_class(code_point) == kNonspacing; }
bool is_punctuation(uint32_t code_point) { return fine_class(code_point) == kPunctuation; }
bool is_control(uint32_t code_point) { return fine_class(code_point) == kControl; }

uint32_t lower_case(uint32_t code_point) {
  // A row: start << 8 | characters - 1, and their distance to the lower case << 1 | stride - 1.
  const auto* after = std::upper_bound(std::begin(kLowerStart), std::end(kLowerStart), code_point << 8 | 255);
  if (after == std::begin(kLowerStart)) return code_point;
  const auto row = static_cast<size_t>(after - std::begin(kLowerStart)) - 1;
  const uint32_t beyond = code_point - (kLowerStart[row] >> 8);
  const uint32_t stride = (static_cast<uint32_t>(kLowerStep[row]) & 1) + 1;
  if (beyond % stride != 0 || beyond / stride > (kLowerStart[row] & 255)) return code_point;
  return code_point + static_cast<uint32_t>(kLowerStep[row] >> 1);
}

bool may_change_under_nfc(uint32_t code_point) { return code_point >= 0x300 && (class_bits(code_point) & 8) != 0; }

uint8_t combining_class(uint32_t code_point) {
  if (code_point < 0x300) return 0;
  const auto* after = std::upper_bound(std::begin(kCombiningStart), std::end(kCombiningStart), code_point << 8 | 255);
  if (after == std::begin(kCombiningStart)) return 0;
  const auto index = static_cast<uint32_t>(after - std::begin(kCombiningStart)) - 1;
  const uint32_t start = kCombiningStart[index];
  return code_point - (start >> 8) <= kCombiningMore[index] ? static_cast<uint8_t>(start & 255) : uint8_t{0};
}

uint32_t decompose(uint32_t code_point, uint32_t (&parts)[2]) {
  if (code_point < 0xC0) return 0;
  if (const uint32_t s = code_point - kSyllable; s < kLeads * kVowels * kTails) {
    const uint32_t tail = s % kTails;
    if (tail != 0) {
      parts[0] = code_point - tail;
      parts[1] = kTail + tail;
    } else {
      parts[0] = kLead + s / (kVowels * kTails);
      parts[1] = kVowel + s / kTails % kVowels;
    }
    return 2;
  }
  const auto* near = std::lower_bound(std::begin(kShortFrom), std::end(kShortFrom), code_point);
  uint32_t index = static_cast<uint32_t>(near - std::begin(kShortFrom));
  if (near == std::end(kShortFrom) || *near != code_point) {
    const auto* far = std::lower_bound(std::begin(kLongFrom), std::end(kLongFrom), code_point);
    if (far == std::end(kLongFrom) || *far != code_point) return 0;
    index = kShortCount + static_cast<uint32_t>(far - std::begin(kLongFrom));
  }
  const Decomposition found = decomposition(index);
  parts[0] = found.first;
  parts[1] = found.second;
  return found.second == 0 ? 1 : 2;
}

uint32_t compose(uint32_t first, uint32_t second) {
  if (first - kLead < kLeads && second - kVowel < kVowels)
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTails;
  if (const uint32_t s = first - kSyllable;
      s < kLeads * kVowels * kTails && s % kTails == 0 && second > kTail && second < kTail + kTails)
    return first + (second - kTail);
  const auto* found = std::lower_bound(std::begin(kComposition), std::end(kComposition), 0, [&](uint16_t index, int) {
    const Decomposition d = decomposition(index);
    return d.first != first ? d.first < first : d.second < second;
  });
  if (found == std::end(kComposition)) return 0;
  const Decomposition d = decomposition(*found);
  return d.first == first && d.second == second ? d.from : 0;
}

}   // namespace mote
