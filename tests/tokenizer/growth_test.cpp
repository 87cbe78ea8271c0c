// How the work grows with the text, counted and not timed, on a thread with a small stack.
#include <pthread.h>

#include <catch2/catch_test_macros.hpp>
#include <functional>

#include "core/base/utf8.h"
#include "tests/tokenizer/toy_tokenizer.h"

namespace mote::test {
namespace {

// Runs `task` on a thread with that much stack.
void on_small_stack(size_t stack_bytes, const std::function<void()>& task) {
  pthread_attr_t attributes;
  pthread_t thread;
  if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, stack_bytes) != 0)
    throw std::runtime_error("no stack");
  const auto run = [](void* user) -> void* {
    (*static_cast<const std::function<void()>*>(user))();
    return nullptr;
  };
  if (pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&task)) != 0)
    throw std::runtime_error("no thread");
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// Under the address sanitizer, which is ten times as slow, an eighth of it.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kSmall = size_t{8} << 10;
#else
constexpr size_t kSmall = size_t{64} << 10;
#endif
constexpr size_t kLarge = 16 * kSmall;

struct Run {
  const char* name;
  std::string (*make)(size_t bytes);
};

std::string repeated(std::string_view part, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  return text;
}

// Texts without a point to split at, or with nothing but such points.
constexpr Run kRuns[] = {
    {"equal letters", [](size_t n) { return repeated("a", n); }},
    {"blanks", [](size_t n) { return repeated(" ", n); }},
    {"line ends", [](size_t n) { return repeated("\n", n); }},
    {"blanks and line ends", [](size_t n) { return repeated(" \n", n); }},
    {"base64",
     [](size_t n) {
       std::string text;
       for (uint32_t x = 1; text.size() < n; x = x * 1664525 + 1013904223)
         text += "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[x >> 26];
       return text;
     }},
    {"digits", [](size_t n) { return repeated("7", n); }},
    {"symbols", [](size_t n) { return repeated("!", n); }},
    {"apostrophes", [](size_t n) { return repeated("'", n); }},
    {"begun control tokens", [](size_t n) { return repeated("<|im_end|", n); }},
    {"begun user-defined tokens", [](size_t n) { return repeated("<tool><", n); }},
    {"combining marks", [](size_t n) { return "a" + repeated("\xCC\x81\xCC\xA3", n); }},
    {"combining marks that stay", [](size_t n) { return "a" + repeated("\xE3\x80\xAE\xF0\x9D\x85\xA5", n); }},
    {"decomposed letters", [](size_t n) { return repeated("e\xCC\x81", n); }},
    {"emoji", [](size_t n) { return repeated("\xF0\x9F\x98\x80", n); }},
    {"bad bytes", [](size_t n) { return repeated("\xFF", n); }},
    {"prose", [](size_t n) { return repeated("The ferry left, it's 7 o'clock.\n", n); }},
};

uint64_t steps_of(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::byte> scratch(static_cast<size_t>(tokenizer.scratch_bytes(std::string_view(text))));
  std::vector<int32_t> ids(3 * text.size() + 16);
  const Result<Encoded> encoded = tokenizer.encode(TextPart{text, true}, true, ids, scratch);
  return encoded.ok() ? encoded.value().steps : 0;
}

// Of all runs: the worst growth from kSmall to kLarge bytes, and the most steps a byte at kLarge.
struct Worst {
  double growth = 0, per_byte = 0;
  const char *growth_of = "", *per_byte_of = "";
  bool failed = false;
};

Worst worst_of(const Tokenizer& tokenizer) {
  Worst worst;
  for (const Run& run : kRuns) {
    const std::string small = run.make(kSmall), large = run.make(kLarge);
    const auto few = static_cast<double>(steps_of(tokenizer, small)),
               many = static_cast<double>(steps_of(tokenizer, large));
    worst.failed |= few == 0 || many == 0;
    if (many / few > worst.growth) worst.growth = many / few, worst.growth_of = run.name;
    const double per_byte = many / static_cast<double>(large.size());
    if (per_byte > worst.per_byte) worst.per_byte = per_byte, worst.per_byte_of = run.name;
  }
  return worst;
}

void check_growth(const OpenTokenizer& tokenizer) {
  INFO(tokenizer.status().c_str());
  REQUIRE(tokenizer.status().ok());
  Worst worst;
  on_small_stack(size_t{128} << 10, [&] { worst = worst_of(*tokenizer); });
  INFO("growth " << worst.growth << " (" << worst.growth_of << "), steps a byte " << worst.per_byte << " ("
                 << worst.per_byte_of << ")");
  CHECK_FALSE(worst.failed);
  CHECK(worst.growth <= 24);   // 16 times the text, and a logarithm
  CHECK(worst.growth >= 15);
  CHECK(worst.per_byte <= 300);
}

std::vector<std::pair<std::string, std::string>> doubling_merges() {
  std::vector<std::pair<std::string, std::string>> merges = {{"\xF0", "\x9F"}};
  for (const char* part : {"a", " ", "\n", "7", "!", "'", "\xFF", "\xF0\x9F", "\xBD"})
    for (std::string run = part; run.size() < 64; run += run) merges.emplace_back(run, run);
  for (char c = 'A'; c < 'Z'; ++c) merges.emplace_back(std::string(1, c), std::string(1, static_cast<char>(c + 1)));
  merges.emplace_back("\xEF", "\xBF"), merges.emplace_back("\xEF\xBF", "\xBD"),
      merges.emplace_back("\xEF\xBF\xBD", "\xEF\xBF\xBD");
  return merges;
}

}   // namespace

TEST_CASE("16 times the text takes at most 24 times the steps, for every pre-tokeniser", "[tokenizer][growth]") {
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    INFO(pre);
    check_growth(OpenTokenizer(toy_byte_level({.pre = pre,
                                               .merges = doubling_merges(),
                                               .control = {"<|im_end|>"},
                                               .user_defined = {"<tool>", "<tool><x>"}})));
  }
}

TEST_CASE("16 times the text takes at most 24 times the steps with SentencePiece", "[tokenizer][growth]") {
  std::vector<std::string> pieces;
  for (const std::string part : {"a", "\xE2\x96\x81", "7", "!", "'", "\xF0\x9F\x98\x80"})
    for (std::string run = part; run.size() < 64; run += run) pieces.push_back(run);
  for (char c = 'A'; c < 'Z'; ++c) pieces.push_back({c, static_cast<char>(c + 1)});
  check_growth(OpenTokenizer(toy_sentencepiece(pieces, {"<tool>", "<tool><x>", "\n\n", "\n"})));
}

TEST_CASE("16 times the text takes at most 24 times the steps with unigram and WordPiece", "[tokenizer][growth]") {
  std::vector<std::pair<std::string, float>> scored;
  std::vector<std::string> pieces;
  for (const std::string part : {"a", "\xE2\x96\x81", "7", "!", "'", "\xF0\x9F\x98\x80"})
    for (std::string run = part; run.size() < 64; run += run) pieces.push_back(run);
  for (const std::string& piece : pieces) scored.emplace_back(piece, -static_cast<float>(piece.size()) - 1);
  check_growth(OpenTokenizer(toy_unigram(
      scored, {"<tool>", "<tool><x>"}, {{"e\xCC\x81", "\xC3\xA9"}, {"aaaaaaaaaaaaaaab", "c"}, {"\xEF\xBF\xBD", " "}})));
  std::erase_if(pieces, [](const std::string& piece) { return piece.starts_with("\xE2"); });
  check_growth(OpenTokenizer(toy_word_pieces(pieces, pieces)));
}

// A run of used slots as long as the table has keys, each of which lies where its hash says. What is looked for has the
// same first eight bits as all of them, so that each step compares.
TEST_CASE("Looking for a key that is absent takes at most 512 steps, however the hashes were chosen",
          "[tokenizer][growth]") {
  constexpr uint32_t kCount = 4096;
  constexpr int kShift = 64 - 13;   // two slots a key
  Arena sizes;
  SlotTable().layout(kCount, sizes);
  const auto memory = std::make_unique<std::byte[]>(sizes.used_bytes() + 64);
  auto* const aligned = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.get()) + 63) / 64 * 64);
  Arena arena(aligned, sizes.used_bytes());
  SlotTable table;
  table.layout(kCount, arena);
  uint32_t n_refused = 0, n_compared = 0;
  for (uint32_t i = 0; i + 1 < kCount; ++i)
    if (table.insert(uint64_t{i} << kShift, i, [](uint32_t) { return false; }) != -1) ++n_refused;
  const auto other = [&](uint32_t) { return ++n_compared, false; };
  CHECK(n_refused == 0);
  CHECK(table.find(0, other) == -1);
  CHECK(n_compared == SlotTable::kMaxProbes);
  // Another first look would have to walk to the end of the run.
  REQUIRE(table.insert(uint64_t{kCount - 1} << kShift | 1, kCount - 1, other) == -1);
  CHECK(table.first_look(1) == -1);
  CHECK(table.first_look(uint64_t{kCount - 1} << kShift | 1) == kCount - 1);
}

// The longest pieces allowed, each of which every byte of a run of letters begins and none completes.
TEST_CASE("Looking for long control and user-defined pieces looks at 256 bytes for each", "[tokenizer][growth]") {
  std::vector<std::string> pieces;
  for (char last = 'b'; last <= 'z'; ++last) pieces.push_back(std::string(255, 'a') + last);
  const std::string small(kSmall, 'a'), large(kLarge, 'a');
  const auto check = [&](const GgufBuilder& without, const GgufBuilder& with, int passes) {
    const OpenTokenizer plain(without), hostile(with);
    INFO(hostile.status().c_str());
    REQUIRE(hostile.status().ok());
    const auto few = static_cast<double>(steps_of(*hostile, small)),
               many = static_cast<double>(steps_of(*hostile, large)),
               ordinary = static_cast<double>(steps_of(*plain, large));
    const double searching = (many - ordinary) / static_cast<double>(kLarge);
    INFO("steps a byte: " << searching << ", growth " << many / few);
    CHECK(searching <= passes * (256 + 24));   // and the search among the pieces at the last byte
    CHECK(searching >= passes * 200);          // it was looked for
    CHECK(many / few <= 24);
  };
  const ToyPairs plain{.merges = doubling_merges()};
  ToyPairs hostile = plain;
  hostile.user_defined = pieces;
  check(toy_byte_level(plain), toy_byte_level(hostile), 1);
  hostile.user_defined = {}, hostile.control = pieces;
  check(toy_byte_level(plain), toy_byte_level(hostile), 1);
  // SentencePiece looks for control pieces first, then for user-defined ones.
  check(toy_sentencepiece({"a", "aa"}), toy_sentencepiece({"a", "aa"}, pieces), 2);
  check(toy_unigram({{"a", -1}, {"aa", -1}}), toy_unigram({{"a", -1}, {"aa", -1}}, pieces), 3);
}

}   // namespace mote::test
