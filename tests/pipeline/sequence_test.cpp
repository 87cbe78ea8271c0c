#include "core/pipeline/sequence.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/pipeline/fixture.h"

using namespace mote;
using namespace mote::test;

TEST_CASE("A feed is cut into batches and leaves its last token pending", "[pipeline][sequence]") {
  Fixture f(32, 4);
  REQUIRE(f.feed(counting(1, 10)).ok());
  CHECK(f.done == 10);
  CHECK(f.sequence->has_pending());
  std::vector<uint32_t> rows;
  for (const auto& run : f.backend.executor.runs) rows.push_back(run.rows);
  CHECK(rows == std::vector<uint32_t>{4, 4, 1});
  CHECK(f.sequence->logits().empty());
  REQUIRE(f.sequence->step().ok());
  CHECK(!f.sequence->has_pending());
  REQUIRE(f.sequence->logits().size() == 100);
  CHECK(f.sequence->logits()[0] == 9);
  CHECK(f.sequence->logits()[1] == 10);
  REQUIRE(f.sequence->step().ok());   // asking again changes nothing
  CHECK(f.backend.executor.runs.size() == 4);
}

TEST_CASE("A feed of one token takes the logits of the one before it away", "[pipeline][sequence]") {
  Fixture f(32, 4);
  REQUIRE(f.feed({1, 2}).ok());
  REQUIRE(f.sequence->step().ok());
  REQUIRE(!f.sequence->logits().empty());
  REQUIRE(f.feed({3}).ok());   // runs nothing: 2 was stepped, 3 is pending
  CHECK(f.sequence->logits().empty());
  REQUIRE(f.sequence->step().ok());
  CHECK(f.sequence->logits()[1] == 3);
}

TEST_CASE("What does not fit is refused before any work, with both counts", "[pipeline][sequence]") {
  const uint32_t context = GENERATE(range(1u, 41u));
  Fixture f(context, 4);
  const auto fits = static_cast<int32_t>(context);
  REQUIRE(f.feed(counting(1, fits)).ok());
  const size_t runs = f.backend.executor.runs.size();
  const Status refused = f.feed({5});
  CHECK(refused.code() == Code::context_full);
  CHECK(f.done == 0);
  CHECK(refused.message() == "1 tokens do not fit behind the " + std::to_string(context) +
                                 " that stay in a context of " + std::to_string(context));
  CHECK(f.backend.executor.runs.size() == runs);
  CHECK(f.history() == counting(1, fits));
  CHECK(f.sequence->step().ok());
  CHECK(f.sequence->append(3).code() == Code::context_full);
}

TEST_CASE("A full context slides by half of what may go, rounded up", "[pipeline][sequence]") {
  Fixture f(8, 4, true, 2);
  REQUIRE(f.feed(counting(1, 8)).ok());
  REQUIRE(f.feed({50}).ok());
  CHECK(f.history() == std::vector<int32_t>{1, 2, 6, 7, 8, 50});   // 3, 4 and 5 of six went
  CHECK(f.sequence->stream_index() == 9);
  CHECK(f.backend.executor.truncations.back() == 2);
  REQUIRE(f.sequence->step().ok());
  CHECK(f.sequence->logits()[0] == 5);
}

TEST_CASE("A sampled token may stand one over a sliding context until the next step", "[pipeline][sequence]") {
  Fixture f(4, 4, true, 0);
  REQUIRE(f.feed(counting(1, 4)).ok());
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(f.sequence->step().ok());
    REQUIRE(f.sequence->append(10 + i % 50).ok());
    CHECK(f.sequence->history().size() <= 5);
    CHECK(f.sequence->history().back() == 10 + i % 50);
  }
  CHECK(f.sequence->stream_index() == 1004);
}

TEST_CASE("A slide that cannot make room is refused", "[pipeline][sequence]") {
  Fixture f(8, 4, true, 6);
  REQUIRE(f.feed(counting(1, 8)).ok());
  CHECK(f.feed(counting(1, 3)).code() == Code::context_full);
  CHECK(f.history() == counting(1, 8));
  CHECK(f.feed(counting(20, 2)).ok());
  CHECK(f.history() == std::vector<int32_t>{1, 2, 3, 4, 5, 6, 20, 21});
}

TEST_CASE("Rewinding makes the last kept token pending again", "[pipeline][sequence]") {
  Fixture f(32, 4);
  REQUIRE(f.feed(counting(1, 10)).ok());
  REQUIRE(f.sequence->step().ok());
  REQUIRE(f.sequence->rewind(6).ok());
  CHECK(f.backend.executor.truncations.back() == 5);
  CHECK(f.sequence->logits().empty());
  REQUIRE(f.sequence->step().ok());
  CHECK(f.sequence->logits()[0] == 5);
  REQUIRE(f.sequence->rewind(0).ok());
  CHECK(f.sequence->step().code() == Code::wrong_state);
  CHECK(f.sequence->rewind(1).code() == Code::invalid_argument);
}

TEST_CASE("A state that cannot go back is run again from its start", "[pipeline][sequence]") {
  Fixture f(32, 8);
  REQUIRE(f.feed(counting(1, 10)).ok());
  f.backend.executor.refuses_truncate = true;
  f.backend.executor.runs.clear();
  REQUIRE(f.sequence->rewind(6).ok());
  REQUIRE(f.sequence->step().ok());
  REQUIRE(f.backend.executor.runs.size() == 2);
  CHECK(f.backend.executor.runs[0].first_position == 0);
  CHECK(f.backend.executor.runs[0].rows == 5);
  CHECK(f.sequence->logits()[0] == 5);
}

TEST_CASE("A prompt reuses the longest common beginning", "[pipeline][sequence]") {
  Fixture f(32, 8);
  size_t reused = 0, done = 0;
  const std::vector<int32_t> first = {1, 2, 3, 4, 5}, second = {1, 2, 3, 9, 9, 9};
  REQUIRE(f.sequence->prompt(first, &reused, &done).ok());
  CHECK(reused == 0);
  CHECK(!f.sequence->has_pending());
  REQUIRE(f.sequence->prompt(second, &reused, &done).ok());
  CHECK(reused == 2);   // token 3 was pending again and is run once more
  CHECK(done == 6);
  CHECK(f.history() == second);
  REQUIRE(f.sequence->prompt(second, &reused, &done).ok());
  CHECK(reused == 5);
  CHECK(!f.sequence->has_pending());
  CHECK(f.backend.executor.runs.back().rows == 1);   // the last token, once more
  REQUIRE(f.sequence->step().ok());
  CHECK(f.backend.executor.runs.size() == 3);   // each prompt one batch, logits included; a step adds none
  REQUIRE(f.sequence->prompt(std::span(second).first(2), &reused, &done).ok());
  CHECK(f.history() == std::vector<int32_t>{1, 2});
  REQUIRE(f.sequence->prompt(counting(20, 10), &reused, &done).ok());
  const auto& runs = f.backend.executor.runs;
  CHECK(runs[runs.size() - 2].outputs == 0);   // only the last batch makes logits
  CHECK(runs.back().outputs == 1);
}

TEST_CASE("After a cancel the finished batches stay and the rest can be fed", "[pipeline][sequence]") {
  Fixture f(32, 4);
  REQUIRE(f.feed({7}).ok());
  f.sequence->cancel_flag().store(1);   // set before the call
  CHECK(f.feed(counting(1, 10)).code() == Code::cancelled);
  CHECK(f.done == 0);
  CHECK(f.history() == std::vector<int32_t>{7});
  CHECK(f.backend.executor.n_discarded == 1);
  f.backend.executor.cancel_during_run = &f.sequence->cancel_flag();
  CHECK(f.feed(counting(1, 10)).code() == Code::cancelled);
  f.backend.executor.cancel_during_run = nullptr;
  CHECK(f.feed(counting(1, 10)).ok());
  CHECK(f.done == 10);
}

TEST_CASE("A run that fails leaves the finished batches", "[pipeline][sequence]") {
  Fixture f(32, 4);
  f.backend.executor.fail_run_at = 2;
  const std::vector<int32_t> tokens = counting(1, 20);
  CHECK(f.sequence->feed(tokens, &f.done).code() == Code::backend_failed);
  CHECK(f.done == 8);
  CHECK(f.history() == counting(1, 8));
  f.backend.executor.fail_run_at = UINT32_MAX;
  size_t done = 0;
  CHECK(f.sequence->feed(std::span(tokens).subspan(8), &done).ok());
  CHECK(done == 12);
  CHECK(f.history() == tokens);
}

TEST_CASE("After a feed or an evaluation that fails with nothing pending, the last token that stayed is stepped again",
          "[pipeline][sequence]") {
  const bool evaluates = GENERATE(true, false);
  const size_t n_finished = GENERATE(0u, 4u, 8u);   // tokens of the feed that stay
  CAPTURE(evaluates, n_finished);
  Fixture f(32, 4, false, 0, 4);
  REQUIRE(f.feed({90, 91}).ok());
  REQUIRE(f.sequence->step().ok());
  REQUIRE(f.backend.executor.runs.size() == 2);
  f.backend.executor.fail_run_at = static_cast<uint32_t>(2 + n_finished / 4);
  const std::vector<int32_t> tokens = counting(1, 20);
  const LogitsSink all{[](void*, size_t, size_t, const float*, size_t) { return true; }, nullptr};
  size_t done = 0;
  const Status status = evaluates ? f.sequence->evaluate(tokens, all, &done) : f.sequence->feed(tokens, &done);
  CHECK(status.code() == Code::backend_failed);
  CHECK(done == n_finished);
  f.backend.executor.fail_run_at = UINT32_MAX;
  CHECK(f.sequence->has_pending());
  REQUIRE(f.sequence->step().ok());
  REQUIRE(!f.sequence->logits().empty());
  CHECK(f.sequence->logits()[0] == static_cast<float>(1 + n_finished));
  CHECK(f.sequence->logits()[1] == static_cast<float>(n_finished == 0 ? 91 : n_finished));
  REQUIRE(f.sequence->feed(std::span(tokens).subspan(n_finished), &done).ok());
  CHECK(done == 20 - n_finished);
}

TEST_CASE("Evaluate hands over the logits of every token in slices", "[pipeline][sequence]") {
  const uint32_t max_outputs = GENERATE(1u, 2u, 3u, 4u);
  Fixture f(32, 4, false, 0, max_outputs);
  REQUIRE(f.feed({90}).ok());
  std::vector<float> seen;
  const LogitsSink sink{[](void* self, size_t first, size_t rows, const float* logits, size_t n_vocab) {
                          auto* to = static_cast<std::vector<float>*>(self);
                          CHECK(first == to->size());
                          for (size_t i = 0; i < rows; ++i) to->push_back(logits[i * n_vocab + 1]);
                          return true;
                        },
                        &seen};
  size_t done = 0;
  REQUIRE(f.sequence->evaluate(counting(10, 7), sink, &done).ok());
  CHECK(done == 7);
  CHECK(seen == std::vector<float>{10, 11, 12, 13, 14, 15, 16});
  REQUIRE(!f.sequence->logits().empty());
  CHECK(f.sequence->logits()[1] == 16);
  CHECK(!f.sequence->has_pending());
}

TEST_CASE("Tokens outside the vocabulary are refused by index", "[pipeline][sequence]") {
  Fixture f(32);
  CHECK(f.feed({1, 100}).message() == "token 100 at index 1 is outside the vocabulary of 100");
  CHECK(f.feed({-1}).code() == Code::invalid_argument);
  CHECK(f.history().empty());
}
