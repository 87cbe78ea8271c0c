// A model opened through the public C API, for tests: failures are exceptions with the API's sentence.
#pragma once
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/mote.h"

namespace mote::test {

class OpenedModel {
 public:
  struct Message {
    std::string role, content;
  };
  using OnLogits = std::function<void(size_t first, size_t rows, const float* logits)>;

  // The whole model on the named backends, or (no backend given) only its vocabulary.
  explicit OpenedModel(const std::string& path, const std::string& backends = {}) {
    mote_engine_options engine_options = {};
    engine_options.struct_bytes = sizeof engine_options;
    engine_options.backends = backends.empty() ? nullptr : backends.c_str();
    need(mote_engine_open(&engine_options, {}, &engine_, &error_));
    mote_source source = {};
    source.struct_bytes = sizeof source;
    source.path = path.c_str();
    mote_model_options options = {};
    options.struct_bytes = sizeof options;
    options.vocabulary_only = backends.empty() ? 1 : 0;
    need(mote_model_open(engine_, &source, &options, {}, &model_, &error_));
    info_.struct_bytes = sizeof info_;
    need(mote_model_get_info(model_, &info_, &error_));
  }
  ~OpenedModel() {
    mote_model_close(model_, nullptr);
    mote_engine_close(engine_, nullptr);
  }
  OpenedModel(const OpenedModel&) = delete;
  OpenedModel& operator=(const OpenedModel&) = delete;

  size_t n_vocab() const { return info_.n_vocab; }
  // -1 where the model adds none.
  int32_t start_token() const { return info_.adds_bos != 0 ? info_.bos_token : -1; }

  // Hidden states of all tokens; what they are pooled to, and that of length 1; both empty where the model does not
  // pool.
  struct Encoded {
    std::vector<float> hidden, pooled, embedding;
  };
  Encoded encode(const std::vector<int32_t>& tokens) {
    mote_session_options options = {};
    options.struct_bytes = sizeof options;
    options.context = static_cast<uint32_t>(tokens.size());
    options.kv_type = MOTE_KV_F32;
    mote_session* session = nullptr;
    need(mote_session_open(model_, &options, {}, &session, &error_));
    Encoded found;
    const float* values = nullptr;
    size_t rows = 0, d_model = 0;
    mote_status status = mote_encode(session, tokens.data(), tokens.size(), &error_);
    if (status == MOTE_OK) status = mote_hidden(session, &values, &rows, &d_model, &error_);
    if (status == MOTE_OK) found.hidden.assign(values, values + rows * d_model);
    if (status == MOTE_OK && mote_embedding(session, MOTE_EMBEDDING_RAW, &values, &d_model, nullptr) == MOTE_OK)
      found.pooled.assign(values, values + d_model);
    if (status == MOTE_OK && mote_embedding(session, 0, &values, &d_model, nullptr) == MOTE_OK)
      found.embedding.assign(values, values + d_model);
    mote_session_close(session, nullptr);
    need(status);
    return found;
  }

  // The logits after each token of a fresh sequence with an f32 KV, behind an encoder's input where there is one; batch
  // 0: the default.
  void evaluate(const std::vector<int32_t>& tokens, uint32_t batch, const OnLogits& on_logits,
                const std::vector<int32_t>& input = {}) {
    mote_session_options options = {};
    options.struct_bytes = sizeof options;
    options.context = static_cast<uint32_t>(std::max(tokens.size(), input.size()));
    options.max_batch =
        batch == 0 ? 0 : std::min(std::max(batch, static_cast<uint32_t>(input.size())), options.context);
    options.max_output_rows = std::min(16u, batch == 0 ? options.context : batch);
    options.kv_type = MOTE_KV_F32;
    mote_session* session = nullptr;
    need(mote_session_open(model_, &options, {}, &session, &error_));
    mote_status status = MOTE_OK;
    if (!input.empty()) status = mote_encode(session, input.data(), input.size(), &error_);
    const auto forward = [](void* user, size_t first, size_t rows, const float* logits, size_t) -> int32_t {
      (*static_cast<const OnLogits*>(user))(first, rows, logits);
      return 0;
    };
    if (status == MOTE_OK)
      status = mote_evaluate(session, tokens.data(), tokens.size(), forward, const_cast<OnLogits*>(&on_logits), nullptr,
                             &error_);
    mote_session_close(session, nullptr);
    need(status);
  }

  std::vector<int32_t> tokenize(const std::string& text, uint32_t flags) {
    size_t count = 0;
    mote_status status = mote_tokenize(model_, text.data(), text.size(), flags, {}, nullptr, 0, &count, &error_);
    if (status != MOTE_BUFFER_TOO_SMALL) need(status);
    std::vector<int32_t> ids(count);
    need(mote_tokenize(model_, text.data(), text.size(), flags, {}, ids.data(), ids.size(), &count, &error_));
    return ids;
  }

  std::string detokenize(const std::vector<int32_t>& ids) {
    return text_of([&](char* to, size_t capacity, size_t* bytes) {
      return mote_detokenize(model_, ids.data(), ids.size(), to, capacity, bytes, &error_);
    });
  }
  // The bytes of one token inside a text: what it adds to the text of itself.
  std::string piece(int32_t id) { return detokenize({id, id}).substr(detokenize({id}).size()); }

  static std::vector<Message> messages(const nlohmann::json& list) {
    std::vector<Message> made;
    for (const nlohmann::json& message : list) made.push_back({message["role"], message["content"]});
    return made;
  }
  std::string chat_text(const std::vector<Message>& messages, bool generates) {
    const std::vector<mote_message> views = views_of(messages);
    const mote_chat_options options = chat_options(generates);
    return text_of([&](char* to, size_t capacity, size_t* bytes) {
      return mote_chat_text(model_, &options, views.data(), views.size(), to, capacity, bytes, &error_);
    });
  }
  std::vector<int32_t> chat_tokens(const std::vector<Message>& messages, bool generates) {
    const std::vector<mote_message> views = views_of(messages);
    const mote_chat_options options = chat_options(generates);
    size_t count = 0;
    const mote_status status =
        mote_chat_tokens(model_, &options, views.data(), views.size(), {}, nullptr, 0, &count, &error_);
    if (status != MOTE_BUFFER_TOO_SMALL) need(status);
    std::vector<int32_t> ids(count);
    need(mote_chat_tokens(model_, &options, views.data(), views.size(), {}, ids.data(), ids.size(), &count, &error_));
    return ids;
  }

 private:
  static mote_chat_options chat_options(bool generates) {
    mote_chat_options options{};
    options.struct_bytes = sizeof options;
    options.no_generation_prompt = generates ? 0 : 1;
    return options;
  }
  void need(mote_status status) const {
    if (status != MOTE_OK) throw std::runtime_error(error_.message);
  }
  template <class Write>
  std::string text_of(const Write& write) {
    size_t bytes = 0;
    const mote_status status = write(nullptr, 0, &bytes);
    if (status != MOTE_BUFFER_TOO_SMALL) need(status);
    std::string text(bytes, 0);
    need(write(text.data(), text.size(), &bytes));
    return text;
  }
  static std::vector<mote_message> views_of(const std::vector<Message>& messages) {
    std::vector<mote_message> views;
    for (const Message& message : messages)
      views.push_back({message.role.c_str(), message.content.data(), message.content.size()});
    return views;
  }

  mote_engine* engine_ = nullptr;
  mote_model* model_ = nullptr;
  mote_model_info info_ = {};
  mutable mote_error error_ = {};
};

}   // namespace mote::test
