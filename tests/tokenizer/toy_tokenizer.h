// Tokenizers opened for tests: from a file, or from metadata made up here.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/tokenizer.h"
#include "tests/support/gguf_builder.h"

namespace mote::test {

// The bytes of a GGUF, and the tokenizer in memory of exactly the quoted size, which was filled with 0xFF.
class OpenTokenizer {
 public:
  explicit OpenTokenizer(std::vector<uint8_t> bytes);
  explicit OpenTokenizer(const GgufBuilder& builder) : OpenTokenizer(builder.bytes()) {}

  const Status& status() const { return status_; }
  const Tokenizer& operator*() const { return *tokenizer_; }   // throws nothing: check status() first
  const Tokenizer* operator->() const { return tokenizer_; }
  uint64_t quoted_bytes() const { return quoted_bytes_; }

 private:
  std::vector<uint8_t> bytes_;
  std::optional<gguf::File> file_;
  std::unique_ptr<std::byte[]> memory_;
  uint64_t quoted_bytes_ = 0;
  const Tokenizer* tokenizer_ = nullptr;
  Status status_;
};

using Ids = std::vector<int32_t>;
// With as much scratch as the tokenizer says. Failures throw.
Ids encode(const Tokenizer& tokenizer, std::string_view text, bool add_special = false, bool parse_special = false);
std::string detokenize(const Tokenizer& tokenizer, const Ids& ids, bool show_control = true);
Ids chat(const Tokenizer& tokenizer, const ChatFormat& format, const std::vector<ChatMessage>& messages,
         bool gen = true);

// The character that stands for a byte in byte-level vocabularies.
std::string alphabet(unsigned char byte);
std::string alphabet(std::string_view bytes);

// Byte-level: all 256 bytes (ids 0 to 255 in the order of their values), then `pieces` made by merges given as pairs
// of raw bytes, then control tokens.
struct ToyPairs {
  std::string pre = "gpt-2";
  std::vector<std::pair<std::string, std::string>> merges = {};
  std::vector<std::string> control = {}, user_defined = {};
};
GgufBuilder toy_byte_level(const ToyPairs& toy);
// SentencePiece: <unk>, <s>, </s>, 256 byte pieces, then the pieces with scores 0, -1, -2, ...
GgufBuilder toy_sentencepiece(const std::vector<std::string>& pieces,
                              const std::vector<std::string>& user_defined = {});

// SentencePiece unigram: <pad>, </s>, <unk>, user-defined pieces, then the pieces with their scores. With a map, its
// replacements.
GgufBuilder toy_unigram(const std::vector<std::pair<std::string, float>>& pieces,
                        const std::vector<std::string>& user_defined = {},
                        const std::map<std::string, std::string>& map = {});
// WordPiece: [UNK], [CLS], [SEP], then words, then continuations.
GgufBuilder toy_word_pieces(const std::vector<std::string>& words, const std::vector<std::string>& continuations);

}   // namespace mote::test
