// The text of an answer: whole characters, stop strings honoured, one reason for its end.
#include <catch2/catch_test_macros.hpp>

#include "tests/api/scripted_model.h"

namespace mote::test {
namespace {

mote_session_options with_stops(const std::vector<const char*>& stops) {
  mote_session_options options = session_options(64, 16);
  options.stops = stops.data();
  options.n_stops = stops.size();
  return options;
}

Answer say(std::string_view text, const std::vector<const char*>& stops, size_t most = 60, int32_t otherwise = kImEnd) {
  const Engine engine("cpu");
  const Model model(engine, saying_llama(text, otherwise));
  const Session session(model, with_stops(stops));
  feed(session, {static_cast<uint8_t>(text[0])});
  return answer(session, most);
}

TEST_CASE("An answer ends at the end token, whose text is not shown", "[api][answer]") {
  const Answer said = say("?abcdef", {});
  CHECK(said.text == "abcdef");
  CHECK(said.finish == MOTE_FINISH_END_TOKEN);
  CHECK(said.tokens.back() == kImEnd);
  CHECK(said.tokens.size() == 7);
}

TEST_CASE("The end of text token ends an answer too", "[api][answer]") {
  CHECK(say("?abc", {}, 60, kEndOfText).finish == MOTE_FINISH_END_TOKEN);
}

TEST_CASE("A stop string over several tokens ends the answer before it", "[api][answer]") {
  const Answer said = say("?abSTOcdP", {"STO"});
  CHECK(said.text == "ab");
  CHECK(said.finish == MOTE_FINISH_STOP_STRING);
  CHECK(said.tokens.size() == 5);
}

TEST_CASE("What only looked like a stop string is let go", "[api][answer]") {
  CHECK(say("?abSTcd", {"STOP"}).text == "abSTcd");
  // Held when the end token comes.
  const Answer held = say("?abSTO", {"STOP"});
  CHECK(held.text == "abSTO");
  CHECK(held.finish == MOTE_FINISH_END_TOKEN);
}

TEST_CASE("The earliest of several stop strings wins", "[api][answer]") {
  CHECK(say("?abcdefg", {"ef", "cd", "g"}).text == "ab");
  CHECK(say("?abcdefg", {"cdefX", "de"}).text == "abc");
  CHECK(say("?abcdefg", {"?", "zz"}).text == "abcdefg");   // the prompt is not searched
}

TEST_CASE("Characters come whole, an unfinished one at the end becomes U+FFFD", "[api][answer]") {
  const Engine engine("cpu");
  const Model model(engine, saying_llama("?a\xc3\xa9\xe2\x82\xacz"));   // a, e acute, euro, z
  const Session session(model, session_options(64, 16));
  feed(session, {'?'});
  std::vector<std::string> pieces;
  mote_text text{};
  text.struct_bytes = sizeof text;
  while (text.finish == MOTE_FINISH_NONE) {
    REQUIRE(mote_text_next(session, &text, nullptr) == MOTE_OK);
    pieces.emplace_back(text.bytes, text.n_bytes);
  }
  CHECK(pieces == std::vector<std::string>{"a", "", "\xc3\xa9", "", "", "\xe2\x82\xac", "z", ""});
  REQUIRE(mote_rewind(session, 1, nullptr) == MOTE_OK);
  const Answer cut = answer(session, 2);
  CHECK(cut.text == "a\xef\xbf\xbd");
  CHECK(cut.finish == MOTE_FINISH_NONE);
}

TEST_CASE("A flush lets go what a stop string held back", "[api][answer]") {
  const Answer cut = say("?abSTOP", {"STOPX"}, 4);
  CHECK(cut.text == "abST");
  CHECK(cut.finish == MOTE_FINISH_NONE);
}

TEST_CASE("After its end an answer says nothing more until something is fed", "[api][answer]") {
  const Engine engine("cpu");
  const Model model(engine, saying_llama("?abc"));
  const Session session(model, session_options(64, 16));
  feed(session, {'?'});
  CHECK(answer(session, 60).text == "abc");
  mote_text text{};
  text.struct_bytes = sizeof text;
  const Outcome ended = outcome([&](mote_error* e) { return mote_text_next(session, &text, e); });
  CHECK(ended.status == MOTE_WRONG_STATE);
  CHECK(contains(ended.sentence, "feed"));
  CHECK(text.n_bytes == 0);
  CHECK(mote_text_flush(session, &text, nullptr) == MOTE_OK);
  CHECK(text.n_bytes == 0);
  CHECK(text.finish == MOTE_FINISH_END_TOKEN);
  feed(session, {'?'});
  CHECK(answer(session, 60).text == "abc");
}

TEST_CASE("A call that is refused leaves the text as it was", "[api][answer]") {
  const Engine engine("reference");
  const Model model(engine, saying_llama("abcxy!"));
  const char* stops[] = {"cxyz"};
  mote_session_options options = session_options(12, 4);
  options.stops = stops, options.n_stops = 1;
  const Session session(model, options);
  const auto refuse_all = [&] {
    const Tokens bad = {1, -1}, many(20, 'a');
    size_t done = 0;
    const auto sink = [](void*, size_t, size_t, const float*, size_t) -> int32_t { return 0; };
    CHECK(mote_feed(session, bad.data(), 2, &done, nullptr) == MOTE_INVALID_ARGUMENT);
    CHECK(mote_feed(session, many.data(), 20, &done, nullptr) == MOTE_CONTEXT_FULL);
    CHECK(mote_evaluate(session, bad.data(), 2, sink, nullptr, &done, nullptr) == MOTE_INVALID_ARGUMENT);
    CHECK(mote_evaluate(session, many.data(), 20, sink, nullptr, &done, nullptr) == MOTE_CONTEXT_FULL);
    CHECK(mote_prompt(session, bad.data(), 2, &done, &done, nullptr) == MOTE_INVALID_ARGUMENT);
    CHECK(mote_prompt(session, many.data(), 20, &done, &done, nullptr) == MOTE_CONTEXT_FULL);
    CHECK(mote_prompt(session, bad.data(), 0, &done, &done, nullptr) == MOTE_INVALID_ARGUMENT);
    CHECK(mote_rewind(session, 20, nullptr) == MOTE_INVALID_ARGUMENT);
  };
  mote_text text{};
  text.struct_bytes = sizeof text;
  std::string said;
  feed(session, {'a'});
  while (text.finish == MOTE_FINISH_NONE) {
    refuse_all();   // also while "cxy" is held back
    REQUIRE(mote_text_next(session, &text, nullptr) == MOTE_OK);
    said.append(text.bytes, text.n_bytes);
  }
  CHECK(said == "bcxy!");
  CHECK(text.finish == MOTE_FINISH_END_TOKEN);
  refuse_all();
  CHECK(mote_text_next(session, &text, nullptr) == MOTE_WRONG_STATE);   // it has ended all the same
}

TEST_CASE("A full context ends an answer with its reason and what was held", "[api][answer]") {
  const Engine engine("cpu");
  const Model model(engine, saying_llama("?abSTcd"));
  std::vector<const char*> stops = {"STOP"};
  mote_session_options options = with_stops(stops);
  options.context = 5;
  const Session session(model, options);
  feed(session, {'?'});
  const Answer said = answer(session, 60);
  CHECK(said.text == "abST");
  CHECK(said.finish == MOTE_FINISH_CONTEXT_FULL);
  CHECK(said.tokens.size() == 4);
}

TEST_CASE("Weights that are not numbers end in a status, not in a text", "[api][answer]") {
  for (const char* tensor :
       {"blk.0.attn_q.weight", "blk.0.attn_output.weight", "output_norm.weight", "output.weight"}) {
    for (const char* backend : {"cpu", "reference"}) {
      CAPTURE(tensor, backend);
      GgufBuilder file = toy_llama({.n_layers = 1});
      for (size_t i = 0; i + 4 <= file.tensor(tensor).data.size(); i += 4) {
        constexpr uint8_t kNan[] = {0, 0, 0xc0, 0x7f};
        for (size_t j = 0; j < 4; ++j) file.tensor(tensor).data[i + j] = kNan[j];
      }
      const Engine engine(backend);
      const Model model(engine, file);
      const Session session(model, session_options(16, 4));
      feed(session, {1, 2, 3});
      int32_t token = 5;
      const Outcome said = outcome([&](mote_error* e) { return mote_next(session, &token, e); });
      CHECK(said.status == MOTE_NOT_FINITE);
      CHECK(history(session) == Tokens{1, 2, 3});
      mote_text text{};
      text.struct_bytes = sizeof text;
      CHECK(mote_text_next(session, &text, nullptr) == MOTE_NOT_FINITE);
      CHECK(text.n_bytes == 0);
    }
  }
}

}   // namespace
}   // namespace mote::test
