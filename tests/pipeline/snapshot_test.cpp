#include "core/pipeline/snapshot.h"

#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "tests/pipeline/fixture.h"

using namespace mote;
using namespace mote::test;

namespace {

std::vector<uint8_t> snapshot_of(Sequence& sequence) {
  std::vector<uint8_t> bytes(sequence.snapshot_bytes());
  REQUIRE(sequence.write_snapshot(bytes).ok());
  return bytes;
}

void restore(Sequence& sequence, const std::vector<uint8_t>& bytes) {
  const Status checked = sequence.check_snapshot(bytes);
  CAPTURE(std::string(checked.message()));
  REQUIRE(checked.ok());
  REQUIRE(sequence.restore(bytes).ok());
}

std::string sentence(const Status& status) { return std::string(status.message()); }

}   // namespace

TEST_CASE("Every row of every state goes over, with a window those that the next query sees", "[pipeline][snapshot]") {
  Fixture from(64, 8, false, 0, 1, 10), to(64, 3, false, 0, 1, 10);
  REQUIRE(from.feed(counting(1, 31)).ok());   // 30 positions run
  const std::vector<uint8_t> bytes = snapshot_of(*from.sequence);
  const size_t row = 4 * 16 * 4;
  CHECK(bytes.size() == SequenceHeader::kBytes + 2 * SequenceHeader::kStateBytes + 31 * 4 + (30 + 9) * row);
  restore(*to.sequence, bytes);
  CHECK(to.backend.executor.truncations == std::vector<uint32_t>{0});   // what a ring held before is forgotten first
  const auto& imported = to.backend.executor.imported;
  REQUIRE(imported.size() == 39);
  bool right = true;
  for (uint32_t i = 0; i < 39; ++i) {
    const uint32_t state = i < 30 ? 0 : 1, position = i < 30 ? i : i - 30 + 21;   // 21 to 29: a window of 10 at 30
    right = right && imported[i].state == state && imported[i].position == position && imported[i].bytes == row &&
            imported[i].said_state == state && imported[i].said_position == position;
  }
  CHECK(right);
  CHECK(to.history() == from.history());
  CHECK(snapshot_of(*to.sequence) == bytes);
  CHECK(to.backend.executor.runs.empty());
  REQUIRE(to.sequence->step().ok());   // runs what was pending, nothing else
  REQUIRE(to.backend.executor.runs.size() == 1);
  CHECK(to.backend.executor.runs[0].first_position == 30);
}

TEST_CASE("Short of a restored window the tokens are run again from the first", "[pipeline][snapshot]") {
  Fixture from(64, 8, false, 0, 1, 10), to(64, 8, false, 0, 1, 10);
  REQUIRE(from.feed(counting(1, 31)).ok());
  const std::vector<uint8_t> bytes = snapshot_of(*from.sequence);
  const auto first_run_after = [&](size_t kept) {
    restore(*to.sequence, bytes);
    REQUIRE(to.feed(counting(1, 4)).ok());   // 34 positions run
    REQUIRE(to.sequence->rewind(kept).ok());
    to.backend.executor.runs.clear();
    REQUIRE(to.sequence->step().ok());
    return to.backend.executor.runs[0].first_position;
  };
  CHECK(first_run_after(33) == 32);
  CHECK(first_run_after(31) == 30);
  CHECK(first_run_after(30) == 0);   // position 20 would be asked for: it is not there
  CHECK(first_run_after(12) == 0);
  // A second time the whole is there.
  REQUIRE(to.sequence->rewind(10).ok());
  to.backend.executor.runs.clear();
  REQUIRE(to.sequence->step().ok());
  CHECK(to.backend.executor.runs[0].first_position == 9);
  // While the window reaches back to the beginning, nothing is missing.
  Fixture little(64, 8, false, 0, 1, 10);
  REQUIRE(little.feed(counting(1, 10)).ok());
  const std::vector<uint8_t> whole = snapshot_of(*little.sequence);
  restore(*to.sequence, whole);
  REQUIRE(to.sequence->rewind(5).ok());
  to.backend.executor.runs.clear();
  REQUIRE(to.sequence->step().ok());
  CHECK(to.backend.executor.runs[0].first_position == 4);
}

TEST_CASE("A restore that fails half way keeps the tokens and runs them again", "[pipeline][snapshot]") {
  Fixture from(64), to(64);
  REQUIRE(from.feed(counting(1, 11)).ok());
  const std::vector<uint8_t> bytes = snapshot_of(*from.sequence);
  REQUIRE(to.feed(counting(50, 9)).ok());
  REQUIRE(to.sequence->step().ok());
  to.backend.executor.fail_import_at = 7;
  CHECK(to.sequence->restore(bytes).code() == Code::backend_failed);
  CHECK(to.backend.executor.imported.empty());   // no row of another sequence stays in a state
  CHECK(to.history() == counting(50, 9));
  CHECK(to.sequence->logits().empty());
  CHECK(to.sequence->stream_index() == 9);
  to.backend.executor.runs.clear();
  REQUIRE(to.sequence->step().ok());
  CHECK(to.backend.executor.runs[0].first_position == 0);
  CHECK(to.sequence->logits()[1] == 58);
  CHECK(to.backend.executor.truncations.back() == 0);
}

TEST_CASE("The index in the stream goes over, dropped tokens included", "[pipeline][snapshot]") {
  Fixture from(16, 4, true, 2), to(16, 4, true, 2);
  REQUIRE(from.feed(counting(1, 16)).ok());
  REQUIRE(from.feed(counting(20, 5)).ok());
  REQUIRE(from.sequence->stream_index() == 21);
  restore(*to.sequence, snapshot_of(*from.sequence));
  CHECK(to.sequence->stream_index() == 21);
  CHECK(to.history() == from.history());
}

TEST_CASE("What runs which steps is named by its arithmetic, neighbours of one as one", "[pipeline][snapshot]") {
  const TestPlan test([](PlanBuilder& b) { build_small(b); });
  FakeBackend a("a"), b("b"), twin("twin");
  twin.rounds = {"a", 1};
  const auto count = static_cast<uint32_t>(test.plan.steps.size());
  const auto placed = [&](std::vector<std::pair<Backend*, uint32_t>> runs) {
    std::vector<PlacedPart> parts;
    uint32_t first = 0;
    for (const auto& [backend, steps] : runs)
      parts.push_back({{&test.plan, first, steps}, backend, nullptr}), first += steps;
    return placed_arithmetic(parts);
  };
  const PlacedArithmetic whole = placed({{&a, count}});
  CHECK(std::string(whole.names) == "a 1");
  CHECK(placed({{&a, 3}, {&twin, count - 3}}).places == whole.places);
  CHECK(std::string(placed({{&a, 3}, {&twin, count - 3}}).names) == "a 1");
  const PlacedArithmetic mixed = placed({{&a, 3}, {&b, 2}, {&twin, count - 5}});
  CHECK(std::string(mixed.names) == "a 1, b 1");
  CHECK(mixed.places != whole.places);
  CHECK(placed({{&a, 4}, {&b, 2}, {&twin, count - 6}}).places != mixed.places);
  CHECK(placed({{&a, 3}, {&b, 2}, {&a, count - 5}}).places == mixed.places);
  b.rounds = {"b", 2};
  const PlacedArithmetic newer = placed({{&a, 3}, {&b, 2}, {&twin, count - 5}});
  CHECK(std::string(newer.names) == "a 1, b 2");
  CHECK(newer.places != mixed.places);
  b.rounds = {"a device with a name that goes on and on and on and on and on and on", 1};
  const PlacedArithmetic cut = placed({{&a, 3}, {&b, 2}, {&twin, count - 5}});
  CHECK(std::strlen(cut.names) == 47);
  b.rounds.version = 2;   // beyond the cut
  CHECK(placed({{&a, 3}, {&b, 2}, {&twin, count - 5}}).places != cut.places);
}

TEST_CASE("A snapshot of another placement is refused with both names", "[pipeline][snapshot]") {
  Fixture from(64), to(64);
  REQUIRE(from.feed(counting(1, 5)).ok());
  const std::vector<uint8_t> bytes = snapshot_of(*from.sequence);
  to.backend.rounds = {"other", 4};
  const Status status = to.sequence->check_snapshot(bytes);
  CHECK(status.code() == Code::unsupported);
  CHECK(sentence(status) == "the snapshot was made with the arithmetic fake 1, this session runs other 4");
  // Names that differ behind what a snapshot shows of them.
  from.backend.rounds = {"a device whose name goes on for longer than 48 letters, A", 1};
  to.backend.rounds = {"a device whose name goes on for longer than 48 letters, B", 1};
  const Status longer = to.sequence->check_snapshot(snapshot_of(*from.sequence));
  CHECK(longer.code() == Code::unsupported);
  CHECK(sentence(longer).find("begins with a device whose name goes on for longer than 48 ") != std::string::npos);
}
