// Text to token ids and back, for the vocabularies of GGUF files: byte-level BPE, SentencePiece BPE and unigram,
// WordPiece.
//
// Everything is built once into the model arena; after that a Tokenizer is immutable and any number of threads may use
// it. Calls take their working memory from the caller and never allocate. Time is linear in the text but for a
// logarithm, whatever the text holds; a hostile vocabulary can make it look at 256 bytes (special pieces,
// SentencePiece) or compare 256 pieces of up to 256 bytes (unigram; WordPiece: 100 for each of 100 characters) for each
// byte of the text.
//
// Bad UTF-8 counts as U+FFFD, one for each maximal bad part. Control tokens are recognised only where the caller asks
// (TextPart::parse_special); user-defined pieces always.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/arena.h"
#include "core/gguf/file.h"
#include "core/tokenizer/byte_pairs.h"
#include "core/tokenizer/chat_format.h"
#include "core/tokenizer/pre_tokenizer.h"
#include "core/tokenizer/sentence_pieces.h"
#include "core/tokenizer/unigram.h"
#include "core/tokenizer/vocabulary.h"
#include "core/tokenizer/word_pieces.h"

namespace mote {

// A piece of a text. The parts of a text are tokenised as one: words may reach over the borders.
struct TextPart {
  std::string_view text;
  bool parse_special = false;   // control tokens that lie within this part are recognised
};

struct TokenizerRow;   // of tokenizer_kinds.inc

struct Encoded {
  uint64_t n_tokens = 0;   // all of them; those beyond the output were not written
  uint64_t steps = 0;      // characters, symbols and heap entries looked at: for tests of how the time grows
};

class Tokenizer {
 public:
  // Reads tokenizer.* of the file, whose bytes must outlive the tokenizer. While the arena measures, the value is
  // nullptr and arena.used_bytes() grows by exactly what opening takes. *piece_bytes becomes longest_piece_bytes(),
  // also then. bad_model and unsupported name the key, what was found and what is allowed.
  static Result<Tokenizer*> create(const gguf::File& file, Arena& arena, uint64_t* piece_bytes = nullptr);

  uint32_t n_vocab() const { return vocabulary_.size(); }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  int32_t bos() const { return bos_; }          // -1: none
  int32_t eos() const { return eos_; }          // -1: none
  bool adds_bos() const { return adds_bos_; }   // wanted, and there is one
  bool adds_eos() const { return adds_eos_; }

  // True when generation ends with this token: every end id of the metadata, and control pieces of end_tokens.inc.
  bool is_end(int32_t id) const { return in_vocabulary(id) && vocabulary_.is_end(static_cast<uint32_t>(id)); }
  // The index-th of them in rising order, or -1. Walks the vocabulary.
  int32_t end_token(uint32_t index) const;

  // Ids of a text. add_special: the start token before it and the end token after it where the model wants them.
  // scratch may be empty for texts of ordinary words; buffer_too_small names the bytes this text wants.
  Result<Encoded> encode(std::span<const TextPart> parts, bool add_special, std::span<int32_t> out,
                         std::span<std::byte> scratch) const;
  Result<Encoded> encode(TextPart text, bool add_special, std::span<int32_t> out, std::span<std::byte> scratch) const {
    return encode(std::span<const TextPart>(&text, 1), add_special, out, scratch);
  }
  // Bytes of scratch that are enough for any text of that many bytes, bad UTF-8 of one endless word included.
  uint64_t scratch_bytes(uint64_t text_bytes) const;
  // Bytes of scratch that are enough for this text; usually a third of the former.
  uint64_t scratch_bytes(std::string_view text) const;

  // The exact bytes of a token into `out`: all of them are counted, those that fit are written. Nothing for an id
  // outside of the vocabulary, and for control pieces unless show_control.
  uint64_t piece(int32_t id, bool show_control, std::span<char> out) const;
  // Room that is enough for any piece.
  uint64_t longest_piece_bytes() const { return vocabulary_.longest_bytes() + uint64_t{1}; }
  // The bytes of a whole text: the pieces in a row, less the blank that encoding puts before a text (or WordPiece
  // before its first word). Counts and writes like `piece`. invalid_argument names an id outside of the vocabulary.
  Result<uint64_t> detokenize(std::span<const int32_t> ids, bool show_control, std::span<char> out) const;

  // The format that belongs to the model's own template, or the status that says why there is none.
  Result<const ChatFormat*> chat_format() const {
    if (chat_format_ != nullptr) return chat_format_;
    return no_chat_format(has_chat_template_);
  }
  // The prompt of a conversation as text (counted and written like `piece`), and as ids: only the format's own text is
  // parsed for control tokens. One start token stands first where the model wants one, whether the format writes it
  // or not.
  Result<uint64_t> chat_text(const ChatFormat& format, const ChatPrompt& prompt, std::span<char> out) const;
  Result<Encoded> chat_tokens(const ChatFormat& format, const ChatPrompt& prompt, std::span<int32_t> out,
                              std::span<std::byte> scratch) const;
  // Bytes of scratch that are enough for chat_tokens of n messages with text_bytes bytes of content.
  uint64_t chat_scratch_bytes(uint64_t n_messages, uint64_t text_bytes) const;

 private:
  friend class TextEncoder;
  bool in_vocabulary(int32_t id) const { return id >= 0 && static_cast<uint32_t>(id) < vocabulary_.size(); }
  Status open(const gguf::File& file, Arena& arena);
  Status open_kind(const gguf::File& file, Arena& arena);
  Status read_token_ids(const gguf::File& file, bool measuring);
  Status mark_end_tokens(const gguf::File& file);
  void find_unknown();
  ChatTokens chat_token_texts() const;
  bool drops_first_blank() const { return adds_space_prefix_ || kind_ == TokenizerKind::word_pieces; }
  uint64_t merging_bytes(uint64_t clean_bytes) const;

  const TokenizerRow* row_ = nullptr;
  TokenizerKind kind_ = TokenizerKind::byte_level;
  const PreTokenizer* pre_ = nullptr;   // byte-level only
  bool adds_bos_ = false, adds_eos_ = false;
  bool adds_space_prefix_ = false;   // SentencePiece only
  int32_t bos_ = -1, eos_ = -1, unknown_ = -1;
  Vocabulary vocabulary_;
  BytePairs byte_pairs_;
  SentencePieces sentence_pieces_;
  Unigram unigram_;
  WordPieces word_pieces_;
  const ChatFormat* chat_format_ = nullptr;   // matched once, since that takes a hash of the template
  bool has_chat_template_ = false;
};

}   // namespace mote
