// Backends that fail under a sequence: the next ones take over, as if they had run it from the beginning.
#include "core/pipeline/fallback.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "core/pipeline/snapshot.h"
#include "tests/pipeline/three_backends.h"

using namespace mote;
using namespace mote::test;

namespace {

std::vector<std::pair<uint32_t, uint32_t>> positions_and_rows(const FakeBackend& backend) {
  std::vector<std::pair<uint32_t, uint32_t>> all;
  for (const auto& run : backend.executor.runs) all.emplace_back(run.first_position, run.rows);
  return all;
}

}   // namespace

TEST_CASE("Where a run or its beginning fails, the next backend runs the tokens again and the call goes on",
          "[pipeline][fallback]") {
  const bool begins = GENERATE(true, false);
  Three f;
  REQUIRE(f.feed(counting(1, 9)).ok());   // 4 and 4 were run
  if (begins)
    f.first.executor.fail_run_at = 2;
  else
    f.first.executor.fails_begin = true;
  REQUIRE(f.feed(counting(10, 6)).ok());
  CHECK(f.done == 6);
  CHECK(f.history() == counting(1, 15));
  CHECK(positions_and_rows(f.second) == std::vector<std::pair<uint32_t, uint32_t>>{{0, 4}, {4, 4}, {8, 4}, {12, 2}});
  CHECK(f.first.executor.n_discarded == (begins ? 1 : 0));
  CHECK(f.first.executor.n_closed == 1);
  CHECK(f.runs_on() == &f.second);
  CHECK(f.sequence->n_fallbacks() == 1);
  REQUIRE(f.sequence->step().ok());
  REQUIRE(f.sequence->logits().size() == 100);
  CHECK(f.sequence->logits()[0] == 14);
  CHECK(f.sequence->logits()[1] == 15);
  CHECK(f.opened.lines ==
        std::vector<std::string>{std::string("backend first failed (") +
                                 (begins ? "run 2 was told to fail" : "a batch was told not to begin") +
                                 "); the session goes on with second and runs its 8 tokens again"});
  // It is the model that has given the first one up: sequences of later begin on the second.
  const Result<Sequence*> later = f.opened.open(wanted());
  REQUIRE(later.ok());
  CHECK(later.value()->parts()[0].backend == &f.second);
  CHECK(f.second.n_compiled == 1);
  CHECK(f.first.n_opened == 1);
}

namespace {

// What calls of every kind leave behind, one line each.
std::vector<std::string> life_of(Sequence& sequence) {
  std::vector<std::string> told;
  const auto tell = [&](const char* call, const Status& status, size_t done = 0) {
    std::string line = std::string(call) + " " + std::string(status.message()) + " " + std::to_string(done) + ":";
    for (const int32_t token : sequence.history()) line += " " + std::to_string(token);
    line += " of " + std::to_string(sequence.stream_index());
    for (size_t i = 0; i < 2 && !sequence.logits().empty(); ++i) line += " " + std::to_string(sequence.logits()[i]);
    told.push_back(line + (sequence.has_pending() ? " pending" : ""));
  };
  size_t done = 0, reused = 0;
  std::string rows;
  const LogitsSink sink{[](void* self, size_t first, size_t n, const float* logits, size_t n_vocab) {
                          for (size_t i = 0; i < n; ++i)
                            *static_cast<std::string*>(self) += std::to_string(first + i) + "=" +
                                                                std::to_string(logits[i * n_vocab]) + "," +
                                                                std::to_string(logits[i * n_vocab + 1]) + " ";
                          return first != 6;
                        },
                        &rows};
  tell("feed", sequence.feed(counting(1, 10), &done), done);
  tell("step", sequence.step());
  tell("append", sequence.append(40));
  tell("step", sequence.step());
  tell("evaluate", sequence.evaluate(counting(50, 5), sink, &done), done);
  tell("prompt", sequence.prompt(std::vector<int32_t>{1, 2, 3, 4, 5, 77, 78, 79}, &reused, &done), done + 100 * reused);
  tell("evaluate", sequence.evaluate(counting(60, 9), sink, &done), done);   // is stopped by its receiver
  tell("rewind", sequence.rewind(7));
  tell("step", sequence.step());
  for (int i = 0; i < 14; ++i) {   // slides on the way
    tell("append", sequence.append(20 + i));
    tell("step", sequence.step());
  }
  tell("feed", sequence.feed(counting(80, 8), &done), done);
  tell("rewind", sequence.rewind(0));
  tell("feed", sequence.feed(counting(1, 3), &done), done);
  tell("step", sequence.step());
  told.push_back(rows);
  return told;
}

}   // namespace

TEST_CASE("Whichever run fails, every call leaves what it would have left without a failure", "[pipeline][fallback]") {
  const uint32_t max_batch = GENERATE(1u, 4u, 16u);
  const SequenceOptions options = wanted(20, max_batch, true);
  Three quiet(options);
  const std::vector<std::string> expected = life_of(*quiet.sequence);
  const auto n_runs = static_cast<uint32_t>(quiet.first.executor.runs.size());
  REQUIRE(n_runs > 20);
  for (uint32_t at = 0; at < n_runs; ++at) {
    Three f(options);
    f.first.executor.fail_run_at = at;
    const std::vector<std::string> told = life_of(*f.sequence);
    CAPTURE(max_batch, at);
    size_t differs = 0;
    while (differs < expected.size() && told[differs] == expected[differs]) ++differs;
    if (differs < expected.size()) {
      CAPTURE(differs);
      CHECK(told[differs] == expected[differs]);
    }
    CHECK(f.runs_on() == &f.second);
    CHECK(f.sequence->n_fallbacks() == 1);
  }
}

TEST_CASE("Failures walk down the list, and the last one is a status", "[pipeline][fallback]") {
  Three f;
  REQUIRE(f.feed(counting(1, 9)).ok());
  f.first.executor.fail_run_at = 2;
  f.second.executor.fail_run_at = 1;   // while it runs the tokens again
  REQUIRE(f.feed(counting(10, 6)).ok());
  CHECK(f.runs_on() == &f.third);
  CHECK(f.sequence->n_fallbacks() == 2);
  CHECK(f.second.executor.n_closed == 1);
  CHECK(f.opened.lines.size() == 2);
  f.third.executor.fail_run_at = static_cast<uint32_t>(f.third.executor.runs.size());
  const Status last = f.feed(counting(20, 8));
  CHECK(last.code() == Code::backend_failed);
  CHECK(last.message() == "run 4 was told to fail");
  CHECK(f.done == 0);
  CHECK(f.history() == counting(1, 15));
  CHECK(f.opened.lines.size() == 2);   // nobody is left that could be named
  f.third.executor.fail_run_at = UINT32_MAX;
  REQUIRE(f.feed(counting(20, 8)).ok());   // as it was
  CHECK(f.third.executor.runs.back().first_position + f.third.executor.runs.back().rows == 22);
  CHECK(f.third.executor.n_closed == 0);
}

TEST_CASE("A backend that does not compile or open on the way is left out, and tried once", "[pipeline][fallback]") {
  Three f;
  f.second.fails_compile = true;
  f.first.executor.fail_run_at = 0;
  REQUIRE(f.feed(counting(1, 9)).ok());
  CHECK(f.runs_on() == &f.third);
  CHECK(f.sequence->n_fallbacks() == 1);
  CHECK(f.second.n_compiled == 1);
  CHECK(f.second.n_opened == 0);
  CHECK(f.third.n_compiled == 1);
  CHECK(f.opened.lines.front() ==
        "backend second failed to compile the plan that was to take over: told not to compile");

  Three g;
  const Result<Sequence*> other = g.opened.open(wanted());
  REQUIRE(other.ok());
  g.second.fails_open = true;
  g.first.executor.fail_run_at = 0;
  REQUIRE(g.feed(counting(1, 9)).ok());
  CHECK(g.runs_on() == &g.third);
  CHECK(g.second.n_opened == 1);
  REQUIRE(other.value()
              ->feed(counting(1, 9), &g.done)
              .ok());   // the second one is tried again: what it lacked may be there
  CHECK(g.second.n_opened == 2);
  CHECK(other.value()->parts()[0].backend == &g.third);
  CHECK(g.second.n_compiled == 1);
  CHECK(g.third.n_compiled == 1);
}

TEST_CASE("A backend that does not open a session is left by that session alone", "[pipeline][fallback]") {
  Three f(wanted(), 0, [](Three& three) { three.first.fails_open = true; });
  REQUIRE(f.sequence != nullptr);
  CHECK(f.runs_on() == &f.second);
  CHECK(f.sequence->n_fallbacks() == 1);
  REQUIRE(f.feed(counting(1, 9)).ok());
  REQUIRE(f.sequence->step().ok());
  CHECK(f.sequence->logits()[1] == 9);
  f.first.fails_open = false;
  const Result<Sequence*> later = f.opened.open(wanted());
  REQUIRE(later.ok());
  CHECK(later.value()->parts()[0].backend == &f.first);
}

TEST_CASE("Only a backend that failed is left: other failures, and sessions that do not want it, stay",
          "[pipeline][fallback]") {
  SequenceOptions options = wanted();
  options.falls_back = false;
  Three stays(options);
  CHECK(stays.opened.fallback_bytes == 0);
  stays.first.executor.fail_run_at = 0;
  CHECK(stays.feed(counting(1, 9)).code() == Code::backend_failed);
  CHECK(stays.second.n_compiled == 0);
  Three refused(options, 0, [](Three& three) { three.first.fails_open = true; });
  CHECK(refused.status.code() == Code::backend_failed);
  CHECK(refused.sequence == nullptr);

  for (const Code code : {Code::not_finite, Code::out_of_memory, Code::unsupported, Code::wrong_state}) {
    Three f;
    f.first.executor.fail_run_at = 0;
    f.first.executor.failure = code;
    CHECK(f.feed(counting(1, 9)).code() == code);
    CHECK(f.second.n_compiled == 0);
    CHECK(f.runs_on() == &f.first);
  }
}

TEST_CASE("Without memory for another backend the failure stands, and the sequence as it was", "[pipeline][fallback]") {
  const bool of_the_model = GENERATE(true, false);
  Three f;
  REQUIRE(f.feed(counting(1, 9)).ok());
  (of_the_model ? f.second.program_bytes : f.second.executor_bytes) = uint64_t{1} << 60;
  f.first.executor.fail_run_at = 2;
  const Status status = f.feed(counting(10, 6));
  CHECK(status.code() == Code::backend_failed);
  CHECK(status.message() == "run 2 was told to fail");
  CHECK(f.done == 0);
  CHECK(f.history() == counting(1, 9));
  CHECK(f.first.executor.n_closed == 0);
  REQUIRE(f.opened.lines.size() == 1);
  CHECK(f.opened.lines[0].find("could not take over: ") != std::string::npos);
  CAPTURE(f.opened.lines[0]);
  CHECK(f.opened.lines[0].find(", which the platform does not give") != std::string::npos);
  f.first.executor.fail_run_at = UINT32_MAX;
  REQUIRE(f.feed(counting(10, 6)).ok());
  CHECK(positions_and_rows(f.first) == std::vector<std::pair<uint32_t, uint32_t>>{{0, 4}, {4, 4}, {8, 4}, {12, 2}});
}

TEST_CASE("A cancel while tokens are run again keeps the tokens, and the next call goes on", "[pipeline][fallback]") {
  const uint32_t cancels_at = GENERATE(0u, 1u, 2u);   // run of the second backend
  CAPTURE(cancels_at);
  Three f;
  REQUIRE(f.feed(counting(1, 9)).ok());
  f.first.executor.fail_run_at = 3;   // a batch of the next feed is finished by then
  f.second.executor.cancel_during_run = &f.sequence->cancel_flag();
  f.second.executor.cancel_at = cancels_at;
  const std::vector<int32_t> tokens = counting(10, 14);
  CHECK(f.feed(tokens).code() == Code::cancelled);
  CHECK(f.done == 3);   // of the batch at positions 8 to 11
  CHECK(f.history() == counting(1, 12));
  CHECK(f.sequence->has_pending());
  CHECK(f.runs_on() == &f.second);
  f.second.executor.cancel_during_run = nullptr;
  size_t done = 0;
  REQUIRE(f.sequence->feed(std::span(tokens).subspan(3), &done).ok());
  CHECK(done == 11);
  REQUIRE(f.sequence->step().ok());
  CHECK(f.sequence->logits()[0] == 22);
  CHECK(f.sequence->logits()[1] == 23);
  uint32_t next = 0;   // each position was run once, in order
  bool in_order = true;
  for (const auto& run : f.second.executor.runs) in_order = in_order && run.first_position == next, next += run.rows;
  CHECK(in_order);
  CHECK(next == 23);
}

TEST_CASE("What the quote lists for fall-backs is what they take, when it is handed over", "[pipeline][fallback]") {
  const bool enough = GENERATE(true, false);
  const auto set_up = [](Three& three) { three.second.executor_bytes = 5000, three.third.executor_bytes = 300; };
  uint64_t fallback_bytes = 0;
  {
    const Three measured(wanted(), 0, set_up);
    fallback_bytes = measured.opened.fallback_bytes;
  }
  CHECK(fallback_bytes > 5000 + 300);
  CHECK(fallback_bytes % 64 == 0);
  Three f(wanted(), enough ? fallback_bytes : fallback_bytes - 64, set_up);
  REQUIRE(f.feed(counting(1, 9)).ok());
  f.first.executor.fail_run_at = 2;
  f.second.executor.fail_run_at = 3;
  REQUIRE(f.feed(counting(10, 6)).ok());
  CHECK(f.runs_on() == &f.third);
  CHECK(f.opened.room_of_last().holds(f.second.executor.values.data(f.test.plan.logits)));
  CHECK(f.opened.room_of_last().holds(f.third.executor.values.data(f.test.plan.logits)) == enough);
}

TEST_CASE("Where a backend fails while a snapshot is restored, the next one runs the snapshot's tokens",
          "[pipeline][fallback]") {
  const bool with_logits = GENERATE(true, false);
  const bool cancelled = GENERATE(false, true);
  Three from, to;
  REQUIRE(from.feed(counting(1, 11)).ok());
  if (with_logits) REQUIRE(from.sequence->step().ok());
  std::vector<uint8_t> bytes(from.sequence->snapshot_bytes());
  REQUIRE(from.sequence->write_snapshot(bytes).ok());
  REQUIRE(to.feed(counting(50, 9)).ok());
  to.first.executor.fail_import_at = 7;
  if (cancelled) to.second.executor.cancel_during_run = &to.sequence->cancel_flag();
  REQUIRE(to.sequence->check_snapshot(bytes).ok());
  REQUIRE(to.sequence->restore(bytes).ok());
  CHECK(to.runs_on() == &to.second);
  CHECK(to.history() == counting(1, 11));
  to.second.executor.cancel_during_run = nullptr;
  if (cancelled) {
    CHECK(to.sequence->step().code() == Code::cancelled);   // it counts for the next call
    REQUIRE(to.sequence->step().ok());
  }
  CHECK(to.sequence->has_pending() == !(with_logits || cancelled));
  if (!with_logits && !cancelled) REQUIRE(to.sequence->step().ok());
  REQUIRE(to.sequence->logits().size() == 100);
  CHECK(to.sequence->logits()[0] == 10);
  CHECK(to.sequence->logits()[1] == 11);
  // Its own snapshot says who runs it now.
  std::vector<uint8_t> own(to.sequence->snapshot_bytes());
  REQUIRE(to.sequence->write_snapshot(own).ok());
  CHECK(SequenceHeader::read(own.data()).arithmetic.names == std::string_view("second 1"));
  CHECK(from.sequence->check_snapshot(own).code() == Code::unsupported);
}
