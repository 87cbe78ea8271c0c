// SentencePiece unigram: what a text is normalised to, and which pieces make the best of it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <random>

#include "core/tokenizer/char_map.h"
#include "tests/support/char_map.h"
#include "tests/tokenizer/toy_tokenizer.h"

namespace mote::test {
namespace {

constexpr const char* kSpace = "\xE2\x96\x81";

// What a text is normalised to, read off a vocabulary of single characters.
std::string normalised(const std::string& text, const std::map<std::string, std::string>& map, bool squeezes = true,
                       bool prefix = true) {
  std::vector<std::pair<std::string, float>> letters;
  for (const char* c : {"a", "b", "c", "f", "i", "x", kSpace, "\xC3\xA9", "e", "\xCC\x81", "\xEF\xBF\xBD"})
    letters.emplace_back(c, -1.0f);
  GgufBuilder builder = toy_unigram(letters, {"<T>"}, map);
  builder.set_bool("tokenizer.ggml.remove_extra_whitespaces", squeezes);
  builder.set_bool("tokenizer.ggml.add_space_prefix", prefix);
  const OpenTokenizer tokenizer(builder);
  if (!tokenizer.status().ok()) return tokenizer.status().c_str();
  std::string out;
  for (const int32_t id : encode(*tokenizer, text))
    out += id == 2 ? "?" : std::string(tokenizer->vocabulary().spelling(static_cast<uint32_t>(id)));
  for (size_t at; (at = out.find(kSpace)) != std::string::npos;) out.replace(at, 3, "_");
  return out;
}

// The best sum by trying every way to part the text.
double best_by_trying(const std::map<std::string, float>& scores, const std::string& text) {
  if (text.empty()) return 0;
  double best = -1e30;
  for (size_t n = 1; n <= text.size(); ++n)
    if (const auto found = scores.find(text.substr(0, n)); found != scores.end())
      best = std::max(best, double{found->second} + best_by_trying(scores, text.substr(n)));
  return best;
}

}   // namespace

TEST_CASE("Unigram puts one blank before a text and takes the others at its ends and in rows", "[tokenizer][unit]") {
  CHECK(normalised("a  b ", {}) == "_a_b");
  CHECK(normalised("   a", {}) == "_a");
  CHECK(normalised("", {}) == "");
  CHECK(normalised("   ", {}) == "");
  CHECK(normalised("a  b ", {}, false) == "_a__b_");
  CHECK(normalised("a  b ", {}, true, false) == "a_b");
  CHECK(normalised(" a\xE2\x96\x81\xE2\x96\x81", {}) == "_a");   // a typed U+2581 at the end goes, too
  CHECK(normalised("a\xE2\x96\x81 b", {}) == "_a__b");           // but is no blank in a row
}

TEST_CASE("Unigram replaces the longest text that its map has, once", "[tokenizer][unit]") {
  const std::map<std::string, std::string> map = {
      {"\xEF\xAC\x81", "fi"}, {"e\xCC\x81", "\xC3\xA9"}, {"A", "a"}, {"AB", "x"}, {"\t", " "}, {"C", ""}, {"X", " A"}};
  CHECK(normalised("\xEF\xAC\x81", map) == "_fi");
  CHECK(normalised("e\xCC\x81"
                   "e",
                   map) ==
        "_\xC3\xA9"
        "e");
  CHECK(normalised("AAB", map) == "_ax");
  CHECK(normalised("\ta\t\tb\t", map) == "_a_b");
  CHECK(normalised("aCb", map) == "_ab");
  CHECK(normalised("C", map) == "");        // the blank before the text is one at its end
  CHECK(normalised("aX", map) == "_a_?");   // what stands for a text is not replaced again
  CHECK(normalised("\xFF", map) == "_\xEF\xBF\xBD");
}

TEST_CASE("User-defined pieces stand as they are in a unigram text", "[tokenizer][unit]") {
  const std::map<std::string, std::string> map = {{"<", "a"}, {"T", "b"}};
  CHECK(normalised("<T>T< <T>", map) == "_<T>ba_<T>");
  // It counts -0.1, however bad its score.
  CHECK(encode(*OpenTokenizer(toy_unigram({{kSpace, -1}, {"a", -0.06f}, {"b", -0.06f}}, {"ab"})), "ab") == Ids{4, 3});
  CHECK(encode(*OpenTokenizer(toy_unigram({{kSpace, -1}, {"a", -0.04f}, {"b", -0.04f}}, {"ab"})), "ab") ==
        Ids{4, 5, 6});
}

TEST_CASE("Unigram finds the best sum, as trying all does", "[tokenizer][unit]") {
  std::mt19937 random(19);
  size_t wrong = 0, compared = 0;
  for (int round = 0; round < 40; ++round) {
    std::map<std::string, float> scores = {{"a", -9}, {"b", -9}, {"c", -9}, {kSpace, -1}};
    for (int i = 0; i < 25; ++i) {
      std::string text;
      for (size_t n = 2 + random() % 4; n > 0; --n) text += "abc"[random() % 3];
      scores[text] = -1.0f - static_cast<float>(random() % 4096) / 256;   // sums are exact
    }
    const std::vector<std::pair<std::string, float>> pieces(scores.begin(), scores.end());
    const OpenTokenizer tokenizer(toy_unigram(pieces));
    for (int i = 0; i < 10; ++i, ++compared) {
      std::string text;
      for (size_t n = 1 + random() % 10; n > 0; --n) text += "abc"[random() % 3];
      double sum = 0;
      const Ids ids = encode(*tokenizer, text);
      for (const int32_t id : ids) sum += double{pieces[static_cast<size_t>(id - 3)].second};
      wrong += detokenize(*tokenizer, ids) != text || sum != best_by_trying(scores, text) - 1;
    }
  }
  CHECK(compared == 400);
  CHECK(wrong == 0);
}

TEST_CASE("What unigram does not know is one unknown piece a run, or its bytes", "[tokenizer][unit]") {
  GgufBuilder builder = toy_unigram({{kSpace, -1}, {"a", -2}});
  CHECK(encode(*OpenTokenizer(builder), "axyza", true) == Ids{3, 4, 2, 4, 1});   // the end token is the kind's default
  CHECK(detokenize(*OpenTokenizer(builder), {3, 4, 2, 3, 4}) == "a<unk> a");
  std::vector<std::string> tokens = {"<unk>", "</s>", kSpace, "a"};
  std::vector<int32_t> types = {2, 3, 1, 1};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
    types.push_back(6);
  }
  builder.set_strings("tokenizer.ggml.tokens", tokens);
  builder.set_array("tokenizer.ggml.token_type", Type::int32, types);
  builder.set_array("tokenizer.ggml.scores", Type::float32, std::vector<float>(tokens.size(), -1));
  CHECK(encode(*OpenTokenizer(builder), "a\xC3\xA9") == Ids{2, 3, 4 + 0xC3, 4 + 0xA9});
}

TEST_CASE("Of two ways with equal sums unigram keeps the one that it found first", "[tokenizer][unit]") {
  // aa|a and a|aa: the first to reach the end starts earlier.
  const OpenTokenizer tokenizer(toy_unigram({{kSpace, -1}, {"a", -1}, {"aa", -1}}));
  CHECK(encode(*tokenizer, "aaa") == Ids{3, 4, 5});
}

TEST_CASE("A text whose map makes it eleven times as long has room", "[tokenizer][unit]") {
  const std::map<std::string, std::string> map = {{"\xEF\xB7\xBA", std::string(33, 'a')}, {"a", "bbbbbbbbbb "}};
  const OpenTokenizer tokenizer(toy_unigram({{kSpace, -1}, {"a", -1}, {"b", -1}}, {}, map));
  REQUIRE(tokenizer.status().ok());
  for (const std::string part : {"\xEF\xB7\xBA", "a", "a\xEF\xB7\xBA", "\xFF", "x a"})
    for (const size_t count : {size_t{1}, size_t{10}, size_t{100}, size_t{5000}}) {
      std::string text;
      for (size_t i = 0; i < count; ++i) text += part;
      const uint64_t exact = tokenizer->scratch_bytes(std::string_view(text)),
                     any = tokenizer->scratch_bytes(text.size());
      CHECK(exact <= any);
      std::vector<std::byte> scratch(static_cast<size_t>(exact));
      Ids ids(40 * text.size());
      const Result<Encoded> encoded = tokenizer->encode(TextPart{text}, false, ids, scratch);
      REQUIRE(encoded.status().message() == "");
      ids.resize(static_cast<size_t>(encoded.value().n_tokens));
      CHECK(ids.size() > (part[0] == '\xFF' ? 1 : count));
    }
}

TEST_CASE("A text of a map that is not whole characters is not replaced", "[tokenizer][unit]") {
  // U+00E9 by its first byte alone; and a text that is longer than any that is looked at.
  CHECK(normalised("\xC3\xA9", {{"\xC3", "x"}}) == "_\xC3\xA9");
  CHECK(normalised(std::string(64, 'a'), {{std::string(64, 'a'), "x"}}) == "_x");
  CHECK(normalised(std::string(65, 'a'), {{std::string(65, 'a'), "x"}}).size() == 66);
}

}   // namespace mote::test
