#include "core/tokenizer/pre_tokenizer.h"

#include "core/base/slice.h"
#include "core/base/utf8.h"

namespace mote {
namespace {

constexpr PreTokenizer kRows[] = {
#define MOTE_PRE_TOKENIZER(name, rule, digits_apart, nfc, whole_words, adds_bos) \
  {name, SplitRule::rule, digits_apart, nfc, whole_words, adds_bos},
#include "core/tokenizer/pre_tokenizers.inc"
#undef MOTE_PRE_TOKENIZER
};

constexpr char kNames[] =
#define MOTE_PRE_TOKENIZER(name, ...) ", " name
#include "core/tokenizer/pre_tokenizers.inc"
#undef MOTE_PRE_TOKENIZER
    ;

constexpr uint32_t kLongS = 0x17F;   // matches s where case is ignored

}   // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizer& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

std::string_view pre_tokenizer_names() { return slice(std::string_view(kNames), 2); }

WordScanner::Character WordScanner::at(size_t i) {
  ++steps_;
  const auto first = static_cast<unsigned char>(text_[i]);
  if (first < 0x80) return {first, 1, character_class(first)};
  const Utf8Character c = decode_utf8(text_.data() + i, text_.size() - i);
  return {c.code_point, c.bytes, character_class(c.code_point)};
}

size_t WordScanner::skip(size_t i, CharacterClass kind, uint32_t at_most) {
  for (; i < end_ && at_most > 0; --at_most) {
    const Character c = at(i);
    if (c.kind != kind) break;
    i += c.bytes;
  }
  return i;
}

// [^\sLN]*
size_t WordScanner::skip_symbols(size_t i) {
  while (i < end_) {
    const Character c = at(i);
    if (c.kind != CharacterClass::other && c.kind != CharacterClass::mark) break;
    i += c.bytes;
  }
  return i;
}

// The end of 's, 't, 're, 've, 'm, 'll or 'd at `i`, or `i`.
size_t WordScanner::end_of_contraction(size_t i, bool any_case) {
  if (text_[i] != '\'' || i + 1 >= end_) return i;
  const auto letter = [&](size_t k) -> uint32_t {
    if (k >= end_) return 0;
    const uint32_t c = at(k).code_point;
    if (!any_case) return c;
    return c >= 'A' && c <= 'Z' ? c + 32 : c == kLongS ? 's' : c;
  };
  const uint32_t first = letter(i + 1);
  if (first == 's') return i + 1 + at(i + 1).bytes;
  if (first == 't' || first == 'm' || first == 'd') return i + 2;
  if (first != 'r' && first != 'v' && first != 'l') return i;
  return letter(i + 2) == (first == 'l' ? 'l' : 'e') ? i + 3 : i;
}

// \s+(?!\S)|\s+ at a space: a run leaves its last character to the word behind it, unless that is all it has.
size_t WordScanner::end_of_blank(size_t i) {
  size_t last = i, end = i;
  while (end < end_) {
    const Character c = at(end);
    if (c.kind != CharacterClass::space) break;
    last = end;
    end += c.bytes;
  }
  return end == end_ || last == i ? end : last;
}

size_t WordScanner::end_of_gpt2(size_t i) {
  if (const size_t end = end_of_contraction(i, false); end != i) return end;
  const size_t start = text_[i] == ' ' ? i + 1 : i;
  if (start < end_) {
    const CharacterClass kind = at(start).kind;
    if (kind == CharacterClass::letter || kind == CharacterClass::number) return skip(start, kind);
    if (kind != CharacterClass::space) return skip_symbols(start);
  }
  return end_of_blank(i);
}

size_t WordScanner::end_of_cl100k(size_t i, uint32_t digits) {
  if (const size_t end = end_of_contraction(i, true); end != i) return end;
  const Character first = at(i);
  if (first.kind == CharacterClass::letter) return skip(i, CharacterClass::letter);
  if (first.kind == CharacterClass::number) return skip(i, CharacterClass::number, digits);
  const bool newline = first.code_point == '\r' || first.code_point == '\n';
  if (!newline && is(i + first.bytes, CharacterClass::letter)) return skip(i + first.bytes, CharacterClass::letter);

  const size_t start = first.code_point == ' ' ? i + 1 : i;
  if (const size_t end = skip_symbols(start); end != start) {
    size_t lines = end;
    while (lines < end_ && (text_[lines] == '\r' || text_[lines] == '\n')) ++lines, ++steps_;
    return lines;
  }
  // \s*[\r\n]+: up to the last line end of this run of blanks.
  size_t after_line_end = i;
  for (size_t k = i; k < end_;) {
    const Character c = at(k);
    if (c.kind != CharacterClass::space) break;
    k += c.bytes;
    if (c.code_point == '\r' || c.code_point == '\n') after_line_end = k;
  }
  return after_line_end != i ? after_line_end : end_of_blank(i);
}

// Moves end_ to where the rule must stop: the end of the text, or the next numeric character.
void WordScanner::find_fragment() {
  end_ = text_.size();
  if (!row_->digits_apart) return;
  for (size_t i = at_; i < text_.size();) {
    const Character c = at(i);
    if (c.kind == CharacterClass::number) {
      end_ = i == at_ ? i + c.bytes : i;
      return;
    }
    i += c.bytes;
  }
}

bool WordScanner::next(std::string_view* word) {
  if (at_ >= text_.size()) return false;
  if (at_ >= end_) find_fragment();
  size_t end = at_;
  switch (row_->rule) {
    case SplitRule::gpt2:
      end = end_of_gpt2(at_);
      break;
    case SplitRule::cl100k_digits3:
      end = end_of_cl100k(at_, 3);
      break;
    case SplitRule::cl100k_digits1:
      end = end_of_cl100k(at_, 1);
      break;
  }
  *word = slice(text_, at_, end - at_);
  at_ = end;
  return true;
}

}   // namespace mote
