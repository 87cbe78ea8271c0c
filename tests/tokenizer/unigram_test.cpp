// SentencePiece unigram: what a text is normalised to, and which pieces make the best of it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "core/tokenizer/char_map.h"
#include "tests/support/char_map.h"
#include "tests/tokenizer/toy_tokenizer.h"

namespace mote::test {
namespace {

constexpr const char* kSpace = "\xE2\x96\x81";

struct Hostile {
  const char* what;
  std::function<void(GgufBuilder&)> change;
  const char* sentence;   // must be in the message
};

std::string key(const char* name) { return std::string("tokenizer.ggml.") + name; }

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

TEST_CASE("Unigram metadata that contradicts itself is refused in one sentence", "[tokenizer][hostile]") {
  const auto with_map = [](std::vector<uint8_t> map) {
    return [=](GgufBuilder& b) { b.set_array(key("precompiled_charsmap"), Type::uint8, map); };
  };
  // A trie of these units, then the texts.
  const auto made = [&](std::vector<uint32_t> units, const std::string& texts, uint32_t trie_bytes) {
    std::vector<uint8_t> map(4 + 4 * units.size());
    std::memcpy(map.data(), &trie_bytes, 4);
    if (!units.empty()) std::memcpy(map.data() + 4, units.data(), 4 * units.size());
    map.insert(map.end(), texts.begin(), texts.end());
    return with_map(map);
  };
  constexpr uint32_t kStep = 1u << 10 | 1u << 8;   // to the next unit, which is a value
  const auto with_score = [](float score) {
    return [=](GgufBuilder& b) { b.set_array(key("scores"), Type::float32, std::vector<float>(4, score)); };
  };
  const GgufBuilder good = toy_unigram({{"a", -1}});
  REQUIRE(OpenTokenizer(good).status().ok());
  const Hostile table[] = {
      {"score not a number", with_score(std::nanf("")), "the score of piece 0 is not a number"},
      {"infinite score", with_score(-INFINITY), "the score of piece 3 is not within 1000000000 of 0"},
      {"huge score", with_score(3e38f), "the score of piece 3 is not within 1000000000 of 0"},
      {"no bytes and no unknown",
       [](GgufBuilder& b) { b.set_array(key("token_type"), Type::int32, std::vector<int32_t>{3, 3, 3, 1}); },
       "neither byte pieces nor an unknown piece"},
      {"a long piece",
       [](GgufBuilder& b) { b.set_strings(key("tokens"), {"<pad>", "</s>", "<unk>", std::string(257, 'x')}); },
       "piece 3 has 257 bytes, SentencePiece pieces have at most 256"},
      {"a piece that is long with its blanks",
       [](GgufBuilder& b) { b.set_strings(key("tokens"), {"<pad>", "</s>", "<unk>", std::string(86, ' ')}); },
       "piece 3 has 258 bytes, SentencePiece pieces have at most 256"},
      {"a map that is text", [](GgufBuilder& b) { b.set_string(key("precompiled_charsmap"), "x"); },
       "tokenizer.ggml.precompiled_charsmap is of type string"},
      {"a map of wide numbers",
       [](GgufBuilder& b) { b.set_array(key("precompiled_charsmap"), Type::uint32, std::vector<uint32_t>{4, 0}); },
       "tokenizer.ggml.precompiled_charsmap is an array of uint32"},
      {"a map of three bytes", with_map({4, 0, 0}), "has 3 bytes and cannot hold a trie"},
      {"a trie of nothing", made({}, "", 0), "has 4 bytes and cannot hold a trie of 0"},
      {"a trie of half a unit", made({0, 0}, "", 6), "cannot hold a trie of 6"},
      {"a trie beyond the end", made({0, 0}, "", 12), "has 12 bytes and cannot hold a trie of 12"},
      {"an endless trie", made({0}, "", 0xFFFFFFFC), "cannot hold a trie of 4294967292"},
      {"a step to a unit beyond", made({kStep}, "x", 4), "unit 0 leads to a value that is not there"},
      {"a value beyond the texts", made({kStep, 0x80000001u}, "x", 8), "unit 0 leads to a value that is not there"},
      {"a value without an end", made({kStep, 0x80000000u}, "x", 8), "the value at byte 0 has over 1 bytes, or no end"},
      {"an endless value", made({kStep, 0x80000000u}, std::string(300, 'x') + '\0', 8),
       "the value at byte 0 has over 255 bytes"},
      {"a value that is not UTF-8", made({kStep, 0x80000000u}, std::string("\xC3\0", 2), 8),
       "the value at byte 0 is not UTF-8"},
      {"space prefix as text", [](GgufBuilder& b) { b.set_string(key("add_space_prefix"), "true"); },
       "tokenizer.ggml.add_space_prefix is of type"},
  };
  for (const Hostile& hostile : table) {
    INFO(hostile.what);
    GgufBuilder builder = good;
    hostile.change(builder);
    const Status status = OpenTokenizer(builder).status();
    INFO(status.c_str());
    CHECK((status.code() == Code::bad_model || status.code() == Code::unsupported));
    CHECK(status.message().find(hostile.sentence) != std::string_view::npos);
  }
}

TEST_CASE("Every damaged byte of a character map is refused or stays within its bounds", "[tokenizer][hostile]") {
  const std::vector<uint8_t> whole =
      char_map({{"A", "a"}, {"\xEF\xAC\x81", "fi"}, {"e\xCC\x81", "\xC3\xA9"}, {"\xE3\x80\x80", " "}, {"AB", ""}});
  size_t opened = 0, refused = 0;
  for (size_t at = 0; at < whole.size(); ++at)
    for (const int flip : {0x01, 0x02, 0x40, 0x80, 0xFF}) {
      std::vector<uint8_t> map = whole;
      map[at] = static_cast<uint8_t>(map[at] ^ flip);
      GgufBuilder builder = toy_unigram({{"a", -1}, {"f", -2}, {"\xE2\x96\x81", -3}});
      builder.set_array(key("precompiled_charsmap"), Type::uint8, map);
      const OpenTokenizer tokenizer(builder);
      opened += tokenizer.status().ok(), refused += !tokenizer.status().ok();
      if (!tokenizer.status().ok()) continue;
      for (const char* text : {"", "ABA \xEF\xAC\x81 e\xCC\x81\xE3\x80\x80", "AB", "\xFF\xEF\xAC"})
        encode(*tokenizer, text);
    }
  CHECK(opened > 100);
  CHECK(refused > 100);
}

}   // namespace mote::test
