// What XNNPACK takes of the heap, by its own allocator: what the quote says it will, and nothing while a session runs.
#include <xnnpack.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdlib>
#include <map>
#include <mutex>

#include "tests/api/kit.h"

namespace mote::test {
namespace {

// Counts what is held, and every call.
struct Taken {
  std::mutex mutex;
  std::map<void*, size_t> blocks;
  uint64_t held_bytes = 0, calls = 0;

  void* keep(void* at, size_t bytes) {
    const std::lock_guard lock(mutex);
    ++calls;
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
      [](void* self, size_t bytes) { return of(self).keep(std::malloc(bytes), bytes); },
      [](void* self, void* at, size_t bytes) {
        if (at != nullptr) of(self).let_go(at);
        return of(self).keep(std::malloc(bytes), bytes);
      },
      [](void* self, void* at) {
        if (at != nullptr) of(self).let_go(at);
      },
      [](void* self, size_t alignment, size_t bytes) {
        const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
        return of(self).keep(std::aligned_alloc(alignment, rounded), rounded);
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

}   // namespace
}   // namespace mote::test
