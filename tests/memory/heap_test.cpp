// After set-up nothing of mote calls the heap, on any thread.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <memory>
#include <thread>

#include "core/mote_dev.h"
#include "examples/skeleton_backend/skeleton_backend.h"
#include "tests/memory/heap_counter.h"
#include "tests/memory/shapes.h"

namespace mote::test {
namespace {

TEST_CASE("The counter sees the heap calls of other threads", "[memory][heap][threads]") {
  std::atomic<int> phase{0};
  std::atomic<bool> runs{false};
  int* volatile kept = nullptr;
  std::thread other([&] {
    runs.store(true);
    while (phase.load() != 1) {
    }
    kept = new int(7);
    phase.store(2);
    while (phase.load() != 3) {
    }
    delete kept;
    phase.store(4);
    while (phase.load() != 5) {   // a thread that ends calls the heap too
    }
  });
  const auto go = [&](int to) {
    phase.store(to);
    while (phase.load() == to) {
    }
  };
  while (!runs.load()) {   // a thread that begins calls the heap as well
  }
  start_counting();
  go(1);
  const uint64_t after_new = stop_counting();
  start_counting();
  go(3);
  const uint64_t after_delete = stop_counting();
  phase.store(5);
  other.join();
  CHECK(after_new == 1);
  CHECK(after_delete == 1);
}

constexpr size_t kTooMany = 4096;   // more tokens than any of these contexts has room for

// Feeds, steps, samples and says; nothing here may call the heap either.
mote_status use(mote_session* session, const int32_t* tokens, size_t n) {
  size_t done = 0;
  int32_t token = 0;
  mote_text text{};
  text.struct_bytes = sizeof text;
  mote_error error{};
  const float* vector = nullptr;
  size_t d_model = 0;
  mote_status status = mote_encode(session, tokens, n < 7 ? n : 7, &error);
  if (status == MOTE_CONTEXT_FULL) status = mote_encode(session, tokens, 1, &error);   // at once, or not at all
  if (status == MOTE_OK) mote_embedding(session, 0, &vector, &d_model, &error);
  size_t n_rows = 0, n_heads = 0, n_positions = 0;
  for (const int32_t tap : {MOTE_TAP_DECODER_ATTENTION, MOTE_TAP_ENCODER_ATTENTION})   // where there is such a tap
    mote_attention(session, tap, 0, &vector, &n_rows, &n_heads, &n_positions, &error);
  if (status != MOTE_UNSUPPORTED && mote_feed(session, tokens, 0, &done, &error) == MOTE_UNSUPPORTED) return status;
  status = mote_feed(session, tokens, n, &done, &error);
  for (int i = 0; i < 8 && status == MOTE_OK; ++i) {
    if (i % 2 == 0)
      status = mote_next(session, &token, &error);
    else
      status = mote_step(session, &error);
  }
  if (status == MOTE_OK) status = mote_feed(session, tokens, 3, &done, &error);
  for (int i = 0; i < 8 && status == MOTE_OK && text.finish == MOTE_FINISH_NONE; ++i)
    status = mote_text_next(session, &text, &error);
  if (status == MOTE_OK) status = mote_rewind(session, 4, &error);
  if (status == MOTE_OK) status = mote_prompt(session, tokens, n, nullptr, &done, &error);
  if (status == MOTE_OK) status = mote_step(session, &error);
  static unsigned char snapshot[1 << 20];
  uint64_t bytes = 0;
  if (status == MOTE_OK) status = mote_snapshot_bytes(session, &bytes, &error);
  if (status == MOTE_OK) status = mote_snapshot(session, snapshot, sizeof snapshot, &bytes, &error);
  if (status == MOTE_OK) status = mote_restore(session, snapshot, bytes, &error);
  // Refusals write a sentence: that takes no heap either.
  if (status == MOTE_OK && mote_feed(session, tokens, kTooMany, &done, &error) == MOTE_OK) status = MOTE_BUSY;
  return status;
}

// Heap calls while a session is used until every thread has done some of it: one may come late.
uint64_t until_all_work(const Engine& engine, const Model& model, uint32_t threads, const Tokens& tokens) {
  const Session session(model, session_options(64, 16));
  uint64_t before[8] = {}, n_calls = 0;
  REQUIRE(mote_dev_lane_tasks(engine, before, 8) == threads);
  uint32_t n_idle = threads;
  for (int round = 0; round < 3000 && n_idle != 0; ++round) {
    start_counting();
    const mote_status status = use(session, tokens.data(), 9);
    n_calls += stop_counting();
    REQUIRE(status == MOTE_OK);
    REQUIRE(mote_rewind(session, 0, nullptr) == MOTE_OK);
    uint64_t tasks[8] = {};
    REQUIRE(mote_dev_lane_tasks(engine, tasks, 8) == threads);
    n_idle = 0;
    for (uint32_t lane = 0; lane < threads && threads > 1; ++lane) n_idle += tasks[lane] == before[lane] ? 1 : 0;
  }
  CHECK(n_idle == 0);
  return n_calls;
}

TEST_CASE("Feeding, stepping, sampling and saying call the heap on no thread", "[memory][heap][threads]") {
  const char* backend = GENERATE(from_range(host_backends()));
  const uint32_t threads = GENERATE(1u, 2u, 3u, 8u);
  const ToyModel toy = GENERATE(from_range(kAllToys));
  const Engine engine(with_cpu(backend).c_str(), threads);
  mote_model_options tapped{};
  tapped.struct_bytes = sizeof tapped;
  if (threads == 2 && toy != toy_rnn)   // which has no attention
    tapped.taps = MOTE_TAP_DECODER_ATTENTION | MOTE_TAP_ENCODER_ATTENTION | MOTE_TAP_CROSS_ATTENTION;
  const Model model(engine, toy({}).bytes(), {}, &tapped);
  const Tokens tokens = some_tokens(kTooMany, 256);
  until_all_work(engine, model, threads, tokens);   // a thread that begins calls the heap
  for (const Shape& shape : session_shapes()) {
    if (only_encodes(toy) && shape.options.n_logit_bias != 0) continue;   // there are no logits
    CAPTURE(backend, threads, name_of(toy), shape.name);
    const Session session(model, shape.options);
    // Half of the context, where there is one to speak of; text in the other half.
    const size_t n = shape.options.context == 0 ? 40 : shape.options.context < 33 ? 0 : 9;
    if (n == 0) continue;
    start_counting();
    const mote_status status = use(session, tokens.data(), n);
    const uint64_t n_calls = stop_counting();
    CHECK(status == MOTE_OK);
    CHECK(n_calls == 0);
  }
  CHECK(until_all_work(engine, model, threads, tokens) == 0);
}

TEST_CASE("A backend that fails makes nothing of mote call the heap", "[memory][heap][fallback]") {
  const auto fail_at = GENERATE(skeleton::FailAt::compile, skeleton::FailAt::open, skeleton::FailAt::run);
  skeleton::Backend backend(fail_at);
  void* extra[] = {static_cast<Backend*>(&backend)};
  mote_engine_options options = engine_options("skeleton,cpu", 2);
  options.extra_backends = extra;
  options.n_extra_backends = 1;
  const Engine engine(options);
  const Bytes bytes = toy_llama().bytes();
  const mote_source source = source_of(bytes);
  const mote_session_options session_with = session_options(64, 16);
  const Tokens tokens = some_tokens(kTooMany, 256);
  mote_model* model = nullptr;
  mote_session* session = nullptr;
  start_counting();
  mote_status status = mote_model_open(engine, &source, nullptr, {}, &model, nullptr);
  if (status == MOTE_OK) status = mote_session_open(model, &session_with, {}, &session, nullptr);
  if (status == MOTE_OK) status = use(session, tokens.data(), 9);
  const uint32_t n_fallbacks = mote_dev_session_fallbacks(session);
  mote_session_close(session, nullptr);
  mote_model_close(model, nullptr);
  const uint64_t n_calls = stop_counting();
  CHECK(status == MOTE_OK);
  CHECK(n_fallbacks == (fail_at == skeleton::FailAt::compile ? 0 : 1));
  CHECK(n_calls == 0);
}

TEST_CASE("With memory handed over, opening and closing call the heap not at all", "[memory][heap]") {
  const Bytes bytes = toy_llama().bytes();
  const mote_source source = source_of(bytes);
  const mote_engine_options engine_with = engine_options("cpu,reference");
  const mote_session_options session_with = session_options(64, 16);
  alignas(64) static unsigned char room[3][1 << 21];
  mote_engine* engine = nullptr;
  mote_model* model = nullptr;
  mote_session* session = nullptr;
  start_counting();
  const bool opened =
      mote_engine_open(&engine_with, {room[0], sizeof room[0]}, &engine, nullptr) == MOTE_OK &&
      mote_model_open(engine, &source, nullptr, {room[1], sizeof room[1]}, &model, nullptr) == MOTE_OK &&
      mote_session_open(model, &session_with, {room[2], sizeof room[2]}, &session, nullptr) == MOTE_OK;
  mote_session_close(session, nullptr);
  mote_model_close(model, nullptr);
  mote_engine_close(engine, nullptr);
  const uint64_t n_calls = stop_counting();
  CHECK(opened);
  CHECK(n_calls == 0);
}

}   // namespace
}   // namespace mote::test
