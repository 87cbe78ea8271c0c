// Public calls fit in 64 KiB of stack: a host's audio or worker thread has no more.
#include <pthread.h>
#include <sys/mman.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "core/mote_dev.h"
#include "examples/skeleton_backend/skeleton_backend.h"
#include "tests/memory/shapes.h"
#include "tests/support/sanitized.h"

namespace mote::test {
namespace {

constexpr size_t kStackBytes = size_t{1} << 20;
[[maybe_unused]] constexpr size_t kLimitBytes = size_t{64} << 10;
constexpr unsigned char kPaint = 0xC5;
const mote_chat_options chatml = chat_options("chatml");

// What is called on the small stack. Everything it needs is made before.
struct Calls {
  const mote_engine_options* engine_with;
  const mote_model_options* model_with;
  const mote_session_options* session_with;
  const mote_source* source;
  mote_memory engine_memory, model_memory, session_memory, scratch;
  const Tokens* tokens;
  const char* text;
  mote_status status = MOTE_OK;
  uint32_t n_fallbacks = 0;
};

int32_t go_on(void*, size_t, size_t, const float*, size_t) { return 0; }

void* call_all(void* argument) {
  auto& calls = *static_cast<Calls*>(argument);
  const auto keep = [&](mote_status status) {
    if (calls.status == MOTE_OK) calls.status = status;
  };
  mote_engine* engine = nullptr;
  mote_model* model = nullptr;
  mote_session* session = nullptr;
  static mote_quote quote;
  static int32_t ids[512];
  static char chat[4096];
  quote.struct_bytes = sizeof quote;
  size_t count = 0;
  int32_t token = 0;
  mote_text text{};
  text.struct_bytes = sizeof text;
  keep(mote_engine_quote(calls.engine_with, &quote, nullptr));
  keep(mote_engine_open(calls.engine_with, calls.engine_memory, &engine, nullptr));
  keep(mote_model_quote(engine, calls.source, calls.model_with, calls.session_with, &quote, &quote, nullptr));
  keep(mote_model_open(engine, calls.source, calls.model_with, calls.model_memory, &model, nullptr));
  if (calls.status != MOTE_OK) return nullptr;
  keep(mote_session_quote(model, calls.session_with, &quote, nullptr));
  keep(mote_session_open(model, calls.session_with, calls.session_memory, &session, nullptr));
  keep(mote_tokenize(model, calls.text, std::strlen(calls.text), MOTE_PARSE_SPECIAL, calls.scratch, ids, 512, &count,
                     nullptr));
  const mote_message messages[] = {{"system", "be brief", 8}, {"user", calls.text, 40}};
  keep(mote_chat_text(model, &chatml, messages, 2, chat, sizeof chat, &count, nullptr));
  keep(mote_chat_tokens(model, &chatml, messages, 2, calls.scratch, ids, 512, &count, nullptr));
  keep(mote_detokenize(model, ids, count, chat, sizeof chat, &count, nullptr));
  const float* vector = nullptr;
  mote_encode(session, calls.tokens->data(), 3, nullptr);   // refused, but for a model with an encoder
  mote_embedding(session, 0, &vector, &count, nullptr);
  static mote_dev_step_profile profile[512];
  keep(mote_dev_profile(session, profile, mote_dev_step_count(model), nullptr));
  keep(mote_feed(session, calls.tokens->data(), 20, &count, nullptr));
  keep(mote_next(session, &token, nullptr));
  keep(mote_attention(session, MOTE_TAP_DECODER_ATTENTION, 0, &vector, &count, &count, &count, nullptr));
  keep(mote_text_next(session, &text, nullptr));
  keep(mote_text_flush(session, &text, nullptr));
  keep(mote_evaluate(session, calls.tokens->data(), 5, go_on, nullptr, &count, nullptr));
  keep(mote_prompt(session, calls.tokens->data(), 25, nullptr, &count, nullptr));
  keep(mote_rewind(session, 3, nullptr));
  keep(mote_set_samplers(session, calls.session_with, nullptr));
  static unsigned char snapshot[1 << 20];
  uint64_t bytes = 0;
  keep(mote_snapshot_bytes(session, &bytes, nullptr));
  keep(mote_snapshot(session, snapshot, sizeof snapshot, &bytes, nullptr));
  keep(mote_restore(session, snapshot, bytes, nullptr));
  calls.n_fallbacks = mote_dev_session_fallbacks(session);
  keep(mote_session_close(session, nullptr));
  keep(mote_model_close(model, nullptr));
  keep(mote_engine_close(engine, nullptr));
  return nullptr;
}

// Bytes of the stack that were touched, what the C library puts there for a thread included.
size_t deepest_stack(Calls& calls, void* (*run)(void*)) {
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(stack, kPaint, kStackBytes);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kStackBytes);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, &attributes, run, &calls) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  size_t untouched = 0;
  while (untouched < kStackBytes && static_cast<unsigned char*>(stack)[untouched] == kPaint) ++untouched;
  munmap(stack, kStackBytes);
  return kStackBytes - untouched;
}

TEST_CASE("Every public call fits in 64 KiB of stack", "[memory][stack]") {
  static unsigned char room[4][1 << 21] __attribute__((aligned(64)));
  const mote_engine_options engine_with = engine_options("cpu,reference");
  mote_model_options model_with{};
  model_with.struct_bytes = sizeof model_with;
  model_with.scratch = {room[3], sizeof room[3]};
  model_with.taps = MOTE_TAP_DECODER_ATTENTION;
  Shape shape;
  for (const Shape& each : session_shapes())
    if (each.name == "chain, biases and stops") shape = each;
  const Bytes bytes = toy_llama({.matrices = Format::q8_0}).bytes();
  const mote_source source = source_of(bytes);
  const Tokens tokens = some_tokens(64, 256);
  const std::string text = "hello the  and 00 <|im_end|> \xff\xfe on and on and on and on in the long run of the thing";
  Calls calls{&engine_with,
              &model_with,
              &shape.options,
              &source,
              {room[0], sizeof room[0]},
              {room[1], sizeof room[1]},
              {room[2], sizeof room[2]},
              {room[3], sizeof room[3]},
              &tokens,
              text.c_str()};
  const size_t used = deepest_stack(calls, call_all);
  CHECK(calls.status == MOTE_OK);
  CAPTURE(used);
#if MOTE_TEST_SANITIZED || defined(__clang__)
  CHECK(used < kStackBytes);   // a sanitizer's frames are several times as large
#else
  CHECK(used <= kLimitBytes);
#endif

  // A backend that fails meanwhile: the calls compile and open for the others.
  for (const skeleton::FailAt fail_at : {skeleton::FailAt::compile, skeleton::FailAt::open, skeleton::FailAt::run}) {
    skeleton::Backend backend(fail_at);
    void* extra[] = {static_cast<Backend*>(&backend)};
    mote_engine_options with_skeleton = engine_options("skeleton,cpu");
    with_skeleton.extra_backends = extra;
    with_skeleton.n_extra_backends = 1;
    calls.engine_with = &with_skeleton;
    const size_t used_then = deepest_stack(calls, call_all);
    CHECK(calls.status == MOTE_OK);
    CHECK(calls.n_fallbacks == (fail_at == skeleton::FailAt::compile ? 0 : 1));
    CAPTURE(used_then);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
    CHECK(used_then < kStackBytes);
#else
    CHECK(used_then <= kLimitBytes);
#endif
  }
}

}   // namespace
}   // namespace mote::test
