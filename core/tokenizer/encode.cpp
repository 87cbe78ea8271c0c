// Text to ids: the parts become one clean text, control and user-defined pieces are cut out of it, and what is between
// them goes through the vocabulary's kind of merging.
#include <algorithm>
#include <cstring>

#include "core/base/slice.h"
#include "core/base/utf8.h"
#include "core/tokenizer/nfc.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/tokenizer_kinds.h"

namespace mote {
namespace {

// Positions are kept in 32 bits, marks in two more.
constexpr uint64_t kMaxTextBytes = uint64_t{1} << 28;

struct Cleaned {
  uint64_t bytes;   // of the text with each maximal bad part replaced
  bool changed;
};

Cleaned measure_clean(std::string_view text) {
  Cleaned cleaned{0, false};
  for (size_t i = 0; i < text.size();) {
    if ((static_cast<unsigned char>(text[i]) & 0x80) == 0) {
      ++i, ++cleaned.bytes;
      continue;
    }
    const Utf8Character c = decode_utf8(text.data() + i, text.size() - i);
    cleaned.bytes += c.valid ? c.bytes : kReplacementBytes.size();
    cleaned.changed |= !c.valid;
    i += c.bytes;
  }
  return cleaned;
}

char* write_clean(std::string_view text, char* to) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = decode_utf8(text.data() + i, text.size() - i);
    const std::string_view from = c.valid ? slice(text, i, c.bytes) : kReplacementBytes;
    std::memcpy(to, from.data(), from.size());
    to += from.size();
    i += c.bytes;
  }
  return to;
}

}   // namespace

// One call of Tokenizer::encode.
class TextEncoder {
 public:
  TextEncoder(const Tokenizer& tokenizer, std::span<int32_t> out, Scratch scratch)
      : t_(tokenizer), sink_(out), scratch_(scratch) {}

  // The first id will be the start token, whether the text brings it or not.
  void begin_with_bos() { missing_bos_ = true; }
  void put(int32_t id) {
    if (missing_bos_ && id != t_.bos_) sink_.put(t_.bos_);
    missing_bos_ = false;
    sink_.put(id);
  }

  Status encode(std::span<const TextPart> parts, bool add_special) {
    if (add_special && t_.adds_bos_) sink_.put(t_.bos_);
    MOTE_RETURN_IF_ERROR(join(parts));
    if (!cut()) return too_small();
    if (missing_bos_) sink_.put(t_.bos_);
    if (add_special && t_.adds_eos_) sink_.put(t_.eos_);
    return {};
  }
  Encoded result() const { return {sink_.count(), steps_}; }
  Scratch& scratch() { return scratch_; }
  Status too_small() const {
    return Status::error(Code::buffer_too_small, "tokenising this text needs {} bytes of scratch memory or more",
                         scratch_.needed_bytes());
  }

 private:
  struct Stretch {
    size_t end;   // in text_
    bool parse_special;
  };

  // Makes text_ and stretches_. A single valid text is used where it lies.
  Status join(std::span<const TextPart> parts) {
    if (parts.empty()) return {};
    uint64_t given = 0, clean = 0;
    bool changed = parts.size() > 1;
    for (const TextPart& part : parts) {
      given += part.text.size();
      if (given > kMaxTextBytes)
        return Status::error(Code::invalid_argument, "the text has over {} bytes", kMaxTextBytes);
      const Cleaned cleaned = measure_clean(part.text);
      clean += cleaned.bytes;
      changed |= cleaned.changed;
      steps_ += part.text.size();
    }
    if (clean > kMaxTextBytes)
      return Status::error(Code::invalid_argument,
                           "the text has {} bytes after bad UTF-8 is replaced, at most {} are allowed", clean,
                           kMaxTextBytes);
    if (!changed) {
      text_ = parts[0].text;
      single_ = {text_.size(), parts[0].parse_special};
      stretches_ = {&single_, 1};
      return {};
    }
    auto* stretches = scratch_.take<Stretch>(parts.size());
    auto* text = stretches == nullptr ? nullptr : scratch_.take<char>(clean);
    if (text == nullptr) return too_small();
    char* to = text;
    for (size_t i = 0; i < parts.size(); ++i) {
      to = write_clean(parts[i].text, to);
      stretches[i] = {static_cast<size_t>(to - text), parts[i].parse_special};
    }
    text_ = {text, static_cast<size_t>(to - text)};
    stretches_ = {stretches, parts.size()};
    return {};
  }

  // Special pieces stand for themselves; what is between them is ordinary text.
  bool cut() {
    const bool user_defined = !t_.vocabulary_.spells_spaces();   // SentencePiece finds its own
    size_t start = 0, stretch = 0;
    for (size_t at = 0; at < text_.size();) {
      while (at >= stretches_[stretch].end) ++stretch;
      const Stretch& here = stretches_[stretch];
      ++steps_;
      if ((here.parse_special || user_defined) && t_.vocabulary_.may_start_special(text_[at])) {
        const size_t control_bytes = here.parse_special ? here.end - at : 0;
        const Vocabulary::Match match =
            t_.vocabulary_.match_special(slice(text_, at), control_bytes, user_defined, &steps_);
        if (match.id >= 0) {
          if (!ordinary(slice(text_, start, at - start))) return false;
          put(match.id);
          at += match.bytes;
          start = at;
          continue;
        }
      }
      ++at;
    }
    return ordinary(slice(text_, start));
  }

  bool ordinary(std::string_view text) {
    if (text.empty()) return true;
    const uint64_t mark = scratch_.mark();
    const bool done = pieces_of(text);
    scratch_.release(mark);
    return done;
  }

  bool pieces_of(std::string_view text) {
    switch (t_.kind_) {
      case TokenizerKind::byte_level:
        if constexpr (is_built(TokenizerKind::byte_level)) return byte_level(text);
        break;
      case TokenizerKind::sentencepiece:
        if constexpr (is_built(TokenizerKind::sentencepiece)) return sentencepiece(text);
        break;
      case TokenizerKind::unigram:
        leading_bos();
        if constexpr (is_built(TokenizerKind::unigram))
          return t_.unigram_.encode(text, t_.vocabulary_, scratch_, sink_, &steps_);
        break;
      case TokenizerKind::word_pieces:
        leading_bos();
        if constexpr (is_built(TokenizerKind::word_pieces))
          t_.word_pieces_.encode(text, t_.vocabulary_, sink_, &steps_);
        break;
    }
    return true;
  }

  bool byte_level(std::string_view text) {
    if (t_.pre_->nfc && !is_surely_nfc(text)) {
      char* composed = scratch_.take<char>(kNfcGrowth * text.size());
      if (composed == nullptr) return false;
      text = {composed, normalize_nfc(text, composed, &steps_)};
    }
    leading_bos();
    WordScanner words(*t_.pre_, text);
    for (std::string_view word; words.next(&word);)
      if (!t_.byte_pairs_.encode(word, t_.vocabulary_, scratch_, sink_, &steps_)) return false;
    steps_ += words.steps();
    return true;
  }

  bool sentencepiece(std::string_view text) {
    if (t_.adds_space_prefix_) {
      char* prefixed = scratch_.take<char>(text.size() + 1);
      if (prefixed == nullptr) return false;
      prefixed[0] = ' ';
      std::memcpy(prefixed + 1, text.data(), text.size());
      text = {prefixed, text.size() + 1};
    }
    leading_bos();
    return t_.sentence_pieces_.encode(text, t_.vocabulary_, scratch_, sink_, &steps_);
  }

  // Ordinary text never makes a control token, so the start token is still missing when it comes first.
  void leading_bos() {
    if (missing_bos_) sink_.put(t_.bos_);
    missing_bos_ = false;
  }

  const Tokenizer& t_;
  TokenSink sink_;
  Scratch scratch_;
  bool missing_bos_ = false;
  uint64_t steps_ = 0;
  std::string_view text_;
  Stretch single_{};
  std::span<const Stretch> stretches_;
};

Result<Encoded> Tokenizer::encode(std::span<const TextPart> parts, bool add_special, std::span<int32_t> out,
                                  std::span<std::byte> scratch) const {
  TextEncoder encoder(*this, out, Scratch(scratch));
  MOTE_RETURN_IF_ERROR(encoder.encode(parts, add_special));
  return encoder.result();
}

// What an ordinary stretch of that many bytes of clean text takes at most.
uint64_t Tokenizer::merging_bytes(uint64_t clean_bytes) const {
  switch (kind_) {
    case TokenizerKind::byte_level:
      return BytePairs::scratch_bytes(clean_bytes);
    case TokenizerKind::sentencepiece:
      return SentencePieces::scratch_bytes(clean_bytes + 1) + clean_bytes + 1;
    case TokenizerKind::unigram:
      if constexpr (is_built(TokenizerKind::unigram)) return unigram_.scratch_bytes(clean_bytes);
      break;
    case TokenizerKind::word_pieces:
      break;
  }
  return 0;
}

uint64_t Tokenizer::scratch_bytes(uint64_t text_bytes) const {
  // A bad byte becomes three; so may a character under NFC, but never both.
  const uint64_t n = 3 * std::min(text_bytes, kMaxTextBytes);
  return n + (pre_ != nullptr && pre_->nfc ? n : 0) + merging_bytes(n) + 64;
}

uint64_t Tokenizer::scratch_bytes(std::string_view text) const {
  const Cleaned clean = measure_clean(text);
  const uint64_t most = scratch_bytes(uint64_t{text.size()});
  if constexpr (is_built(TokenizerKind::unigram))
    if (kind_ == TokenizerKind::unigram)
      return clean.changed ? most : std::min(most, clean.bytes + unigram_.scratch_bytes(text) + 64);
  const uint64_t normal = pre_ != nullptr && pre_->nfc && !is_surely_nfc(text) ? kNfcGrowth * clean.bytes : 0;
  return std::min(most, clean.bytes + normal + merging_bytes(std::max(clean.bytes, normal)) + 64);
}

ChatTokens Tokenizer::chat_token_texts() const {
  const auto text = [this](int32_t id) {
    return id >= 0 ? vocabulary_.spelling(static_cast<uint32_t>(id)) : std::string_view();
  };
  return {text(bos_), text(eos_)};
}

Result<Encoded> Tokenizer::chat_tokens(const ChatFormat& format, const ChatPrompt& prompt, std::span<int32_t> out,
                                       std::span<std::byte> scratch) const {
  if (prompt.messages.size() > kMaxTextBytes)   // each brings text of the format's own
    return Status::error(Code::invalid_argument, "a conversation of {} messages has over {} bytes",
                         prompt.messages.size(), kMaxTextBytes);
  TextEncoder encoder(*this, out, Scratch(scratch));
  struct Collected {
    TextPart* parts;
    uint64_t count, capacity;
  } collected{nullptr, 0, chat_parts(prompt.messages.size())};
  collected.parts = encoder.scratch().take<TextPart>(collected.capacity);
  if (collected.parts == nullptr) return encoder.too_small();
  const ChatSink sink{&collected, [](void* user, std::string_view text, bool parse_special) {
                        auto* to = static_cast<Collected*>(user);
                        if (to->count < to->capacity && !text.empty()) to->parts[to->count++] = {text, parse_special};
                      }};
  MOTE_RETURN_IF_ERROR(render_chat(format, prompt, chat_token_texts(), sink));
  if (adds_bos_) encoder.begin_with_bos();
  MOTE_RETURN_IF_ERROR(encoder.encode({collected.parts, static_cast<size_t>(collected.count)}, false));
  return encoder.result();
}

uint64_t Tokenizer::chat_scratch_bytes(uint64_t n_messages, uint64_t text_bytes) const {
  // The format's own text is short: at most this much and an end token for a message, and once for the rest.
  constexpr uint64_t kAround = 64, kOnce = 512;
  const ChatTokens tokens = chat_token_texts();
  n_messages = std::min(n_messages, kMaxTextBytes);   // more are refused
  text_bytes = std::min(text_bytes, kMaxTextBytes);
  const uint64_t parts = chat_parts(n_messages);
  return parts * (sizeof(TextPart) + 2 * sizeof(size_t)) +
         scratch_bytes(text_bytes + (kAround + tokens.eos.size()) * n_messages + kOnce + tokens.bos.size()) + 64;
}

}   // namespace mote
