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

// Of all runs: the worst growth from 64 KiB to 1 MiB, and the most steps a byte at 1 MiB.
struct Worst {
  double growth = 0, per_byte = 0;
  const char *growth_of = "", *per_byte_of = "";
  bool failed = false;
};

Worst worst_of(const Tokenizer& tokenizer) {
  Worst worst;
  for (const Run& run : kRuns) {
    const std::string small = run.make(size_t{64} << 10), large = run.make(size_t{1} << 20);
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
  REQUIRE(tokenizer.status().message() == "");
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

}   // namespace mote::test
