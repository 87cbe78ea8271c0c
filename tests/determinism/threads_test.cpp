// Who runs the work makes no difference to its bits: other sessions beside it, the host's threads, a cancel on the way.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <thread>

#include "tests/api/kit.h"

namespace mote::test {
namespace {

// The logits of a prompt and of ten generated tokens.
std::vector<float> whole_run(mote_model* model, uint64_t seed, uint32_t decode_threads = 0) {
  mote_session_options options = session_options(96, 16);
  options.decode_threads = decode_threads;
  const Session session(model, options);
  std::vector<float> all;
  if (!use_encoder(session, &all)) return all;
  for (const float logit : logits_after(session, some_tokens(50, 300, seed))) all.push_back(logit);
  for (int i = 0; i < 10; ++i) {
    next(session);
    const std::vector<float> row = step(session);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

TEST_CASE("Two sessions that step at once give the bits of each alone", "[determinism][threads]") {
  const char* backend = GENERATE(from_range(host_backends()));
  const Engine engine(with_cpu(backend).c_str(), 3);
  const Model model(engine, GENERATE(from_range(kAllToys))(kWideToy));
  const std::vector<float> alone[2] = {whole_run(model, 1), whole_run(model, 2)};
  std::vector<float> together[2][4];
  std::thread threads[2];
  for (size_t i = 0; i < 2; ++i)
    threads[i] = std::thread([&, i] {
      for (std::vector<float>& run : together[i]) run = whole_run(model, i + 1);
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < 2; ++i)
    for (const std::vector<float>& run : together[i]) CHECK(bit_difference(run, alone[i]) == "");
}

// What threads do with one model: quote a session, turn a conversation into ids, text and back, and generate.
struct ModelUse {
  std::vector<uint64_t> quotes;
  std::string texts;
  Tokens ids;
  std::vector<float> logits;
  bool operator==(const ModelUse&) const = default;
};
ModelUse use_model(mote_model* model, uint32_t seed) {
  ModelUse use;
  const std::string said = "Do you hear, number " + std::to_string(seed) + "? \xE2\x82\xAC <|im_end|>";
  const mote_message messages[] = {{"system", "Be brief.", 9}, {"user", said.c_str(), said.size()}};
  for (uint32_t round = 0; round < 8; ++round) {
    const mote_session_options options = session_options(32 + 16 * ((seed + round) % 4), 8 + round);
    use.quotes.push_back(quote_session(model, options).total_bytes);
    Tokens ids(512);
    std::string text(512, 0);
    size_t n = 0;
    mote_error error{};
    const mote_chat_options chatml = chat_options("chatml");
    must(mote_chat_text(model, &chatml, messages, 2, text.data(), text.size(), &n, &error), error);
    use.texts.append(text, 0, n);
    must(mote_chat_tokens(model, &chatml, messages, 2, {}, ids.data(), ids.size(), &n, &error), error);
    use.ids.insert(use.ids.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
    must(mote_tokenize(model, said.data(), said.size(), MOTE_PARSE_SPECIAL, {}, ids.data(), ids.size(), &n, &error),
         error);
    ids.resize(n);
    use.ids.insert(use.ids.end(), ids.begin(), ids.end());
    must(mote_detokenize(model, ids.data(), ids.size(), text.data(), text.size(), &n, &error), error);
    use.texts.append(text, 0, n);
    if (round % 4 != 0) continue;
    const Session session(model, options);
    const std::vector<float> logits = logits_after(session, some_tokens(20, 300, seed));
    use.logits.insert(use.logits.end(), logits.begin(), logits.end());
  }
  return use;
}

TEST_CASE("One model serves quotes, texts and sessions of four threads at once as it does one after the other",
          "[determinism][threads]") {
  const char* backend = GENERATE(from_range(host_backends()));
  constexpr size_t kThreads = 4;
  const Engine engine(backend, 2);
  const Model model(engine, toy_llama(kSmallToy));
  ModelUse serial[kThreads], together[kThreads];
  for (uint32_t i = 0; i < kThreads; ++i) serial[i] = use_model(model, i);
  CHECK_FALSE(serial[0] == serial[1]);
  std::atomic<size_t> n_ready{0};
  std::thread threads[kThreads];
  for (uint32_t i = 0; i < kThreads; ++i)
    threads[i] = std::thread([&, i] {
      for (++n_ready; n_ready < kThreads;) std::this_thread::yield();
      together[i] = use_model(model, i);
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kThreads; ++i) CHECK((together[i] == serial[i]));
}

// Regions by their lanes.
struct Regions {
  std::atomic<uint32_t> of_lanes[8]{};
  uint32_t count() const {
    uint32_t sum = 0;
    for (const auto& n : of_lanes) sum += n;
    return sum;
  }
};

void backwards(void* user, uint32_t lanes, void (*task)(void* context, uint32_t lane), void* context) {
  ++static_cast<Regions*>(user)->of_lanes[lanes];
  for (uint32_t lane = lanes; lane-- > 0;) task(context, lane);
}

void on_threads(void* user, uint32_t lanes, void (*task)(void* context, uint32_t lane), void* context) {
  ++static_cast<Regions*>(user)->of_lanes[lanes];
  std::vector<std::thread> threads;
  for (uint32_t lane = 0; lane < lanes; ++lane) threads.emplace_back([=] { task(context, lane); });
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("The host's own parallel_for gives the bits of mote's threads", "[determinism][threads]") {
  const char* backend = GENERATE(from_range(host_backends()));
  const GgufBuilder file = GENERATE(from_range(kAllToys))(kWideToy);
  std::vector<float> own;
  {
    const Engine engine(with_cpu(backend).c_str(), 1);
    const Model model(engine, file);
    own = whole_run(model, 3);
  }
  for (const mote_parallel_for parallel_for : {backwards, on_threads})
    for (const uint32_t lanes : {2u, 1u, 5u}) {
      Regions regions;
      const std::string backends = with_cpu(backend);
      mote_engine_options options = engine_options(backends.c_str(), lanes);
      options.parallel_for = parallel_for;
      options.parallel_for_user = &regions;
      const Engine engine(options);
      CHECK(mote_engine_threads(engine) == lanes);
      const Model model(engine, file);
      CAPTURE(backend, lanes);
      CHECK(bit_difference(whole_run(model, 3), own) == "");
      if (lanes > 1) CHECK(regions.count() > 5);
      CHECK(regions.count() == regions.of_lanes[lanes]);
      if (parallel_for == on_threads) break;   // starting threads for every region takes its time
    }
}

TEST_CASE("Batches of one row take the lanes that a session decodes on, longer ones all, and all give the same bits",
          "[determinism][threads]") {
  const char* backend = GENERATE(from_range(host_backends()));
  const GgufBuilder file = GENERATE(from_range(kAllToys))(kWideToy);
  Regions regions;
  const std::string backends = with_cpu(backend);
  mote_engine_options options = engine_options(backends.c_str(), 5);
  options.parallel_for = backwards;
  options.parallel_for_user = &regions;
  const Engine host(options), own(backends.c_str(), 5);
  const Model hosts_model(host, file), model(own, file);
  const std::vector<float> on_all = whole_run(model, 3);
  for (const uint32_t decode_threads : {1u, 2u, 5u}) {
    CAPTURE(backend, decode_threads);
    CHECK(bit_difference(whole_run(model, 3, decode_threads), on_all) == "");
    CHECK(bit_difference(whole_run(hosts_model, 3, decode_threads), on_all) == "");
    mote_session_options session_with = session_options(96, 16);
    session_with.decode_threads = decode_threads;
    const Session session(hosts_model, session_with);
    std::vector<float> encoded;
    if (!use_encoder(session, &encoded)) continue;
    for (auto& n : regions.of_lanes) n = 0;
    feed(session, some_tokens(49, 300));   // three whole batches
    CHECK(regions.of_lanes[5] > 0);
    CHECK(regions.count() == regions.of_lanes[5]);
    for (auto& n : regions.of_lanes) n = 0;
    step(session);
    CHECK(regions.count() == regions.of_lanes[decode_threads]);
    if (std::string_view(backend) == "reference") CHECK(regions.count() > 0);   // others run small steps inline
  }
}

// Raises the cancel flag of a session in the n-th parallel region.
struct CancelAfter {
  std::atomic<int> left{0};
  mote_session* session = nullptr;
};
void counting_down(void* user, uint32_t lanes, void (*task)(void* context, uint32_t lane), void* context) {
  auto& at = *static_cast<CancelAfter*>(user);
  if (at.left > 0 && --at.left == 0) mote_cancel(at.session);
  for (uint32_t lane = 0; lane < lanes; ++lane) task(context, lane);
}

TEST_CASE("A cancel at any step keeps whole batches, and going on gives the bits of a cold run",
          "[determinism][cancel]") {
  const char* backend = GENERATE(from_range(host_backends()));
  CancelAfter at;
  mote_engine_options engine_with = engine_options(backend, 2);
  engine_with.parallel_for = counting_down;
  engine_with.parallel_for_user = &at;
  const Engine engine(engine_with);
  const Model model(engine, toy_llama(kWideToy));
  const mote_session_options options = session_options(64, 16);
  const Tokens tokens = some_tokens(50, 300);
  std::vector<float> cold;
  int n_regions = 1 << 20;
  {
    const Session session(model, options);
    at.left = n_regions;
    cold = logits_after(session, tokens);
    n_regions -= at.left;
  }
  REQUIRE(n_regions > 20);
  for (int when = 1; when <= n_regions; ++when) {
    const Session session(model, options);
    at.session = session;
    at.left = when;
    size_t done = 0;
    int n_cancelled = 0;
    const Outcome said =
        outcome([&](mote_error* error) { return mote_feed(session, tokens.data(), tokens.size(), &done, error); });
    CAPTURE(backend, when, done);
    if (said.status == MOTE_CANCELLED) {
      ++n_cancelled;
      CHECK(done % 16 == 0);
      CHECK(history(session).size() == done);
      feed(session, Tokens(tokens.begin() + static_cast<std::ptrdiff_t>(done), tokens.end()));
    } else {
      REQUIRE(said.status == MOTE_OK);
    }
    // In the last region of a call nothing is left to be stopped: the next call that runs is.
    const mote_status stepped = mote_step(session, nullptr);
    if (stepped == MOTE_CANCELLED) ++n_cancelled;
    CHECK((stepped == MOTE_OK || stepped == MOTE_CANCELLED));
    CHECK(bit_difference(step(session), cold) == "");
    CHECK(history(session) == tokens);
    feed(session, {1});
    if (mote_step(session, nullptr) == MOTE_CANCELLED) ++n_cancelled;
    CHECK(n_cancelled == 1);
  }
}

TEST_CASE("A cancel before a call stops the next one that runs the model, once", "[determinism][cancel]") {
  const Engine engine("cpu");
  const Model model(engine, toy_llama(kSmallToy));
  const Session session(model, session_options(64, 16));
  mote_cancel(session);
  feed(session, {5});   // runs nothing
  const Outcome stopped = outcome([&](mote_error* error) { return mote_step(session, error); });
  CHECK(stopped.status == MOTE_CANCELLED);
  CHECK(contains(stopped.sentence, "cancelled"));
  const std::vector<float> logits = step(session);
  const Session other(model, session_options(64, 16));
  CHECK(bit_difference(logits, logits_after(other, {5})) == "");
  CHECK(history(session) == Tokens{5});
}

TEST_CASE("An answer that is cancelled goes on where it stopped", "[determinism][cancel]") {
  CancelAfter at;
  mote_engine_options engine_with = engine_options("cpu", 2);
  engine_with.parallel_for = counting_down;
  engine_with.parallel_for_user = &at;
  const Engine engine(engine_with);
  const Model model(engine, toy_llama(kWideToy));
  Tokens whole;
  {
    const Session session(model, session_options(64, 16));
    feed(session, some_tokens(10, 300));
    whole = generate(session, 12);
  }
  const Session session(model, session_options(64, 16));
  at.session = session;
  feed(session, some_tokens(10, 300));
  Tokens tokens;
  int n_cancelled = 0;
  for (int call = 0; tokens.size() < 12; ++call) {
    at.left = 1 + call % 37;
    int32_t token = -1;
    const mote_status status = mote_next(session, &token, nullptr);
    if (status == MOTE_OK)
      tokens.push_back(token);
    else if (status == MOTE_CANCELLED)
      ++n_cancelled;
    REQUIRE((status == MOTE_OK || status == MOTE_CANCELLED));
    REQUIRE(call < 1000);
  }
  CHECK(n_cancelled > 0);
  CHECK(tokens == whole);
}

TEST_CASE("A slide that is cancelled on the way goes on where it stopped", "[determinism][cancel]") {
  CancelAfter at;
  mote_engine_options engine_with = engine_options("cpu", 2);
  engine_with.parallel_for = counting_down;
  engine_with.parallel_for_user = &at;
  const Engine engine(engine_with);
  const Model model(engine, toy_llama(kWideToy));
  mote_session_options options = session_options(24, 4);
  options.on_full = MOTE_ON_FULL_SLIDE;
  options.keep = 2;
  Tokens whole;
  {
    const Session session(model, options);
    feed(session, some_tokens(20, 300));
    whole = generate(session, 60);
  }
  const Session session(model, options);
  at.session = session;
  feed(session, some_tokens(20, 300));
  Tokens tokens;
  int n_cancelled = 0;
  for (int call = 0; tokens.size() < 60; ++call) {
    at.left = 1 + call % 53;
    int32_t token = -1;
    const mote_status status = mote_next(session, &token, nullptr);
    if (status == MOTE_OK) tokens.push_back(token);
    if (status == MOTE_CANCELLED) ++n_cancelled;
    REQUIRE((status == MOTE_OK || status == MOTE_CANCELLED));
    REQUIRE(call < 3000);
  }
  at.left = 0;
  CHECK(n_cancelled >= 10);
  CHECK(tokens == whole);
}

TEST_CASE("A receiver of logits may cancel", "[determinism][cancel]") {
  const Engine engine("cpu");
  const Model model(engine, toy_llama(kSmallToy));
  mote_session_options options = session_options(64, 16);
  options.max_output_rows = 4;
  const Session session(model, options);
  const auto cancel = [](void* user, size_t first, size_t, const float*, size_t) -> int32_t {
    if (first == 4) mote_cancel(static_cast<mote_session*>(user));
    return 0;
  };
  const Tokens tokens = some_tokens(20, 300);
  size_t done = 0;
  CHECK(mote_evaluate(session, tokens.data(), 20, cancel, static_cast<mote_session*>(session), &done, nullptr) ==
        MOTE_CANCELLED);
  CHECK(done == 8);
  CHECK(history(session).size() == 8);
  feed(session, Tokens(tokens.begin() + 8, tokens.end()));
  const Session other(model, options);
  CHECK(bit_difference(step(session), logits_after(other, tokens)) == "");
}

}   // namespace
}   // namespace mote::test
