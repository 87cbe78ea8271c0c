// WordPiece: how a text becomes words, and words become pieces.
#include <catch2/catch_test_macros.hpp>
#include <random>

#include "tests/tokenizer/toy_tokenizer.h"

namespace mote::test {
namespace {

// A vocabulary in which every character of `characters` is a word and a continuation, so that what becomes of a text
// can be read off: words with a blank between.
std::string words_of(const std::string& text, bool lowers = true) {
  std::vector<std::string> letters;
  for (const char* c : {"a",
                        "b",
                        "c",
                        "k",
                        "s",
                        "A",
                        "\xC3\xA9",
                        "\xC3\x89",
                        ",",
                        "!",
                        "$",
                        "[",
                        "]",
                        "\xE3\x80\x82",
                        "\xE4\xB8\x80",
                        "\xE2\x96\x81",
                        "\xE1\x84\x92",
                        "\xE1\x85\xA1",
                        "\xE1\x86\xAB",
                        "\xE0\xA4\xBE",
                        "\xE2\x83\x9D",
                        "\xE2\xB1\xA5",
                        "\xE3\x80\xAE",
                        "\xF0\x9D\x85\xA5",
                        "\xE8\xB1\x88"})
    letters.push_back(c);
  GgufBuilder builder = toy_word_pieces(letters, letters);
  if (!lowers) builder.set_bool("tokenizer.ggml.normalizer.lowercase", false);
  // Continuations spelled like the word mark cannot be: they would be the words of the same spelling.
  const OpenTokenizer tokenizer(builder);
  if (!tokenizer.status().ok()) return tokenizer.status().c_str();
  return detokenize(*tokenizer, encode(*tokenizer, text));
}

}   // namespace

TEST_CASE("WordPiece parts words at blanks, punctuation and ideographs", "[tokenizer][unit]") {
  CHECK(words_of("  ab\t\nc\r ") == "ab c");
  CHECK(words_of("a,b!!c") == "a , b ! ! c");
  CHECK(words_of("a$b") == "a $ b");   // ASCII symbols count as punctuation
  CHECK(words_of("a\xE3\x80\x82"
                 "b") == "a \xE3\x80\x82 b");   // so does any \p{P}
  CHECK(words_of("a\xE4\xB8\x80\xE4\xB8\x80"
                 "b") == "a \xE4\xB8\x80 \xE4\xB8\x80 b");
  CHECK(words_of("\xEF\xA4\x80") == "\xE8\xB1\x88");   // an ideograph that decomposes to another
  CHECK(words_of("a\xC2\xA0"
                 "b\xE2\x80\xA8"
                 "c\xE3\x80\x80k") == "a b c k");   // White_Space
}

TEST_CASE("WordPiece takes control characters out and makes the rest lower case without accents", "[tokenizer][unit]") {
  CHECK(words_of("a\x0B"
                 "b\x0C"
                 "c\xC2\x85k") == "abck");   // white space elsewhere, control characters here
  CHECK(words_of(std::string("a\0b", 3)) == "ab");
  CHECK(words_of("a\xEF\xBF\xBD\xE2\x80\x8B\xEE\x80\x80\xF3\xA0\x81\xA7"
                 "b") == "ab");                                // U+FFFD, Cf, Co, a tag
  CHECK(words_of("\xFF") == "");                               // bad UTF-8 is U+FFFD
  CHECK(words_of("\xF0\x9F\xAB\xA8") == "[UNK]");              // not assigned in this Unicode is no control character
  CHECK(words_of("A\xCC\x81\xC3\x81\xE1\xBA\xA4") == "aaa");   // Mn goes, composed or not
  CHECK(words_of("\xE2\x84\xAA\xE2\x84\xAB") == "ka");         // Kelvin and Angstrom signs
  CHECK(words_of("\xC8\xBA") == "\xE2\xB1\xA5");               // a lower case that is longer
  CHECK(words_of("\xED\x95\x9C") == "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB");     // Hangul falls into jamo
  CHECK(words_of("a\xE0\xA4\xBE\xE2\x83\x9D") == "a\xE0\xA4\xBE\xE2\x83\x9D");   // Mc and Me stay
  // In canonical order, also where a control character or an accent stood between: U+1D165 (216) before U+302E (224).
  CHECK(words_of("a\xE3\x80\xAE\xE2\x80\x8B\xCC\x81\xF0\x9D\x85\xA5") == "a\xF0\x9D\x85\xA5\xE3\x80\xAE");
}

TEST_CASE("WordPiece of a cased model changes no letter", "[tokenizer][unit]") {
  CHECK(words_of("A\xC3\x89\x0B, \xE4\xB8\x80\xC3\xA9", false) == "A\xC3\x89 , \xE4\xB8\x80 \xC3\xA9");
  CHECK(words_of("e\xCC\x81", false) == "[UNK]");   // decomposed stays so
}

TEST_CASE("WordPiece takes the longest piece from the left, or the word is unknown", "[tokenizer][unit]") {
  // 3 un, 4 una, 5 able; 6 a, 7 ble, 8 able, 9 und
  const OpenTokenizer tokenizer(toy_word_pieces({"un", "una", "able"}, {"a", "ble", "able", "und"}));
  REQUIRE(tokenizer.status().ok());
  CHECK(encode(*tokenizer, "able unable", true) == Ids{1, 5, 4, 7, 2});
  CHECK(encode(*tokenizer, "unund una") == Ids{3, 9, 4});
  CHECK(encode(*tokenizer, "unx aund able") == Ids{0, 0, 5});   // no way back: "a" is no word, "x" nothing
  CHECK(encode(*tokenizer, "") == Ids{});
  CHECK(encode(*tokenizer, "", true) == Ids{1, 2});
  CHECK(detokenize(*tokenizer, {1, 3, 9, 0, 5, 2}) == "[CLS] unund [UNK] able [SEP]");
  CHECK(detokenize(*tokenizer, {1, 3, 9, 5, 2}, false) == "unund able");
  CHECK(encode(*tokenizer, "un[SEP]able", false, true) == Ids{3, 2, 5});
  CHECK(encode(*tokenizer, "[SEP]") == Ids{0, 0, 0});
}

TEST_CASE("A U+2581 of the user's begins no word", "[tokenizer][unit]") {
  const OpenTokenizer tokenizer(toy_word_pieces({"a", "b", "\xE2\x96\x81"}, {"c"}));
  CHECK(encode(*tokenizer,
               "a\xE2\x96\x81"
               "b") == Ids{0});
  CHECK(encode(*tokenizer, "\xE2\x96\x81") == Ids{5});
  CHECK(encode(*tokenizer, "ac\xE2\x96\x81") == Ids{0});
}

TEST_CASE("Words of over 100 characters are unknown, whatever their bytes", "[tokenizer][unit]") {
  const OpenTokenizer tokenizer(toy_word_pieces({"a", "\xF0\x9F\x98\x80"}, {"a", "\xF0\x9F\x98\x80"}));
  for (const std::string letter : {"a", "\xF0\x9F\x98\x80", "A\xCC\x81"}) {
    std::string word;
    for (int i = 0; i < 100; ++i) word += letter;
    CHECK(encode(*tokenizer, word).size() == 100);
    CHECK(encode(*tokenizer, word + letter) == Ids{0});
    CHECK(encode(*tokenizer, word + letter + " a") == Ids{0, 3});
  }
}

TEST_CASE("WordPiece agrees with doing it by the book", "[tokenizer][unit]") {
  std::mt19937 random(17);
  size_t wrong = 0, compared = 0, unknown = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> words, parts;
    for (auto* list : {&words, &parts})
      for (int i = 0; i < 12; ++i) {
        std::string text;
        for (size_t n = 1 + random() % 4; n > 0; --n) text += "abc"[random() % 3];
        if (std::find(list->begin(), list->end(), text) == list->end()) list->push_back(text);
      }
    const OpenTokenizer tokenizer(toy_word_pieces(words, parts));
    for (int i = 0; i < 40; ++i, ++compared) {
      std::string word;
      for (size_t n = 1 + random() % 12; n > 0; --n) word += "abc"[random() % 3];
      Ids expected;
      for (size_t at = 0; at < word.size();) {
        const std::vector<std::string>& list = at == 0 ? words : parts;
        size_t best = list.size();
        for (size_t p = 0; p < list.size(); ++p)
          if (word.compare(at, list[p].size(), list[p]) == 0 &&
              (best == list.size() || list[p].size() > list[best].size()))
            best = p;
        if (best == list.size()) {
          expected = {0};
          ++unknown;
          break;
        }
        expected.push_back(static_cast<int32_t>(3 + (at == 0 ? 0 : words.size()) + best));
        at += list[best].size();
      }
      wrong += encode(*tokenizer, word) != expected;
    }
  }
  CHECK(compared == 2000);
  CHECK(unknown > 100);
  CHECK(unknown < 1900);
  CHECK(wrong == 0);
}

}   // namespace mote::test
