// Calls at the wrong moment: what is still open cannot be closed, what is inside a call cannot be called.
#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "tests/api/kit.h"

namespace mote::test {
namespace {

TEST_CASE("Closing follows the order of opening", "[api][order]") {
  mote_engine* engine = nullptr;
  mote_model* models[2] = {};
  mote_session* sessions[2] = {};
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  const mote_source source = source_of(bytes);
  const mote_session_options options = session_options(16, 4);
  REQUIRE(mote_engine_open(nullptr, {}, &engine, nullptr) == MOTE_OK);
  for (mote_model*& model : models) REQUIRE(mote_model_open(engine, &source, nullptr, {}, &model, nullptr) == MOTE_OK);
  for (mote_session*& session : sessions)
    REQUIRE(mote_session_open(models[0], &options, {}, &session, nullptr) == MOTE_OK);

  const Outcome engine_refused = outcome([&](mote_error* e) { return mote_engine_close(engine, e); });
  CHECK(engine_refused.status == MOTE_WRONG_STATE);
  CHECK(contains(engine_refused.sentence, "2 open models"));
  const Outcome model_refused = outcome([&](mote_error* e) { return mote_model_close(models[0], e); });
  CHECK(model_refused.status == MOTE_WRONG_STATE);
  CHECK(contains(model_refused.sentence, "2 open sessions"));
  // What was refused still works.
  feed(sessions[1], {1, 2, 3});
  CHECK(step(sessions[1]).size() == 320);

  CHECK(mote_session_close(sessions[0], nullptr) == MOTE_OK);
  CHECK(mote_model_close(models[0], nullptr) == MOTE_WRONG_STATE);
  CHECK(mote_session_close(sessions[1], nullptr) == MOTE_OK);
  CHECK(mote_model_close(models[0], nullptr) == MOTE_OK);
  CHECK(mote_engine_close(engine, nullptr) == MOTE_WRONG_STATE);
  CHECK(mote_model_close(models[1], nullptr) == MOTE_OK);
  CHECK(mote_engine_close(engine, nullptr) == MOTE_OK);
}

TEST_CASE("An opening that fails counts nothing as open", "[api][order]") {
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  const mote_source source = source_of(bytes);
  mote_engine* engine = nullptr;
  mote_model* model = nullptr;
  mote_session* session = nullptr;
  alignas(64) static unsigned char little[64];
  REQUIRE(mote_engine_open(nullptr, {}, &engine, nullptr) == MOTE_OK);
  CHECK(mote_model_open(engine, &source, nullptr, {little, 64}, &model, nullptr) == MOTE_OUT_OF_MEMORY);
  REQUIRE(mote_model_open(engine, &source, nullptr, {}, &model, nullptr) == MOTE_OK);
  CHECK(mote_session_open(model, nullptr, {little, 64}, &session, nullptr) == MOTE_OUT_OF_MEMORY);
  CHECK(mote_model_close(model, nullptr) == MOTE_OK);
  CHECK(mote_engine_close(engine, nullptr) == MOTE_OK);
}

TEST_CASE("A session inside a call refuses others and goes on", "[api][order]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama({.n_layers = 1}));
  const Session session(model, session_options(32, 8));
  struct Inside {
    mote_session* session;
    std::vector<mote_status> said;
  } inside{session, {}};
  const auto intrude = [](void* user, size_t, size_t, const float*, size_t) -> int32_t {
    auto& to = *static_cast<Inside*>(user);
    const int32_t token = 1;
    int32_t sampled = 0;
    size_t n = 0;
    mote_text text{};
    text.struct_bytes = sizeof text;
    const float* logits = nullptr;
    const int32_t* tokens = nullptr;
    uint64_t bytes = 0;
    to.said = {mote_feed(to.session, &token, 1, &n, nullptr),
               mote_prompt(to.session, &token, 1, &n, &n, nullptr),
               mote_encode(to.session, &token, 1, nullptr),
               mote_hidden(to.session, &logits, &n, &n, nullptr),
               mote_embedding(to.session, 0, &logits, &n, nullptr),
               mote_step(to.session, nullptr),
               mote_sample(to.session, &sampled, nullptr),
               mote_next(to.session, &sampled, nullptr),
               mote_text_next(to.session, &text, nullptr),
               mote_text_flush(to.session, &text, nullptr),
               mote_logits(to.session, &logits, &n, nullptr),
               mote_rewind(to.session, 0, nullptr),
               mote_history(to.session, &tokens, &n, nullptr),
               mote_set_samplers(to.session, nullptr, nullptr),
               mote_snapshot_bytes(to.session, &bytes, nullptr),
               mote_snapshot(to.session, nullptr, 0, &bytes, nullptr),
               mote_restore(to.session, &token, 4, nullptr),
               mote_session_close(to.session, nullptr),
               mote_attention(to.session, MOTE_TAP_DECODER_ATTENTION, 0, &logits, &n, &n, &n, nullptr)};
    return 0;
  };
  const int32_t tokens[] = {1, 2, 3};
  size_t done = 0;
  CHECK(mote_evaluate(session, tokens, 3, intrude, &inside, &done, nullptr) == MOTE_OK);
  CHECK(done == 3);
  CHECK(inside.said == std::vector<mote_status>(19, MOTE_BUSY));
  CHECK(history(session) == Tokens{1, 2, 3});
  const Outcome said = outcome([&](mote_error* e) { return mote_step(session, e); });
  CHECK(said.status == MOTE_OK);
}

TEST_CASE("A receiver of logits that says stop is a cancel", "[api][order]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama({.n_layers = 1}));
  const Session session(model, session_options(32, 8));
  const auto stop_at_2 = [](void*, size_t first, size_t, const float*, size_t) -> int32_t { return first == 2; };
  const int32_t tokens[] = {1, 2, 3, 4, 5};
  size_t done = 0;
  const Outcome said =
      outcome([&](mote_error* e) { return mote_evaluate(session, tokens, 5, stop_at_2, nullptr, &done, e); });
  CHECK(said.status == MOTE_CANCELLED);
  CHECK(done == 3);
  CHECK(history(session) == Tokens{1, 2, 3});
}

TEST_CASE("Logits and samples before anything was fed are the wrong state", "[api][order]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama({.n_layers = 1}));
  const Session session(model, session_options(32, 8));
  const float* logits = nullptr;
  size_t n = 0;
  int32_t token = 0;
  mote_text text{};
  text.struct_bytes = sizeof text;
  const auto check = [&](const Outcome& said, const char* names) {
    CAPTURE(said.sentence);
    CHECK(said.status == MOTE_WRONG_STATE);
    CHECK(contains(said.sentence, names));
  };
  const auto check_all = [&] {
    check(outcome([&](mote_error* e) { return mote_logits(session, &logits, &n, e); }), "step");
    check(outcome([&](mote_error* e) { return mote_sample(session, &token, e); }), "step");
  };
  check_all();
  check(outcome([&](mote_error* e) { return mote_step(session, e); }), "no token is pending");
  check(outcome([&](mote_error* e) { return mote_next(session, &token, e); }), "no token is pending");
  check(outcome([&](mote_error* e) { return mote_text_next(session, &text, e); }), "no token is pending");
  feed(session, {1, 2});
  check_all();
  step(session);
  CHECK(mote_logits(session, &logits, &n, nullptr) == MOTE_OK);
  CHECK(mote_step(session, nullptr) == MOTE_OK);   // nothing is pending, its logits are there
  CHECK(mote_sample(session, &token, nullptr) == MOTE_OK);
  check_all();   // the sampled token is pending now
  REQUIRE(mote_rewind(session, 0, nullptr) == MOTE_OK);
  check_all();
  const Outcome beyond = outcome([&](mote_error* e) { return mote_rewind(session, 1, e); });
  CHECK(beyond.status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(beyond.sentence, "the history has 0"));
}

TEST_CASE("A vocabulary-only model has texts and no sessions", "[api][order]") {
  const Engine engine("reference");
  GgufBuilder file;
  add_toy_tokenizer(file, {});
  mote_model_options options{};
  options.struct_bytes = sizeof options;
  options.vocabulary_only = 1;
  const Model model(engine, file.bytes(), {}, &options);
  mote_session* session = nullptr;
  mote_quote quote{};
  quote.struct_bytes = sizeof quote;
  CHECK(mote_session_open(model, nullptr, {}, &session, nullptr) == MOTE_WRONG_STATE);
  CHECK(mote_session_quote(model, nullptr, &quote, nullptr) == MOTE_WRONG_STATE);
  mote_model_info info{};
  info.struct_bytes = sizeof info;
  REQUIRE(mote_model_get_info(model, &info, nullptr) == MOTE_OK);
  CHECK(info.n_vocab == 320);
  CHECK(info.n_layers == 0);
  CHECK(info.n_tensors == 0);
  CHECK(info.eos_token == 319);
  int32_t ids[8];
  size_t n = 0;
  CHECK(mote_tokenize(model, "hello", 5, 0, {}, ids, 8, &n, nullptr) == MOTE_OK);
  CHECK(n == 1);
}

// Opened for its metadata alone.
struct Listed {
  mote_model_info info{};
  std::string architecture;
  std::vector<std::string> formats;   // of the tensors
  uint32_t n_keys = 0;
  Outcome tokenized;
  Listed(mote_engine* engine, const GgufBuilder& file) {
    mote_model_options options{};
    options.struct_bytes = sizeof options;
    options.vocabulary_only = 1;
    const Model model(engine, file.bytes(), {}, &options);
    info.struct_bytes = sizeof info;
    REQUIRE(mote_model_get_info(model, &info, nullptr) == MOTE_OK);
    architecture = info.architecture;   // the model's, which closes here
    for (uint32_t i = 0; i < info.n_tensors; ++i) {
      mote_tensor tensor{};
      tensor.struct_bytes = sizeof tensor;
      REQUIRE(mote_model_tensor(model, i, &tensor, nullptr) == MOTE_OK);
      formats.push_back(tensor.format);
    }
    for (uint32_t i = 0; i < info.n_metadata; ++i) {
      mote_metadata entry{};
      entry.struct_bytes = sizeof entry;
      if (mote_model_metadata(model, i, &entry, nullptr) == MOTE_OK) ++n_keys;
    }
    int32_t ids[8];
    size_t n = 0;
    tokenized = outcome([&](mote_error* e) { return mote_tokenize(model, "hello", 5, 0, {}, ids, 8, &n, e); });
  }
};

TEST_CASE("Models that this build does not run can be listed: architecture, formats, tokenizer", "[api][order]") {
  const Engine engine("reference");
  GgufBuilder file = toy_llama();
  file.set_string("general.architecture", "mamba");
  const Listed other(engine, file);
  CHECK(other.architecture == "mamba");
  CHECK(other.info.n_tensors == file.parts.size());
  CHECK(other.n_keys == file.entries.size());
  CHECK(other.info.n_vocab == 320);
  CHECK(other.info.n_parameters > 0);
  CHECK(other.tokenized.status == MOTE_OK);

  // A type that mote does not read, and one that nobody has.
  file.tensor("blk.0.ffn_up.weight").type = 16;
  file.tensor("blk.1.ffn_up.weight").type = 4711;
  mote_model* model = nullptr;
  const Bytes bytes = file.bytes();
  const mote_source source = source_of(bytes);
  CHECK(mote_model_open(engine, &source, nullptr, {}, &model, nullptr) == MOTE_UNSUPPORTED);
  const Listed formats(engine, file);
  CHECK(std::count(formats.formats.begin(), formats.formats.end(), "iq2_xxs") == 1);
  CHECK(std::count(formats.formats.begin(), formats.formats.end(), "unknown") == 1);
  CHECK(formats.info.weight_bytes == other.info.weight_bytes - 2 * 96 * 64 * 4);

  // A tokenizer of another kind, and none at all.
  file.set_string("tokenizer.ggml.model", "rwkv");
  const Listed unknown(engine, file);
  CHECK(unknown.info.n_vocab == 0);
  CHECK(unknown.n_keys == file.entries.size());
  CHECK(unknown.tokenized.status == MOTE_UNSUPPORTED);
  CHECK(contains(unknown.tokenized.sentence, "tokenizer.ggml.model is rwkv"));
  const Listed none(engine, toy_llama({.tokenizer = ToyTokenizer::none}));
  CHECK(none.info.n_tensors > 0);
  CHECK(none.tokenized.status == MOTE_UNSUPPORTED);
  CHECK(contains(none.tokenized.sentence, "no tokenizer"));

  // One that contradicts itself is refused all the same.
  GgufBuilder broken = toy_llama();
  broken.set_strings("tokenizer.ggml.tokens", {"a", "a"});
  const Bytes broken_bytes = broken.bytes();
  const mote_source broken_source = source_of(broken_bytes);
  mote_model_options options{};
  options.struct_bytes = sizeof options;
  options.vocabulary_only = 1;
  CHECK(mote_model_open(engine, &broken_source, &options, {}, &model, nullptr) == MOTE_BAD_MODEL);
}

TEST_CASE("A model without a tokenizer runs tokens and refuses texts", "[api][order]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama({.n_layers = 1, .tokenizer = ToyTokenizer::none}));
  const Session session(model, session_options(32, 8));
  int32_t ids[8];
  size_t n = 0;
  mote_text text{};
  text.struct_bytes = sizeof text;
  feed(session, {1, 2, 3});
  CHECK(next(session) >= 0);
  const Outcome refused = outcome([&](mote_error* e) { return mote_tokenize(model, "a", 1, 0, {}, ids, 8, &n, e); });
  CHECK(refused.status == MOTE_UNSUPPORTED);
  CHECK(contains(refused.sentence, "tokenizer.ggml.model"));
  CHECK(mote_text_next(session, &text, nullptr) == MOTE_UNSUPPORTED);
  CHECK(mote_text_flush(session, &text, nullptr) == MOTE_UNSUPPORTED);
  CHECK(mote_end_token(model, 0) == -1);
}

}   // namespace
}   // namespace mote::test
