// A context of any size is honoured exactly: prompts that do not fit are refused before any work, a full one stops with
// its reason or slides, and sliding always gets on.
#include <catch2/catch_test_macros.hpp>

#include "tests/api/scripted_model.h"

namespace mote::test {
namespace {

mote_session_options sliding(uint32_t context, uint32_t keep) {
  mote_session_options options = session_options(context, 8);
  options.on_full = MOTE_ON_FULL_SLIDE;
  options.keep = keep;
  return options;
}

// Sizes of prompts around a context.
std::vector<uint32_t> around(uint32_t context) {
  std::vector<uint32_t> sizes = {1};
  for (uint32_t size = context > 2 ? context - 2 : 1; size <= context + 2; ++size) sizes.push_back(size);
  return sizes;
}

TEST_CASE("Contexts of 1 to 40 stop exactly when they are full", "[api][context]") {
  const Engine engine("cpu");
  const Model model(engine, uniform_llama());
  for (uint32_t context = 1; context <= 40; ++context)
    for (const uint32_t prompt : around(context)) {
      CAPTURE(context, prompt);
      const Session session(model, session_options(context, 8));
      const Tokens tokens(prompt, 5);
      size_t done = 99;
      const Outcome fed =
          outcome([&](mote_error* e) { return mote_feed(session, tokens.data(), tokens.size(), &done, e); });
      if (prompt > context) {
        CHECK(fed.status == MOTE_CONTEXT_FULL);
        CHECK(contains(fed.sentence, std::to_string(prompt) + " tokens"));
        CHECK(contains(fed.sentence, "context of " + std::to_string(context)));
        CHECK(done == 0);
        CHECK(history(session).empty());
        continue;
      }
      REQUIRE(fed.status == MOTE_OK);
      CHECK(generate(session, 100).size() == context - prompt);
      // Full: nothing changes, however often one asks.
      int32_t token = 7;
      const Outcome full = outcome([&](mote_error* e) { return mote_next(session, &token, e); });
      CHECK(full.status == MOTE_CONTEXT_FULL);
      CHECK(contains(full.sentence, "all " + std::to_string(context) + " positions"));
      CHECK(history(session).size() == context);
      CHECK(mote_feed(session, tokens.data(), 1, &done, nullptr) == MOTE_CONTEXT_FULL);
      mote_text text{};
      text.struct_bytes = sizeof text;
      CHECK(mote_text_next(session, &text, nullptr) == MOTE_OK);
      CHECK(text.finish == MOTE_FINISH_CONTEXT_FULL);
      CHECK(text.token == -1);
      CHECK(mote_text_next(session, &text, nullptr) == MOTE_WRONG_STATE);
      CHECK(mote_rewind(session, context - 1, nullptr) == MOTE_OK);
      if (context > 1) CHECK(generate(session, 100).size() == 1);
    }
}

TEST_CASE("Contexts of 1 to 40 slide on for as long as one asks", "[api][context]") {
  const Engine engine("cpu");
  const Model model(engine, uniform_llama());
  for (uint32_t context = 1; context <= 40; ++context)
    for (const uint32_t keep : {0u, 1u, context / 2, context - 1}) {
      if (keep >= context) continue;
      for (const uint32_t prompt : around(context)) {
        CAPTURE(context, keep, prompt);
        const Session session(model, sliding(context, keep));
        Tokens tokens(prompt);
        for (uint32_t i = 0; i < prompt; ++i) tokens[i] = static_cast<int32_t>(100 + i);
        size_t done = 99;
        const mote_status fed = mote_feed(session, tokens.data(), tokens.size(), &done, nullptr);
        if (prompt > context) {
          CHECK(fed == MOTE_CONTEXT_FULL);
          CHECK(done == 0);
          CHECK(history(session).empty());
          continue;
        }
        REQUIRE(fed == MOTE_OK);
        const size_t wanted = 3 * context + 10;
        REQUIRE(generate(session, wanted).size() == wanted);
        CHECK(history(session).size() <= context + 1);
        const Tokens kept = history(session);
        for (uint32_t i = 0; i < keep && i < prompt; ++i) REQUIRE(kept[i] == tokens[i]);
      }
    }
}

TEST_CASE("A slide drops half of what may go, rounded up, the oldest first", "[api][context]") {
  const Engine engine("cpu");
  const Model model(engine, uniform_llama());
  const Session session(model, sliding(10, 3));
  Tokens tokens;
  for (int32_t i = 0; i < 10; ++i) tokens.push_back(10 + i);
  feed(session, tokens);
  feed(session, {50});   // 7 may go, 4 do
  CHECK(history(session) == Tokens{10, 11, 12, 17, 18, 19, 50});
  const int32_t sampled = next(session);
  CHECK(history(session).size() == 8);
  CHECK(history(session).back() == sampled);
}

TEST_CASE("More than can ever fit beside what is kept is refused by a sliding session too", "[api][context]") {
  const Engine engine("cpu");
  const Model model(engine, uniform_llama());
  const Session session(model, sliding(10, 4));
  feed(session, Tokens(10, 5));
  const Tokens seven(7, 6);
  size_t done = 99;
  const Outcome refused =
      outcome([&](mote_error* e) { return mote_feed(session, seven.data(), seven.size(), &done, e); });
  CHECK(refused.status == MOTE_CONTEXT_FULL);
  CHECK(contains(refused.sentence, "7 tokens"));
  CHECK(contains(refused.sentence, "4 that stay"));
  CHECK(done == 0);
  CHECK(history(session) == Tokens(10, 5));
  feed(session, Tokens(6, 6));
  CHECK(history(session) == Tokens{5, 5, 5, 5, 6, 6, 6, 6, 6, 6});
}

TEST_CASE("A context beyond the trained length is allowed, the default stays within it", "[api][context]") {
  const Engine engine("cpu");
  const Model model(engine, toy_llama({.n_layers = 1, .context = 24}));
  const Session by_default(model, session_options());
  CHECK(mote_feed(by_default, Tokens(25, 1).data(), 25, nullptr, nullptr) == MOTE_CONTEXT_FULL);
  CHECK(mote_feed(by_default, Tokens(24, 1).data(), 24, nullptr, nullptr) == MOTE_OK);
  const Session longer(model, session_options(60, 8));
  CHECK(mote_feed(longer, Tokens(60, 1).data(), 60, nullptr, nullptr) == MOTE_OK);
  CHECK(step(longer).size() == 320);
}

}   // namespace
}   // namespace mote::test
