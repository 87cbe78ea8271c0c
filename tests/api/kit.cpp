#include "tests/api/kit.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "core/mote_dev.h"
#include "tests/support/sanitized.h"
#include "tests/support/toy_weights.h"

namespace mote::test {

void must(mote_status status, const mote_error& error) {
  if (status != MOTE_OK) throw std::runtime_error(std::string(mote_status_name(status)) + ": " + error.message);
}

namespace {

template <class Call>
void call_must(Call call) {
  mote_error error{};
  must(call(&error), error);
}

mote_quote empty_quote() {
  mote_quote quote{};
  quote.struct_bytes = sizeof quote;
  return quote;
}

}   // namespace

Engine::Engine(const char* backends, uint32_t threads, mote_memory memory)
    : Engine(engine_options(backends, threads), memory) {}
Engine::Engine(const mote_engine_options& options, mote_memory memory) {
  call_must([&](mote_error* error) { return mote_engine_open(&options, memory, &engine_, error); });
}

Model::Model(mote_engine* engine, Bytes bytes, mote_memory memory, const mote_model_options* options)
    : bytes_(std::move(bytes)) {
  const mote_source source = source_of(bytes_);
  call_must([&](mote_error* error) { return mote_model_open(engine, &source, options, memory, &model_, error); });
}

Session::Session(mote_model* model, mote_session_options options, mote_memory memory) {
  options.struct_bytes = sizeof options;
  call_must([&](mote_error* error) { return mote_session_open(model, &options, memory, &session_, error); });
  mote_model_info info{};
  info.struct_bytes = sizeof info;
  call_must([&](mote_error* error) { return mote_model_get_info(model, &info, error); });
  if (info.encodes != 0 && info.decodes != 0) encode(session_, input_of(options));
}

std::vector<const char*> host_backends() {
  std::vector<const char*> names;
  for (uint32_t i = 0; const char* name = mote_dev_backend_name(i); ++i)
    for (const std::string known : {"cpu", "reference", "xnnpack"})
      if (known == name) names.push_back(name);
  return names;
}

std::vector<const char*> exact_backends() {
  std::vector<const char*> found = host_backends();
  if (kSanitized) return found;   // a driver's threads are not watched; tests/backends/vulkan runs there
  const mote_engine_options options = engine_options("vulkan");
  mote_engine* engine = nullptr;
  if (mote_engine_open(&options, {}, &engine, nullptr) == MOTE_OK) {
    mote_engine_close(engine, nullptr);
    found.push_back("vulkan");
  }
  return found;
}

std::string with_cpu(const char* backend) {
  const std::string name = backend;
  return name == "xnnpack" || name == "vulkan" ? name + ",cpu" : name;
}

mote_source source_of(const Bytes& bytes) {
  mote_source source{};
  source.struct_bytes = sizeof source;
  source.data = bytes.data();
  source.data_bytes = bytes.size();
  return source;
}

mote_session_options session_options(uint32_t context, uint32_t max_batch) {
  mote_session_options options{};
  options.struct_bytes = sizeof options;
  options.context = context;
  options.max_batch = max_batch;
  return options;
}

mote_chat_options chat_options(const char* format) {
  mote_chat_options options{};
  options.struct_bytes = sizeof options;
  options.format = format;
  return options;
}

mote_engine_options engine_options(const char* backends, uint32_t threads) {
  mote_engine_options options{};
  options.struct_bytes = sizeof options;
  options.backends = backends;
  options.threads = threads;
  return options;
}

mote_quote quote_engine(const mote_engine_options& options) {
  mote_quote quote = empty_quote();
  call_must([&](mote_error* error) { return mote_engine_quote(&options, &quote, error); });
  return quote;
}

mote_quote quote_session(mote_model* model, const mote_session_options& options) {
  mote_quote quote = empty_quote();
  call_must([&](mote_error* error) { return mote_session_quote(model, &options, &quote, error); });
  return quote;
}

ModelQuotes quote_model(mote_engine* engine, const Bytes& bytes, const mote_session_options& options,
                        const mote_model_options* model_options) {
  ModelQuotes quotes{empty_quote(), empty_quote()};
  const mote_source source = source_of(bytes);
  call_must([&](mote_error* error) {
    return mote_model_quote(engine, &source, model_options, &options, &quotes.model, &quotes.session, error);
  });
  return quotes;
}

uint64_t sum_of_kinds(const mote_quote& quote) {
  return quote.tables_bytes + quote.tokenizer_bytes + quote.vectors_bytes + quote.plan_bytes + quote.packed_bytes +
         quote.state_bytes + quote.activation_bytes + quote.scratch_bytes + quote.sampler_bytes + quote.history_bytes;
}

Tokens some_tokens(size_t count, uint32_t end, uint64_t seed) {
  Random random(seed);
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.below(end));
  return tokens;
}

Tokens input_of(const mote_session_options& options) {
  size_t most = 7;
  for (const uint32_t limit : {options.max_batch, options.context})
    if (limit != 0 && limit < most) most = limit;
  return some_tokens(most, 256, 77);
}

void encode(mote_session* session, const Tokens& tokens) {
  call_must([&](mote_error* error) { return mote_encode(session, tokens.data(), tokens.size(), error); });
}

std::vector<float> encoded(mote_session* session) {
  const float* values = nullptr;
  size_t n_rows = 0, d_model = 0;
  call_must([&](mote_error* error) { return mote_hidden(session, &values, &n_rows, &d_model, error); });
  std::vector<float> all(values, values + n_rows * d_model);
  if (mote_embedding(session, 0, &values, &d_model, nullptr) == MOTE_OK)
    all.insert(all.end(), values, values + d_model);
  return all;
}

bool use_encoder(mote_session* session, std::vector<float>* seen) {
  for (const size_t length : {1u, 21u, 5u, 8u}) {
    const Tokens tokens = some_tokens(length, 256, length);
    mote_error error{};
    const mote_status status = mote_encode(session, tokens.data(), tokens.size(), &error);
    if (status == MOTE_UNSUPPORTED) return true;
    if (status == MOTE_CONTEXT_FULL) continue;
    must(status, error);
    const std::vector<float> found = encoded(session);
    seen->insert(seen->end(), found.begin(), found.end());
  }
  return mote_feed(session, nullptr, 0, nullptr, nullptr) != MOTE_UNSUPPORTED;
}

void feed(mote_session* session, const Tokens& tokens) {
  size_t done = 0;
  call_must([&](mote_error* error) { return mote_feed(session, tokens.data(), tokens.size(), &done, error); });
  if (done != tokens.size()) throw std::runtime_error("a feed was ok and not done");
}

std::vector<float> step(mote_session* session) {
  const float* logits = nullptr;
  size_t n_vocab = 0;
  call_must([&](mote_error* error) { return mote_step(session, error); });
  call_must([&](mote_error* error) { return mote_logits(session, &logits, &n_vocab, error); });
  return {logits, logits + n_vocab};
}

int32_t next(mote_session* session) {
  int32_t token = -1;
  call_must([&](mote_error* error) { return mote_next(session, &token, error); });
  return token;
}

Tokens history(mote_session* session) {
  const int32_t* tokens = nullptr;
  size_t count = 0;
  call_must([&](mote_error* error) { return mote_history(session, &tokens, &count, error); });
  return {tokens, tokens + count};
}

std::vector<float> logits_after(mote_session* session, const Tokens& tokens) {
  feed(session, tokens);
  return step(session);
}

Tokens generate(mote_session* session, size_t most) {
  Tokens tokens;
  int32_t token = -1;
  while (tokens.size() < most && mote_next(session, &token, nullptr) == MOTE_OK) tokens.push_back(token);
  return tokens;
}

Answer answer(mote_session* session, size_t most) {
  Answer result;
  mote_text text{};
  text.struct_bytes = sizeof text;
  while (result.tokens.size() < most && result.finish == MOTE_FINISH_NONE) {
    call_must([&](mote_error* error) { return mote_text_next(session, &text, error); });
    result.text.append(text.bytes, text.n_bytes);
    if (text.token >= 0) result.tokens.push_back(text.token);
    result.finish = static_cast<mote_finish>(text.finish);
  }
  if (result.finish == MOTE_FINISH_NONE) {
    call_must([&](mote_error* error) { return mote_text_flush(session, &text, error); });
    result.text.append(text.bytes, text.n_bytes);
    result.finish = static_cast<mote_finish>(text.finish);
  }
  return result;
}

std::string bit_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::to_string(a.size()) + " and " + std::to_string(b.size()) + " values";
  size_t n_different = 0, first = 0, worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof a[i]) == 0) continue;
    if (n_different++ == 0) first = worst = i;
    if (!(std::abs(a[i] - b[i]) <= std::abs(a[worst] - b[worst]))) worst = i;
  }
  if (n_different == 0) return {};
  return std::to_string(n_different) + " values differ, the first at " + std::to_string(first) + ", the worst at " +
         std::to_string(worst) + ": " + std::to_string(a[worst]) + " and " + std::to_string(b[worst]);
}

}   // namespace mote::test
