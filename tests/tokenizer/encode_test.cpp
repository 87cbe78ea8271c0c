// The pieces of encoding that goldens of real vocabularies cannot show one by one.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <random>

#include "core/tokenizer/pre_tokenizer.h"
#include "tests/support/zero_pages.h"
#include "tests/tokenizer/toy_tokenizer.h"

namespace mote::test {
namespace {

std::vector<std::string> words(std::string_view pre, std::string_view text) {
  WordScanner scanner(*find_pre_tokenizer(pre), text);
  std::vector<std::string> out;
  for (std::string_view word; scanner.next(&word);) out.emplace_back(word);
  return out;
}

using Words = std::vector<std::string>;

// Merging as the paper has it: over and over the earliest merge, everywhere leftmost first.
Ids merge_naively(const ToyPairs& toy, std::string_view word) {
  std::vector<std::string> symbols;
  for (const char byte : word) symbols.emplace_back(1, byte);
  for (;;) {
    size_t best = toy.merges.size(), at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i)
      for (size_t m = 0; m < best; ++m)
        if (toy.merges[m].first == symbols[i] && toy.merges[m].second == symbols[i + 1]) best = m, at = i;
    if (best == toy.merges.size()) break;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  Ids ids;
  for (const std::string& symbol : symbols) {
    int32_t id = symbol.size() == 1 ? static_cast<unsigned char>(symbol[0]) : -1;
    for (size_t m = 0; m < toy.merges.size() && id < 0; ++m)
      if (toy.merges[m].first + toy.merges[m].second == symbol) id = static_cast<int32_t>(256 + m);
    ids.push_back(id);
  }
  return ids;
}

std::string random_letters(std::mt19937& random, size_t length) {
  std::string text;
  while (text.size() < length) text += "abc"[random() % 3];
  return text;
}

}   // namespace

TEST_CASE("Words part where the reference's expressions part them", "[tokenizer][unit]") {
  CHECK(words("gpt-2", "it's  a\n\n 12x'LL") == Words{"it", "'s", " ", " a", "\n\n", " 12", "x", "'", "LL"});
  CHECK(words("gpt-2", "he'll've") == Words{"he", "'ll", "'ve"});
  CHECK(words("gpt-2", "a \t") == Words{"a", " \t"});
  CHECK(words("gpt-2", " ' 's'") == Words{" '", " '", "s", "'"});
  CHECK(words("smollm", "a  42b") == Words{"a", "  ", "4", "2", "b"});
  CHECK(words("smollm", "\xC2\xB2x") == Words{"\xC2\xB2", "x"});
  CHECK(words("llama-bpe", "12345 (x)\r\n\n  y") == Words{"123", "45", " (", "x", ")\r\n\n", " ", " y"});
  CHECK(words("llama-bpe", "I'LL \xC5\xBF'\xC5\xBFx") == Words{"I", "'LL", " \xC5\xBF", "'\xC5\xBF", "x"});
  CHECK(words("llama-bpe", " \n \n x\t\ty") == Words{" \n \n", " x", "\t", "\ty"});
  CHECK(words("qwen2", "12 !?\n") == Words{"1", "2", " !?\n"});
  CHECK(words("qwen2", "\n\n") == Words{"\n\n"});
  CHECK(words("llama-bpe", "\nab") == Words{"\n", "ab"});
  for (const char* name : {"no such", "", "gpt", "gpt-2 ", "llama", "Qwen2"})
    CHECK(find_pre_tokenizer(name) == nullptr);
}

TEST_CASE("Words of every pre-tokeniser follow each other without gaps, whatever the text", "[tokenizer][unit]") {
  std::mt19937 random(7);
  const std::string alphabet_of_tests[] = {
      "a", "'", "s", " ", "\n", "\r", "\t", "7", "!", "\xC3\xA9", "\xCC\x81", "\xE3\x80\x80", "\xF0\x9F\x98\x80"};
  size_t wrong = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += alphabet_of_tests[random() % std::size(alphabet_of_tests)];
    for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
      std::string joined;
      for (const std::string& word : words(pre, text)) wrong += word.empty(), joined += word;
      wrong += joined != text;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("Short, stack and heap merging agree with merging by the book", "[tokenizer][unit]") {
  std::mt19937 random(11);
  size_t wrong = 0, compared = 0;
  for (int vocabulary = 0; vocabulary < 20; ++vocabulary) {
    ToyPairs toy;
    std::vector<std::string> known = {"a", "b", "c"};
    for (int i = 0; i < 40; ++i) {
      const std::string left = known[random() % known.size()], right = known[random() % known.size()];
      if (std::find(known.begin(), known.end(), left + right) != known.end()) continue;
      toy.merges.emplace_back(left, right);
      known.push_back(left + right);
    }
    const OpenTokenizer tokenizer(toy_byte_level(toy));
    REQUIRE(tokenizer.status().ok());
    for (const size_t length : std::initializer_list<size_t>{1, 2, 5, 23, 24, 25, 26, 100, 159, 160, 161, 400}) {
      const std::string word = random_letters(random, length);
      wrong += encode(*tokenizer, word) != merge_naively(toy, word);
      ++compared;
    }
  }
  CHECK(compared == 240);
  CHECK(wrong == 0);
}

TEST_CASE("SentencePiece merges by score, then by place, and agrees with doing so by the book", "[tokenizer][unit]") {
  std::mt19937 random(13);
  size_t wrong = 0;
  for (int vocabulary = 0; vocabulary < 20; ++vocabulary) {
    std::vector<std::string> pieces = {"a", "b", "c"};
    for (int i = 0; i < 60; ++i) {
      const std::string piece = pieces[random() % pieces.size()] + pieces[random() % pieces.size()];
      if (std::find(pieces.begin(), pieces.end(), piece) == pieces.end()) pieces.push_back(piece);
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    GgufBuilder builder = toy_sentencepiece(pieces);
    builder.set_bool("tokenizer.ggml.add_space_prefix", false);
    const OpenTokenizer tokenizer(builder);
    REQUIRE(tokenizer.status().ok());
    for (const size_t length : std::initializer_list<size_t>{1, 2, 7, 30, 139, 140, 141, 300}) {
      const std::string text = random_letters(random, length);
      std::vector<std::string> symbols;
      for (const char c : text) symbols.emplace_back(1, c);
      for (;;) {
        size_t best = pieces.size(), at = 0;
        for (size_t i = 0; i + 1 < symbols.size(); ++i) {
          const auto found = static_cast<size_t>(std::find(pieces.begin(), pieces.end(), symbols[i] + symbols[i + 1]) -
                                                 pieces.begin());
          if (found < best) best = found, at = i;
        }
        if (best == pieces.size()) break;
        symbols[at] += symbols[at + 1];
        symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
      }
      Ids expected;
      for (const std::string& symbol : symbols)
        expected.push_back(
            static_cast<int32_t>(259 + (std::find(pieces.begin(), pieces.end(), symbol) - pieces.begin())));
      wrong += encode(*tokenizer, text) != expected;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("A word that is a piece is that piece only where the pre-tokeniser says so", "[tokenizer][unit]") {
  ToyPairs toy{.merges = {{"b", "c"}, {"a", "b"}, {"ab", "c"}}};
  CHECK(encode(*OpenTokenizer(toy_byte_level(toy)), "abc") == Ids{'a', 256});
  toy.pre = "llama-bpe";
  CHECK(encode(*OpenTokenizer(toy_byte_level(toy)), "abc") == Ids{258});
}

TEST_CASE("Composed and decomposed text are the same to qwen2 and different to the others", "[tokenizer][unit]") {
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    const OpenTokenizer tokenizer(toy_byte_level({.pre = pre}));
    const bool same = encode(*tokenizer, "e\xCC\x81") == encode(*tokenizer, "\xC3\xA9");
    CHECK(same == (std::string_view(pre) == "qwen2"));
  }
}

TEST_CASE("Bytes and characters without a piece become byte pieces, or one unknown piece a run", "[tokenizer][unit]") {
  const OpenTokenizer bytes(toy_sentencepiece({"\xE2\x96\x81", "a"}));
  CHECK(encode(*bytes, "a\xC3\xA9") == Ids{259, 260, 3 + 0xC3, 3 + 0xA9});
  GgufBuilder builder;
  builder.set_string("tokenizer.ggml.model", "llama");
  builder.set_strings("tokenizer.ggml.tokens", {"<unk>", "a", "\xE2\x96\x81"});
  builder.set_array("tokenizer.ggml.token_type", Type::int32, std::vector<int32_t>{2, 1, 1});
  builder.set_array("tokenizer.ggml.scores", Type::float32, std::vector<float>{0, 0, 0});
  const OpenTokenizer unknown(builder);
  CHECK(encode(*unknown, "axyza") == Ids{2, 1, 0, 1});

  ToyPairs toy;
  GgufBuilder lacking = toy_byte_level(toy);
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.push_back(b == 'x' ? "xx" : alphabet(static_cast<unsigned char>(b)));
  lacking.set_strings("tokenizer.ggml.tokens", tokens);
  CHECK(encode(*OpenTokenizer(lacking), "axb") == Ids{'a', 'b'});
  lacking.set_u32("tokenizer.ggml.unknown_token_id", 'u');   // byte-level has no use for it, as in the reference
  CHECK(encode(*OpenTokenizer(lacking), "axb") == Ids{'a', 'b'});
}

TEST_CASE("A score of -0 is as good as one of 0", "[tokenizer][unit]") {
  GgufBuilder builder = toy_sentencepiece({"a", "b", "c", "ab", "bc"});   // 259 and up
  builder.set_bool("tokenizer.ggml.add_space_prefix", false);
  std::vector<float> scores(264, -1.0f);
  scores[262] = -0.0f, scores[263] = 0.0f;
  builder.set_array("tokenizer.ggml.scores", Type::float32, scores);
  CHECK(encode(*OpenTokenizer(builder), "abc") == Ids{262, 261});
}

TEST_CASE("Whatever wants scratch says so when it gets too little, and writes nothing beyond it", "[tokenizer][unit]") {
  struct Case {
    OpenTokenizer tokenizer;
    std::string text;
  };
  std::vector<Case> cases;
  cases.push_back({OpenTokenizer(toy_byte_level({})), "\xFF"});                      // a text of its own
  cases.push_back({OpenTokenizer(toy_byte_level({})), std::string(1000, 'x')});      // merging
  cases.push_back({OpenTokenizer(toy_byte_level({.pre = "qwen2"})), "e\xCC\x81"});   // normalising
  cases.push_back({OpenTokenizer(toy_sentencepiece({"a"})), "a"});                   // the blank before the text
  cases.push_back({OpenTokenizer(toy_sentencepiece({"a"})), std::string(1000, 'a')});
  for (const Case& one : cases) {
    INFO(one.text);
    const auto needed = static_cast<size_t>(one.tokenizer->scratch_bytes(std::string_view(one.text)));
    std::vector<std::byte> memory(needed + 64, std::byte{0xA5});
    CHECK(one.tokenizer->encode(TextPart{one.text}, false, {}, {}).status().code() == Code::buffer_too_small);
    size_t wrong = 0;
    for (size_t given = 0; given <= needed; given += given < 64 || given + 64 > needed ? 1 : 61) {
      std::fill(memory.begin(), memory.end(), std::byte{0xA5});
      const Status status =
          one.tokenizer->encode(TextPart{one.text}, false, {}, std::span(memory).first(given)).status();
      wrong += !status.ok() && status.code() != Code::buffer_too_small;
      wrong += given == needed && !status.ok();
      wrong += std::any_of(memory.begin() + static_cast<ptrdiff_t>(given), memory.end(),
                           [](std::byte b) { return b != std::byte{0xA5}; });
      if (status.ok()) continue;
      // What the sentence asks for is enough, wherever it lies, for texts that want only one thing.
      if (one.text.size() < 1000 || one.text[0] == 'a') continue;
      const size_t asked = std::stoul(status.c_str() + std::string_view("tokenising this text needs ").size());
      std::vector<std::byte> again(asked + 1);
      wrong += !one.tokenizer->encode(TextPart{one.text}, false, {}, std::span(again).subspan(1)).ok();
    }
    CHECK(wrong == 0);
  }
  const OpenTokenizer chatting(toy_byte_level({}));
  const ChatMessage message{"user", "a"};
  CHECK(chatting->chat_tokens(*find_chat_format("chatml").value(), {std::span(&message, 1), true}, {}, {})
            .status()
            .code() == Code::buffer_too_small);
}

TEST_CASE("Scratch serves one word after the other", "[tokenizer][unit]") {
  const OpenTokenizer tokenizer(toy_byte_level({}));
  std::string text;
  for (int i = 0; i < 20; ++i) text += std::string(1000, 'x') + " ";
  std::vector<std::byte> scratch(BytePairs::scratch_bytes(1001) + 64);
  CHECK(tokenizer->encode(TextPart{text}, false, {}, scratch).value().n_tokens == text.size());
}

TEST_CASE("A character that grows to three under NFC has room", "[tokenizer][unit]") {
  const OpenTokenizer tokenizer(toy_byte_level({.pre = "qwen2", .merges = {{"\xF0", "\x9D"}}}));
  for (const int word : {100, 500}) {   // merged in scratch memory, behind the composed text
    std::string text, expected;
    for (int i = 0; i < 500; ++i) {
      if (i % word == 0) text += " ", expected += " ";
      text += "\xF0\x9D\x87\x80";   // U+1D1C0
      expected += "\xF0\x9D\x86\xBA\xF0\x9D\x85\xA5\xF0\x9D\x85\xAF";
    }
    std::vector<std::byte> scratch(static_cast<size_t>(tokenizer->scratch_bytes(std::string_view(text))));
    Ids ids(expected.size());
    const Result<Encoded> encoded = tokenizer->encode(TextPart{text}, false, ids, scratch);
    REQUIRE(encoded.status().message() == "");
    CHECK(encoded.value().n_tokens == expected.size() - 1500);
    ids.resize(static_cast<size_t>(encoded.value().n_tokens));
    CHECK(detokenize(*tokenizer, ids) == expected);
  }
}

TEST_CASE("A text beyond 256 MiB is refused, also when it only grows beyond", "[tokenizer][unit]") {
  const OpenTokenizer tokenizer(toy_byte_level({}));
  const ZeroPages pages({}, (uint64_t{1} << 28) + 1);
  if (pages.span().empty()) SKIP("no address space for 256 MiB");
  const std::string_view zeros(reinterpret_cast<const char*>(pages.span().data()), pages.span().size());
  const Status large = tokenizer->encode(TextPart{zeros}, false, {}, {}).status();
  CHECK(large.code() == Code::invalid_argument);
  CHECK(large.message() == "the text has over 268435456 bytes");
  const std::string bad(1 << 20, '\xFF');
  const std::vector<TextPart> parts(86, TextPart{bad});   // 86 MiB, 258 MiB of U+FFFD
  CHECK(tokenizer->encode(parts, false, {}, {}).status().message() ==
        "the text has 270532608 bytes after bad UTF-8 is replaced, at most 268435456 are allowed");
}

TEST_CASE("Ids beyond the output are counted and not written; too little scratch says how much is wanted",
          "[tokenizer][unit]") {
  const OpenTokenizer tokenizer(toy_byte_level({}));
  Ids ids(4, -7);
  const Result<Encoded> cut = tokenizer->encode(TextPart{"abcdef"}, false, std::span(ids).first(3), {});
  CHECK(cut.value().n_tokens == 6);
  CHECK(ids == Ids{'a', 'b', 'c', -7});

  const std::string long_word(1000, 'x');
  const Result<Encoded> refused = tokenizer->encode(TextPart{long_word}, false, {}, {});
  CHECK(refused.status().code() == Code::buffer_too_small);
  CHECK(refused.status().message().find("bytes of scratch memory") != std::string_view::npos);
  std::vector<std::byte> scratch(static_cast<size_t>(tokenizer->scratch_bytes(std::string_view(long_word))));
  CHECK(tokenizer->encode(TextPart{long_word}, false, {}, scratch).value().n_tokens == 1000);
}

TEST_CASE("The scratch that is asked for is enough at any address, for any text", "[tokenizer][unit]") {
  std::mt19937 random(5);
  size_t failed = 0, compared = 0;
  std::vector<OpenTokenizer> tokenizers;
  for (const char* pre : {"gpt-2", "qwen2"}) tokenizers.emplace_back(toy_byte_level({.pre = pre, .control = {"<x>"}}));
  tokenizers.emplace_back(toy_sentencepiece({"a"}));
  const std::string parts[] = {"\xFF", "e\xCC\x81", "\xF0\x9D\x87\x80", "a", " ", "<x>", "\xED\xA0\x80"};
  for (const OpenTokenizer& tokenizer : tokenizers)
    for (int i = 0; i < 300; ++i, ++compared) {
      std::string text;
      const std::string& part = parts[random() % std::size(parts)];
      for (size_t n = random() % 300; n > 0; --n) text += random() % 4 == 0 ? parts[random() % std::size(parts)] : part;
      const size_t shift = random() % 8;
      for (const uint64_t bytes :
           {tokenizer->scratch_bytes(std::string_view(text)), tokenizer->scratch_bytes(uint64_t{text.size()})}) {
        std::vector<std::byte> scratch(static_cast<size_t>(bytes) + shift);
        failed += !tokenizer->encode(TextPart{text, true}, true, {}, std::span(scratch).subspan(shift)).ok();
      }
    }
  CHECK(compared == 900);
  CHECK(failed == 0);
}

TEST_CASE("Text without control tokens comes back to the byte", "[tokenizer][unit]") {
  std::mt19937 random(3);
  std::vector<OpenTokenizer> tokenizers;
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe"})
    tokenizers.emplace_back(toy_byte_level({.pre = pre, .merges = {{"a", "b"}}, .control = {"<x>"}}));
  tokenizers.emplace_back(toy_sentencepiece({"\xE2\x96\x81", "a", "b", "ab"}));
  size_t wrong = 0;
  const std::string parts[] = {"<x>", "ab", " ", "  ", "\n", "<0x41>", "\xC3\xA9", "<s>", "\xF0\x9F\x98\x80"};
  for (const OpenTokenizer& tokenizer : tokenizers)
    for (int i = 0; i < 500; ++i) {
      std::string text;
      for (size_t n = random() % 20; n > 0; --n) text += parts[random() % std::size(parts)];
      wrong += detokenize(*tokenizer, encode(*tokenizer, text)) != text;
    }
  CHECK(wrong == 0);
}

TEST_CASE("A token outside of the vocabulary is a status, and no piece", "[tokenizer][unit]") {
  const OpenTokenizer tokenizer(toy_byte_level({}));
  for (const int32_t id : {-1, 256, INT32_MIN, INT32_MAX}) {
    const Result<uint64_t> bytes = tokenizer->detokenize(std::span(&id, 1), true, {});
    CHECK(bytes.status().code() == Code::invalid_argument);
    CHECK(bytes.status().message() == "token " + std::to_string(id) + " is outside of the vocabulary of 256");
    CHECK(tokenizer->piece(id, true, {}) == 0);
    CHECK_FALSE(tokenizer->is_end(id));
  }
}

}   // namespace mote::test
