// Stop strings over piece borders: every text over two letters in every cut against a search of the whole text.
#include "core/sampler/stop_matcher.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace mote;

class OwnMatcher {
 public:
  explicit OwnMatcher(const std::vector<std::string>& stops) {
    StopShape shape;
    for (const std::string& stop : stops)
      shape = {shape.max_stops + 1, shape.max_bytes + static_cast<uint32_t>(stop.size())};
    open(shape);
    const std::vector<std::string_view> views(stops.begin(), stops.end());
    REQUIRE(matcher_.set(views).ok());
  }
  explicit OwnMatcher(const StopShape& shape) { open(shape); }
  StopMatcher& operator*() { return matcher_; }
  StopMatcher* operator->() { return &matcher_; }
  // Nothing was written behind the matcher's memory.
  bool intact() const {
    return std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(used_), memory_.end(), [](const Line& line) {
      return std::equal(std::begin(line.bytes), std::end(line.bytes), std::begin(kUntouched.bytes));
    });
  }

 private:
  struct alignas(kArenaAlignment) Line {
    std::byte bytes[kArenaAlignment];
  };
  void open(const StopShape& shape) {
    Arena measure;
    StopMatcher().layout(measure, shape);
    used_ = measure.used_bytes() / sizeof(Line);
    memory_.assign(used_ + 64, kUntouched);   // more than the arena may hand out
    Arena arena(memory_.data(), measure.used_bytes());
    matcher_.layout(arena, shape);
    REQUIRE(arena.status("the matcher").ok());
  }
  static constexpr Line kUntouched = {{std::byte{0x5a}}};
  std::vector<Line> memory_;
  size_t used_ = 0;
  StopMatcher matcher_;
};

struct Expected {
  std::string shown;   // after the end of the text
  bool stopped = false;
};
// The whole text, cut where the first stop string begins.
Expected naive(const std::string& text, const std::vector<std::string>& stops) {
  size_t first = std::string::npos;
  for (const std::string& stop : stops) first = std::min(first, text.find(stop));
  return {text.substr(0, first), first != std::string::npos};
}
// How much may be shown of a text that may go on: up to the first place where a stop string is or may still come.
size_t naive_release(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t start = 0; start < text.size(); ++start)
    for (const std::string& stop : stops) {
      const std::string here = text.substr(start, stop.size());
      if (stop.compare(0, here.size(), here) == 0) return start;
    }
  return text.size();
}

const std::vector<std::vector<std::string>> kStopSets = {
    {},
    {"a"},
    {"ab"},
    {"aa"},
    {"aab"},
    {"abab"},
    {"a", "b"},
    {"ab", "ba"},
    {"aab", "ab"},
    {"abab", "ba"},
    {"bab", "abba"},
    {"aaaa", "ab"},
    {"abb", "bb", "babb"},
    {"aabaa", "ab", "bb"},
    {"b", "ab"},
    {"abaab", "aa"},
    {"ab", "ab"},
    {"aaab", "aab", "ab", "bbbb"},
};

std::string failures(const std::string& text, const std::vector<std::string>& stops, OwnMatcher& matcher) {
  const Expected whole = naive(text, stops);
  size_t longest = 1;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  for (uint32_t cuts = 0; cuts < (1u << (text.size() - 1)); ++cuts) {
    matcher->reset();
    std::string shown, so_far;
    bool stopped = false;
    for (size_t begin = 0; begin < text.size() && !stopped;) {
      size_t end = begin + 1;
      while (end < text.size() && (cuts >> (end - 1) & 1) == 0) ++end;
      const std::string piece = text.substr(begin, end - begin);
      const Released released = matcher->feed(piece);
      shown.append(released.held).append(released.fresh);
      so_far += piece;
      stopped = released.stopped;
      begin = end;
      if (stopped) break;
      if (shown.size() != naive_release(so_far, stops)) return "holds back too much or too little";
      if (matcher->held_bytes() >= longest) return "holds back too much";
    }
    if (!stopped) {
      const Released rest = matcher->finish();
      shown.append(rest.held).append(rest.fresh);
      stopped = rest.stopped;
    }
    if (shown != whole.shown || stopped != whole.stopped) return "shows '" + shown + "'";
  }
  return "";
}

TEST_CASE("every text in every cut shows what a search of the whole text leaves", "[sampler][stop]") {
  std::string wrong;
  for (const std::vector<std::string>& stops : kStopSets) {
    OwnMatcher matcher(stops);
    for (size_t length = 1; length <= 9; ++length)
      for (uint32_t letters = 0; letters < (1u << length); ++letters) {
        std::string text(length, 'a');
        for (size_t i = 0; i < length; ++i)
          if ((letters >> i & 1) != 0) text[i] = 'b';
        if (const std::string what = failures(text, stops, matcher); !what.empty() && wrong.size() < 500) {
          wrong += text + " with";
          for (const std::string& stop : stops) wrong += " " + stop;
          wrong += ": " + what + "\n";
        }
      }
  }
  CHECK(wrong == "");
}

TEST_CASE("long texts in random pieces keep their held part through the buffer", "[sampler][stop]") {
  const std::vector<std::string> stops = {"aaaaaaaaaaaaaaaab", "bbbbbbbbbba", "abababababababb"};
  OwnMatcher matcher(stops);
  std::mt19937 random(8);
  int wrong = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text;
    while (text.size() < 600)
      text.append(random() % 17, random() % 2 == 0 ? 'a' : 'b').append(random() % 3 == 0 ? "ab" : "");
    matcher->reset();
    std::string shown;
    bool stopped = false;
    for (size_t begin = 0; begin < text.size() && !stopped;) {
      const size_t size = 1 + random() % 40;
      const Released released = matcher->feed(std::string_view(text).substr(begin, size));
      shown.append(released.held).append(released.fresh);
      stopped = released.stopped;
      begin += size;
    }
    if (!stopped) {
      const Released rest = matcher->finish();
      shown.append(rest.held);
      stopped = rest.stopped;
    }
    const Expected whole = naive(text, stops);
    wrong += shown != whole.shown || stopped != whole.stopped;
  }
  CHECK(wrong == 0);
  CHECK(matcher.intact());
}

TEST_CASE("a long text without a stop string, byte by byte, stays inside the matcher's memory", "[sampler][stop]") {
  OwnMatcher matcher(std::vector<std::string>{"aaaaaaac", "abababac"});
  std::mt19937 random(9);
  std::string text, shown;
  for (int i = 0; i < 20000; ++i) text.push_back(random() % 3 == 0 ? 'b' : 'a');
  for (const char& byte : text) {
    const Released released = matcher->feed({&byte, 1});
    shown.append(released.held).append(released.fresh);
  }
  shown.append(matcher->finish().held);
  CHECK((shown == text) == true);
  CHECK(matcher.intact());
}

TEST_CASE("the stop string that was found is told, and nothing comes after it", "[sampler][stop]") {
  OwnMatcher matcher(std::vector<std::string>{"</s>", "\n\n", "END"});
  Released released = matcher->feed("some text\n");
  CHECK(released.fresh == "some text");
  CHECK(matcher->held_bytes() == 1);
  released = matcher->feed("\nmore");
  CHECK(released.stopped);
  CHECK(released.held.empty());
  CHECK(released.fresh.empty());
  CHECK(matcher->stopped());
  released = matcher->feed("still more");
  CHECK(released.stopped);
  CHECK(released.fresh.empty());
  CHECK(matcher->finish().stopped);
  matcher->reset();
  CHECK_FALSE(matcher->stopped());
  CHECK(matcher->feed("abc").fresh == "abc");
}

TEST_CASE("text held back when the answer ends is let go, or cut at a stop string that was complete",
          "[sampler][stop]") {
  OwnMatcher matcher(std::vector<std::string>{"abcd", "bc"});
  CHECK(matcher->feed("xab").fresh == "x");
  Released released = matcher->finish();   // an end token while "ab" is held back
  CHECK(released.held == "ab");
  CHECK_FALSE(released.stopped);

  matcher->reset();
  released = matcher->feed("xabc");   // "bc" is there, but "abcd", begun earlier, may still come
  CHECK(released.fresh == "x");
  CHECK_FALSE(released.stopped);
  released = matcher->finish();
  CHECK(released.held == "a");
  CHECK(released.stopped);

  matcher->reset();
  CHECK(matcher->feed("xabc").fresh == "x");
  released = matcher->feed("de");
  CHECK(released.stopped);
  CHECK(released.held.empty());
}

TEST_CASE("a stop string that begins again inside itself is not found too early", "[sampler][stop]") {
  for (const auto& [stop, text] : {std::pair<const char*, const char*>{"aabc", "aababc"}, {"abcabd", "abcababd"}}) {
    OwnMatcher matcher(std::vector<std::string>{stop});
    CHECK_FALSE(matcher->feed(text).stopped);
  }
}

TEST_CASE("bytes of any value are matched", "[sampler][stop]") {
  OwnMatcher matcher(std::vector<std::string>{std::string("\0\xff", 2)});
  CHECK(matcher->feed(std::string_view("a\xff\0", 3)).fresh == "a\xff");
  CHECK(matcher->feed("\xff").stopped);
}

TEST_CASE("empty, too many and too long stop strings are refused and the old ones stay", "[sampler][stop]") {
  OwnMatcher matcher(StopShape{2, 5});
  const auto says = [&](std::vector<std::string_view> stops) { return std::string(matcher->set(stops).message()); };
  CHECK(says({"ab"}) == "");
  CHECK(says({"abc", ""}) == "stop string 1 is empty");
  CHECK(says({"a", "b", "c"}) == "3 stop strings were given, at most 2 are allowed");
  CHECK(says({"abc", "abc"}) == "the stop strings are longer than 5 bytes in all, from number 1 on");
  CHECK(matcher->feed("xab").stopped);
  CHECK(says({"abc", "ab"}) == "");
  CHECK(says({}) == "");
  CHECK(matcher->feed("ab").fresh == "ab");
}

TEST_CASE("a matcher without memory for stop strings lets everything through", "[sampler][stop]") {
  OwnMatcher matcher(StopShape{});
  CHECK(matcher->feed("abc").fresh == "abc");
  CHECK(matcher->finish().held.empty());
}

}   // namespace
