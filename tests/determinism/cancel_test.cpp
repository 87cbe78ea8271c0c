// Where a cancel falls: at every parallel region of a call, and from another thread at any time. It stops within one
// step, what is there afterwards is whole, and going on gives the bits of a cold run.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/api/snapshots.h"
#include "tests/support/emulated.h"
#include "tests/support/sanitized.h"
#include "tests/support/toy_weights.h"

namespace mote::test {
namespace {

const ToyOptions kWide{.n_layers = 3, .d_model = 128, .n_heads = 4, .n_kv_heads = 2, .d_ff = 256};

// The host's threads: counts the regions, and raises the cancel flag of a session in one of them.
struct CancelAt {
  int n_regions = 0, when = 0;
  mote_session* session = nullptr;
};
void cancelling(void* user, uint32_t lanes, void (*task)(void* context, uint32_t lane), void* context) {
  auto& at = *static_cast<CancelAt*>(user);
  if (++at.n_regions == at.when) mote_cancel(at.session);
  for (uint32_t lane = 0; lane < lanes; ++lane) task(context, lane);
}

struct Rig {
  CancelAt at;
  Engine engine;
  Model model;
  explicit Rig(const char* backend, ToyModel toy = toy_llama) : engine(options(backend)), model(engine, toy(kWide)) {}
  mote_engine_options options(const char* backend) {
    mote_engine_options options = engine_options(backend, 2);
    options.parallel_for = cancelling;
    options.parallel_for_user = &at;
    return options;
  }
  int regions_of(const std::function<void()>& call) {
    at.n_regions = at.when = 0;
    call();
    return at.n_regions;
  }
};

TEST_CASE("After a cancel no further step is begun", "[determinism][cancel]") {
  const char* backend = GENERATE(from_range(host_backends()));
  Rig rig(backend);
  const Session session(rig.model, session_options(64, 32));
  const Tokens tokens = some_tokens(33, 300);
  const int n_regions = rig.regions_of([&] { feed(session, tokens); });   // one batch
  const int per_layer = n_regions / 3;
  REQUIRE(per_layer >= 4);   // at least the matrices of a layer, those of one input together
  int most_after = 0;
  for (int when = 1; when < n_regions; when += is_emulated() ? 3 : 1) {
    REQUIRE(mote_rewind(session, 0, nullptr) == MOTE_OK);
    rig.at = {0, when, session};
    size_t done = 99;
    CHECK(mote_feed(session, tokens.data(), tokens.size(), &done, nullptr) == MOTE_CANCELLED);
    CHECK(done == 0);
    most_after = std::max(most_after, rig.at.n_regions - when);
  }
  CHECK(most_after <= (std::string(backend) == "xnnpack" ? 2 : 1));   // a step has two regions at most, there three
  CHECK(most_after < per_layer);
}

TEST_CASE("A prompt that is cancelled anywhere goes on with the bits of a cold run", "[determinism][cancel]") {
  const char* backend = GENERATE(from_range(host_backends()));
  Rig rig(backend, GENERATE(as<ToyModel>{}, toy_llama, toy_phi3));
  const Tokens first = some_tokens(30, 300);
  Tokens second(first.begin(), first.begin() + 13);
  for (const int32_t token : some_tokens(24, 300, 2)) second.push_back(token);
  const auto prompt = [](mote_session* session, const Tokens& tokens, size_t* done) {
    return mote_prompt(session, tokens.data(), tokens.size(), nullptr, done, nullptr);
  };
  std::vector<float> cold;
  {
    const Session session(rig.model, session_options(64, 8));
    cold = logits_after(session, second);
  }
  const Session session(rig.model, session_options(64, 8));
  size_t done = 0;
  REQUIRE(prompt(session, first, &done) == MOTE_OK);
  const int n_regions = rig.regions_of([&] { REQUIRE(prompt(session, second, &done) == MOTE_OK); });
  const int stride = is_emulated() ? 7 : kSanitized ? 3 : 1;   // odd: both ways to go on
  for (int when = 1; when < n_regions; when += stride) {
    CAPTURE(backend, when);
    rig.at = {};
    REQUIRE(prompt(session, first, &done) == MOTE_OK);
    rig.at = {0, when, session};
    CHECK(prompt(session, second, &done) == MOTE_CANCELLED);
    CHECK(done >= 13);
    CHECK(history(session) == Tokens(second.begin(), second.begin() + static_cast<std::ptrdiff_t>(done)));
    if (when % 2 == 0) {   // go on, or ask for the whole once more
      feed(session, Tokens(second.begin() + static_cast<std::ptrdiff_t>(done), second.end()));
    } else {
      REQUIRE(prompt(session, second, &done) == MOTE_OK);
    }
    CHECK(bit_difference(step(session), cold) == "");
  }
}

TEST_CASE("A cancelled evaluation leaves no logits that a later batch has written over", "[determinism][cancel]") {
  const char* backend = GENERATE(from_range(host_backends()));
  Rig rig(backend);
  const Tokens tokens = some_tokens(24, 300);
  const auto go_on = [](void*, size_t, size_t, const float*, size_t) { return 0; };
  const Session session(rig.model, session_options(64, 8));
  const auto evaluate = [&](size_t* done) {
    return mote_evaluate(session, tokens.data(), tokens.size(), go_on, nullptr, done, nullptr);
  };
  size_t done = 0;
  const int n_regions = rig.regions_of([&] { REQUIRE(evaluate(&done) == MOTE_OK); });
  size_t n_cancelled = 0;
  for (int when = n_regions / 3; when < n_regions; when += is_emulated() || kSanitized ? 9 : 3) {
    CAPTURE(backend, when);
    REQUIRE(mote_rewind(session, 0, nullptr) == MOTE_OK);
    rig.at = {0, when, session};
    REQUIRE(evaluate(&done) == MOTE_CANCELLED);
    ++n_cancelled;
    REQUIRE(done > 0);
    const float* logits = nullptr;
    size_t count = 0;
    CHECK(mote_logits(session, &logits, &count, nullptr) == MOTE_WRONG_STATE);
    rig.at = {};
    const Session fresh(rig.model, session_options(64, 8));
    REQUIRE(mote_rewind(session, done, nullptr) == MOTE_OK);
    CHECK(bit_difference(
              step(session),
              logits_after(fresh, Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(done)))) == "");
  }
  CHECK(n_cancelled > 5);
}

TEST_CASE("Cancels from another thread at any time leave sessions whose bits are those of cold ones",
          "[determinism][cancel][threads]") {
  const char* backend = GENERATE(from_range(host_backends()));
  const Engine engine(backend, 2);
  const Model model(engine, toy_llama(kWide));
  const Tokens tokens = some_tokens(40, 300);
  mote_session_options options = session_options(64, 8);
  const Session cold(model, options), session(model, options);
  const std::vector<float> expected = logits_after(cold, tokens);
  const Bytes snapshot = take_snapshot(cold);
  // One cancel after the other, each when the last one has been honoured: however slow the machine, it ends.
  constexpr uint32_t kCancels = 60;
  std::atomic<uint32_t> n_honoured{0};
  std::thread other([&] {
    Random random(5);
    for (uint32_t i = 0; i < kCancels; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(1500)));
      mote_cancel(session);
      while (n_honoured.load() == i) std::this_thread::yield();
    }
  });
  size_t n_wrong = 0;
  const auto insist = [&](const std::function<mote_status()>& call) {
    for (mote_status status = call(); status != MOTE_OK; status = call()) {
      if (status != MOTE_CANCELLED) return ++n_wrong, void();
      ++n_honoured;
    }
  };
  while (n_honoured.load() < kCancels && n_wrong == 0) {
    insist([&] { return mote_rewind(session, 0, nullptr); });
    insist([&] { return mote_prompt(session, tokens.data(), tokens.size(), nullptr, nullptr, nullptr); });
    insist([&] { return mote_step(session, nullptr); });
    const float* logits = nullptr;
    size_t count = 0;
    insist([&] { return mote_logits(session, &logits, &count, nullptr); });
    if (bit_difference({logits, logits + count}, expected) != "") ++n_wrong;
    int32_t token = -1;
    for (int i = 0; i < 4; ++i) insist([&] { return mote_next(session, &token, nullptr); });
    insist([&] { return mote_restore(session, snapshot.data(), snapshot.size(), nullptr); });
    if (take_snapshot(session) != snapshot) ++n_wrong;
  }
  if (n_wrong != 0) n_honoured.store(kCancels);   // lets the other thread end
  other.join();
  CHECK(n_wrong == 0);
  CHECK(n_honoured.load() == kCancels);
}

TEST_CASE("Sessions of one model take their first snapshots at once", "[determinism][threads]") {
  const Engine engine("cpu", 2);
  const Model model(engine, toy_llama(kWide));
  Bytes taken[3];
  std::thread threads[3];
  for (size_t i = 0; i < 3; ++i)
    threads[i] = std::thread([&, i] {
      const Session session(model, session_options(64, 8));
      logits_after(session, some_tokens(12, 300));
      taken[i] = take_snapshot(session);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(taken[0].size() > 1000);
  CHECK(taken[1] == taken[0]);
  CHECK(taken[2] == taken[0]);
}

}   // namespace
}   // namespace mote::test
