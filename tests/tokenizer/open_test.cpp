// Opening a vocabulary: exact quotes, and metadata that means ill.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>

#include "tests/support/zero_pages.h"
#include "tests/tokenizer/toy_tokenizer.h"

namespace mote::test {
namespace {

constexpr const char* kPrefix = "tokenizer.ggml.";

struct Hostile {
  const char* what;
  std::function<void(GgufBuilder&)> change;
  const char* sentence;   // must be in the message
};

ToyPairs small_toy() { return {.merges = {{"a", "b"}, {"ab", "c"}}, .control = {"<end>"}}; }

std::vector<std::string> tokens_of(const ToyPairs& toy) {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.push_back(alphabet(static_cast<unsigned char>(b)));
  for (const auto& [left, right] : toy.merges) tokens.push_back(alphabet(left + right));
  tokens.insert(tokens.end(), toy.control.begin(), toy.control.end());
  return tokens;
}

void check_refusals(const GgufBuilder& good, const std::vector<Hostile>& table) {
  REQUIRE(OpenTokenizer(good).status().ok());
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

std::string key(const char* name) { return std::string(kPrefix) + name; }

}   // namespace

TEST_CASE("The hash of a text is the same byte by byte and in words, wherever it stands", "[tokenizer][open]") {
  const std::string letters = "8 bytes.the rest of a text, some words long";   // its first 8 bytes stand for a length
  int n_wrong = 0, n_equal = 0;
  std::vector<uint64_t> seen;
  for (size_t size = 0; size + 8 <= letters.size(); ++size) {
    const std::string text = letters.substr(8, size);   // with nothing readable before or behind it
    PieceHash bytes, words, behind_length, stopped;
    for (const char c : text) bytes.add(static_cast<uint8_t>(c));
    n_wrong += !words.add_all(text, false) || words.value() != bytes.value();
    const std::string_view in_file(letters.data() + 8, size);
    n_wrong += !behind_length.add_all(in_file, false, true) || behind_length.value() != bytes.value();
    n_wrong += stopped.add_all(text, true) != (text.find(' ') == std::string::npos);
    for (const uint64_t other : seen) n_equal += other == bytes.value();
    seen.push_back(bytes.value());
  }
  PieceHash zero, two_zeros;
  zero.add(0), two_zeros.add(0), two_zeros.add(0);
  n_equal += zero.value() == two_zeros.value() || zero.value() == PieceHash().value();
  CHECK(n_wrong == 0);
  CHECK(n_equal == 0);
}

TEST_CASE("A tokenizer takes exactly what was quoted, and one byte less is a status", "[tokenizer][memory]") {
  for (const GgufBuilder& builder :
       {toy_byte_level(small_toy()), toy_sentencepiece({"a", "b", "ab"}, {"<x>"}),
        toy_unigram({{"a", -1}, {"ab", -2}}, {"<x>"}, {{"A", "a"}}), toy_word_pieces({"a", "ab"}, {"b"})}) {
    const std::vector<uint8_t> bytes = builder.bytes();
    const Result<gguf::File> file = gguf::File::open(bytes);
    REQUIRE(file.ok());
    Arena measure;
    const Result<Tokenizer*> measured = Tokenizer::create(file.value(), measure);
    REQUIRE(measured.ok());
    CHECK(measured.value() == nullptr);
    const uint64_t quote = measure.used_bytes();
    std::vector<std::byte> memory(static_cast<size_t>(quote) + 128);
    std::byte* aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    for (const uint64_t given : {quote, quote - 1, quote - 64, quote / 2, uint64_t{0}}) {
      std::fill(memory.begin(), memory.end(), std::byte{0xA5});
      Arena arena(aligned, given);
      const Result<Tokenizer*> opened = Tokenizer::create(file.value(), arena);
      CHECK(opened.ok() == (given == quote));
      CHECK((opened.ok() || opened.status().code() == Code::out_of_memory));
      CHECK(aligned[given] == std::byte{0xA5});
    }
  }
}

TEST_CASE("Byte-level metadata that contradicts itself is refused in one sentence", "[tokenizer][hostile]") {
  const ToyPairs toy = small_toy();
  const auto with_token = [toy](size_t id, const std::string& text) {
    return [=](GgufBuilder& b) {
      std::vector<std::string> tokens = tokens_of(toy);
      tokens[id] = text;
      b.set_strings(key("tokens"), tokens);
    };
  };
  const auto with_merges = [](std::vector<std::string> merges) {
    return [=](GgufBuilder& b) { b.set_strings(key("merges"), merges); };
  };
  check_refusals(
      toy_byte_level(toy),
      {
          {"no model", [](GgufBuilder& b) { b.remove(key("model")); }, "the file has no tokenizer.ggml.model"},
          {"model of a number", [](GgufBuilder& b) { b.set_u32(key("model"), 1); }, "tokenizer.ggml.model is of type"},
          {"unknown model", [](GgufBuilder& b) { b.set_string(key("model"), "rwkv"); },
           "tokenizer.ggml.model is rwkv, this build knows gpt2 (byte-level BPE), llama (SentencePiece BPE), t5"},
          {"WordPiece without an unknown piece", [](GgufBuilder& b) { b.set_string(key("model"), "bert"); },
           "tokenizer.ggml.tokens has no unknown piece"},
          {"unigram without scores", [](GgufBuilder& b) { b.set_string(key("model"), "t5"); },
           "the file has no tokenizer.ggml.scores"},
          {"no pre", [](GgufBuilder& b) { b.remove(key("pre")); }, "the file has no tokenizer.ggml.pre"},
          {"unknown pre", [](GgufBuilder& b) { b.set_string(key("pre"), "tekken"); },
           "tokenizer.ggml.pre is tekken, this build knows gpt-2, smollm, llama-bpe, qwen2"},
          {"no tokens", [](GgufBuilder& b) { b.remove(key("tokens")); }, "the file has no tokenizer.ggml.tokens"},
          {"tokens of numbers",
           [](GgufBuilder& b) { b.set_array(key("tokens"), Type::uint32, std::vector<uint32_t>(259)); },
           "tokenizer.ggml.tokens is an array of"},
          {"zero tokens", [](GgufBuilder& b) { b.set_strings(key("tokens"), {}); },
           "tokenizer.ggml.tokens has 0 pieces"},
          {"one token short",
           [=](GgufBuilder& b) {
             auto t = tokens_of(toy);
             t.pop_back();
             b.set_strings(key("tokens"), t);
           },
           "tokenizer.ggml.token_type has 259 elements, tokenizer.ggml.tokens has 258"},
          {"duplicate", with_token(7, "a"), "pieces 7 and 97 are both a"},
          {"empty piece", with_token(7, ""), "piece 7 is empty"},
          {"long control piece",
           [](GgufBuilder& b) {
             std::vector<std::string> tokens = tokens_of(small_toy());
             tokens.push_back(std::string(257, 'x'));
             std::vector<int32_t> types(tokens.size(), 1);
             types.back() = 3;
             b.set_strings(key("tokens"), tokens), b.set_array(key("token_type"), Type::int32, types);
           },
           "piece 259 is a control or user-defined piece of 257 bytes, at most 256 are allowed"},
          {"a start token that is not there",
           [](GgufBuilder& b) { b.remove(key("bos_token_id")), b.set_bool(key("add_bos_token"), true); },
           "tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id, which names that token, is missing"},
          {"an end token that is not there",
           [](GgufBuilder& b) { b.remove(key("eos_token_id")), b.set_bool(key("add_eos_token"), true); },
           "tokenizer.ggml.add_eos_token is true, but tokenizer.ggml.eos_token_id, which names that token, is missing"},
          {"endless piece", with_token(7, std::string(4097, 'x')), "piece 7 has 4097 bytes, at most 4096 are allowed"},
          {"no types", [](GgufBuilder& b) { b.remove(key("token_type")); },
           "the file has no tokenizer.ggml.token_type"},
          {"types as floats",
           [](GgufBuilder& b) { b.set_array(key("token_type"), Type::float32, std::vector<float>(259)); },
           "tokenizer.ggml.token_type is an array of"},
          {"type 7",
           [](GgufBuilder& b) {
             std::vector<int32_t> t(259, 1);
             t[3] = 7;
             b.set_array(key("token_type"), Type::int32, t);
           },
           "piece 3 has type 7, known are 0 to 6"},
          {"type -1",
           [](GgufBuilder& b) { b.set_array(key("token_type"), Type::int32, std::vector<int32_t>(259, -1)); },
           "piece 0 has type -1, known are 0 to 6"},
          {"no merges", [](GgufBuilder& b) { b.remove(key("merges")); }, "the file has no tokenizer.ggml.merges"},
          {"merge without a blank", with_merges({"a b", "abc"}), "merge 1 is abc, expected two pieces"},
          {"merge of nothing", with_merges({""}), "merge 0 is , expected two pieces"},
          {"merge with one side", with_merges({"a "}), "merge 0 is a , expected two pieces"},
          {"merge of a blank", with_merges({" "}), "merge 0 is  , expected two pieces"},
          {"merge of unknown pieces", with_merges({"a b", "zz a"}), "merge 1 names zz, which is not a piece"},
          {"merge of an unknown right piece", with_merges({"a zz"}), "merge 0 names zz, which is not a piece"},
          {"merge to an unknown piece", with_merges({"x y"}), "merge 0 is x y, and what it makes is not a piece"},
          {"bos outside", [](GgufBuilder& b) { b.set_u32(key("bos_token_id"), 259); },
           "tokenizer.ggml.bos_token_id is 259, 0 to 258 is allowed"},
          {"eos outside", [](GgufBuilder& b) { b.set_u32(key("eos_token_id"), 0xFFFFFFFF); },
           "tokenizer.ggml.eos_token_id is 4294967295"},
          {"eot outside", [](GgufBuilder& b) { b.set_u32(key("eot_token_id"), 1000); },
           "tokenizer.ggml.eot_token_id is 1000"},
          {"eom outside", [](GgufBuilder& b) { b.set_u32(key("eom_token_id"), 1000); },
           "tokenizer.ggml.eom_token_id is 1000"},
          {"add_bos as text", [](GgufBuilder& b) { b.set_string(key("add_bos_token"), "true"); },
           "tokenizer.ggml.add_bos_token is of type"},
          {"template as a number", [](GgufBuilder& b) { b.set_u32("tokenizer.chat_template", 1); },
           "tokenizer.chat_template is of type"},
      });
}

TEST_CASE("SentencePiece metadata that contradicts itself is refused in one sentence", "[tokenizer][hostile]") {
  const auto with_byte_piece = [](const char* text) {
    return [=](GgufBuilder& b) {
      std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", text};
      std::vector<int32_t> types = {2, 3, 3, 6};
      b.set_strings(key("tokens"), tokens);
      b.set_array(key("token_type"), Type::int32, types);
      b.set_array(key("scores"), Type::float32, std::vector<float>(4));
    };
  };
  const auto with_score = [](float score) {
    return [=](GgufBuilder& b) { b.set_array(key("scores"), Type::float32, std::vector<float>(260, score)); };
  };
  check_refusals(
      toy_sentencepiece({"a"}),
      {
          {"no scores", [](GgufBuilder& b) { b.remove(key("scores")); }, "the file has no tokenizer.ggml.scores"},
          {"scores as doubles",
           [](GgufBuilder& b) { b.set_array(key("scores"), Type::float64, std::vector<double>(260)); },
           "tokenizer.ggml.scores is an array of"},
          {"one score short",
           [](GgufBuilder& b) { b.set_array(key("scores"), Type::float32, std::vector<float>(259)); },
           "tokenizer.ggml.scores has 259 elements, tokenizer.ggml.tokens has 260"},
          {"score not a number", with_score(std::nanf("")), "the score of piece 0 is not a number"},
          {"<0x cut short", with_byte_piece("<0x"), "byte piece 3 is <0x, expected <0x00> to <0xFF>"},
          {"no hex", with_byte_piece("<0xZ1>"), "byte piece 3 is <0xZ1>"},
          {"not closed", with_byte_piece("<0x411"), "byte piece 3 is <0x411"},
          {"too long", with_byte_piece("<0x41>x"), "byte piece 3 is <0x41>x"},
          {"not opened", with_byte_piece("x0x41>"), "byte piece 3 is x0x41>"},
          {"no hex at the end", with_byte_piece("<0x4Z>"), "byte piece 3 is <0x4Z>"},
          {"one byte piece", with_byte_piece("<0x41>"), "has 1 byte pieces, allowed are none or all 256"},
          {"one byte twice",
           [](GgufBuilder& b) {
             std::vector<std::string> tokens = {"<unk>", "<0xAB>", "<0xab>"};
             b.remove(key("bos_token_id")), b.remove(key("eos_token_id"));
             b.set_strings(key("tokens"), tokens);
             b.set_array(key("token_type"), Type::int32, std::vector<int32_t>{2, 6, 6});
             b.set_array(key("scores"), Type::float32, std::vector<float>(3));
           },
           "pieces 1 and 2 both stand for byte 171"},
          {"no bytes and no unknown",
           [](GgufBuilder& b) {
             b.remove(key("bos_token_id")), b.remove(key("eos_token_id")), b.remove(key("unknown_token_id"));
             b.set_strings(key("tokens"), {"a"});
             b.set_array(key("token_type"), Type::int32, std::vector<int32_t>{1});
             b.set_array(key("scores"), Type::float32, std::vector<float>(1));
           },
           "neither byte pieces nor an unknown piece"},
          {"two spellings of a blank",
           [](GgufBuilder& b) {
             b.remove(key("bos_token_id")), b.remove(key("eos_token_id"));
             b.set_strings(key("tokens"), {"<unk>", " x", "\xE2\x96\x81x"});
             b.set_array(key("token_type"), Type::int32, std::vector<int32_t>{2, 1, 1});
             b.set_array(key("scores"), Type::float32, std::vector<float>(3));
           },
           "pieces 1 and 2 are both"},
          {"remove_extra_whitespaces", [](GgufBuilder& b) { b.set_bool(key("remove_extra_whitespaces"), true); },
           "tokenizer.ggml.remove_extra_whitespaces is true, this build knows false"},
          {"unknown outside", [](GgufBuilder& b) { b.set_u32(key("unknown_token_id"), 260); },
           "tokenizer.ggml.unknown_token_id is 260"},
      });
}

TEST_CASE("Odd metadata that is no contradiction opens, and texts can be tokenised", "[tokenizer][hostile]") {
  const std::pair<const char*, std::function<void(GgufBuilder&)>> table[] = {
      {"unused pieces may repeat and be empty",
       [](GgufBuilder& b) {
         std::vector<std::string> tokens = tokens_of(small_toy());
         std::vector<int32_t> types(tokens.size(), 1);
         for (int i = 0; i < 4; ++i) tokens.push_back(i < 2 ? "" : "[PAD]"), types.push_back(5);
         b.set_strings(key("tokens"), tokens), b.set_array(key("token_type"), Type::int32, types);
       }},
      {"no merges at all", [](GgufBuilder& b) { b.set_strings(key("merges"), {}); }},
      {"a merge twice", [](GgufBuilder& b) { b.set_strings(key("merges"), {"a b", "a b", "ab c"}); }},
      {"everything a control token",
       [](GgufBuilder& b) { b.set_array(key("token_type"), Type::int32, std::vector<int32_t>(259, 3)); }},
      {"everything user-defined",
       [](GgufBuilder& b) { b.set_array(key("token_type"), Type::int32, std::vector<int32_t>(259, 4)); }},
      {"everything unused",
       [](GgufBuilder& b) {
         b.set_array(key("token_type"), Type::int32, std::vector<int32_t>(259, 5)), b.set_strings(key("merges"), {});
       }},
      {"bos of another width", [](GgufBuilder& b) { b.set(key("bos_token_id"), Type::int64, int64_t{258}); }},
      {"a piece of 4096 bytes",
       [](GgufBuilder& b) {
         std::vector<std::string> tokens = tokens_of(small_toy());
         tokens[3] = std::string(4096, 'x');
         b.set_strings(key("tokens"), tokens);
       }},
      {"a merge whose left piece is a blank",
       [](GgufBuilder& b) {
         std::vector<std::string> tokens = tokens_of(small_toy());
         tokens[3] = " ", tokens[4] = " x";
         b.set_strings(key("tokens"), tokens), b.set_strings(key("merges"), {"a b", "  x"});
       }},
      {"an empty template", [](GgufBuilder& b) { b.set_string("tokenizer.chat_template", ""); }},
      {"bad UTF-8 in pieces",
       [](GgufBuilder& b) {
         std::vector<std::string> tokens = tokens_of(small_toy());
         tokens[3] = "\xFF\xC0", tokens[4] = "\xE2\x96", tokens[258] = "\xF0\x9F";
         b.set_strings(key("tokens"), tokens);
       }},
  };
  for (const auto& [what, change] : table) {
    INFO(what);
    GgufBuilder builder = toy_byte_level(small_toy());
    change(builder);
    const OpenTokenizer tokenizer(builder);
    INFO(tokenizer.status().c_str());
    REQUIRE(tokenizer.status().ok());
    for (const char* text : {"", "abcabc <end> \xFF\xF0\x9F", "abc", " "})
      for (const bool parse : {false, true}) {
        const Ids ids = encode(*tokenizer, text, true, parse);
        CHECK(std::all_of(ids.begin(), ids.end(),
                          [&](int32_t id) { return id >= 0 && id < static_cast<int32_t>(tokenizer->n_vocab()); }));
        CHECK(detokenize(*tokenizer, ids).size() <= 3 * std::string_view(text).size());
      }
  }
}

TEST_CASE("Pieces and merges built to collide are refused in bounded time", "[tokenizer][hostile]") {
  // Keys whose hashes begin alike: found by trying, as an attacker would.
  std::vector<std::string> tokens;
  const uint64_t wanted = 0;
  for (uint64_t i = 0; tokens.size() < 700; ++i) {
    PieceHash hash;
    std::string text = std::to_string(i);
    for (const char c : text) hash.add(static_cast<uint8_t>(c));
    if (hash.value() >> 53 == wanted) tokens.push_back(text);
  }
  GgufBuilder builder = toy_byte_level({});
  builder.set_strings(key("tokens"), tokens);
  builder.set_array(key("token_type"), Type::int32, std::vector<int32_t>(tokens.size(), 1));
  const Status status = OpenTokenizer(builder).status();
  CHECK(status.code() == Code::bad_model);
  CHECK(status.message().find("collides with over 512 others") != std::string_view::npos);

  // The same with pairs of ids: 700 merges of 1,000 pieces, whose table has 2,048 places.
  const auto hash = [](uint32_t left, uint32_t right) {
    uint64_t x = (uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 29;
  };
  std::vector<std::string> pieces, merges;
  for (int i = 0; i < 1000; ++i) pieces.push_back("p" + std::to_string(i) + "q");
  for (uint32_t left = 0; left < 1000; ++left)
    for (uint32_t right = 0; right < 1000 && merges.size() < 700; ++right) {
      if (hash(left, right) >> 53 > 1) continue;
      merges.push_back(pieces[left] + " " + pieces[right]);
      pieces.push_back(pieces[left] + pieces[right]);
    }
  REQUIRE(merges.size() == 700);
  GgufBuilder pairs = toy_byte_level({});
  pairs.set_strings(key("tokens"), pieces);
  pairs.set_array(key("token_type"), Type::int32, std::vector<int32_t>(pieces.size(), 1));
  pairs.set_strings(key("merges"), merges);
  const Status refused = OpenTokenizer(pairs).status();
  CHECK(refused.code() == Code::bad_model);
  CHECK(refused.message().find("collides with over 512 others") != std::string_view::npos);
}

TEST_CASE("Over 16,777,214 pieces or merges are refused before any is looked up", "[tokenizer][hostile]") {
  constexpr uint64_t kTooMany = SlotTable::kMaxCount + 1;
  for (const char* name : {"tokens", "merges"}) {
    GgufBuilder builder = toy_byte_level(small_toy());
    builder.remove(key(name));
    builder.set_raw(key(name), 9, GgufBuilder::array_head(8, kTooMany));   // empty strings: eight zeros each
    const std::vector<uint8_t> head = builder.bytes();
    const ZeroPages pages(head, head.size() + 8 * kTooMany);
    if (pages.span().empty()) SKIP("no address space for 128 MiB");
    const Result<gguf::File> file = gguf::File::open(pages.span());
    REQUIRE(file.status().message() == "");
    Arena arena;
    const Status status = Tokenizer::create(file.value(), arena).status();
    CHECK(status.code() == Code::bad_model);
    CHECK(status.message().starts_with(key(name) + " has 16777215 "));
  }
}

TEST_CASE("Every cut of a vocabulary's file is a status", "[tokenizer][hostile]") {
  const std::vector<uint8_t> whole = toy_byte_level(small_toy()).bytes();
  size_t opened = 0;
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7)
    opened +=
        OpenTokenizer(std::vector<uint8_t>(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes))).status().ok();
  CHECK(opened == 0);
}

}   // namespace mote::test
