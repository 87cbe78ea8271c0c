// Ids to bytes.
#include "core/base/slice.h"
#include "core/base/utf8.h"
#include "core/tokenizer/byte_level.h"
#include "core/tokenizer/tokenizer.h"

namespace mote {
namespace {

// Counts every byte and writes those that fit.
class ByteSink {
 public:
  explicit ByteSink(std::span<char> out, bool drops_first_blank = false) : out_(out), drops_blank_(drops_first_blank) {}
  void put(char byte) {
    const bool drop = drops_blank_ && byte == ' ';
    drops_blank_ = false;
    if (drop) return;
    if (count_ < out_.size()) out_[static_cast<size_t>(count_)] = byte;
    ++count_;
  }
  void put_all(std::string_view text) {
    for (const char byte : text) put(byte);
  }
  uint64_t count() const { return count_; }

 private:
  std::span<char> out_;
  bool drops_blank_;
  uint64_t count_ = 0;
};

int32_t alphabet_byte(const Utf8Character& c) {
  return c.valid && c.code_point < ByteLevelAlphabet::kEnd ? kByteLevel.byte[c.code_point] : -1;
}

// A piece with a character outside of the alphabet stands for its own text, as in the reference.
void put_byte_level(std::string_view spelling, ByteSink& sink) {
  for (size_t i = 0; i < spelling.size();) {
    const Utf8Character c = decode_utf8(spelling.data() + i, spelling.size() - i);
    if (alphabet_byte(c) < 0) return sink.put_all(spelling);
    i += c.bytes;
  }
  for (size_t i = 0; i < spelling.size();) {
    const Utf8Character c = decode_utf8(spelling.data() + i, spelling.size() - i);
    sink.put(static_cast<char>(static_cast<unsigned char>(alphabet_byte(c))));
    i += c.bytes;
  }
}

void put_sentencepiece(std::string_view spelling, ByteSink& sink) {
  constexpr std::string_view kSpace = "\xE2\x96\x81";
  for (size_t i = 0; i < spelling.size();) {
    const bool space = slice(spelling, i, kSpace.size()) == kSpace;
    sink.put(space ? ' ' : spelling[i]);
    i += space ? kSpace.size() : 1;
  }
}

void put_byte_piece(std::string_view spelling, ByteSink& sink) {
  const auto digit = [&](size_t i) {
    const char c = spelling[i];
    return c <= '9' ? c - '0' : (c & ~0x20) - 'A' + 10;
  };
  // <0xHH>, checked when the vocabulary was opened.
  if (spelling.size() == 6) sink.put(static_cast<char>(static_cast<unsigned char>(digit(3) * 16 + digit(4))));
}

// Every piece that begins a word has a blank before it, and so has one that is not spelled like a word.
void put_word_piece(std::string_view spelling, PieceType type, ByteSink& sink) {
  constexpr std::string_view kWordMark = "\xE2\x96\x81";
  const bool marked = slice(spelling, 0, kWordMark.size()) == kWordMark;
  if (marked || (type != PieceType::normal && type != PieceType::undefined)) sink.put(' ');
  sink.put_all(slice(spelling, marked ? kWordMark.size() : 0));
}

void put_piece(const Vocabulary& vocabulary, uint32_t id, bool show_control, ByteSink& sink) {
  const std::string_view spelling = vocabulary.spelling(id);
  const PieceType type = vocabulary.type(id);
  if (type == PieceType::control && !show_control) return;
  if (vocabulary.kind() == TokenizerKind::word_pieces) return put_word_piece(spelling, type, sink);
  if (vocabulary.spells_spaces())
    return type == PieceType::byte ? put_byte_piece(spelling, sink) : put_sentencepiece(spelling, sink);
  if (type == PieceType::control || type == PieceType::user_defined || type == PieceType::unknown)
    return sink.put_all(spelling);
  put_byte_level(spelling, sink);
}

}   // namespace

uint64_t Tokenizer::piece(int32_t id, bool show_control, std::span<char> out) const {
  if (!in_vocabulary(id)) return 0;
  ByteSink sink(out);
  put_piece(vocabulary_, static_cast<uint32_t>(id), show_control, sink);
  return sink.count();
}

Result<uint64_t> Tokenizer::detokenize(std::span<const int32_t> ids, bool show_control, std::span<char> out) const {
  ByteSink sink(out, drops_first_blank());
  for (const int32_t id : ids) {
    if (!in_vocabulary(id))
      return Status::error(Code::invalid_argument, "token {} is outside of the vocabulary of {}", id, n_vocab());
    put_piece(vocabulary_, static_cast<uint32_t>(id), show_control, sink);
  }
  return sink.count();
}

Result<uint64_t> Tokenizer::chat_text(const ChatFormat& format, const ChatPrompt& prompt, std::span<char> out) const {
  ByteSink bytes(out);
  const ChatSink sink{&bytes,
                      [](void* user, std::string_view text, bool) { static_cast<ByteSink*>(user)->put_all(text); }};
  MOTE_RETURN_IF_ERROR(render_chat(format, prompt, chat_token_texts(), sink));
  return bytes.count();
}

}   // namespace mote
