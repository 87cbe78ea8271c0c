// Engines, models and sessions for tests of mote.h: opened in a line, closed by themselves, failures are exceptions.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/mote.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/toy_model.h"

namespace mote::test {

using Tokens = std::vector<int32_t>;

// Throws with the sentence unless the call was MOTE_OK.
void must(mote_status status, const mote_error& error);

// What a call that may fail has said.
struct Outcome {
  mote_status status = MOTE_OK;
  std::string sentence;
};
// outcome([&](mote_error* error) { return mote_step(session, error); })
template <class Call>
Outcome outcome(Call call) {
  mote_error error{-1, "untouched"};
  const mote_status status = call(&error);
  if (status != MOTE_OK && error.status != status) return {status, "the error's status is another one"};
  return {status, error.message};
}
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Engine {
 public:
  explicit Engine(const char* backends, uint32_t threads = 1, mote_memory memory = {});
  explicit Engine(const mote_engine_options& options, mote_memory memory = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() { mote_engine_close(engine_, nullptr); }
  operator mote_engine*() const { return engine_; }

 private:
  mote_engine* engine_ = nullptr;
};

// A model of bytes that live as long as it does.
class Model {
 public:
  Model(mote_engine* engine, const GgufBuilder& file, mote_memory memory = {}) : Model(engine, file.bytes(), memory) {}
  Model(mote_engine* engine, Bytes bytes, mote_memory memory = {}, const mote_model_options* options = nullptr);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model() { mote_model_close(model_, nullptr); }
  operator mote_model*() const { return model_; }

 private:
  Bytes bytes_;
  mote_model* model_ = nullptr;
};

// One of a model with an encoder and a decoder begins with an input: `input_of` its options.
class Session {
 public:
  explicit Session(mote_model* model, mote_session_options options = {}, mote_memory memory = {});
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { mote_session_close(session_, nullptr); }
  operator mote_session*() const { return session_; }

 private:
  mote_session* session_ = nullptr;
};

mote_source source_of(const Bytes& bytes);
// cpu and reference, and vulkan where this build and this machine have it: backends that promise the bits of any way of
// coming to the same tokens.
std::vector<const char*> exact_backends();
// The list of that backend and, where it does not run encoders, cpu behind it.
std::string with_cpu(const char* backend);
// Options with their size set; context and max_batch as given.
mote_session_options session_options(uint32_t context = 0, uint32_t max_batch = 0);
mote_engine_options engine_options(const char* backends, uint32_t threads = 1);
mote_chat_options chat_options(const char* format);

// The backends of this build whose states lie in host memory: what a test of "every backend" walks.
std::vector<const char*> host_backends();

mote_quote quote_engine(const mote_engine_options& options);
mote_quote quote_session(mote_model* model, const mote_session_options& options);
// Of the model, and of a session with it.
struct ModelQuotes {
  mote_quote model, session;
};
ModelQuotes quote_model(mote_engine* engine, const Bytes& bytes, const mote_session_options& options,
                        const mote_model_options* model_options = nullptr);
// The kinds added up: what must be total_bytes.
uint64_t sum_of_kinds(const mote_quote& quote);

// `count` token ids below `end`, the same for one seed.
Tokens some_tokens(size_t count, uint32_t end, uint64_t seed = 1);

Tokens input_of(const mote_session_options& options);
void encode(mote_session* session, const Tokens& tokens);
// What mote_hidden and, where the model pools, mote_embedding have, one behind the other.
std::vector<float> encoded(mote_session* session);
// Encodes inputs of several lengths, as far as the session takes them, and adds what comes of each; nothing where the
// model has no encoder. False: it has nothing but one.
bool use_encoder(mote_session* session, std::vector<float>* seen);
void feed(mote_session* session, const Tokens& tokens);
std::vector<float> step(mote_session* session);   // the logits after the pending token
int32_t next(mote_session* session);
Tokens history(mote_session* session);
// Logits after the last of `tokens`, fed in one call.
std::vector<float> logits_after(mote_session* session, const Tokens& tokens);
// Generates until a status; at most `most` tokens.
Tokens generate(mote_session* session, size_t most);
// The text of mote_text_next until it finishes or after `most` tokens, flushed.
struct Answer {
  std::string text;
  Tokens tokens;
  mote_finish finish = MOTE_FINISH_NONE;
};
Answer answer(mote_session* session, size_t most);

// Empty when both hold the same bits, else the first and the worst difference.
std::string bit_difference(const std::vector<float>& a, const std::vector<float>& b);

}   // namespace mote::test
