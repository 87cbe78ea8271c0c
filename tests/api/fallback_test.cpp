// Backends that fail under models and sessions of mote.h: others take over, with their own bits, and nothing else of
// what was promised changes.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <thread>

#include "core/mote_dev.h"
#include "tests/api/hooked_pair.h"
#include "tests/api/snapshots.h"

namespace mote::test {
namespace {

std::vector<float> evaluate(mote_session* session, const Tokens& tokens) {
  std::vector<float> all;
  const auto take = [](void* user, size_t, size_t rows, const float* logits, size_t n_vocab) -> int32_t {
    auto* to = static_cast<std::vector<float>*>(user);
    to->insert(to->end(), logits, logits + rows * n_vocab);
    return 0;
  };
  size_t done = 0;
  mote_error error{};
  must(mote_evaluate(session, tokens.data(), tokens.size(), take, &all, &done, &error), error);
  if (done != tokens.size()) throw std::runtime_error("an evaluation was ok and not done");
  return all;
}

// A bit of everything; all that it sees, as bits.
std::vector<float> use(mote_session* session) {
  std::vector<float> seen;
  const auto see = [&](const std::vector<float>& values) { seen.insert(seen.end(), values.begin(), values.end()); };
  const auto see_tokens = [&] {
    for (const int32_t token : history(session)) seen.push_back(static_cast<float>(token));
  };
  if (!use_encoder(session, &seen)) return seen;
  see(logits_after(session, some_tokens(13, 300)));
  for (int i = 0; i < 3; ++i) next(session);
  see_tokens();
  see(evaluate(session, some_tokens(9, 300, 2)));
  const Tokens prompt = some_tokens(11, 300);
  must(mote_prompt(session, prompt.data(), prompt.size(), nullptr, nullptr, nullptr), {});
  const Answer text = answer(session, 6);
  for (const char c : text.text) seen.push_back(static_cast<float>(c));
  see_tokens();
  must(mote_rewind(session, 5, nullptr), {});
  feed(session, some_tokens(21, 300, 3));   // slides
  see(step(session));
  see_tokens();
  return seen;
}

mote_session_options sliding() {
  static const mote_sampler chain[] = {{MOTE_SAMPLER_TOP_K, 20, 0, 0}, {MOTE_SAMPLER_TEMPERATURE, 0, 1.5, 0}};
  mote_session_options options = session_options(24, 8);
  options.on_full = MOTE_ON_FULL_SLIDE;
  options.keep = 3;
  options.max_output_rows = 2;
  options.samplers = chain;
  options.n_samplers = 2;
  options.seed = 4711;
  return options;
}

TEST_CASE("Whichever run of a backend fails, one of the same arithmetic goes on with the same bits",
          "[api][fallback]") {
  const char* inner = GENERATE("cpu", "reference");
  Pair quiet(inner, inner);
  int n_runs = 0;
  quiet.first.hooks.on_run = [&] { return ++n_runs, Status(); };
  const ToyModel toy = GENERATE(from_range(kAllToys));
  const Bytes bytes = toy(kSmallToy).bytes();
  std::vector<float> expected;
  {
    const Engine engine(quiet.options());
    const Model model(engine, bytes);
    expected = use(Session(model, sliding()));
  }
  REQUIRE(n_runs >= (only_encodes(toy) ? 3 : 15));
  CHECK(quiet.lines.empty());
  for (int at = 0; at < n_runs; ++at) {
    Pair pair(inner, inner);
    pair.fail_from_run(at);
    {
      const Engine engine(pair.options());
      const Model model(engine, bytes);
      const Session session(model, sliding());
      CAPTURE(inner, at);
      CHECK(bit_difference(use(session), expected) == "");
      CHECK(mote_dev_session_fallbacks(session) == 1);
      CHECK(pair.lines.size() == 1);
      CHECK(pair.first.counts.executors == 0);
    }
    CHECK(pair.second.counts.executors == 0);
    CHECK(pair.first.counts.programs + pair.second.counts.programs == 0);
    CHECK(pair.second.counts.compiled == 1);
  }
}

TEST_CASE("After a failure the bits are those of a session on the next backend from the beginning", "[api][fallback]") {
  const Bytes bytes = toy_llama(kSmallToy).bytes();
  const Tokens tokens = some_tokens(30, 300);
  const Engine plain_engine("cpu");
  const Model plain_model(plain_engine, bytes);
  for (int at = 0; at < 6; ++at) {
    Pair pair;   // the oracle's bits are others
    pair.fail_from_run(at);
    const Engine engine(pair.options());
    const Model model(engine, bytes);
    const Session session(model, session_options(64, 8)), plain(plain_model, session_options(64, 8));
    feed(session, tokens);
    next(session);
    if (at == 5) next(session);
    CAPTURE(at);
    REQUIRE(mote_dev_session_fallbacks(session) == 1);
    const Tokens so_far = history(session);
    CHECK(bit_difference(step(session), logits_after(plain, so_far)) == "");
    CHECK(generate(session, 8) == generate(plain, 8));
    for (uint32_t i = 0; i < mote_dev_step_count(model); ++i)
      REQUIRE(std::string(mote_dev_session_backend(session, i)) == "second");
    CHECK(mote_dev_session_backend(session, mote_dev_step_count(model)) == nullptr);
    mote_dev_step step{};
    REQUIRE(mote_dev_get_step(model, 0, &step, nullptr) == MOTE_OK);
    CHECK(std::string(step.backend) == "second");
    // A snapshot belongs to those who run the session now: a session on cpu takes it, one on the oracle does not.
    const Bytes snapshot = take_snapshot(session);
    restore(plain, snapshot);
    CHECK(bit_difference(go_on(plain).logits, go_on(session).logits) == "");
    const Engine oracle_engine("reference");
    const Model oracle_model(oracle_engine, bytes);
    CHECK(try_restore(Session(oracle_model, session_options(64, 8)), snapshot).status == MOTE_UNSUPPORTED);
  }
}

TEST_CASE("A session that does not want another backend gets the failure and stays as it was", "[api][fallback]") {
  Pair pair;
  const Engine engine(pair.options());
  const Model model(engine, toy_llama(kSmallToy));
  mote_session_options options = session_options(64, 8);
  CHECK(quote_session(model, options).fallback_bytes > 0);
  options.on_backend_failure = MOTE_ON_BACKEND_FAILURE_STOP;
  CHECK(quote_session(model, options).fallback_bytes == 0);
  const Session session(model, options), quiet(model, options);
  feed(session, some_tokens(5, 300));
  pair.first.hooks.on_run = told_to_fail;
  const Tokens more = some_tokens(20, 300, 2);
  size_t done = 99;
  const Outcome said = outcome([&](mote_error* e) { return mote_feed(session, more.data(), more.size(), &done, e); });
  CHECK(said.status == MOTE_BACKEND_FAILED);
  CHECK(contains(said.sentence, "told to fail"));
  CHECK(done == 0);
  CHECK(pair.second.counts.compiled == 0);
  pair.first.hooks.on_run = [] { return Status(); };
  feed(session, more);
  feed(quiet, some_tokens(5, 300));
  feed(quiet, more);
  CHECK(bit_difference(step(session), step(quiet)) == "");

  options.on_backend_failure = 2;
  mote_session* none = nullptr;
  const Outcome wrong = outcome([&](mote_error* e) { return mote_session_open(model, &options, {}, &none, e); });
  CHECK(wrong.status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(wrong.sentence, "on_backend_failure is 2"));
}

TEST_CASE("A backend that does not compile a model is left out, told with its reason", "[api][fallback]") {
  Pair pair;
  pair.first.hooks.on_compile = told_to_fail;
  const Bytes bytes = toy_llama(kSmallToy).bytes();
  const Engine engine(pair.options()), plain_engine("cpu");
  const Model model(engine, bytes), plain_model(plain_engine, bytes);
  CHECK(pair.lines ==
        std::vector<std::string>{"backend first failed to compile the model (told to fail); it goes on with second"});
  const Session session(model, session_options(64, 8)), plain(plain_model, session_options(64, 8));
  const Tokens tokens = some_tokens(30, 300);
  CHECK(bit_difference(logits_after(session, tokens), logits_after(plain, tokens)) == "");
  CHECK(mote_dev_session_fallbacks(session) == 0);   // it began there
  CHECK(pair.first.counts.programs == 0);

  // Both fail: what the last one said; one alone in the list: what it said.
  pair.second.hooks.on_compile = [] { return Status::error(Code::backend_failed, "the second as well"); };
  mote_model* none = nullptr;
  const mote_source source = source_of(bytes);
  const Outcome both = outcome([&](mote_error* e) { return mote_model_open(engine, &source, nullptr, {}, &none, e); });
  CHECK(both.status == MOTE_BACKEND_FAILED);
  CHECK(both.sentence == "the second as well");
  Pair single;
  single.first.hooks.on_compile = told_to_fail;
  const Engine alone(single.options("first"));
  const Outcome one = outcome([&](mote_error* e) { return mote_model_open(alone, &source, nullptr, {}, &none, e); });
  CHECK(one.status == MOTE_BACKEND_FAILED);
  CHECK(one.sentence == "told to fail");
  CHECK(single.lines.empty());
}

TEST_CASE("In memory of the caller a model names the bytes that it needs without a backend", "[api][fallback]") {
  Pair pair("reference", "cpu");   // which takes more, for the tables of its kernels
  const Bytes bytes = toy_llama(kSmallToy).bytes();
  const Engine engine(pair.options()), plain(pair.options("second"));
  const mote_quote quote = quote_model(engine, bytes, session_options()).model;
  const mote_quote alone = quote_model(plain, bytes, session_options()).model;
  REQUIRE(quote.fallback_bytes > 0);
  REQUIRE(alone.total_bytes > quote.total_bytes);
  CHECK(alone.total_bytes <= quote.total_bytes + quote.fallback_bytes);
  pair.first.hooks.on_compile = told_to_fail;
  Bench bench(quote.total_bytes + quote.fallback_bytes);
  mote_model* model = nullptr;
  const mote_source source = source_of(bytes);
  const auto open_in = [&](uint64_t size) {
    return outcome([&](mote_error* e) { return mote_model_open(engine, &source, nullptr, bench.of(size), &model, e); });
  };
  const Outcome little = open_in(quote.total_bytes);
  CHECK(little.status == MOTE_OUT_OF_MEMORY);
  CHECK(contains(little.sentence, "without the backends that failed, needs " + std::to_string(alone.total_bytes) +
                                      " bytes of memory, " + std::to_string(quote.total_bytes) + " were handed over"));
  CHECK(model == nullptr);
  CHECK(open_in(alone.total_bytes - 64).status == MOTE_OUT_OF_MEMORY);
  CHECK(open_in(alone.total_bytes).status == MOTE_OK);
  CHECK(mote_model_close(model, nullptr) == MOTE_OK);
  CHECK(open_in(quote.total_bytes + quote.fallback_bytes).status == MOTE_OK);
  CHECK(mote_model_close(model, nullptr) == MOTE_OK);
}

TEST_CASE("A backend that does not open a session is left by it, also in memory of the caller", "[api][fallback]") {
  const bool handed_over = GENERATE(true, false);
  Pair pair;
  const Bytes bytes = toy_llama(kSmallToy).bytes();
  const Engine engine(pair.options()), plain_engine("cpu");
  const Model model(engine, bytes), plain_model(plain_engine, bytes);
  const mote_session_options options = session_options(64, 8);
  Bench bench(quote_session(model, options).total_bytes);
  pair.first.hooks.on_open = told_to_fail;
  const Tokens tokens = some_tokens(30, 300);
  {
    const Session session(model, options,
                          handed_over ? bench.of(quote_session(model, options).total_bytes) : mote_memory{});
    const Session plain(plain_model, options);
    CHECK(bit_difference(logits_after(session, tokens), logits_after(plain, tokens)) == "");
    CHECK(mote_dev_session_fallbacks(session) == 1);
    REQUIRE(pair.lines.size() == 1);
    CHECK(pair.lines[0] == "backend first did not open the session (told to fail); it begins with second");
  }
  pair.second.hooks.on_open = [] { return Status::error(Code::backend_failed, "the second as well"); };
  mote_session* none = nullptr;
  const Outcome both = outcome([&](mote_error* e) { return mote_session_open(model, &options, {}, &none, e); });
  CHECK(both.status == MOTE_BACKEND_FAILED);
  CHECK(both.sentence == "told to fail");
  CHECK(pair.first.counts.executors + pair.second.counts.executors == 0);
}

TEST_CASE("Sessions share what the model has compiled, for the backends it began with and for those that took over",
          "[api][fallback][threads]") {
  constexpr size_t kSessions = 4;
  Pair pair;
  const Bytes bytes = toy_llama(kSmallToy).bytes();
  const Engine engine(pair.options()), plain_engine("cpu");
  const Model plain_model(plain_engine, bytes);
  std::vector<float> expected[kSessions];
  for (size_t i = 0; i < kSessions; ++i)
    expected[i] = logits_after(Session(plain_model, session_options(64, 8)), some_tokens(30, 300, i));
  const Model model(engine, bytes);
  std::atomic<int> compiling{0}, most_compiling{0};
  pair.second.hooks.on_compile = [&] {
    most_compiling = std::max(most_compiling.load(), ++compiling);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    --compiling;
    return Status();
  };
  std::vector<std::unique_ptr<Session>> sessions;
  for (size_t i = 0; i < kSessions; ++i) sessions.push_back(std::make_unique<Session>(model, session_options(64, 8)));
  CHECK(pair.first.counts.compiled == 1);
  // All of them meet the failure at the same time.
  std::atomic<size_t> waiting{0};
  pair.first.hooks.on_run = [&] {
    ++waiting;
    while (waiting < kSessions) std::this_thread::yield();
    return told_to_fail();
  };
  std::vector<float> got[kSessions];
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kSessions; ++i)
    threads.emplace_back([&, i] { got[i] = logits_after(*sessions[i], some_tokens(30, 300, i)); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kSessions; ++i) CHECK(bit_difference(got[i], expected[i]) == "");
  CHECK(pair.second.counts.compiled == 1);
  CHECK(most_compiling == 1);
  CHECK(pair.lines.size() == kSessions);
  // Another thread opens and uses sessions meanwhile: they begin on the second.
  const Session later(model, session_options(64, 8));
  CHECK(mote_dev_session_fallbacks(later) == 0);
  CHECK(bit_difference(logits_after(later, some_tokens(30, 300, 0)), expected[0]) == "");
  CHECK(pair.second.counts.compiled == 1);
}

TEST_CASE("A cancel stops the tokens that are run again, and what is done stays so", "[api][fallback][cancel]") {
  Pair pair("cpu", "cpu");
  const Engine engine(pair.options());
  const Model model(engine, toy_llama(kSmallToy));
  const Session session(model, session_options(64, 8)), quiet(model, session_options(64, 8));
  const Tokens tokens = some_tokens(40, 300);
  const std::vector<float> expected = logits_after(quiet, tokens);
  pair.fail_from_run(3);
  int runs = 0;
  pair.second.hooks.on_run = [&] {
    if (++runs == 2) mote_cancel(session);
    return Status();
  };
  size_t done = 0;
  const Outcome said =
      outcome([&](mote_error* e) { return mote_feed(session, tokens.data(), tokens.size(), &done, e); });
  CHECK(said.status == MOTE_CANCELLED);
  CHECK(done == 24);
  CHECK(history(session) == Tokens(tokens.begin(), tokens.begin() + 24));
  CHECK(bit_difference(logits_after(session, Tokens(tokens.begin() + 24, tokens.end())), expected) == "");
  CHECK(mote_dev_session_fallbacks(session) == 1);
}

TEST_CASE("A backend that fails in the middle of a snapshot leaves the next one with the tokens, and a cancel waits",
          "[api][fallback][snapshot]") {
  const bool with_logits = GENERATE(true, false), encodes = GENERATE(false, true);
  Pair pair("cpu", "cpu");   // the same arithmetic, so the same bits to the last
  const Engine engine(pair.options());
  const Model model(engine, encodes ? toy_t5(kSmallToy) : toy_llama(kSmallToy));
  const Session session(model, sliding());
  if (encodes) encode(session, some_tokens(8, 300, 5));
  feed(session, some_tokens(20, 300));
  for (int i = 0; i < 4; ++i) next(session);
  if (with_logits) step(session);
  const Bytes snapshot = take_snapshot(session);
  int rows = 0, runs = 0;
  pair.first.hooks.on_export = [&] { return ++rows == 11 ? told_to_fail() : Status(); };
  pair.second.hooks.on_run = [&] {
    if (++runs == 2) mote_cancel(session);
    return Status();
  };
  CHECK(take_snapshot(session) == snapshot);
  CHECK(mote_dev_session_fallbacks(session) == 1);
  CHECK(pair.lines.size() == 1);
  CHECK(runs > 2);
  const Tokens more = some_tokens(5, 300, 2);
  CHECK(mote_feed(session, more.data(), more.size(), nullptr, nullptr) == MOTE_CANCELLED);
}

TEST_CASE("A backend that fails in the middle of a restore leaves the next one with the snapshot's tokens",
          "[api][fallback][snapshot]") {
  Pair pair("cpu", "cpu");
  const Engine engine(pair.options());
  const Model model(engine, toy_llama(kSmallToy));
  const Session from(model, sliding()), session(model, sliding());
  feed(from, some_tokens(20, 300));
  for (int i = 0; i < 4; ++i) next(from);
  step(from);
  const Bytes snapshot = take_snapshot(from);
  feed(session, {7, 8, 9});
  int rows = 0;
  pair.first.hooks.on_import = [&] { return ++rows == 11 ? told_to_fail() : Status(); };
  restore(session, snapshot);
  CHECK(mote_dev_session_fallbacks(session) == 1);
  CHECK(take_snapshot(session) == snapshot);   // the same arithmetic, so the same bits to the last
  const Onward here = go_on(session), there = go_on(from);
  CHECK(bit_difference(here.logits, there.logits) == "");
  CHECK(here.tokens == there.tokens);
}

}   // namespace
}   // namespace mote::test
