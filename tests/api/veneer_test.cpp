// mote.hpp: handles that close themselves, in any order of moves.
#include <catch2/catch_test_macros.hpp>
#include <type_traits>

#include "core/mote.hpp"
#include "tests/api/scripted_model.h"

namespace mote::test {
namespace {

static_assert(std::is_nothrow_move_constructible_v<mote::Session> && !std::is_copy_constructible_v<mote::Session>);

TEST_CASE("The C++ veneer opens, says and closes like the C calls", "[api][veneer]") {
  const Bytes bytes = saying_llama("?abcdef").bytes();
  mote::Error error;
  mote::Engine engine;
  mote::Model model;
  mote::Session session;
  REQUIRE(engine.open(engine_options("cpu", 2), &error));
  CHECK(engine.threads() == 2);
  mote_model_options with_taps{};
  with_taps.taps = MOTE_TAP_DECODER_ATTENTION;
  REQUIRE(model.open(engine, mote::Source::memory(std::as_bytes(std::span(bytes))), with_taps, &error));
  REQUIRE(session.open(model, session_options(32, 8), &error));
  CHECK(session.attention(MOTE_TAP_DECODER_ATTENTION, 0, &error).weights.empty());
  CHECK(error.status() == MOTE_WRONG_STATE);

  int32_t ids[8];
  size_t count = 0;
  REQUIRE(model.tokenize("?", 0, ids, &count, &error));
  REQUIRE(session.feed(std::span(ids, count), &error));
  CHECK(session.logits(&error).empty());
  CHECK(contains(error.message(), "no logits"));
  std::string text;
  mote_text piece{};
  piece.struct_bytes = sizeof piece;
  while (piece.finish == MOTE_FINISH_NONE) {
    REQUIRE(session.text_next(&piece, &error));
    text.append(piece.bytes, piece.n_bytes);
  }
  CHECK(text == "abcdef");
  CHECK(session.history().size() == 8);
  CHECK(model.is_end_token(session.history().back()));
  REQUIRE(session.step(&error));
  CHECK(session.logits().size() == kScriptedVocab);
  const mote::Session::Attention seen = session.attention(MOTE_TAP_DECODER_ATTENTION, 0);
  CHECK((seen.n_rows == 1 && seen.n_heads > 0 && seen.n_positions == 8));
  CHECK(seen.weights.size() == seen.n_heads * 8);
  REQUIRE(session.rewind(1, &error));
  CHECK(session.history().size() == 1);
}

TEST_CASE("The C++ veneer says why something failed, and needs no place to say it", "[api][veneer]") {
  mote::Error error;
  mote::Engine engine;
  mote::Model model;
  CHECK(!engine.open(engine_options("abacus"), &error));
  CHECK(error.status() == MOTE_INVALID_ARGUMENT);
  CHECK(contains(error.message(), "abacus"));
  CHECK(!engine);
  CHECK(!engine.open(engine_options("abacus")));
  CHECK(engine.threads() == 0);
  CHECK(!model.open(engine, mote::Source::file("/nowhere.gguf"), {}, &error));
  CHECK(contains(error.message(), "engine is NULL"));
  mote::Session session;
  CHECK(!session.open(model, {}, &error));
  CHECK(!session.step(&error));
  CHECK(contains(error.message(), "session is NULL"));
  CHECK(session.history().empty());
  mote::Error of_view;
  CHECK(session.history(&of_view).empty());
  CHECK(contains(of_view.message(), "session is NULL"));
}

TEST_CASE("An input's vectors come as spans, empty where there are none", "[api][veneer]") {
  const Bytes bytes = toy_bert({.n_layers = 1}).bytes();
  mote::Engine engine;
  mote::Model model;
  mote::Session session;
  mote::Error error;
  size_t d_model = 0;
  REQUIRE(engine.open(engine_options("cpu")));
  REQUIRE(model.open(engine, mote::Source::memory(std::as_bytes(std::span(bytes)))));
  REQUIRE(session.open(model, session_options(16, 16)));
  CHECK(session.embedding(0, &error).empty());
  CHECK(error.status() == MOTE_WRONG_STATE);
  CHECK(session.hidden(&d_model, &error).empty());
  CHECK(contains(error.message(), "nothing is encoded yet"));
  const int32_t tokens[] = {1, 2, 3};
  REQUIRE(session.encode(tokens, &error));
  CHECK(session.hidden(&d_model).size() == 3 * 64);
  CHECK(d_model == 64);
  CHECK(session.embedding().size() == 64);
}

TEST_CASE("Handles move, and what is still in use is not closed", "[api][veneer]") {
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  const mote::Source source = mote::Source::memory(std::as_bytes(std::span(bytes)));
  mote::Error error;
  mote::Engine engine;
  REQUIRE(engine.open(engine_options("cpu")));
  mote::Model first;
  REQUIRE(first.open(engine, source));
  mote::Model model = std::move(first);
  CHECK(!first);
  CHECK(model);
  CHECK(!engine.close(&error));
  CHECK(error.status() == MOTE_WRONG_STATE);
  CHECK(engine);
  mote::Session session;
  REQUIRE(session.open(model, session_options(16, 4)));
  mote_session* const handle = session.get();
  mote::Session other = std::move(session);
  CHECK(other.get() == handle);
  CHECK(!model.close());
  // Opening again closes what was open.
  REQUIRE(other.open(model, session_options(8, 4)));
  CHECK(other.close());
  CHECK(other.close());   // twice does nothing
  CHECK(model.close());
  CHECK(engine.close());
}

}   // namespace
}   // namespace mote::test
