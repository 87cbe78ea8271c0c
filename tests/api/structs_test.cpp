// Option structs of any age: shorter ones mean the default in what they lack, longer ones are read as far as known.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstring>

#include "tests/api/kit.h"

namespace mote::test {
namespace {

TEST_CASE("A struct whose size is 0, tiny or absurd is refused", "[api][structs]") {
  const Engine engine("reference");
  const Bytes bytes = toy_llama().bytes();
  const Model model(engine, bytes);
  const Session session_open(model, session_options(16, 4));
  feed(session_open, {1, 2});
  for (const size_t size : {size_t{0}, sizeof(size_t) - 1, size_t{4097}, SIZE_MAX}) {
    CAPTURE(size);
    mote_engine_options engine_with = engine_options("reference");
    mote_source source = source_of(bytes);
    mote_model_options model_with{};
    mote_session_options session_with = session_options(16, 4);
    mote_quote quote{};
    mote_model_info info{};
    engine_with.struct_bytes = source.struct_bytes = model_with.struct_bytes = session_with.struct_bytes = size;
    quote.struct_bytes = info.struct_bytes = size;
    const mote_source good_source = source_of(bytes);
    mote_engine* another = nullptr;
    mote_model* opened = nullptr;
    mote_session* session = nullptr;
    const auto check = [&](const char* what, const Outcome& said) {
      CAPTURE(what, said.sentence);
      CHECK(said.status == MOTE_INVALID_ARGUMENT);
      CHECK(contains(said.sentence, "struct_bytes is " + std::to_string(size)));
    };
    check("engine", outcome([&](mote_error* e) { return mote_engine_open(&engine_with, {}, &another, e); }));
    check("source", outcome([&](mote_error* e) { return mote_model_open(engine, &source, nullptr, {}, &opened, e); }));
    check("model",
          outcome([&](mote_error* e) { return mote_model_open(engine, &good_source, &model_with, {}, &opened, e); }));
    check("session", outcome([&](mote_error* e) { return mote_session_open(model, &session_with, {}, &session, e); }));
    check("quote", outcome([&](mote_error* e) { return mote_session_quote(model, nullptr, &quote, e); }));
    check("engine's quote", outcome([&](mote_error* e) { return mote_engine_quote(nullptr, &quote, e); }));
    check("info", outcome([&](mote_error* e) { return mote_model_get_info(model, &info, e); }));
    mote_metadata entry{};
    mote_tensor tensor{};
    mote_text text{};
    entry.struct_bytes = tensor.struct_bytes = text.struct_bytes = size;
    check("entry", outcome([&](mote_error* e) { return mote_model_metadata(model, 0, &entry, e); }));
    check("tensor", outcome([&](mote_error* e) { return mote_model_tensor(model, 0, &tensor, e); }));
    check("text", outcome([&](mote_error* e) { return mote_text_next(session_open, &text, e); }));
    check("rest", outcome([&](mote_error* e) { return mote_text_flush(session_open, &text, e); }));
    CHECK(history(session_open) == Tokens{1, 2});   // nothing was sampled into nowhere
  }
}

TEST_CASE("Only the size of a struct means all defaults", "[api][structs]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama());
  mote_session_options only_size = session_options(7, 3);
  only_size.struct_bytes = sizeof(size_t);   // what follows is not there
  CHECK(quote_session(model, only_size).total_bytes == quote_session(model, session_options()).total_bytes);
  mote_session_options only_context = session_options(7, 3);
  only_context.struct_bytes = offsetof(mote_session_options, max_batch);
  CHECK(quote_session(model, only_context).total_bytes == quote_session(model, session_options(7, 0)).total_bytes);
}

TEST_CASE("A newer, longer struct is read as far as this version knows it", "[api][structs]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama());
  struct Newer {
    mote_session_options known;
    unsigned char further[64];
  } newer{session_options(24, 8), {}};
  std::memset(newer.further, 0xEE, sizeof newer.further);
  newer.known.struct_bytes = sizeof newer;
  CHECK(quote_session(model, newer.known).total_bytes == quote_session(model, session_options(24, 8)).total_bytes);
}

TEST_CASE("An output struct is written as far as its size says", "[api][structs]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama());
  mote_quote whole{};
  whole.struct_bytes = sizeof whole;
  REQUIRE(mote_session_quote(model, nullptr, &whole, nullptr) == MOTE_OK);
  mote_quote older;
  std::memset(&older, 0x5A, sizeof older);
  older.struct_bytes = offsetof(mote_quote, tokenizer_bytes);
  REQUIRE(mote_session_quote(model, nullptr, &older, nullptr) == MOTE_OK);
  CHECK(older.struct_bytes == offsetof(mote_quote, tokenizer_bytes));
  CHECK(older.total_bytes == whole.total_bytes);
  CHECK(older.tables_bytes == whole.tables_bytes);
  uint64_t untouched;
  std::memset(&untouched, 0x5A, sizeof untouched);
  CHECK(older.tokenizer_bytes == untouched);
  CHECK(older.library_bytes == untouched);

  mote_tensor short_tensor;
  std::memset(&short_tensor, 0x5A, sizeof short_tensor);
  short_tensor.struct_bytes = offsetof(mote_tensor, format);
  REQUIRE(mote_model_tensor(model, 0, &short_tensor, nullptr) == MOTE_OK);
  CHECK(std::string(short_tensor.name, short_tensor.name_bytes) == "token_embd.weight");
  CHECK(short_tensor.bytes == untouched);

  const Session session(model, session_options(16, 4));
  feed(session, {1, 2});
  mote_text short_text;
  std::memset(&short_text, 0x5A, sizeof short_text);
  short_text.struct_bytes = offsetof(mote_text, token);
  REQUIRE(mote_text_next(session, &short_text, nullptr) == MOTE_OK);
  CHECK(short_text.n_bytes <= 4096);
  CHECK(short_text.token == 0x5A5A5A5A);
}

TEST_CASE("Errors are written by failures alone, and no longer than their room", "[api][structs]") {
  const Engine engine("reference");
  mote_error error;
  std::memset(&error, 0x5A, sizeof error);
  mote_quote quote{};
  quote.struct_bytes = sizeof quote;
  REQUIRE(mote_engine_quote(nullptr, &quote, &error) == MOTE_OK);
  for (const char c : error.message) REQUIRE(c == 0x5A);
  struct {
    mote_error error;
    unsigned char behind[64];
  } guarded;
  std::memset(&guarded, 0x5A, sizeof guarded);
  const std::string long_path = "/nowhere/" + std::string(5000, 'x') + "\n\x01\xff";
  mote_source source{};
  source.struct_bytes = sizeof source;
  source.path = long_path.c_str();
  mote_model* model = nullptr;
  CHECK(mote_model_open(engine, &source, nullptr, {}, &model, &guarded.error) == MOTE_IO);
  CHECK(guarded.error.status == MOTE_IO);
  CHECK(strnlen(guarded.error.message, sizeof guarded.error.message) < sizeof guarded.error.message);
  for (const char* c = guarded.error.message; *c != 0; ++c) REQUIRE((*c >= ' ' && *c <= '~'));
  for (const unsigned char c : guarded.behind) REQUIRE(c == 0x5A);
}

}   // namespace
}   // namespace mote::test
