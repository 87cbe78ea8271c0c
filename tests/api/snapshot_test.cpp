// Snapshots: what was restored goes on with the bits of what was never interrupted.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <functional>

#include "core/mote.hpp"
#include "tests/api/hooked_backend.h"
#include "tests/api/scripted_model.h"
#include "tests/api/snapshots.h"

namespace mote::test {
namespace {

constexpr mote_sampler kWarmWithPenalty[] = {{MOTE_SAMPLER_REPETITION_PENALTY, 16, 1.2, 0},
                                             {MOTE_SAMPLER_TEMPERATURE, 0, 1.0, 0}};

mote_session_options warm_with_penalty(uint32_t context, uint32_t batch, int32_t kv_type = MOTE_KV_F16) {
  mote_session_options options = session_options(context, batch);
  options.samplers = kWarmWithPenalty;
  options.n_samplers = 2;
  options.seed = 7;
  options.kv_type = kv_type;
  return options;
}

// The ways a session comes to where it is; each fits a context of 40 that slides and keeps 3.
struct Way {
  const char* name;
  std::function<void(mote_session*)> go;
};
const Way kWays[] = {
    {"nothing yet", [](mote_session*) {}},
    {"one token pending", [](mote_session* s) { feed(s, {5}); }},
    {"fed", [](mote_session* s) { feed(s, some_tokens(21, 300)); }},
    {"stepped", [](mote_session* s) { logits_after(s, some_tokens(21, 300)); }},
    {"generated", [](mote_session* s) { feed(s, some_tokens(9, 300)), generate(s, 12); }},
    {"rewound", [](mote_session* s) { feed(s, some_tokens(30, 300)), mote_rewind(s, 11, nullptr); }},
    {"rewound to nothing", [](mote_session* s) { feed(s, some_tokens(30, 300)), mote_rewind(s, 0, nullptr); }},
    {"slid", [](mote_session* s) { feed(s, some_tokens(30, 300)), generate(s, 50); }},
    {"about to slide",
     [](mote_session* s) {
       int32_t token = -1;
       logits_after(s, some_tokens(40, 300)), mote_sample(s, &token, nullptr);
     }},
    {"evaluated",
     [](mote_session* s) {
       const Tokens tokens = some_tokens(13, 300);
       mote_evaluate(
           s, tokens.data(), tokens.size(), [](void*, size_t, size_t, const float*, size_t) { return 0; }, nullptr,
           nullptr, nullptr);
     }},
};

TEST_CASE("A restored session goes on with the bits of one that was never interrupted", "[api][snapshot]") {
  const ToyModel toy = GENERATE(from_range(kToyModels));
  const char* backend = GENERATE(from_range(exact_backends()));
  const int32_t kv_type = GENERATE(MOTE_KV_F16, MOTE_KV_F32);
  const Engine engine(with_cpu(backend).c_str(), 1), other_engine(with_cpu(backend).c_str(), 3);
  const GgufBuilder file = toy(kSmallToy);
  const Model model(engine, file), other_model(other_engine, file);
  mote_session_options options = warm_with_penalty(40, 8, kv_type);
  options.on_full = MOTE_ON_FULL_SLIDE;
  options.keep = 3;
  mote_session_options other_options = options;
  other_options.max_batch = toy == toy_t5 ? 9 : 3;   // an input is encoded at once
  other_options.seed = 99;
  for (const Way& way : kWays) {
    CAPTURE(backend, kv_type, name_of(toy), way.name);
    const Session session(model, options), used(model, options), elsewhere(other_model, other_options);
    way.go(session);
    const Bytes snapshot = take_snapshot(session);
    const Tokens tokens = history(session);
    const Onward onward = go_on(session);
    logits_after(used, some_tokens(33, 300, 2));   // what a session held before does not matter
    for (mote_session* restored : {static_cast<mote_session*>(used), static_cast<mote_session*>(elsewhere)}) {
      for (int again = 0; again < 2; ++again) {
        restore(restored, snapshot);
        CHECK(history(restored) == tokens);
        CHECK(take_snapshot(restored) == snapshot);
        const Onward repeated = go_on(restored);
        CHECK(repeated.tokens == onward.tokens);
        CHECK(bit_difference(repeated.logits, onward.logits) == "");
      }
    }
    restore(session, snapshot);   // back to where it was itself
    CHECK(bit_difference(go_on(session).logits, onward.logits) == "");
  }
}

TEST_CASE("Logits that were there can be read and sampled from after a restore", "[api][snapshot]") {
  const Engine engine("cpu");
  const Model model(engine, toy_llama(kSmallToy));
  const Session session(model, warm_with_penalty(40, 8)), restored(model, warm_with_penalty(40, 8));
  const std::vector<float> logits = logits_after(session, some_tokens(10, 300));
  restore(restored, take_snapshot(session));
  const float* found = nullptr;
  size_t count = 0;
  REQUIRE(mote_logits(restored, &found, &count, nullptr) == MOTE_OK);
  CHECK(bit_difference({found, found + count}, logits) == "");
  int32_t expected = -1, token = -2;
  REQUIRE(mote_sample(session, &expected, nullptr) == MOTE_OK);
  REQUIRE(mote_sample(restored, &token, nullptr) == MOTE_OK);
  CHECK(token == expected);
}

TEST_CASE("After a restore, rewinding and prompts keep what they can and give the bits of a fresh session",
          "[api][snapshot]") {
  const ToyModel toy = GENERATE(from_range(kToyModels));
  const char* backend = GENERATE(from_range(exact_backends()));
  const Engine engine(with_cpu(backend).c_str());
  const Model model(engine, toy(kSmallToy));
  const Session session(model, warm_with_penalty(128, 8)), restored(model, warm_with_penalty(128, 8));
  const Tokens tokens = some_tokens(100, 300);   // more than a ring holds
  logits_after(session, tokens);
  restore(restored, take_snapshot(session));
  for (const size_t kept : {size_t{99}, size_t{40}, size_t{1}}) {
    const Tokens beginning(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(kept));
    REQUIRE(mote_rewind(restored, kept, nullptr) == MOTE_OK);
    const Session fresh(model, warm_with_penalty(128, 8));
    CHECK(bit_difference(step(restored), logits_after(fresh, beginning)) == "");
  }
  restore(restored, take_snapshot(session));
  Tokens longer = tokens;
  longer.insert(longer.end(), {1, 2, 3});
  size_t reused = 0;
  REQUIRE(mote_prompt(restored, longer.data(), longer.size(), &reused, nullptr, nullptr) == MOTE_OK);
  // All but the last of what both share; a ring and a recurrent vector would need a row before those that the snapshot
  // has.
  CHECK(reused == (toy == toy_phi3 || toy == toy_rnn ? 0 : 99));
  const Session fresh(model, warm_with_penalty(128, 8));
  CHECK(bit_difference(step(restored), logits_after(fresh, longer)) == "");
}

TEST_CASE("A text goes on where it was, in the middle of a character and of what may become a stop string",
          "[api][snapshot]") {
  const Engine engine("reference");
  const std::string said =
      "ab\xc3\xa9"
      "cde\xe2\x82\xac"
      "fgh\xf0\x9f\x98\x80"
      "jkSTUVW";
  const Model model(engine, saying_llama(said));
  const char* stops[] = {"fgX", "fghij", "STU"};
  mote_session_options options = session_options(64, 8);
  options.stops = stops;
  options.n_stops = 3;
  const Session whole(model, options);
  feed(whole, {'a'});
  const Answer expected = answer(whole, 100);
  CHECK(expected.text ==
        "b\xc3\xa9"
        "cde\xe2\x82\xac"
        "fgh\xf0\x9f\x98\x80"
        "jk");
  CHECK(expected.finish == MOTE_FINISH_STOP_STRING);
  size_t most_held = 0;
  const Session restored(model, options);
  for (size_t cut = 0; cut <= expected.tokens.size(); ++cut) {
    CAPTURE(cut);
    const Session session(model, options);
    feed(session, {'a'});
    std::string text;
    mote_text piece{};
    piece.struct_bytes = sizeof piece;
    for (size_t i = 0; i < cut; ++i) {
      REQUIRE(mote_text_next(session, &piece, nullptr) == MOTE_OK);
      text.append(piece.bytes, piece.n_bytes);
    }
    const Bytes snapshot = take_snapshot(session);
    uint32_t held[2];
    std::memcpy(held, snapshot.data() + SnapshotPlaces::kCharacterBytes, sizeof held);
    most_held = std::max<size_t>(most_held, held[0] * 100 + held[1]);
    restore(restored, snapshot);
    CHECK(take_snapshot(restored) == snapshot);
    if (piece.finish == MOTE_FINISH_NONE) {
      const Answer rest = answer(restored, 100);
      text += rest.text;
      CHECK(rest.finish == expected.finish);
    } else {
      CHECK(mote_text_next(restored, &piece, nullptr) == MOTE_WRONG_STATE);   // it had ended
    }
    CHECK(text == expected.text);
  }
  CHECK(most_held >= 300);   // three bytes of a character were held back at some time
}

TEST_CASE("A snapshot has the size that was said, at any address, and writes nothing where it does not fit",
          "[api][snapshot]") {
  const Engine engine("cpu");
  const Model model(engine, toy_llama(kSmallToy));
  const Session session(model, warm_with_penalty(40, 8));
  logits_after(session, some_tokens(12, 300));
  const Bytes snapshot = take_snapshot(session);
  uint64_t bytes = 0;
  CHECK(mote_snapshot(session, nullptr, 0, &bytes, nullptr) == MOTE_BUFFER_TOO_SMALL);
  CHECK(bytes == snapshot.size());
  Bytes room(snapshot.size() + 80, 0xC5);
  const Outcome small =
      outcome([&](mote_error* e) { return mote_snapshot(session, room.data(), snapshot.size() - 1, &bytes, e); });
  CHECK(small.status == MOTE_BUFFER_TOO_SMALL);
  CHECK(contains(small.sentence, std::to_string(snapshot.size()) + " bytes"));
  CHECK(contains(small.sentence, "room for " + std::to_string(snapshot.size() - 1)));
  CHECK(room == Bytes(room.size(), 0xC5));
  for (size_t at : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{13}, size_t{63}}) {
    std::fill(room.begin(), room.end(), uint8_t{0xC5});
    REQUIRE(mote_snapshot(session, room.data() + at, snapshot.size(), &bytes, nullptr) == MOTE_OK);
    CHECK(std::equal(snapshot.begin(), snapshot.end(), room.begin() + static_cast<std::ptrdiff_t>(at)));
    CHECK(std::count(room.begin(), room.end(), 0xC5) >= 80);
    CHECK(room[at + snapshot.size()] == 0xC5);
    const Session restored(model, warm_with_penalty(40, 8));
    REQUIRE(mote_restore(restored, room.data() + at, snapshot.size(), nullptr) == MOTE_OK);
    CHECK(take_snapshot(restored) == snapshot);
  }
  // One token more is one row for each layer more, and its id.
  feed(session, {1});
  mote_step(session, nullptr);
  CHECK(take_snapshot(session).size() == snapshot.size() + 4 + 2 * 2 * 16 * 2);
}

TEST_CASE("What runs under the same arithmetic takes over, whatever the backend is called", "[api][snapshot]") {
  HookedBackend hooked("cpu");
  void* const extra[] = {static_cast<Backend*>(&hooked)};
  mote_engine_options engine_with = engine_options("hooked,cpu");
  engine_with.extra_backends = extra;
  engine_with.n_extra_backends = 1;
  const Engine engine("cpu,reference", 2), other(engine_with);
  const GgufBuilder file = toy_llama(kSmallToy);
  const Model model(engine, file), other_model(other, file);
  const Session session(model, warm_with_penalty(40, 8)), restored(other_model, warm_with_penalty(40, 8));
  logits_after(session, some_tokens(12, 300));
  restore(restored, take_snapshot(session));
  const Onward onward = go_on(session), repeated = go_on(restored);
  CHECK(repeated.tokens == onward.tokens);
  CHECK(bit_difference(repeated.logits, onward.logits) == "");
}

TEST_CASE("The veneer takes and restores snapshots", "[api][snapshot][veneer]") {
  const Bytes bytes = toy_llama(kSmallToy).bytes();
  mote::Engine engine;
  mote::Model model;
  mote::Session session, restored;
  REQUIRE(engine.open(engine_options("cpu")));
  REQUIRE(model.open(engine, mote::Source::memory(std::as_bytes(std::span(bytes)))));
  REQUIRE(session.open(model, session_options(40, 8)));
  REQUIRE(restored.open(model, session_options(40, 8)));
  REQUIRE(session.feed(some_tokens(10, 300)));
  std::vector<std::byte> snapshot(session.snapshot_bytes());
  uint64_t written = 0;
  REQUIRE(session.snapshot(snapshot, &written));
  CHECK(written == snapshot.size());
  mote::Error error;
  CHECK(!session.snapshot(std::span(snapshot).first(10), &written, &error));
  CHECK(error.status() == MOTE_BUFFER_TOO_SMALL);
  CHECK(written == snapshot.size());
  CHECK(!restored.restore(std::span(snapshot).first(10), &error));
  CHECK(contains(error.message(), "no snapshot"));
  REQUIRE(restored.restore(snapshot));
  CHECK(restored.history().size() == 10);
  CHECK(mote::Session().snapshot_bytes() == 0);
}

}   // namespace
}   // namespace mote::test
