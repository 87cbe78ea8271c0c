// A restore that is cancelled or fails half way leaves a session with its own tokens, and going on gives the bits of
// one that was never touched.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/api/hooked_backend.h"
#include "tests/api/snapshots.h"

namespace mote::test {
namespace {

mote_engine_options with_hooks(HookedBackend& hooked, void** extra) {
  *extra = static_cast<Backend*>(&hooked);
  mote_engine_options options = engine_options("hooked");
  options.extra_backends = extra;
  options.n_extra_backends = 1;
  return options;
}

TEST_CASE("A restore that is cancelled or fails at any row keeps the session's tokens and their bits",
          "[api][snapshot][cancel]") {
  const char* backend = GENERATE(from_range(host_backends()));
  const bool cancels = GENERATE(true, false);
  HookedBackend hooked(backend);
  void* extra = nullptr;
  const Engine engine(with_hooks(hooked, &extra));
  const Model model(engine, toy_llama(kSmallToy));
  const Session other(model, session_options(40, 8)), session(model, session_options(40, 8)),
      cold(model, session_options(40, 8));
  logits_after(other, some_tokens(10, 300));
  const Bytes snapshot = take_snapshot(other);
  const Tokens tokens = some_tokens(17, 300, 2);
  const std::vector<float> expected = logits_after(cold, tokens), restored_logits = step(other);
  int n_rows = 0;
  hooked.hooks.on_import = [&] { return ++n_rows, Status(); };
  restore(session, snapshot);
  CHECK(n_rows == 20);   // 10 positions of two layers
  for (int when = 1; when <= n_rows; ++when) {
    CAPTURE(backend, cancels, when);
    size_t reused = 0;
    REQUIRE(mote_prompt(session, tokens.data(), tokens.size(), &reused, nullptr, nullptr) == MOTE_OK);
    step(session);
    int row = 0;
    hooked.hooks.on_import = [&]() -> Status {
      if (++row != when) return {};
      if (!cancels) return Status::error(Code::backend_failed, "row {} was told to fail", row);
      mote_cancel(session);
      return {};
    };
    const Outcome said = try_restore(session, snapshot);
    hooked.hooks.on_import = [] { return Status(); };
    const bool too_late = cancels && when == n_rows;   // nothing was left to be stopped
    CHECK(said.status == (too_late ? MOTE_OK : cancels ? MOTE_CANCELLED : MOTE_BACKEND_FAILED));
    if (!too_late) CHECK(contains(said.sentence, cancels ? "restoring position" : "told to fail"));
    CHECK(row == when);
    if (too_late) {
      REQUIRE(mote_rewind(session, 9, nullptr) == MOTE_OK);
      CHECK(mote_step(session, nullptr) == MOTE_CANCELLED);   // the next call that runs the model is stopped
      REQUIRE(mote_rewind(session, 0, nullptr) == MOTE_OK);
      feed(session, tokens);
    }
    CHECK(history(session) == tokens);
    CHECK(bit_difference(step(session), expected) == "");
  }
  restore(session, snapshot);
  CHECK(bit_difference(step(session), restored_logits) == "");
}

TEST_CASE("After a feed that is cancelled with nothing pending, going on gives the bits of a session never cancelled",
          "[api][cancel]") {
  const char* backend = GENERATE(from_range(host_backends()));
  const int finished = GENERATE(0, 1, 2);   // batches of 8 before the cancel
  CAPTURE(backend, finished);
  HookedBackend hooked(backend);
  void* extra = nullptr;
  const Engine engine(with_hooks(hooked, &extra));
  const Model model(engine, toy_llama(kSmallToy));
  const Session session(model, session_options(40, 8)), cold(model, session_options(40, 8));
  const Tokens tokens = some_tokens(30, 300);
  const size_t kept = 5 + 8 * static_cast<size_t>(finished);
  const std::vector<float> expected =
      logits_after(cold, Tokens(tokens.begin(), tokens.begin() + static_cast<int>(kept)));
  const std::vector<float> at_the_end =
      logits_after(cold, Tokens(tokens.begin() + static_cast<int>(kept), tokens.end()));

  logits_after(session, Tokens(tokens.begin(), tokens.begin() + 5));
  int runs = 0;
  hooked.hooks.on_run = [&] {
    if (runs++ == finished) mote_cancel(session);
    return Status();
  };
  size_t done = 0;
  CHECK(mote_feed(session, tokens.data() + 5, 25, &done, nullptr) == MOTE_CANCELLED);
  CHECK(done == kept - 5);
  CHECK(bit_difference(step(session), expected) == "");
  CHECK(bit_difference(logits_after(session, Tokens(tokens.begin() + static_cast<int>(kept), tokens.end())),
                       at_the_end) == "");
}

TEST_CASE("A cancel before a restore stops it before anything changes, and a snapshot not at all",
          "[api][snapshot][cancel]") {
  const Engine engine("cpu");
  const Model model(engine, toy_llama(kSmallToy));
  const Session session(model, session_options(40, 8));
  feed(session, some_tokens(10, 300));
  const Bytes snapshot = take_snapshot(session);
  feed(session, {1, 2});
  const Bytes before = take_snapshot(session);
  mote_cancel(session);
  CHECK(take_snapshot(session) == before);
  const Outcome said = try_restore(session, snapshot);
  CHECK(said.status == MOTE_CANCELLED);
  CHECK(contains(said.sentence, "nothing was changed"));
  CHECK(take_snapshot(session) == before);
  restore(session, snapshot);   // it stopped one call
  CHECK(take_snapshot(session) == snapshot);
}

TEST_CASE("A snapshot whose backend fails is a status, and the session goes on", "[api][snapshot]") {
  HookedBackend hooked("cpu");
  void* extra = nullptr;
  const Engine engine(with_hooks(hooked, &extra));
  const Model model(engine, toy_llama(kSmallToy));
  const Session session(model, session_options(40, 8)), cold(model, session_options(40, 8));
  feed(session, some_tokens(10, 300));
  hooked.hooks.on_export = [] { return Status::error(Code::backend_failed, "told to fail"); };
  Bytes room(1 << 16);
  uint64_t bytes = 0;
  CHECK(mote_snapshot(session, room.data(), room.size(), &bytes, nullptr) == MOTE_BACKEND_FAILED);
  CHECK(bit_difference(step(session), logits_after(cold, some_tokens(10, 300))) == "");
}

}   // namespace
}   // namespace mote::test
