// Input: the chat format asked for, the number of messages, then parts that each begin with their length: the model's
// own template, and each message's role and content. What comes out as text must come out as ids that say the same, and
// no control token may come from a message.
#include <algorithm>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "tests/support/toy_model.h"

namespace mote::fuzz {
namespace {

constexpr size_t kMaxMessages = 8;

std::string part(Cursor& input) {
  const size_t low = input.byte();
  const size_t bytes = low | (static_cast<size_t>(input.byte()) << 8);
  const Input taken = input.take(bytes);
  return {taken.begin(), taken.end()};
}

size_t control_tokens(const mote_model* model, const std::vector<int32_t>& ids) {
  // The toy's control tokens are its last three pieces.
  mote_model_info info{};
  info.struct_bytes = sizeof info;
  mote_error error{};
  if (mote_model_get_info(model, &info, &error) != MOTE_OK) wrong(error.message);
  return static_cast<size_t>(
      std::count_if(ids.begin(), ids.end(), [&](int32_t id) { return id >= static_cast<int32_t>(info.n_vocab) - 3; }));
}

std::vector<int32_t> chat_ids(const mote_model* model, const mote_chat_options& options,
                              const std::vector<mote_message>& messages) {
  std::vector<int32_t> ids;
  size_t n = 0;
  mote_error error{};
  mote_status status = mote_chat_tokens(model, &options, messages.data(), messages.size(), {}, nullptr, 0, &n, &error);
  if (status == MOTE_BUFFER_TOO_SMALL) {
    ids.resize(n);
    status = mote_chat_tokens(model, &options, messages.data(), messages.size(), {}, ids.data(), n, &n, &error);
    if (status != MOTE_OK) wrong(error.message);
  } else {
    fine(status, error);
  }
  return ids;
}

void use(const mote_model* model, Cursor& input, const mote_chat_options& options, size_t n_messages) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < 2 * n_messages; ++i) texts.push_back(part(input));
  const char* const roles[] = {"system", "user", "assistant", nullptr};
  std::vector<mote_message> messages, empty;
  for (size_t i = 0; i < n_messages; ++i) {
    const char* const known = texts[2 * i].empty() ? "user" : roles[static_cast<uint8_t>(texts[2 * i][0]) % 4];
    const char* const role = known != nullptr ? known : texts[2 * i].c_str();
    messages.push_back({role, texts[2 * i + 1].data(), texts[2 * i + 1].size()});
    empty.push_back({role, "", 0});
  }
  size_t n = 0;
  mote_error error{};
  mote_status status = mote_chat_text(model, &options, messages.data(), n_messages, nullptr, 0, &n, &error);
  if (status != MOTE_BUFFER_TOO_SMALL) fine(status, error);
  std::string text(n, '\0');
  if (status == MOTE_BUFFER_TOO_SMALL &&
      mote_chat_text(model, &options, messages.data(), n_messages, text.data(), n, &n, &error) != MOTE_OK)
    wrong(error.message);
  if (control_tokens(model, chat_ids(model, options, messages)) !=
      control_tokens(model, chat_ids(model, options, empty)))
    wrong("a message became a control token");
}

void run(Cursor input) {
  const uint8_t asked = input.byte();
  const size_t n_messages = input.byte() % (kMaxMessages + 1);
  test::GgufBuilder builder;
  builder.set_string("general.architecture", "llama");
  test::add_toy_tokenizer(builder, {});
  builder.set_string("tokenizer.chat_template", part(input));
  const test::Bytes bytes = builder.bytes();
  mote_source source{};
  source.struct_bytes = sizeof source;
  source.data = bytes.data();
  source.data_bytes = bytes.size();
  mote_model_options vocabulary_only{};
  vocabulary_only.struct_bytes = sizeof vocabulary_only;
  vocabulary_only.vocabulary_only = 1;
  mote_model* model = nullptr;
  mote_error error{};
  if (!fine(mote_model_open(engine(), &source, &vocabulary_only, {}, &model, &error), error)) return;
  mote_chat_options options{};
  options.struct_bytes = sizeof options;
  options.format = asked % 4 == 3 ? nullptr : mote_chat_format_name(asked % 4);
  use(model, input, options, n_messages);
  mote_model_close(model, nullptr);
}

}   // namespace
}   // namespace mote::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const mote::fuzz::WorkBound bound(bytes, 2000, 250000);
  mote::fuzz::run(mote::fuzz::Cursor({data, bytes}));
  return 0;
}
