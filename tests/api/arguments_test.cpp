// Every call takes NULL and nonsense with a status and a sentence.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <functional>

#include "core/mote_dev.h"
#include "platform/cpu_features.h"
#include "platform/thread_pool.h"
#include "tests/api/hooked_backend.h"
#include "tests/api/kit.h"

namespace mote::test {
namespace {

using Call = std::function<mote_status(mote_error*)>;
struct Refusal {
  const char* what;
  Call call;
  const char* names;   // what the sentence must name
};

// Each is MOTE_INVALID_ARGUMENT, also without an error to write to.
void check_refused(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.what);
    const Outcome said = outcome(refusal.call);
    CHECK(said.status == MOTE_INVALID_ARGUMENT);
    CAPTURE(said.sentence);
    CHECK(contains(said.sentence, refusal.names));
    CHECK(refusal.call(nullptr) == MOTE_INVALID_ARGUMENT);
  }
}

int32_t go_on(void*, size_t, size_t, const float*, size_t) { return 0; }

TEST_CASE("Calls on no session say so", "[api][arguments]") {
  const int32_t token = 1;
  int32_t sampled = 0;
  const float* logits = nullptr;
  const int32_t* tokens = nullptr;
  size_t n = 0;
  uint64_t bytes = 0;
  char text_of_8[8] = {};
  mote_text text{};
  text.struct_bytes = sizeof text;
  check_refused({
      {"feed", [&](mote_error* e) { return mote_feed(nullptr, &token, 1, &n, e); }, "session is NULL"},
      {"prompt", [&](mote_error* e) { return mote_prompt(nullptr, &token, 1, &n, &n, e); }, "session is NULL"},
      {"evaluate", [&](mote_error* e) { return mote_evaluate(nullptr, &token, 1, go_on, nullptr, &n, e); },
       "session is NULL"},
      {"encode", [&](mote_error* e) { return mote_encode(nullptr, &token, 1, e); }, "session is NULL"},
      {"hidden", [&](mote_error* e) { return mote_hidden(nullptr, &logits, &n, &n, e); }, "session is NULL"},
      {"attention", [&](mote_error* e) { return mote_attention(nullptr, 1, 0, &logits, &n, &n, &n, e); },
       "session is NULL"},
      {"embedding", [&](mote_error* e) { return mote_embedding(nullptr, 0, &logits, &n, e); }, "session is NULL"},
      {"step", [&](mote_error* e) { return mote_step(nullptr, e); }, "session is NULL"},
      {"logits", [&](mote_error* e) { return mote_logits(nullptr, &logits, &n, e); }, "session is NULL"},
      {"sample", [&](mote_error* e) { return mote_sample(nullptr, &sampled, e); }, "session is NULL"},
      {"next", [&](mote_error* e) { return mote_next(nullptr, &sampled, e); }, "session is NULL"},
      {"text_next", [&](mote_error* e) { return mote_text_next(nullptr, &text, e); }, "session is NULL"},
      {"text_flush", [&](mote_error* e) { return mote_text_flush(nullptr, &text, e); }, "session is NULL"},
      {"rewind", [&](mote_error* e) { return mote_rewind(nullptr, 0, e); }, "session is NULL"},
      {"history", [&](mote_error* e) { return mote_history(nullptr, &tokens, &n, e); }, "session"},
      {"set_samplers", [&](mote_error* e) { return mote_set_samplers(nullptr, nullptr, e); }, "session is NULL"},
      {"snapshot_bytes", [&](mote_error* e) { return mote_snapshot_bytes(nullptr, &bytes, e); }, "session is NULL"},
      {"snapshot", [&](mote_error* e) { return mote_snapshot(nullptr, text_of_8, 8, &bytes, e); }, "session is NULL"},
      {"restore", [&](mote_error* e) { return mote_restore(nullptr, text_of_8, 8, e); }, "session is NULL"},
  });
  mote_cancel(nullptr);
  CHECK(mote_session_close(nullptr, nullptr) == MOTE_OK);
  CHECK(mote_model_close(nullptr, nullptr) == MOTE_OK);
  CHECK(mote_engine_close(nullptr, nullptr) == MOTE_OK);
}

TEST_CASE("Calls on no engine or model say so", "[api][arguments]") {
  const Bytes bytes = toy_llama().bytes();
  const mote_source source = source_of(bytes);
  const Engine engine("reference");
  mote_engine* opened_engine = nullptr;
  mote_model* model = nullptr;
  mote_session* session = nullptr;
  mote_quote quote{};
  quote.struct_bytes = sizeof quote;
  mote_model_info info{};
  info.struct_bytes = sizeof info;
  mote_metadata entry{};
  entry.struct_bytes = sizeof entry;
  mote_tensor tensor{};
  tensor.struct_bytes = sizeof tensor;
  mote_dev_step step{};
  uint64_t scratch = 0;
  size_t n = 0;
  char text[8];
  int32_t ids[8];
  const mote_message message = {"user", "hi", 2};
  check_refused({
      {"engine_open", [&](mote_error* e) { return mote_engine_open(nullptr, {}, nullptr, e); }, "engine is NULL"},
      {"engine_quote", [&](mote_error* e) { return mote_engine_quote(nullptr, nullptr, e); }, "quote is NULL"},
      {"model_open, no engine",
       [&](mote_error* e) { return mote_model_open(nullptr, &source, nullptr, {}, &model, e); }, "engine is NULL"},
      {"model_open, no model", [&](mote_error* e) { return mote_model_open(engine, &source, nullptr, {}, nullptr, e); },
       "model is NULL"},
      {"model_open, no source", [&](mote_error* e) { return mote_model_open(engine, nullptr, nullptr, {}, &model, e); },
       "source is NULL"},
      {"model_quote",
       [&](mote_error* e) { return mote_model_quote(nullptr, &source, nullptr, nullptr, &quote, nullptr, e); },
       "engine is NULL"},
      {"model_quote, no source",
       [&](mote_error* e) { return mote_model_quote(engine, nullptr, nullptr, nullptr, &quote, nullptr, e); },
       "source is NULL"},
      {"scratch_bytes", [&](mote_error* e) { return mote_model_scratch_bytes(&source, nullptr, e); },
       "scratch_bytes is NULL"},
      {"scratch_bytes, no source", [&](mote_error* e) { return mote_model_scratch_bytes(nullptr, &scratch, e); },
       "source is NULL"},
      {"info", [&](mote_error* e) { return mote_model_get_info(nullptr, &info, e); }, "model is NULL"},
      {"metadata", [&](mote_error* e) { return mote_model_metadata(nullptr, 0, &entry, e); }, "NULL"},
      {"tensor", [&](mote_error* e) { return mote_model_tensor(nullptr, 0, &tensor, e); }, "NULL"},
      {"session_quote", [&](mote_error* e) { return mote_session_quote(nullptr, nullptr, &quote, e); },
       "model is NULL"},
      {"session_open", [&](mote_error* e) { return mote_session_open(nullptr, nullptr, {}, &session, e); },
       "model is NULL"},
      {"tokenize", [&](mote_error* e) { return mote_tokenize(nullptr, "a", 1, 0, {}, ids, 8, &n, e); },
       "model is NULL"},
      {"detokenize", [&](mote_error* e) { return mote_detokenize(nullptr, ids, 1, text, 8, &n, e); }, "model is NULL"},
      {"chat_text", [&](mote_error* e) { return mote_chat_text(nullptr, nullptr, &message, 1, text, 8, &n, e); },
       "model is NULL"},
      {"chat_tokens", [&](mote_error* e) { return mote_chat_tokens(nullptr, nullptr, &message, 1, {}, ids, 8, &n, e); },
       "model is NULL"},
      {"dev_get_step", [&](mote_error* e) { return mote_dev_get_step(nullptr, 0, &step, e); }, "step 0 of 0"},
      {"dev_profile", [&](mote_error* e) { return mote_dev_profile(nullptr, nullptr, 0, e); }, "session is NULL"},
      {"dev_measure_limits", [&](mote_error* e) { return mote_dev_measure_limits(nullptr, text, 4096, nullptr, e); },
       "engine"},
  });
  CHECK(opened_engine == nullptr);
  CHECK(mote_engine_threads(nullptr) == 0);
  CHECK(mote_tokenize_scratch_bytes(nullptr, 10) == 0);
  CHECK(mote_is_end_token(nullptr, 3) == 0);
  CHECK(mote_end_token(nullptr, 0) == -1);
  CHECK(mote_dev_step_count(nullptr) == 0);
  CHECK(mote_dev_lane_tasks(nullptr, nullptr, 0) == 0);
  CHECK(mote_dev_engine_backend(nullptr, 0) == nullptr);
  CHECK(mote_dev_supports(nullptr, "cpu", "linear", "f32") == 0);
}

TEST_CASE("Names that are asked for beyond their end are NULL or say so", "[api][arguments]") {
  CHECK(std::string(mote_status_name(MOTE_CONTEXT_FULL)) == "MOTE_CONTEXT_FULL");
  CHECK(std::string(mote_status_name(static_cast<mote_status>(13))) == "unknown status");
  CHECK(std::strlen(mote_version()) >= 5);
  CHECK(mote_chat_format_name(1000) == nullptr);
  CHECK(mote_chat_format_name(UINT32_MAX) == nullptr);
  CHECK(mote_dev_backend_name(1000) == nullptr);
  CHECK(mote_dev_op_name(1000) == nullptr);
  CHECK(mote_dev_format_name(1000) == nullptr);
  bool chatml = false;
  for (uint32_t i = 0; mote_chat_format_name(i) != nullptr; ++i)
    chatml = chatml || std::string(mote_chat_format_name(i)) == "chatml";
  CHECK(chatml);
}

TEST_CASE("Outputs that are NULL are refused where they are needed", "[api][arguments]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama());
  const Session session(model, session_options(16, 4));
  const float* logits = nullptr;
  const int32_t* tokens = nullptr;
  int32_t ids[4] = {1, 2, 3, 4};
  char text[8];
  size_t n = 0;
  uint64_t bytes = 0;
  mote_metadata entry{};
  entry.struct_bytes = sizeof entry;
  mote_tensor tensor{};
  tensor.struct_bytes = sizeof tensor;
  check_refused({
      {"feed", [&](mote_error* e) { return mote_feed(session, nullptr, 3, &n, e); }, "tokens is NULL with n 3"},
      {"prompt", [&](mote_error* e) { return mote_prompt(session, nullptr, 3, &n, &n, e); }, "tokens is NULL with n 3"},
      {"empty prompt", [&](mote_error* e) { return mote_prompt(session, ids, 0, &n, &n, e); }, "at least one token"},
      {"evaluate", [&](mote_error* e) { return mote_evaluate(session, nullptr, 2, nullptr, nullptr, &n, e); },
       "tokens is NULL with n 2"},
      {"logits", [&](mote_error* e) { return mote_logits(session, nullptr, &n, e); }, "logits"},
      {"logits, no count", [&](mote_error* e) { return mote_logits(session, &logits, nullptr, e); }, "n_vocab"},
      {"history", [&](mote_error* e) { return mote_history(session, &tokens, nullptr, e); }, "n_tokens"},
      {"text_next", [&](mote_error* e) { return mote_text_next(session, nullptr, e); }, "text is NULL"},
      {"text_flush", [&](mote_error* e) { return mote_text_flush(session, nullptr, e); }, "text is NULL"},
      {"snapshot_bytes", [&](mote_error* e) { return mote_snapshot_bytes(session, nullptr, e); }, "snapshot_bytes is"},
      {"snapshot, no size", [&](mote_error* e) { return mote_snapshot(session, text, 8, nullptr, e); },
       "snapshot_bytes is NULL"},
      {"snapshot, no data", [&](mote_error* e) { return mote_snapshot(session, nullptr, 8, &bytes, e); },
       "data is NULL with capacity_bytes 8"},
      {"restore, no data", [&](mote_error* e) { return mote_restore(session, nullptr, 8, e); }, "data is NULL"},
      {"restore, nothing", [&](mote_error* e) { return mote_restore(session, text, 0, e); }, "0 bytes are no snapshot"},
      {"session_open", [&](mote_error* e) { return mote_session_open(model, nullptr, {}, nullptr, e); },
       "session is NULL"},
      {"session_quote", [&](mote_error* e) { return mote_session_quote(model, nullptr, nullptr, e); }, "quote is NULL"},
      {"info", [&](mote_error* e) { return mote_model_get_info(model, nullptr, e); }, "info is NULL"},
      {"metadata", [&](mote_error* e) { return mote_model_metadata(model, 0, nullptr, e); }, "NULL"},
      {"metadata beyond", [&](mote_error* e) { return mote_model_metadata(model, 9999, &entry, e); }, "9999"},
      {"tensor", [&](mote_error* e) { return mote_model_tensor(model, 0, nullptr, e); }, "NULL"},
      {"tensor beyond", [&](mote_error* e) { return mote_model_tensor(model, 9999, &tensor, e); }, "9999"},
      {"tokenize, no count", [&](mote_error* e) { return mote_tokenize(model, "a", 1, 0, {}, ids, 4, nullptr, e); },
       "count of tokens is NULL"},
      {"tokenize, no room", [&](mote_error* e) { return mote_tokenize(model, "a", 1, 0, {}, nullptr, 4, &n, e); },
       "tokens is NULL with a capacity of 4"},
      {"tokenize, no text", [&](mote_error* e) { return mote_tokenize(model, nullptr, 1, 0, {}, ids, 4, &n, e); },
       "text is NULL"},
      {"tokenize, odd flags", [&](mote_error* e) { return mote_tokenize(model, "a", 1, 12, {}, ids, 4, &n, e); },
       "flags is 12"},
      {"detokenize, no count", [&](mote_error* e) { return mote_detokenize(model, ids, 1, text, 8, nullptr, e); },
       "count of text bytes is NULL"},
      {"detokenize, no tokens", [&](mote_error* e) { return mote_detokenize(model, nullptr, 1, text, 8, &n, e); },
       "tokens is NULL"},
      {"detokenize, no room", [&](mote_error* e) { return mote_detokenize(model, ids, 1, nullptr, 8, &n, e); },
       "capacity of 8"},
  });
  // These may be NULL.
  CHECK(mote_feed(session, nullptr, 0, nullptr, nullptr) == MOTE_OK);
  CHECK(mote_feed(session, ids, 2, nullptr, nullptr) == MOTE_OK);
  CHECK(mote_next(session, nullptr, nullptr) == MOTE_OK);
  CHECK(mote_prompt(session, ids, 2, nullptr, nullptr, nullptr) == MOTE_OK);
  CHECK(mote_tokenize(model, nullptr, 0, 0, {}, nullptr, 0, &n, nullptr) == MOTE_OK);
  CHECK(n == 0);
  CHECK(mote_detokenize(model, nullptr, 0, nullptr, 0, &n, nullptr) == MOTE_OK);
}

TEST_CASE("Tokens outside the vocabulary are refused by number, before anything is run", "[api][arguments]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama());
  const Session session(model, session_options(16, 4));
  size_t n = 7;
  char text[16];
  for (const int32_t wrong : {-1, 320, INT32_MAX, INT32_MIN}) {
    const int32_t tokens[] = {1, 2, wrong};
    const std::string name = std::to_string(wrong);
    check_refused({
        {"feed", [&](mote_error* e) { return mote_feed(session, tokens, 3, &n, e); }, name.c_str()},
        {"prompt", [&](mote_error* e) { return mote_prompt(session, tokens, 3, nullptr, &n, e); }, name.c_str()},
        {"evaluate", [&](mote_error* e) { return mote_evaluate(session, tokens, 3, go_on, nullptr, &n, e); },
         name.c_str()},
        {"detokenize", [&](mote_error* e) { return mote_detokenize(model, tokens, 3, text, 16, &n, e); }, name.c_str()},
    });
    CHECK(history(session).empty());
    CHECK(mote_is_end_token(model, wrong) == 0);
  }
}

TEST_CASE("A source gives its bytes in exactly one way", "[api][arguments]") {
  const Engine engine("reference");
  const Bytes bytes = toy_llama().bytes();
  mote_model* model = nullptr;
  const auto open = [&](const mote_source& source) {
    return outcome([&](mote_error* e) { return mote_model_open(engine, &source, nullptr, {}, &model, e); });
  };
  mote_source none{};
  none.struct_bytes = sizeof none;
  CHECK(open(none).status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(open(none).sentence, "exactly one"));
  mote_source two = source_of(bytes);
  two.path = "/dev/null";
  CHECK(open(two).status == MOTE_INVALID_ARGUMENT);
  mote_source odd = none;
  odd.path = "model.gguf";
  odd.load = 3;
  CHECK(open(odd).status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(open(odd).sentence, "load is 3"));
  mote_source within = none;   // a range is a descriptor's
  within.path = "model.gguf";
  within.offset_bytes = 8;
  CHECK(open(within).status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(open(within).sentence, "offset_bytes 8"));
  within.offset_bytes = 0, within.length_bytes = 9;
  CHECK(open(within).status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(open(within).sentence, "length_bytes 9"));
  mote_source lent = source_of(bytes);
  lent.offset_bytes = 1;
  CHECK(open(lent).status == MOTE_INVALID_ARGUMENT);
  mote_source neither = none;
  neither.use_descriptor = 2;
  CHECK(open(neither).status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(open(neither).sentence, "use_descriptor is 2"));
  mote_source missing = none;
  missing.path = "/nowhere/at all.gguf";
  CHECK(open(missing).status == MOTE_IO);
  CHECK(contains(open(missing).sentence, "/nowhere/at all.gguf"));
  mote_source folder = none;
  folder.path = "/";
  CHECK(open(folder).status == MOTE_IO);
  mote_source device = none;
  device.path = "/dev/null";
  CHECK(open(device).status == MOTE_IO);
  mote_source closed = none;
  closed.use_descriptor = 1;
  closed.descriptor = -1;
  CHECK(open(closed).status == MOTE_IO);
  mote_source empty = source_of(bytes);
  empty.data_bytes = 0;
  CHECK(open(empty).status == MOTE_BAD_MODEL);
  mote_source short_head = source_of(bytes);
  short_head.data_bytes = 11;
  CHECK(open(short_head).status == MOTE_BAD_MODEL);
  CHECK(model == nullptr);
}

TEST_CASE("Engine options that cannot be are refused by name", "[api][arguments]") {
  mote_engine* engine = nullptr;
  const auto open = [&](const mote_engine_options& options) {
    return outcome([&](mote_error* e) { return mote_engine_open(&options, {}, &engine, e); });
  };
  CHECK(open(engine_options("abacus")).status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(open(engine_options("abacus")).sentence, "abacus"));
  CHECK(contains(open(engine_options("abacus")).sentence, "reference"));
  CHECK(contains(open(engine_options("cpu,abacus")).sentence, "abacus"));
  for (const char* empty : {"", " ", ",", "cpu,", ",cpu", "cpu, ,reference"}) {
    CAPTURE(empty);
    CHECK(open(engine_options(empty)).status == MOTE_INVALID_ARGUMENT);
    CHECK(contains(open(engine_options(empty)).sentence, "has a name that is empty"));
  }
  for (const char* twice : {"cpu,cpu", "cpu, reference ,cpu ", "reference,cpu,cpu"}) {
    const Outcome said = open(engine_options(twice));
    CAPTURE(twice, said.sentence);
    CHECK(said.status == MOTE_INVALID_ARGUMENT);
    CHECK(contains(said.sentence, "names cpu twice"));
  }
  CHECK(open(engine_options("cpu", 257)).status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(open(engine_options("cpu", 257)).sentence, "threads is 257"));
  CHECK(open(engine_options("cpu", UINT32_MAX)).status == MOTE_INVALID_ARGUMENT);
  mote_engine_options extra = engine_options("cpu");
  extra.n_extra_backends = 2;
  CHECK(open(extra).status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(open(extra).sentence, "extra_backends is NULL"));
  CHECK(engine == nullptr);
  const Engine spaced(" cpu , reference ");
  CHECK(std::string(mote_dev_engine_backend(spaced, 0)) == "cpu");
  CHECK(std::string(mote_dev_engine_backend(spaced, 1)) == "reference");
  CHECK(mote_dev_engine_backend(spaced, 2) == nullptr);
}

TEST_CASE("An app's backend is taken once and closed once by each engine that took it", "[api][arguments]") {
  HookedBackend hooked("reference");
  void* const extras[] = {static_cast<Backend*>(&hooked), static_cast<Backend*>(&hooked)};
  mote_engine* engine = nullptr;
  for (const char* names : {"auto", "hooked", "hooked,cpu"}) {
    mote_engine_options options = engine_options(names);
    options.extra_backends = extras;
    options.n_extra_backends = 2;
    const Outcome twice = outcome([&](mote_error* e) { return mote_engine_open(&options, {}, &engine, e); });
    CAPTURE(names, twice.sentence);
    CHECK(twice.status == MOTE_INVALID_ARGUMENT);
    CHECK(contains(twice.sentence, "both named hooked"));
    CHECK(hooked.n_closed == 0);
    options.n_extra_backends = 1;
    REQUIRE(mote_engine_open(&options, {}, &engine, nullptr) == MOTE_OK);
    CHECK(mote_engine_close(engine, nullptr) == MOTE_OK);
    CHECK(hooked.n_closed == 1);
    hooked.n_closed = 0;
  }
}

TEST_CASE("A number of threads is obeyed, and one that cannot run at once is told to the log", "[api][threads]") {
  std::vector<std::string> lines;
  const auto note = [](void* user, const char* line) { static_cast<std::vector<std::string>*>(user)->push_back(line); };
  const auto open_with = [&](uint32_t threads) {
    lines.clear();
    mote_engine_options options = engine_options("cpu", threads);
    options.log = note;
    options.log_user = &lines;
    const Engine engine(options);
    return mote_engine_threads(engine);
  };
  const CpuLimits limits = probe_cpu_limits();
  const uint32_t cores = limits.quota != 0 && limits.quota < limits.affinity ? limits.quota : limits.affinity;
  CHECK(open_with(0) == default_threads(limits));
  CHECK(lines.empty());
  CHECK(open_with(1) == 1);
  CHECK(lines.empty());
  if (cores >= kMaxThreads) return;   // then no number is too many
  CHECK(open_with(cores) == cores);
  CHECK(lines.empty());
  CHECK(open_with(cores + 1) == cores + 1);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == std::to_string(cores + 1) +
                        " threads were asked for; the affinity mask and the quota of this process let " +
                        std::to_string(cores) + " run at once");
}

TEST_CASE("Session options that cannot be are refused by name and by what is allowed", "[api][arguments]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama());
  const auto refused = [&](auto change) {
    mote_session_options options = session_options(32, 8);
    change(options);
    mote_session* session = nullptr;
    mote_quote quote{};
    quote.struct_bytes = sizeof quote;
    const Outcome opened = outcome([&](mote_error* e) { return mote_session_open(model, &options, {}, &session, e); });
    const Outcome quoted = outcome([&](mote_error* e) { return mote_session_quote(model, &options, &quote, e); });
    CHECK(opened.status == MOTE_INVALID_ARGUMENT);
    CHECK(session == nullptr);
    mote_session_close(session, nullptr);
    CHECK(quoted.status == opened.status);
    CHECK(quoted.sentence == opened.sentence);
    return opened.sentence;
  };
  static const mote_sampler chain[17] = {};
  static const char* const empty_stop[] = {""};
  static const char* const null_stop[] = {"a", nullptr};
  static const std::string long_stop(1025, 'x');
  static const char* const too_long[] = {long_stop.c_str()};
  static const char* const many[17] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                       "j", "k", "l", "m", "n", "o", "p", "q"};
  static const mote_logit_bias outside[] = {{320, 1.0f}};
  static const mote_logit_bias not_a_number[] = {{1, __builtin_nanf("")}};
  using Options = mote_session_options;
  CHECK(contains(refused([](Options& o) { o.context = UINT32_MAX; }), "context is 4294967295"));
  CHECK(contains(refused([](Options& o) { o.kv_type = 2; }), "kv_type is 2"));
  CHECK(contains(refused([](Options& o) { o.kv_type = -1; }), "kv_type is -1"));
  CHECK(contains(refused([](Options& o) { o.on_full = 9; }), "on_full is 9"));
  CHECK(contains(refused([](Options& o) { o.decode_threads = 2; }), "decode_threads is 2; the engine has 1"));
  CHECK(contains(refused([](Options& o) { o.on_full = MOTE_ON_FULL_SLIDE, o.keep = 32; }), "keep is 32"));
  CHECK(contains(refused([](Options& o) { o.samplers = chain, o.n_samplers = 17; }), "n_samplers is 17"));
  CHECK(contains(refused([](Options& o) { o.samplers = chain, o.n_samplers = 1; }), "kind"));
  static const mote_sampler wrong_chains[] = {{99, 0, 0, 0},
                                              {MOTE_SAMPLER_TEMPERATURE, 0, __builtin_nan(""), 0},
                                              {MOTE_SAMPLER_TOP_P, 0, 2, 0},
                                              {MOTE_SAMPLER_NO_REPEAT_NGRAM, 100000, 0, 0},
                                              {MOTE_SAMPLER_REPETITION_PENALTY, -1, 1, 0}};
  for (const mote_sampler& wrong : wrong_chains)
    CHECK(contains(refused([&](Options& o) { o.samplers = &wrong, o.n_samplers = 1; }), "sampler stage 0"));
  CHECK(contains(refused([](Options& o) { o.n_samplers = 1; }), "NULL"));
  CHECK(contains(refused([](Options& o) { o.n_logit_bias = 1; }), "NULL"));
  CHECK(contains(refused([](Options& o) { o.n_stops = 1; }), "NULL"));
  CHECK(contains(refused([](Options& o) { o.n_logit_bias = SIZE_MAX; }), "n_logit_bias"));
  CHECK(contains(refused([](Options& o) { o.n_stops = SIZE_MAX; }), "n_stops"));
  CHECK(contains(refused([](Options& o) { o.stops = empty_stop, o.n_stops = 1; }), "stop text 0 has 0 bytes"));
  CHECK(contains(refused([](Options& o) { o.stops = null_stop, o.n_stops = 2; }), "stop text 1 is NULL"));
  CHECK(contains(refused([](Options& o) { o.stops = too_long, o.n_stops = 1; }), "1025 bytes"));
  CHECK(contains(refused([](Options& o) { o.stops = many, o.n_stops = 17; }), "n_stops is 17"));
  CHECK(contains(refused([](Options& o) { o.logit_bias = outside, o.n_logit_bias = 1; }), "320"));
  CHECK(refused([](Options& o) { o.logit_bias = not_a_number, o.n_logit_bias = 1; }) != "");
}

}   // namespace
}   // namespace mote::test
