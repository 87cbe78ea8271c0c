#include "tests/tokenizer/toy_tokenizer.h"

#include <cstring>
#include <stdexcept>

#include "core/base/utf8.h"
#include "core/tokenizer/byte_level.h"
#include "tests/support/char_map.h"

namespace mote::test {

OpenTokenizer::OpenTokenizer(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {
  const Result<gguf::File> file = gguf::File::open(bytes_);
  if (!file.ok()) {
    status_ = file.status();
    return;
  }
  file_ = file.value();
  Arena measure;
  const Result<Tokenizer*> measured = Tokenizer::create(*file_, measure);
  if (!measured.ok()) {
    status_ = measured.status();
    return;
  }
  quoted_bytes_ = measure.used_bytes();
  memory_ = std::make_unique<std::byte[]>(static_cast<size_t>(quoted_bytes_) + kArenaAlignment);
  std::memset(memory_.get(), 0xFF, static_cast<size_t>(quoted_bytes_) + kArenaAlignment);
  const auto address = reinterpret_cast<uintptr_t>(memory_.get());
  Arena arena(memory_.get() + (round_up(address, kArenaAlignment) - address), quoted_bytes_);
  const Result<Tokenizer*> opened = Tokenizer::create(*file_, arena);
  if (opened.ok() && arena.used_bytes() != quoted_bytes_) throw std::logic_error("the quote is not exact");
  if (opened.ok())
    tokenizer_ = opened.value();
  else
    status_ = opened.status();
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, bool add_special, bool parse_special) {
  std::vector<std::byte> scratch(static_cast<size_t>(tokenizer.scratch_bytes(text)));
  Ids ids(3 * text.size() + 4);
  const Result<Encoded> encoded = tokenizer.encode(TextPart{text, parse_special}, add_special, ids, scratch);
  if (!encoded.ok()) throw std::runtime_error(encoded.status().c_str());
  if (encoded.value().n_tokens > ids.size()) throw std::logic_error("more ids than three a byte");
  ids.resize(static_cast<size_t>(encoded.value().n_tokens));
  return ids;
}

std::string detokenize(const Tokenizer& tokenizer, const Ids& ids, bool show_control) {
  const Result<uint64_t> bytes = tokenizer.detokenize(ids, show_control, {});
  if (!bytes.ok()) throw std::runtime_error(bytes.status().c_str());
  std::string text(static_cast<size_t>(bytes.value()), '\0');
  if (tokenizer.detokenize(ids, show_control, text).value() != text.size())
    throw std::logic_error("counted differently");
  return text;
}

Ids chat(const Tokenizer& tokenizer, const ChatFormat& format, const std::vector<ChatMessage>& messages, bool gen) {
  uint64_t text_bytes = 0;
  for (const ChatMessage& message : messages) text_bytes += message.content.size();
  std::vector<std::byte> scratch(static_cast<size_t>(tokenizer.chat_scratch_bytes(messages.size(), text_bytes)));
  Ids ids(100000);
  const Result<Encoded> encoded = tokenizer.chat_tokens(format, {messages, gen}, ids, scratch);
  if (!encoded.ok()) throw std::runtime_error(encoded.status().c_str());
  ids.resize(static_cast<size_t>(encoded.value().n_tokens));
  return ids;
}

std::string alphabet(unsigned char byte) {
  char text[4];
  return {text, encode_utf8(kByteLevel.code_point[byte], text)};
}

std::string alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += alphabet(static_cast<unsigned char>(byte));
  return text;
}

GgufBuilder toy_byte_level(const ToyPairs& toy) {
  std::vector<std::string> tokens, merges;
  std::vector<int32_t> types(256, 1);
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(alphabet(static_cast<unsigned char>(byte)));
  for (const auto& [left, right] : toy.merges) {
    merges.push_back(alphabet(left) + " " + alphabet(right));
    tokens.push_back(alphabet(left + right));
    types.push_back(1);
  }
  for (const std::string& text : toy.control) tokens.push_back(text), types.push_back(3);
  for (const std::string& text : toy.user_defined) tokens.push_back(text), types.push_back(4);
  GgufBuilder builder;
  builder.set_string("general.architecture", "llama");
  builder.set_string("tokenizer.ggml.model", "gpt2");
  builder.set_string("tokenizer.ggml.pre", toy.pre);
  builder.set_strings("tokenizer.ggml.tokens", tokens);
  builder.set_array("tokenizer.ggml.token_type", Type::int32, types);
  builder.set_strings("tokenizer.ggml.merges", merges);
  return builder;
}

GgufBuilder toy_sentencepiece(const std::vector<std::string>& pieces, const std::vector<std::string>& user_defined) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  std::vector<float> scores = {0, 0, 0};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
    types.push_back(6), scores.push_back(0);
  }
  for (const std::string& text : user_defined) tokens.push_back(text), types.push_back(4), scores.push_back(0);
  for (size_t i = 0; i < pieces.size(); ++i)
    tokens.push_back(pieces[i]), types.push_back(1), scores.push_back(-static_cast<float>(i));
  GgufBuilder builder;
  builder.set_string("general.architecture", "llama");
  builder.set_string("tokenizer.ggml.model", "llama");
  builder.set_strings("tokenizer.ggml.tokens", tokens);
  builder.set_array("tokenizer.ggml.token_type", Type::int32, types);
  builder.set_array("tokenizer.ggml.scores", Type::float32, scores);
  builder.set_u32("tokenizer.ggml.bos_token_id", 1);
  builder.set_u32("tokenizer.ggml.eos_token_id", 2);
  builder.set_u32("tokenizer.ggml.unknown_token_id", 0);
  return builder;
}

GgufBuilder toy_unigram(const std::vector<std::pair<std::string, float>>& pieces,
                        const std::vector<std::string>& user_defined, const std::map<std::string, std::string>& map) {
  std::vector<std::string> tokens = {"<pad>", "</s>", "<unk>"};
  std::vector<int32_t> types = {3, 3, 2};
  std::vector<float> scores = {0, 0, 0};
  for (const std::string& text : user_defined) tokens.push_back(text), types.push_back(4), scores.push_back(0);
  for (const auto& [text, score] : pieces) tokens.push_back(text), types.push_back(1), scores.push_back(score);
  GgufBuilder builder;
  builder.set_string("general.architecture", "t5");
  builder.set_string("tokenizer.ggml.model", "t5");
  builder.set_strings("tokenizer.ggml.tokens", tokens);
  builder.set_array("tokenizer.ggml.token_type", Type::int32, types);
  builder.set_array("tokenizer.ggml.scores", Type::float32, scores);
  builder.set_u32("tokenizer.ggml.eos_token_id", 1);
  if (!map.empty()) builder.set_array("tokenizer.ggml.precompiled_charsmap", Type::uint8, char_map(map));
  return builder;
}

GgufBuilder toy_word_pieces(const std::vector<std::string>& words, const std::vector<std::string>& continuations) {
  std::vector<std::string> tokens = {"[UNK]", "[CLS]", "[SEP]"};
  for (const std::string& word : words) tokens.push_back("\xE2\x96\x81" + word);
  tokens.insert(tokens.end(), continuations.begin(), continuations.end());
  std::vector<int32_t> types(tokens.size(), 1);
  types[0] = types[1] = types[2] = 3;
  GgufBuilder builder;
  builder.set_string("general.architecture", "bert");
  builder.set_string("tokenizer.ggml.model", "bert");
  builder.set_strings("tokenizer.ggml.tokens", tokens);
  builder.set_array("tokenizer.ggml.token_type", Type::int32, types);
  builder.set_u32("tokenizer.ggml.unknown_token_id", 0);
  builder.set_u32("tokenizer.ggml.cls_token_id", 1);
  builder.set_u32("tokenizer.ggml.seperator_token_id", 2);
  return builder;
}

}   // namespace mote::test
