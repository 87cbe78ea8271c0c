// Text to tokens and back, and chat prompts, through mote.h: sizes, scratch memory, refusals.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstring>

#include "tests/api/kit.h"
#include "tests/support/guarded_memory.h"

namespace mote::test {
namespace {

const mote_chat_options chatml = chat_options("chatml");

const std::string kText = "hello the and  00 <|im_end|> in\n\n" + std::string(300, 'q') + " \xf0\x9f\x98\x80 \xff";

struct Tokenized {
  mote_status status;
  size_t n;
  Tokens tokens;
};
Tokenized tokenize(mote_model* model, std::string_view text, uint32_t flags, size_t capacity,
                   mote_memory scratch = {}) {
  Tokenized result{MOTE_OK, 999999, Tokens(capacity, -7)};
  result.status = mote_tokenize(model, text.data(), text.size(), flags, scratch, result.tokens.data(), capacity,
                                &result.n, nullptr);
  if (result.status == MOTE_OK) result.tokens.resize(result.n);
  return result;
}

TEST_CASE("A buffer that is too small is told how much is needed", "[api][text]") {
  const Engine engine("reference");
  for (const ToyTokenizer kind : {ToyTokenizer::byte_bpe, ToyTokenizer::sentencepiece}) {
    const Model model(engine, toy_llama({.n_layers = 1, .tokenizer = kind}));
    const Tokenized whole = tokenize(model, kText, 0, 1000);
    REQUIRE(whole.status == MOTE_OK);
    REQUIRE(whole.n > 300);
    CHECK(tokenize(model, kText, 0, whole.n).tokens == whole.tokens);
    for (const size_t capacity : {size_t{0}, size_t{1}, whole.n - 1}) {
      const Tokenized small = tokenize(model, kText, 0, capacity);
      CHECK(small.status == MOTE_BUFFER_TOO_SMALL);
      CHECK(small.n == whole.n);
    }
    size_t n_bytes = 0;
    CHECK(mote_detokenize(model, whole.tokens.data(), whole.n, nullptr, 0, &n_bytes, nullptr) == MOTE_BUFFER_TOO_SMALL);
    std::string text(n_bytes, 0);
    REQUIRE(mote_detokenize(model, whole.tokens.data(), whole.n, text.data(), text.size(), &n_bytes, nullptr) ==
            MOTE_OK);
    CHECK(n_bytes == text.size());
    std::string expected = kText;
    expected.replace(expected.size() - 1, 1, "\xef\xbf\xbd");
    CHECK(text == expected);
    const Outcome short_by_one = outcome([&](mote_error* e) {
      return mote_detokenize(model, whole.tokens.data(), whole.n, text.data(), text.size() - 1, &n_bytes, e);
    });
    CHECK(short_by_one.status == MOTE_BUFFER_TOO_SMALL);
    CHECK(contains(short_by_one.sentence, std::to_string(text.size())));
  }
}

TEST_CASE("Control tokens are recognised where they are asked for alone", "[api][text]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama({.n_layers = 1, .add_bos = true}));
  CHECK(tokenize(model, "<|im_end|>", 0, 32).tokens.size() > 1);
  CHECK(tokenize(model, "<|im_end|>", MOTE_PARSE_SPECIAL, 32).tokens == Tokens{319});
  CHECK(tokenize(model, "hello", 0, 32).tokens.front() != 317);
  CHECK(tokenize(model, "hello", MOTE_ADD_SPECIAL, 32).tokens.front() == 317);
  CHECK(tokenize(model, "", MOTE_ADD_SPECIAL, 32).tokens == Tokens{317});
}

TEST_CASE("Tokenising keeps within the scratch memory that it asked for", "[api][text]") {
  const Engine engine("reference");
  for (const ToyTokenizer kind :
       {ToyTokenizer::byte_bpe, ToyTokenizer::sentencepiece, ToyTokenizer::unigram, ToyTokenizer::word_pieces}) {
    const Model model(engine, toy_llama({.n_layers = 1, .tokenizer = kind}));
    const Tokenized plain = tokenize(model, kText, 0, 1000);
    const uint64_t asked = mote_tokenize_scratch_bytes(model, kText.size());
    for (const uint8_t fill : {uint8_t{0x00}, uint8_t{0xFF}})
      for (const uint64_t alignment : {uint64_t{64}, uint64_t{1}}) {
        const GuardedMemory memory(asked, alignment, Guard::pages, fill);
        const Tokenized with = tokenize(model, kText, 0, 1000, {memory.data(), memory.bytes()});
        CAPTURE(alignment);
        CHECK(with.status == MOTE_OK);
        CHECK(with.tokens == plain.tokens);
        CHECK(memory.damage() == "");
      }
    // Too little of it is a status, not an overrun.
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{64}, uint64_t{500}}) {
      const GuardedMemory memory(bytes, 1, Guard::pages, 0xA5);
      const Tokenized with = tokenize(model, kText, 0, 1000, {memory.data(), memory.bytes()});
      CHECK((with.status == MOTE_OUT_OF_MEMORY || with.tokens == plain.tokens));
      CHECK(memory.damage() == "");
    }
  }
}

TEST_CASE("A chat prompt is the same as text and as tokens", "[api][text]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama({.n_layers = 1}));
  const std::string user = "hello <|im_end|> the";
  const mote_message messages[] = {{"system", "be brief", 8}, {"user", user.c_str(), user.size()}};
  size_t n = 0;
  CHECK(mote_chat_text(model, &chatml, messages, 2, nullptr, 0, &n, nullptr) == MOTE_BUFFER_TOO_SMALL);
  std::string text(n, 0);
  REQUIRE(mote_chat_text(model, &chatml, messages, 2, text.data(), text.size(), &n, nullptr) == MOTE_OK);
  CHECK(text ==
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n" + user + "<|im_end|>\n<|im_start|>assistant\n");
  Tokens tokens(n);
  REQUIRE(mote_chat_tokens(model, &chatml, messages, 2, {}, tokens.data(), tokens.size(), &n, nullptr) == MOTE_OK);
  tokens.resize(n);
  // The user's own control token is plain text: two ends, not three.
  CHECK(std::count(tokens.begin(), tokens.end(), 319) == 2);
  CHECK(std::count(tokens.begin(), tokens.end(), 318) == 3);
  std::string back(text.size(), 0);
  REQUIRE(mote_detokenize(model, tokens.data(), tokens.size(), back.data(), back.size(), &n, nullptr) == MOTE_OK);
  CHECK(back == text);
  CHECK(mote_chat_tokens(model, &chatml, messages, 2, {}, tokens.data(), tokens.size() - 1, &n, nullptr) ==
        MOTE_BUFFER_TOO_SMALL);
  CHECK(n == tokens.size());
}

TEST_CASE("Chat options of any age say whether the model thinks and where the prompt ends", "[api][text]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama({.n_layers = 1}));
  const mote_message message = {"user", "a", 1};
  const auto prompt = [&](const mote_chat_options* options) {
    char text[256] = {};
    size_t n = 0, n_tokens = 0;
    int32_t tokens[256];
    mote_error error{};
    if (mote_chat_text(model, options, &message, 1, text, sizeof text, &n, &error) != MOTE_OK)
      return std::string(error.message);
    char back[256] = {};
    REQUIRE(mote_chat_tokens(model, options, &message, 1, {}, tokens, 256, &n_tokens, nullptr) == MOTE_OK);
    REQUIRE(mote_detokenize(model, tokens, n_tokens, back, sizeof back, &n, nullptr) == MOTE_OK);
    CHECK(std::string(back) == text);
    return std::string(text);
  };
  const std::string question = "<|im_start|>user\na<|im_end|>\n", answer = "<|im_start|>assistant\n";
  mote_chat_options options{};
  options.struct_bytes = sizeof options;
  options.format = "qwen3";
  CHECK(prompt(&options) == question + answer);
  options.thinking = MOTE_THINKING_ON;
  CHECK(prompt(&options) == question + answer);
  options.thinking = MOTE_THINKING_OFF;
  CHECK(prompt(&options) == question + answer + "<think>\n\n</think>\n\n");
  options.struct_bytes = offsetof(mote_chat_options, thinking);   // an older program's
  CHECK(prompt(&options) == question + answer);
  options.struct_bytes = sizeof options;
  options.no_generation_prompt = 1;
  CHECK(prompt(&options) == question);
  options.no_generation_prompt = 0, options.format = "chatml";   // has no such switch
  CHECK(prompt(&options) == question + answer);
  options.thinking = 3;
  CHECK(prompt(&options) == "thinking is 3; known are 0 to 2");
  options.struct_bytes = 4097;
  CHECK(contains(prompt(&options), "options.struct_bytes is 4097"));
  CHECK(contains(prompt(nullptr), "no chat template"));   // the model's own format
}

TEST_CASE("A model's chat format is matched when it opens, once", "[api][text]") {
  const Engine engine("reference");
  GgufBuilder builder = toy_llama({.n_layers = 1});
  builder.set_string("tokenizer.chat_template",
                     "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
                     "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}"
                     "{{ '<|im_start|>assistant\\n' }}{% endif %}");
  Bytes bytes = builder.bytes();
  const mote_source source = source_of(bytes);
  mote_model* model = nullptr;
  REQUIRE(mote_model_open(engine, &source, nullptr, {}, &model, nullptr) == MOTE_OK);
  // Whoever matched again would see that the template is another one now.
  const std::string marker = "{% for message";
  const auto at = std::search(bytes.begin(), bytes.end(), marker.begin(), marker.end());
  CHECK(at != bytes.end());
  if (at != bytes.end()) *at = 'x';
  mote_model_info info{};
  info.struct_bytes = sizeof info;
  CHECK(mote_model_get_info(model, &info, nullptr) == MOTE_OK);
  CHECK(std::string(info.chat_format == nullptr ? "none" : info.chat_format) == "chatml");
  CHECK(mote_model_close(model, nullptr) == MOTE_OK);
}

TEST_CASE("Chat prompts that cannot be are refused in a sentence", "[api][text]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama({.n_layers = 1}));
  const mote_message good = {"user", "hi", 2};
  size_t n = 0;
  char text[512];
  const auto ask = [&](const char* format, const mote_message* messages, size_t count) {
    const mote_chat_options options = chat_options(format);
    return outcome(
        [&](mote_error* e) { return mote_chat_text(model, &options, messages, count, text, sizeof text, &n, e); });
  };
  // The toy model has no template.
  CHECK(ask(nullptr, &good, 1).status == MOTE_UNSUPPORTED);
  CHECK(contains(ask(nullptr, &good, 1).sentence, "chat"));
  CHECK(ask("no such", &good, 1).status == MOTE_UNSUPPORTED);
  CHECK(contains(ask("no such", &good, 1).sentence, "chatml"));
  CHECK(ask("chatml", nullptr, 1).status == MOTE_INVALID_ARGUMENT);
  const mote_message no_role = {nullptr, "hi", 2}, no_content = {"user", nullptr, 2}, empty = {"user", nullptr, 0};
  CHECK(ask("chatml", &no_role, 1).status == MOTE_INVALID_ARGUMENT);
  CHECK(ask("chatml", &no_content, 1).status == MOTE_INVALID_ARGUMENT);
  CHECK(ask("chatml", &empty, 1).status == MOTE_OK);
  // Lengths that no memory has.
  const mote_message endless[] = {{"user", "hi", SIZE_MAX}, {"user", "hi", SIZE_MAX}};
  if (sizeof(size_t) == 8) {
    CHECK(ask("chatml", endless, 2).status == MOTE_INVALID_ARGUMENT);
    CHECK(contains(ask("chatml", endless, 2).sentence, "2 messages"));
  }
}

TEST_CASE("The scratch for a chat grows with its messages and its text, and never wraps", "[api][text]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama({.n_layers = 1}));
  const uint64_t little = mote_chat_scratch_bytes(model, 1, 10);
  CHECK(mote_chat_scratch_bytes(model, 100, 10) > little);
  CHECK(mote_chat_scratch_bytes(model, 1, 100000) > little);
  CHECK(mote_chat_scratch_bytes(model, SIZE_MAX, SIZE_MAX) >= mote_chat_scratch_bytes(model, 1 << 20, 1 << 20));
}

TEST_CASE("A chat of many messages gets the working memory that it needs", "[api][text]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama({.n_layers = 1}));
  const std::string word(300, 'w');
  const std::vector<mote_message> messages(2000, {"user", word.c_str(), word.size()});
  size_t n = 0;
  std::string text(1000000, 0);
  REQUIRE(mote_chat_text(model, &chatml, messages.data(), messages.size(), text.data(), text.size(), &n, nullptr) ==
          MOTE_OK);
  text.resize(n);
  Tokens tokens(n);
  const Outcome said = outcome([&](mote_error* e) {
    return mote_chat_tokens(model, &chatml, messages.data(), messages.size(), {}, tokens.data(), tokens.size(), &n, e);
  });
  CHECK(said.sentence == "untouched");
  REQUIRE(said.status == MOTE_OK);
  tokens.resize(n);
  std::string back(text.size(), 0);
  REQUIRE(mote_detokenize(model, tokens.data(), tokens.size(), back.data(), back.size(), &n, nullptr) == MOTE_OK);
  CHECK(back == text);
}

TEST_CASE("A role that a chat format does not know is named", "[api][text]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama({.n_layers = 1}));
  size_t n = 0;
  int32_t ids[256];
  for (const std::string& role : {std::string("tool"), std::string(), std::string(5000, 'r')}) {
    const mote_message messages[] = {{"user", "hello", 5}, {role.c_str(), "hi", 2}};
    const Outcome said =
        outcome([&](mote_error* e) { return mote_chat_tokens(model, &chatml, messages, 2, {}, ids, 256, &n, e); });
    CAPTURE(role, said.sentence);
    CHECK(said.status == MOTE_INVALID_ARGUMENT);
    CHECK(contains(said.sentence, "message 1 has the role"));
  }
}

TEST_CASE("End tokens are listed, and each is one", "[api][text]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama({.n_layers = 1}));
  Tokens ends;
  for (uint32_t i = 0; mote_end_token(model, i) >= 0; ++i) ends.push_back(mote_end_token(model, i));
  CHECK(ends == Tokens{317, 319});
  for (int32_t token = 0; token < 320; ++token)
    REQUIRE(mote_is_end_token(model, token) == static_cast<int32_t>(std::count(ends.begin(), ends.end(), token)));
}

TEST_CASE("Metadata and tensors are listed as the file holds them", "[api][text]") {
  const Engine engine("reference");
  const GgufBuilder file = toy_llama();
  const Model model(engine, file);
  mote_model_info info{};
  info.struct_bytes = sizeof info;
  REQUIRE(mote_model_get_info(model, &info, nullptr) == MOTE_OK);
  CHECK(std::string(info.architecture) == "llama");
  CHECK(info.n_layers == 2);
  CHECK(info.n_heads == 4);
  CHECK(info.n_kv_heads == 2);
  CHECK(info.head_dim == 16);
  CHECK(info.n_vocab == 320);
  CHECK(info.trained_context == 512);
  CHECK(info.chat_format == nullptr);
  REQUIRE(info.n_metadata == file.entries.size());
  REQUIRE(info.n_tensors == file.parts.size());
  uint64_t n_parameters = 0;
  for (uint32_t i = 0; i < info.n_metadata; ++i) {
    mote_metadata entry{};
    entry.struct_bytes = sizeof entry;
    REQUIRE(mote_model_metadata(model, i, &entry, nullptr) == MOTE_OK);
    REQUIRE(std::string(entry.key, entry.key_bytes) == file.entries[i].key);
    REQUIRE(static_cast<uint32_t>(entry.type) == file.entries[i].type);
  }
  for (uint32_t i = 0; i < info.n_tensors; ++i) {
    mote_tensor tensor{};
    tensor.struct_bytes = sizeof tensor;
    REQUIRE(mote_model_tensor(model, i, &tensor, nullptr) == MOTE_OK);
    REQUIRE(std::string(tensor.name, tensor.name_bytes) == file.parts[i].name);
    REQUIRE(tensor.bytes == file.parts[i].data.size());
    REQUIRE(std::string(tensor.format) == "f32");
    n_parameters += tensor.bytes / 4;
  }
  CHECK(info.n_parameters == n_parameters);
  CHECK(info.weight_bytes == 4 * n_parameters);
}

}   // namespace
}   // namespace mote::test
