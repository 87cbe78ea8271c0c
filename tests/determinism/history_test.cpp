// However a sequence came to its tokens, its logits are those of a fresh session that was fed with them, bit for bit.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/api/kit.h"
#include "tests/support/emulated.h"
#include "tests/support/sanitized.h"
#include "tests/support/toy_weights.h"

namespace mote::test {
namespace {

Tokens slice(const Tokens& tokens, size_t first, size_t end) {
  return Tokens(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.begin() + static_cast<std::ptrdiff_t>(end));
}

mote_session_options with_kv(mote_session_options options, int32_t kv_type) {
  options.kv_type = kv_type;
  return options;
}

std::vector<float> fresh(mote_model* model, const mote_session_options& options, const Tokens& tokens) {
  const Session session(model, options);
  return logits_after(session, tokens);
}

TEST_CASE("A feed cut anywhere gives the bits of one feed", "[determinism][history]") {
  const ToyModel toy = GENERATE(from_range(kToyModels));
  const char* backend = GENERATE(from_range(exact_backends()));
  const Engine engine(with_cpu(backend).c_str(), 2);
  const Model model(engine, toy(kSmallToy));
  const Tokens tokens = some_tokens(70, 300);
  const mote_session_options options = session_options(80, 16);
  const std::vector<float> whole = fresh(model, options, tokens);
  Random random(5);
  for (int cut = 0; cut < 20; ++cut) {
    const Session session(model, options);
    std::string sizes;
    for (size_t at = 0; at < tokens.size();) {
      const size_t n = std::min<size_t>(1 + random.below(30), tokens.size() - at);
      feed(session, slice(tokens, at, at + n));
      if (random.below(3) == 0) step(session);
      sizes += std::to_string(n) + " ";
      at += n;
    }
    CAPTURE(backend, sizes);
    CHECK(bit_difference(step(session), whole) == "");
  }
}

TEST_CASE("Evaluating gives the bits of stepping token by token", "[determinism][history]") {
  const ToyModel toy = GENERATE(from_range(kToyModels));
  const char* backend = GENERATE(from_range(exact_backends()));
  const int32_t kv_type = GENERATE(MOTE_KV_F16, MOTE_KV_F32);
  const Engine engine(with_cpu(backend).c_str(), 2);
  const Model model(engine, toy(kSmallToy));
  const Tokens tokens = some_tokens(40, 300);
  std::vector<float> stepped;
  {
    const Session session(model, with_kv(session_options(64, 16), kv_type));
    for (const int32_t token : tokens) {
      const std::vector<float> row = logits_after(session, {token});
      stepped.insert(stepped.end(), row.begin(), row.end());
    }
  }
  for (const uint32_t rows : {1u, 3u, 16u}) {
    mote_session_options options = with_kv(session_options(64, 16), kv_type);
    options.max_output_rows = rows;
    const Session session(model, options);
    struct Received {
      std::vector<float> logits;
      size_t next = 0;
      bool in_order = true;
    } received;
    const auto receive = [](void* user, size_t first, size_t n_rows, const float* logits, size_t n_vocab) -> int32_t {
      auto& to = *static_cast<Received*>(user);
      to.in_order = to.in_order && first == to.next;
      to.next = first + n_rows;
      to.logits.insert(to.logits.end(), logits, logits + n_rows * n_vocab);
      return 0;
    };
    size_t done = 0;
    const Outcome said = outcome([&](mote_error* error) {
      return mote_evaluate(session, tokens.data(), tokens.size(), receive, &received, &done, error);
    });
    CAPTURE(backend, rows);
    CHECK(said.sentence == "untouched");
    CHECK(done == tokens.size());
    CHECK(received.in_order);
    CHECK(bit_difference(received.logits, stepped) == "");
    // The last token counts as stepped: its logits are the session's.
    const std::vector<float> last = step(session);
    CHECK(bit_difference(
              last, std::vector<float>(stepped.end() - static_cast<std::ptrdiff_t>(last.size()), stepped.end())) == "");
  }
  // The last logits alone, whatever was fed before; a prompt brings them too. No step is needed for either.
  const size_t n_vocab = stepped.size() / tokens.size();
  const std::vector<float> last(stepped.end() - static_cast<std::ptrdiff_t>(n_vocab), stepped.end());
  for (const size_t fed : {size_t{0}, size_t{1}, size_t{17}, size_t{39}, size_t{40}}) {
    const Session session(model, with_kv(session_options(64, 16), kv_type));
    size_t done = 0, reused = 0;
    const int32_t* const rest = tokens.data() + fed;
    REQUIRE(mote_feed(session, tokens.data(), fed, nullptr, nullptr) == MOTE_OK);
    if (fed < tokens.size())
      REQUIRE(mote_evaluate(session, rest, tokens.size() - fed, nullptr, nullptr, &done, nullptr) == MOTE_OK);
    else
      REQUIRE(mote_prompt(session, tokens.data(), tokens.size(), &reused, &done, nullptr) == MOTE_OK);
    CAPTURE(backend, fed, reused);
    CHECK(done + (fed < tokens.size() ? fed : 0) == tokens.size());
    const float* logits = nullptr;
    size_t n = 0;
    REQUIRE(mote_logits(session, &logits, &n, nullptr) == MOTE_OK);
    CHECK(bit_difference({logits, logits + n}, last) == "");
  }
}

TEST_CASE("A prompt that shares its beginning gives the bits of a cold one", "[determinism][history]") {
  const ToyModel toy = GENERATE(from_range(kToyModels));
  const char* backend = GENERATE(from_range(exact_backends()));
  const Engine engine(with_cpu(backend).c_str(), 2);
  const Model model(engine, toy(kSmallToy));
  const mote_session_options options = session_options(96, 16);
  const Session session(model, options);
  Random random(9);
  Tokens before;
  for (int round = 0; round < 25; ++round) {
    const size_t shared = before.empty() ? 0 : random.below(static_cast<uint32_t>(before.size()) + 1);
    Tokens tokens = slice(before, 0, shared);
    const Tokens further =
        some_tokens(random.below(30) + (shared == 0 ? 1 : 0), 300, 100 + static_cast<uint64_t>(round));
    tokens.insert(tokens.end(), further.begin(), further.end());
    if (tokens.size() > 90) tokens.resize(90);
    size_t reused = 0, done = 0;
    const Outcome said = outcome(
        [&](mote_error* error) { return mote_prompt(session, tokens.data(), tokens.size(), &reused, &done, error); });
    CAPTURE(backend, round, shared, tokens.size());
    REQUIRE(said.status == MOTE_OK);
    CHECK(done == tokens.size());
    CHECK(reused < tokens.size());
    CHECK(reused <= shared + 1);
    CHECK(bit_difference(step(session), fresh(model, options, tokens)) == "");
    // Generated tokens may be part of what is shared the next time.
    for (uint32_t i = random.below(4); i > 0 && history(session).size() < 95; --i) next(session);
    before = history(session);
  }
}

TEST_CASE("After a slide the logits are those of a fresh session with the kept tokens", "[determinism][slide]") {
  const ToyModel toy = GENERATE(from_range(kToyModels));
  const char* backend = GENERATE(from_range(exact_backends()));
  const int32_t kv_type = GENERATE(MOTE_KV_F16, MOTE_KV_F32);
  const Engine engine(with_cpu(backend).c_str());
  const Model model(engine, toy(kSmallToy));
  mote_session_options options = with_kv(session_options(32, 8), kv_type);
  options.on_full = MOTE_ON_FULL_SLIDE;
  options.keep = GENERATE(0u, 5u, 31u);
  const Session session(model, options);
  feed(session, some_tokens(20, 300));
  size_t n_slides = 0, n_wrong = 0, n_tokens = 20;
  std::string first_fault;
  const size_t slides = is_emulated() ? 6 : kSanitized ? 10 : 30;
  while (n_slides < slides) {
    const size_t size_before = history(session).size();
    next(session);
    const std::vector<float> logits = step(session);
    if (history(session).size() <= size_before) ++n_slides;
    if (history(session).size() > 32) ++n_wrong;
    const std::string fault = bit_difference(logits, fresh(model, options, history(session)));
    if (!fault.empty() && n_wrong++ == 0) first_fault = fault;
    REQUIRE(++n_tokens < 2000);
  }
  CAPTURE(backend, options.keep);
  CHECK(first_fault == "");
  CHECK(n_wrong == 0);
  const Tokens kept = history(session);
  const size_t n_first = std::min<size_t>(options.keep, 20);
  CHECK(slice(kept, 0, n_first) == slice(some_tokens(20, 300), 0, n_first));
}

TEST_CASE("A thousand slides leave the bits of a fresh session", "[determinism][slide]") {
  struct Kind {
    uint32_t n_layers;
    const char* scaling;
    int32_t kv_type;
    ToyModel toy;
  };
  const Kind kind = GENERATE(Kind{1, "linear", MOTE_KV_F16, toy_llama}, Kind{3, "yarn", MOTE_KV_F32, toy_llama},
                             Kind{3, "", MOTE_KV_F16, toy_llama}, Kind{3, "", MOTE_KV_F16, toy_phi3});
  const Engine engine("cpu");
  ToyOptions toy = kSmallToy;
  toy.n_layers = kind.n_layers;
  toy.rope_scaling = kind.scaling;
  const Model model(engine, kind.toy(toy));
  mote_session_options options = with_kv(session_options(32, 32), kind.kv_type);
  options.on_full = MOTE_ON_FULL_SLIDE;
  options.keep = 4;
  const Session session(model, options);
  feed(session, some_tokens(32, 300));
  const size_t slides = is_emulated() ? 100 : 1000;
  size_t n_slides = 0;
  for (size_t size = history(session).size(); n_slides < slides;) {
    next(session);
    step(session);
    const size_t now = history(session).size();
    if (now <= size) ++n_slides;
    size = now;
  }
  CHECK(bit_difference(step(session), fresh(model, options, history(session))) == "");
}

TEST_CASE("A feed longer than the room slides as often as it must", "[determinism][slide]") {
  const ToyModel toy = GENERATE(from_range(kToyModels));
  const Engine engine("cpu");
  const Model model(engine, toy(kSmallToy));
  mote_session_options options = session_options(32, 8);
  options.on_full = MOTE_ON_FULL_SLIDE;
  options.keep = 3;
  for (size_t fed = 1; fed <= 29; ++fed) {
    const Session session(model, options);
    feed(session, some_tokens(32, 300));
    step(session);
    feed(session, some_tokens(fed, 300, 2));
    CAPTURE(fed);
    CHECK(history(session).size() <= 32);
    CHECK(bit_difference(step(session), fresh(model, options, history(session))) == "");
  }
}

TEST_CASE("Rewinding anywhere and feeding again gives the bits of a fresh session", "[determinism][history]") {
  const ToyModel toy = GENERATE(from_range(kToyModels));
  const char* backend = GENERATE(from_range(exact_backends()));
  const Engine engine(with_cpu(backend).c_str(), 2);
  const Model model(engine, toy(kSmallToy));
  const mote_session_options options = session_options(140, 16);
  const Tokens tokens = some_tokens(130, 300);
  const std::vector<float> whole = fresh(model, options, tokens);
  const Session session(model, options);
  feed(session, tokens);
  for (const size_t to : {0u, 1u, 2u, 15u, 16u, 17u, 63u, 64u, 65u, 127u, 128u, 129u, 130u}) {
    const Outcome said = outcome([&](mote_error* error) { return mote_rewind(session, to, error); });
    CAPTURE(backend, to);
    REQUIRE(said.status == MOTE_OK);
    if (to != 0) CHECK(bit_difference(step(session), fresh(model, options, slice(tokens, 0, to))) == "");
    feed(session, slice(tokens, to, tokens.size()));
    CHECK(bit_difference(step(session), whole) == "");
  }
}

}   // namespace
}   // namespace mote::test
