// A process that was forked off: it may open an engine of its own, and goes on with what its parent had opened.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <thread>

#include "tests/api/kit.h"
#include "tests/support/emulated.h"
#include "tests/support/sanitized.h"

namespace mote::test {
namespace {

// qemu 7.2: "cpu_exec: assertion failed: (cpu == current_cpu)"
bool cannot_fork() { return kSanitized || is_emulated(); }

// Exit code of body() in a forked process; 124 if it hangs, 125 if it throws.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    int code = 125;
    try {
      code = body();
    } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 124;
}

// Wide enough that the cpu backend shares out one row of it.
std::vector<float> whole_run(mote_model* model, uint64_t seed) {
  const Session session(model, session_options(64, 16));
  return logits_after(session, some_tokens(40, 300, seed));
}

TEST_CASE("A forked process opens an engine of its own, with threads, and gets the same bits", "[api][threads]") {
  if (cannot_fork()) SKIP("sanitizers and qemu-user do not follow forks of threaded processes");
  const char* backend = GENERATE("cpu", "reference");
  const Bytes bytes = toy_llama(kWideToy).bytes();
  const Engine engine(backend, 3);
  const Model model(engine, bytes);
  const std::vector<float> expected = whole_run(model, 1);
  const int child = in_child([&] {
    const Engine own(backend, 3);
    if (mote_engine_threads(own) != 3) return 1;
    const Model own_model(own, bytes);
    return bit_difference(whole_run(own_model, 1), expected).empty() ? 0 : 2;
  });
  CHECK(child == 0);
  CHECK(bit_difference(whole_run(model, 1), expected) == "");
}

TEST_CASE("A forked process goes on with its parent's session, alone, and closes what it has", "[api][threads]") {
  if (cannot_fork()) SKIP("sanitizers and qemu-user do not follow forks of threaded processes");
  const char* backend = GENERATE("cpu", "reference");
  mote_engine* engine = nullptr;
  mote_model* model = nullptr;
  mote_session* session = nullptr;
  const mote_engine_options with = engine_options(backend, 3);
  const mote_session_options session_with = session_options(64, 16);
  const Bytes bytes = toy_llama(kWideToy).bytes();
  const mote_source source = source_of(bytes);
  REQUIRE(mote_engine_open(&with, {}, &engine, nullptr) == MOTE_OK);
  REQUIRE(mote_model_open(engine, &source, nullptr, {}, &model, nullptr) == MOTE_OK);
  REQUIRE(mote_session_open(model, &session_with, {}, &session, nullptr) == MOTE_OK);
  const auto close_all = [&] {
    return mote_session_close(session, nullptr) == MOTE_OK && mote_model_close(model, nullptr) == MOTE_OK &&
           mote_engine_close(engine, nullptr) == MOTE_OK;
  };
  feed(session, some_tokens(20, 300));
  const std::vector<float> first = step(session);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const int child = in_child([&] {
    const Tokens tokens = generate(session, 20);
    const std::vector<float> last = step(session);
    const std::vector<float> fresh = whole_run(model, 9);
    if (!close_all()) return 1;
    const bool written = write(ends[1], tokens.data(), tokens.size() * 4) == 80 &&
                         write(ends[1], last.data(), last.size() * 4) == static_cast<ssize_t>(last.size() * 4) &&
                         write(ends[1], fresh.data(), fresh.size() * 4) == static_cast<ssize_t>(fresh.size() * 4);
    return written ? 0 : 2;
  });
  REQUIRE(child == 0);
  Tokens tokens(20);
  std::vector<float> last(first.size()), fresh(first.size());
  REQUIRE(read(ends[0], tokens.data(), 80) == 80);
  REQUIRE(read(ends[0], last.data(), last.size() * 4) == static_cast<ssize_t>(last.size() * 4));
  REQUIRE(read(ends[0], fresh.data(), fresh.size() * 4) == static_cast<ssize_t>(fresh.size() * 4));
  close(ends[0]), close(ends[1]);
  // The parent has seen nothing of it: its own session goes the same way.
  CHECK(generate(session, 20) == tokens);
  CHECK(bit_difference(step(session), last) == "");
  CHECK(bit_difference(whole_run(model, 9), fresh) == "");
  CHECK(close_all());
}

TEST_CASE("A fork in the midst of another thread's step leaves an engine that works", "[api][threads]") {
  if (cannot_fork()) SKIP("sanitizers and qemu-user do not follow forks of threaded processes");
  const Engine engine("cpu", 3);
  const Model model(engine, toy_llama(kWideToy));
  const std::vector<float> expected = whole_run(model, 2);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> n_steps{0};
  const Session busy(model, session_options(512, 16));
  std::thread other([&] {
    while (!stop.load()) {
      size_t done = 0;
      const int32_t token = static_cast<int32_t>(n_steps.load() % 300);
      if (mote_rewind(busy, 0, nullptr) != MOTE_OK || mote_feed(busy, &token, 1, &done, nullptr) != MOTE_OK ||
          mote_step(busy, nullptr) != MOTE_OK)
        return;
      n_steps.fetch_add(1);
    }
  });
  std::vector<int> codes;
  for (int i = 0; i < 40; ++i) {
    const uint64_t before = n_steps.load();
    while (n_steps.load() < before + 3) std::this_thread::yield();
    codes.push_back(in_child([&] { return bit_difference(whole_run(model, 2), expected).empty() ? 0 : 1; }));
  }
  stop.store(true);
  other.join();
  CHECK(codes == std::vector<int>(40, 0));
  CHECK(bit_difference(whole_run(model, 2), expected) == "");
}

TEST_CASE("A session that was inside a call at the fork is busy in the child, and no other", "[api][threads]") {
  if (cannot_fork()) SKIP("sanitizers and qemu-user do not follow forks of threaded processes");
  struct Parent {
    mote_session* inside = nullptr;
    mote_session* other = nullptr;
    int child = -1;
  } parent;
  const Engine engine("cpu", 2);
  const Model model(engine, toy_llama(kWideToy));
  const Session inside(model, session_options(64, 16)), other(model, session_options(64, 16));
  parent.inside = inside;
  parent.other = other;
  const auto on_logits = [](void* user, size_t, size_t, const float*, size_t) -> int32_t {
    auto& at = *static_cast<Parent*>(user);
    if (at.child != -1) return 0;
    // From a thread that is in no call, as a host's would be.
    std::thread forking([&] {
      at.child = in_child([&] {
        mote_error error{};
        if (mote_step(at.inside, &error) != MOTE_BUSY || !contains(error.message, "inside another call")) return 1;
        return mote_session_close(at.inside, nullptr) == MOTE_BUSY && logits_after(at.other, {1, 2, 3}).size() == 320
                   ? 0
                   : 2;
      });
    });
    forking.join();
    return 0;
  };
  const Tokens tokens = some_tokens(5, 300);
  CHECK(mote_evaluate(inside, tokens.data(), 5, on_logits, &parent, nullptr, nullptr) == MOTE_OK);
  CHECK(parent.child == 0);
}

}   // namespace
}   // namespace mote::test
