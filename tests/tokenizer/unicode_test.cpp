#include "core/tokenizer/unicode/unicode.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "core/base/utf8.h"
#include "core/tokenizer/nfc.h"

namespace mote::test {
namespace {

std::string utf8(std::initializer_list<uint32_t> code_points) {
  std::string text;
  for (const uint32_t c : code_points) {
    char bytes[4];
    text.append(bytes, encode_utf8(c, bytes));
  }
  return text;
}

std::string nfc(const std::string& text, uint64_t* steps = nullptr) {
  std::vector<char> out(kNfcGrowth * text.size() + 1);
  uint64_t counted = 0;
  const size_t bytes = normalize_nfc(text, out.data(), steps == nullptr ? &counted : steps);
  return {out.data(), bytes};
}

}   // namespace

TEST_CASE("Characters have the class that the expressions mean", "[tokenizer][unit]") {
  using enum CharacterClass;
  CHECK(character_class('a') == letter);
  CHECK(character_class('7') == number);
  CHECK(character_class('_') == other);
  CHECK(character_class(0x00B2) == number);   // superscript two
  CHECK(character_class(0x4F60) == letter);
  CHECK(character_class(0x0301) == mark);
  CHECK(character_class(0x3000) == space);
  CHECK(character_class(0x0085) == space);
  CHECK(character_class(0x001C) == other);   // a separator, but not White_Space
  CHECK(character_class(0x200B) == other);   // zero width space is not a space
  CHECK(character_class(0xE0101) == mark);
  CHECK(character_class(0xE0067) == other);
  CHECK(character_class(0x10FFFF) == other);
}

TEST_CASE("NFC composes, orders marks and leaves excluded characters apart", "[tokenizer][unit]") {
  CHECK(nfc(utf8({'e', 0x301})) == utf8({0xE9}));
  CHECK(nfc(utf8({0x212B})) == utf8({0xC5}));
  CHECK(nfc(utf8({'A', 0x30A, 0x301})) == utf8({0x1FA}));
  CHECK(nfc(utf8({'a', 0x301, 0x323})) == utf8({0x1EA1, 0x301}));   // below comes before above
  CHECK(nfc(utf8({'a', 0x301, 0x300})) == utf8({0xE1, 0x300}));
  CHECK(nfc(utf8({'a', 0x30D, 0x301})) == utf8({'a', 0x30D, 0x301}));   // a mark of the same class is in between
  CHECK(nfc(utf8({0x1112, 0x1161, 0x11AB})) == utf8({0xD55C}));         // Hangul
  CHECK(nfc(utf8({0xD558, 0x11AB})) == utf8({0xD55C}));
  CHECK(nfc(utf8({0x0958})) == utf8({0x915, 0x93C}));     // excluded from composition
  CHECK(nfc(utf8({0x09C7, 0x09BE})) == utf8({0x09CB}));   // two starters
  CHECK(nfc(utf8({0x09C7, 0x0301, 0x09BE})) == utf8({0x09C7, 0x0301, 0x09BE}));
  CHECK(nfc(utf8({0x0344})) == utf8({0x308, 0x301}));           // marks without a starter
  CHECK(nfc(utf8({0, 0x301, 'b'})) == utf8({0, 0x301, 'b'}));   // NUL is a starter like others
  CHECK(nfc(utf8({0x301, 0x323, 'a'})) == utf8({0x323, 0x301, 'a'}));
  CHECK(nfc(utf8({0x1D1C0})) == utf8({0x1D1BA, 0x1D165, 0x1D16F}));   // the longest growth: three times
}

TEST_CASE("NFC of NFC is itself for every code point, and the quick look agrees", "[tokenizer][unit]") {
  uint32_t not_stable = 0, missed = 0, compositions = 0;
  for (uint32_t c = 1; c < 0x30000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string text = utf8({c}), normal = nfc(text);
    not_stable += nfc(normal) != normal;
    missed += is_surely_nfc(text) && normal != text;
    uint32_t parts[2];
    if (decompose(c, parts) == 2 && compose(parts[0], parts[1]) == c) ++compositions;
  }
  CHECK(not_stable == 0);
  CHECK(missed == 0);
  CHECK(compositions == 941 + 11172);   // the composition pairs of Unicode 14, and the Hangul syllables
}

TEST_CASE("Hundreds of thousands of marks on one letter take a bounded number of looks each", "[tokenizer][unit]") {
  std::string text = "a";
  for (int i = 0; i < 100000; ++i) text += utf8({0x301, 0x323, 0x327, 0x345});
  uint64_t steps = 0;
  const std::string normal = nfc(text, &steps);
  CHECK(normal.size() <= text.size());
  CHECK(steps < 40 * 400000);
  CHECK(nfc(normal) == normal);
}

}   // namespace mote::test
