#include "core/tokenizer/text_stream.h"

#include <catch2/catch_test_macros.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/base/utf8.h"

namespace mote::test {
namespace {

struct Shown {
  std::string text;
  size_t most_held = 0;
};

// The text in parts, with a cut after byte i wherever bit i of `cuts` is set.
Shown stream(const std::string& text, uint64_t cuts) {
  Shown shown;
  TextStream stream;
  std::vector<char> out(TextStream::room(text.size()));
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && (cuts >> i & 1) == 0) continue;
    shown.text.append(out.data(), stream.push(std::string_view(text).substr(start, i + 1 - start), out));
    shown.most_held = std::max(shown.most_held, stream.held_bytes());
    start = i + 1;
  }
  shown.text.append(out.data(), stream.flush(out));
  return shown;
}

std::string replaced(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = decode_utf8(text.data() + i, text.size() - i);
    out += c.valid ? text.substr(i, c.bytes) : std::string(kReplacementBytes);
    i += c.bytes;
  }
  return out;
}

}   // namespace

TEST_CASE("However emoji, stray and overlong bytes are cut, the text is the same", "[tokenizer][unit]") {
  const std::string texts[] = {
      "a\xF0\x9F\x98\x80\xF0\x9F\x91\x8D\xE2\x82\xAC",   // two emoji and a euro sign in a row
      "\xC3\xA9\xE2\x80\x8D\xF0\x9F\x8F\xBD!",           // é, joiner, skin tone
      "x\xFF\x80\xC0\xAF\xF0\x9F\x98y\xE2\x82",          // stray, overlong, cut off inside and at the end
      "\xED\xA0\x80\xED\xB0\x80\xF4\x90\x80\x80z",       // surrogates, beyond the last
  };
  size_t wrong = 0, compared = 0, most_held = 0;
  for (const std::string& text : texts)
    for (uint64_t cuts = 0; cuts < uint64_t{1} << (text.size() - 1); ++cuts, ++compared) {
      const Shown shown = stream(text, cuts);
      wrong += shown.text != replaced(text);
      most_held = std::max(most_held, shown.most_held);
    }
  CHECK(compared > 4000);
  CHECK(wrong == 0);
  CHECK(most_held <= 3);
}

TEST_CASE("Consecutive emoji come out one by one, each as soon as it is whole", "[tokenizer][unit]") {
  const std::string emoji = "\xF0\x9F\x98\x80";
  TextStream stream;
  char out[64];
  std::vector<size_t> shown;
  for (int i = 0; i < 3; ++i)
    for (const char byte : emoji) shown.push_back(stream.push({&byte, 1}, out));
  CHECK(shown == std::vector<size_t>{0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4});
  CHECK(stream.flush(out) == 0);
}

TEST_CASE("An unfinished character becomes one replacement at the end, and the stream can go on", "[tokenizer][unit]") {
  TextStream stream;
  char out[64];
  CHECK(stream.push("ab\xF0\x9F\x98", out) == 2);
  CHECK(stream.held_bytes() == 3);
  CHECK(std::string(out, stream.flush(out)) == kReplacementBytes);
  CHECK(stream.held_bytes() == 0);
  CHECK(std::string(out, stream.push("c", out)) == "c");
}

TEST_CASE("Too little room cuts the text, and nothing is written beyond it", "[tokenizer][unit]") {
  TextStream stream;
  char out[8] = {'#', '#', '#', '#', '#', '#', '#', '#'};
  CHECK(stream.push("abcdef", std::span(out, 2)) == 2);
  CHECK(std::string(out, 3) == "ab#");
  CHECK(stream.push("\xF0\x9F", out) == 0);
  CHECK(stream.flush(std::span(out, 2)) == 0);
  CHECK(std::string(out, 3) == "ab#");
  CHECK(stream.held_bytes() == 0);
}

}   // namespace mote::test
