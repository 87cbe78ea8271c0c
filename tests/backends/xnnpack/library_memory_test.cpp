// What XNNPACK takes of the heap, by its own allocator: what the quote says it will, nothing while a session runs, and
// what happens when it gets nothing.
#include <xnnpack.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>

#include "core/mote_dev.h"
#include "tests/api/kit.h"

namespace mote::test {
namespace {

// Counts what is held, and every call.
struct Taken {
  std::mutex mutex;
  std::map<void*, size_t> blocks;
  uint64_t held_bytes = 0, calls = 0;
  uint64_t given_until_refused = UINT64_MAX;   // one allocation is refused, after so many

  template <class Allocate>
  void* keep(size_t bytes, Allocate allocate) {
    const std::lock_guard lock(mutex);
    ++calls;
    if (given_until_refused != UINT64_MAX && given_until_refused-- == 0) return nullptr;
    void* at = allocate();
    if (at != nullptr) blocks[at] = bytes, held_bytes += bytes;
    return at;
  }
  void let_go(void* at) {
    const std::lock_guard lock(mutex);
    ++calls;
    if (const auto found = blocks.find(at); found != blocks.end()) held_bytes -= found->second, blocks.erase(found);
    std::free(at);
  }
  uint64_t held() {
    const std::lock_guard lock(mutex);
    return held_bytes;
  }
  uint64_t calls_so_far() {
    const std::lock_guard lock(mutex);
    return calls;
  }
};
Taken& of(void* self) { return *static_cast<Taken*>(self); }

// XNNPACK keeps the first allocator of the process: this one, before any engine opens.
Taken& taken() {
  static Taken counts;
  static const xnn_allocator allocator = {
      &counts,
      [](void* self, size_t bytes) { return of(self).keep(bytes, [=] { return std::malloc(bytes); }); },
      [](void* self, void* at, size_t bytes) {
        if (at != nullptr) of(self).let_go(at);
        return of(self).keep(bytes, [=] { return std::malloc(bytes); });
      },
      [](void* self, void* at) {
        if (at != nullptr) of(self).let_go(at);
      },
      [](void* self, size_t alignment, size_t bytes) {
        const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
        return of(self).keep(rounded, [=] { return std::aligned_alloc(alignment, rounded); });
      },
      [](void* self, void* at) {
        if (at != nullptr) of(self).let_go(at);
      }};
  static const xnn_status status = xnn_initialize(&allocator);
  if (status != xnn_status_success) throw std::runtime_error("XNNPACK does not run here");
  return counts;
}

TEST_CASE("XNNPACK takes what the quotes say and gives it back", "[xnnpack][memory]") {
  Taken& counts = taken();
  const uint32_t threads = GENERATE(1u, 3u);
  const Format format = GENERATE(Format::f32, Format::q4_0);
  const uint64_t before = counts.held();
  {
    const Engine engine("xnnpack", threads);
    const Bytes bytes = toy_llama({.matrices = format, .embedding = format}).bytes();
    const ModelQuotes quotes = quote_model(engine, bytes, session_options(64, 16));
    CHECK(counts.held() == before);
    const Model model(engine, bytes);
    CHECK(quotes.model.library_bytes == 0);
    CHECK(counts.held() == before);   // what it packed lies in the model's memory
    for (int n = 1; n <= 2; ++n) {
      const Session session(model, session_options(64, 16));
      const uint64_t held = counts.held() - before, expected = quotes.session.library_bytes;
      CAPTURE(threads, held, expected);
      CHECK(held > 0);
      CHECK(held <= expected);
      CHECK(held * 5 >= expected * 4);
      const Session second(model, session_options(64, 16));
      CHECK(counts.held() - before == 2 * held);
    }
    CHECK(counts.held() == before);
  }
  CHECK(counts.held() == before);
}

TEST_CASE("XNNPACK takes nothing while a session runs", "[xnnpack][memory]") {
  Taken& counts = taken();
  const Engine engine("xnnpack", 2);
  const Format format = GENERATE(Format::f32, Format::q8_0);
  const int32_t kv_type = GENERATE(MOTE_KV_F16, MOTE_KV_F32);
  const Model model(engine, toy_llama({.matrices = format}));
  mote_session_options options = session_options(64, 16);
  options.kv_type = kv_type;
  const Session session(model, options);
  const uint64_t before = counts.calls_so_far();
  logits_after(session, some_tokens(40, 300));
  generate(session, 10);
  CHECK(mote_rewind(session, 7, nullptr) == MOTE_OK);
  logits_after(session, some_tokens(9, 300));
  CHECK(counts.calls_so_far() == before);
}

TEST_CASE("Without memory for XNNPACK a quote says so, and what opens is opened by the next backend",
          "[xnnpack][memory]") {
  Taken& counts = taken();
  const Format format = GENERATE(Format::f32, Format::q4_0);
  const Bytes bytes = toy_llama({.matrices = format, .embedding = format}).bytes();
  const Tokens tokens = some_tokens(20, 300);
  const mote_session_options shape = session_options(64, 16);
  const mote_source source = source_of(bytes);
  const Engine engine("xnnpack,reference"), plain_engine("reference");
  const Model healthy(engine, bytes), plain(plain_engine, bytes);
  const std::vector<float> expected = logits_after(Session(plain, shape), tokens);
  const uint64_t before = counts.held();
  size_t n_quotes = 0, n_models = 0, n_sessions = 0, n_refused = 0;
  // call(error) with each allocation of XNNPACK's refused in turn: what it says, to `judge`.
  const auto with_each_refused = [&](const std::function<mote_status(mote_error*)>& call,
                                     const std::function<void(const Outcome&)>& judge) {
    for (uint64_t at = 0;; ++at) {
      counts.given_until_refused = at;
      const Outcome said = outcome(call);
      const bool was_refused = counts.given_until_refused == UINT64_MAX;
      counts.given_until_refused = UINT64_MAX;
      CAPTURE(at, said.sentence);
      if (said.status != MOTE_OK) {   // while it measured
        ++n_refused;
        REQUIRE(said.status == MOTE_OUT_OF_MEMORY);
        REQUIRE(contains(said.sentence, "XNNPACK's "));
      }
      judge(said);
      REQUIRE(counts.held() == before);
      if (!was_refused) return;
    }
  };
  mote_quote quote{}, session_quote{};
  quote.struct_bytes = session_quote.struct_bytes = sizeof quote;
  with_each_refused(
      [&](mote_error* e) { return mote_model_quote(engine, &source, nullptr, &shape, &quote, &session_quote, e); },
      [&](const Outcome& said) { n_quotes += said.status != MOTE_OK; });
  mote_model* model = nullptr;
  with_each_refused([&](mote_error* e) { return mote_model_open(engine, &source, nullptr, {}, &model, e); },
                    [&](const Outcome& said) {
                      if (said.status != MOTE_OK) return;
                      mote_dev_step step{};
                      REQUIRE(mote_dev_get_step(model, 0, &step, nullptr) == MOTE_OK);
                      n_models += std::string(step.backend) == "reference";
                      CHECK(mote_model_close(model, nullptr) == MOTE_OK);
                    });
  mote_session* session = nullptr;
  with_each_refused([&](mote_error* e) { return mote_session_open(healthy, &shape, {}, &session, e); },
                    [&](const Outcome& said) {
                      if (said.status != MOTE_OK) return;
                      if (mote_dev_session_fallbacks(session) != 0) {
                        ++n_sessions;
                        CHECK(bit_difference(logits_after(session, tokens), expected) == "");
                      }
                      CHECK(mote_session_close(session, nullptr) == MOTE_OK);
                    });
  CHECK(n_quotes > 10);
  CHECK(n_models > 10);
  CHECK(n_sessions > 10);
  CHECK(n_refused > n_quotes);
}

}   // namespace
}   // namespace mote::test
