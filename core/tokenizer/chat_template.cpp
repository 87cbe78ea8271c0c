#include "core/tokenizer/chat_template.h"

#include "core/base/slice.h"

#include <cstdint>

namespace mote {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// Compares what squeezing yields, byte by byte, with the marks.
class MarkMatcher {
 public:
  explicit MarkMatcher(std::span<const std::string_view> marks) : marks_(marks) {}
  // False: the text is none of what may come next. All places where the text so far can have led are kept.
  bool take(char c) {
    for (uint32_t i = 0; i < kMost; ++i) next_[i] = {};
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_open_; ++i) step(open_[i], c, &n);
    for (uint32_t i = 0; i < n; ++i) open_[i] = next_[i];
    n_open_ = n;
    return n > 0;
  }
  bool start() {
    n_open_ = 0;
    open_[n_open_++] = {0, first_byte(0)};
    if (!marks_.empty() && optional(0)) open_[n_open_++] = {1, first_byte(1)};
    return true;
  }
  bool done() const {
    for (uint32_t i = 0; i < n_open_; ++i)
      if (open_[i].mark == marks_.size()) return true;
    return false;
  }

 private:
  struct Place {
    size_t mark = 0, byte = 0;
  };
  static constexpr uint32_t kMost = 8;
  bool optional(size_t mark) const { return mark < marks_.size() && slice(marks_[mark], 0, 1) == "?"; }
  size_t first_byte(size_t mark) const { return optional(mark) ? 1 : 0; }
  void step(Place at, char c, uint32_t* n) {
    if (at.mark >= marks_.size() || marks_[at.mark][at.byte] != c) return;
    if (++at.byte == marks_[at.mark].size()) at = {at.mark + 1, first_byte(at.mark + 1)};
    if (*n < kMost) next_[(*n)++] = at;
    if (at.byte == first_byte(at.mark) && optional(at.mark) && *n < kMost)
      next_[(*n)++] = {at.mark + 1, first_byte(at.mark + 1)};
  }

  std::span<const std::string_view> marks_;
  Place open_[kMost], next_[kMost];
  uint32_t n_open_ = 0;
};

class Squeezer {
 public:
  Squeezer(std::string_view text, MarkMatcher& matcher) : text_(text), matcher_(matcher) {}

  bool run() {
    matcher_.start();
    while (at_ < text_.size())
      if (!between_tags() || (at_ < text_.size() && !tag())) return false;
    return (!output_open_ || put_all("}}")) && matcher_.done();
  }

 private:
  // A quote stands where text in quotes begins and ends; texts in a row are one.
  bool put(char c, bool quoted) {
    if (quoted != quoted_ && !matcher_.take('"')) return false;
    quoted_ = quoted;
    return matcher_.take(c);
  }
  bool put_all(std::string_view text, bool quoted = false) {
    for (const char c : text)
      if (!put(c, quoted)) return false;
    return true;
  }

  // White space that vanishes: next to a -, or a line end right after %} with the blanks before the next {%. One line
  // end at the very end vanishes too.
  bool between_tags() {
    size_t end = at_;
    while (end < text_.size() && is_blank(text_[end])) ++end;
    const std::string_view blank = slice(text_, at_, end - at_);
    at_ = end;
    if (end == text_.size())
      return blank.empty() || after_dash_ || blank == "\n" || (after_statement_ && blank == "\n\n");
    if (end + 2 > text_.size() || text_[end] != '{' || (text_[end + 1] != '{' && text_[end + 1] != '%')) return false;
    if (blank.empty() || after_dash_ || (end + 2 < text_.size() && text_[end + 2] == '-')) return true;
    const size_t lines = static_cast<size_t>(after_statement_ && blank[0] == '\n');
    return text_[end + 1] == '%' && blank.find_first_of("\n\r", lines) == std::string_view::npos &&
           (lines == 1 || at_ == blank.size());
  }

  bool tag() {
    const bool statement = text_[at_ + 1] == '%';
    const std::string_view close = statement ? "%}" : "}}";
    if (output_open_ && statement && !put_all("}}")) return false;
    if (statement ? !put_all("{%") : !output_open_ && !put_all("{{")) return false;
    output_open_ = !statement;
    at_ += 2;
    if (at_ < text_.size() && text_[at_] == '+') return false;   // {%+ keeps white space that would vanish
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    bool after_word = false;
    while (at_ < text_.size() && slice(text_, at_, 2) != close) {
      const char c = text_[at_++];
      if (c == '-' && slice(text_, at_, 2) == close) {
        break;
      } else if (c == '+' && slice(text_, at_, 2) == close) {
        return false;   // +%} does, too
      } else if (c == '\'' || c == '"') {
        if (!literal(c)) return false;
        after_word = false;
      } else if (c == '.' && after_word) {
        if (!member()) return false;
      } else if (!is_blank(c) && c != '+' && c != '~') {
        if (!put(c, false)) return false;
        after_word = is_word(c);
      }
    }
    if (slice(text_, at_, 2) != close) return false;
    after_dash_ = text_[at_ - 1] == '-';
    after_statement_ = statement;
    at_ += 2;
    return !statement || put_all("%}");
  }

  bool literal(char quote) {
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\n') {
        if (!put_all("\\n", true)) return false;
      } else if (text_[at_] == '"') {   // a text in '' may hold one; it must not pass for the text's end
        if (!put_all("\\\"", true)) return false;
      } else {
        if (!put(text_[at_], true)) return false;
        if (text_[at_] == '\\' && at_ + 1 < text_.size() && !put(text_[++at_], true)) return false;
      }
    }
    return at_++ < text_.size();
  }

  // .name as ["name"]
  bool member() {
    if (!put('[', false)) return false;
    for (; at_ < text_.size() && is_word(text_[at_]); ++at_)
      if (!put(text_[at_], true)) return false;
    return put(']', false);
  }

  std::string_view text_;
  MarkMatcher& matcher_;
  size_t at_ = 0;
  bool output_open_ = false, quoted_ = false, after_dash_ = false, after_statement_ = false;
};

}   // namespace

bool template_is(std::string_view chat_template, std::span<const std::string_view> marks) {
  if (marks.empty()) return false;
  MarkMatcher matcher(marks);
  return Squeezer(chat_template, matcher).run();
}

}   // namespace mote
