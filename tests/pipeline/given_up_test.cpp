// What becomes of backends that failed: their memory, what else they had open, and who tries them again.
#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "tests/pipeline/three_backends.h"
#include "tests/support/emulated.h"

using namespace mote;
using namespace mote::test;

namespace {

// Of this process, in whole pages.
uint64_t mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  REQUIRE(file >> pages);
  return pages * 4096;
}

}   // namespace

TEST_CASE("Memory of what has failed is given back, and all of it at the end", "[pipeline][fallback]") {
  if (is_emulated() && sizeof(void*) < 8) SKIP("the emulator has mapped all of a 32-bit address space by itself");
  constexpr uint64_t kMuch = uint64_t{256} << 20;   // never touched
  struct Way {
    const char* what;
    void (*set_up)(Three&);
    bool second_runs;
  };
  const Way ways[] = {
      {"a session that runs", [](Three& f) { f.second.executor_bytes = kMuch; }, true},
      {"a session that does not open", [](Three& f) { f.second.executor_bytes = kMuch, f.second.fails_open = true; },
       false},
      {"a plan that does not compile", [](Three& f) { f.second.program_bytes = kMuch, f.second.fails_compile = true; },
       false},
      {"a plan", [](Three& f) { f.second.program_bytes = kMuch; }, true},
  };
  for (const Way& way : ways) {
    INFO(way.what);
    const uint64_t before = mapped_bytes();
    {
      Three f(wanted(), 0, way.set_up);
      f.first.executor.fail_run_at = 0;
      REQUIRE(f.feed(counting(1, 9)).ok());
      CHECK((f.runs_on() == &f.second) == way.second_runs);
      CHECK((mapped_bytes() > before + kMuch / 2) == way.second_runs);
      if (way.second_runs) {
        f.second.executor.fail_run_at = static_cast<uint32_t>(f.second.executor.runs.size());
        REQUIRE(f.feed(counting(10, 6)).ok());
        CHECK(f.runs_on() == &f.third);
        // Compiled plans are the model's, for sessions that come.
        CHECK((mapped_bytes() > before + kMuch / 2) == (f.second.program_bytes != 0));
      }
      f.sequence->close();
    }
    CHECK(mapped_bytes() < before + kMuch / 2);
  }
}

TEST_CASE("A session never goes back to a backend that its model has given up", "[pipeline][fallback]") {
  Three f(wanted(), 0, {}, {Op::gate});   // first, second, first, ...
  const Result<Sequence*> other = f.opened.open(wanted());
  REQUIRE(other.ok());
  f.first.executor.fail_run_at = 0;
  REQUIRE(f.feed(counting(1, 9)).ok());
  CHECK(f.runs_on() == &f.second);
  f.first.executor.fail_run_at = UINT32_MAX;
  f.second.executor.fails_begin = true;
  size_t done = 0;
  REQUIRE(other.value()->feed(counting(1, 9), &done).ok());
  for (const PlacedPart& part : other.value()->parts()) CHECK(part.backend == &f.third);
}

TEST_CASE("What did not compile is not tried again by a session whose own failure it was not", "[pipeline][fallback]") {
  Three f(wanted(), 0, [](Three& three) { three.first.fails_open = three.second.fails_compile = true; });
  CHECK(f.runs_on() == &f.third);
  const Result<Sequence*> later = f.opened.open(wanted());
  REQUIRE(later.ok());
  CHECK(f.first.n_opened == 2);
  CHECK(f.second.n_compiled == 1);
}

TEST_CASE("Where a part does not open, those that did are closed", "[pipeline][fallback]") {
  Three f(wanted(), 0, [](Three& three) { three.second.fails_open = true; }, {Op::gate});
  REQUIRE(f.sequence != nullptr);
  CHECK(f.first.executor.n_closed == 1);
  CHECK(f.third.n_opened == 2);   // for the gates
}

TEST_CASE("A backend that takes more than it measured is out of memory, and closed", "[pipeline][fallback]") {
  Three opens(wanted(), 0, [](Three& three) { three.first.more_than_measured = 64; });
  CHECK(opens.status.code() == Code::out_of_memory);
  CHECK(opens.first.executor.n_closed == 1);
  Three compiles(wanted());
  compiles.second.more_than_measured = 64;
  compiles.first.executor.fail_run_at = 0;
  CHECK(compiles.feed(counting(1, 9)).code() == Code::backend_failed);
  REQUIRE(compiles.opened.lines.size() == 1);
  CHECK(compiles.opened.lines[0].find("the model needs at least") != std::string::npos);
}

TEST_CASE("Fall-backs that nobody takes are not in the quotes, and a backend of another engine is refused",
          "[pipeline][fallback]") {
  Three f(wanted(), 0, [](Three& three) { three.second.refused = three.third.refused = {Op::gate}; });
  CHECK(f.opened.fallback_bytes == 0);
  const auto measure = [&](BackendSet excluded, Arena& sizes) {
    CompiledPlan* made = nullptr;
    Backend* failed = nullptr;
    return f.opened.plans.layout(excluded, sizes, &made, &failed);
  };
  CHECK(f.opened.plans.fallback_bytes(0, measure) == 0);
  FakeBackend stranger("stranger");
  const Status status = f.opened.plans.without(stranger, f.opened.plans.current(), true).status();
  CHECK(status.code() == Code::unsupported);
  CHECK(status.message() == "backend stranger is not of this engine");
  // Measuring wants room for the places of the Values.
  Execution execution;
  ExecutionBytes bytes;
  Backend* failed = nullptr;
  Arena measuring;
  CHECK(execution.open(f.test.plan, f.opened.plans.walk(0), wanted().shape, measuring, {}, &bytes, &failed).code() ==
        Code::out_of_memory);
}

TEST_CASE("A cancel is seen before a part, whatever its backend looks at", "[pipeline][fallback]") {
  Three f;
  f.first.executor.looks_at_cancel = false;
  f.sequence->cancel_flag().store(1);
  CHECK(f.feed(counting(1, 9)).code() == Code::cancelled);
  CHECK(f.first.executor.runs.empty());
}

TEST_CASE("A plan that is compiled half way leaves nothing open", "[pipeline][fallback]") {
  FakeBackend first("first"), second("second");
  first.refused = {Op::gate};
  first.has_program = second.has_program = true;
  const TestPlan test([](PlanBuilder& b) { build_small(b, 1); });   // first, second, first
  Backend* const order[] = {&first, &second};
  const auto compile = [&](uint64_t room_bytes, Backend** failed) {
    Room table(4096), room(room_bytes);
    Arena of_table = table.arena(), arena = room.arena();
    const Placement placement = place_steps(test.plan, order, of_table).value();
    Footprint footprint;
    return compile_parts(PartWalk(placement.parts), placement.parts, arena, &footprint, failed).code();
  };
  Backend* failed = nullptr;
  first.program_bytes = second.program_bytes = 64;
  REQUIRE(compile(192, &failed) == Code::ok);
  CHECK(first.program.n_closed + second.program.n_closed == 0);
  CHECK(compile(128, &failed) == Code::out_of_memory);   // the third one is made, and does not fit
  CHECK(failed == &first);
  CHECK(first.program.n_closed == 2);
  CHECK(second.program.n_closed == 1);
  second.fails_compile = true;
  CHECK(compile(192, &failed) == Code::backend_failed);
  CHECK(failed == &second);
  CHECK(first.program.n_closed == 3);
  CHECK(second.program.n_closed == 1);
}

TEST_CASE("A reserve gives aligned pieces that never share a byte, and takes back the last one",
          "[pipeline][fallback]") {
  Room room(448);
  Arena arena = room.arena();
  Reserve reserve(arena.rest(0));
  const auto take = [&](uint64_t bytes) { return reserve.take(bytes, "a piece").value(); };
  const Reserve::Block a = take(10), b = take(65), c = take(1);
  CHECK((b.at - a.at == 64 && c.at - b.at == 128));
  CHECK(!(a.pages || b.pages || c.pages));
  reserve.give_back(a);   // lies before others, so nothing is made of it
  const Reserve::Block d = take(192);
  CHECK(d.at - c.at == 64);
  CHECK(take(1).pages);   // all of it is in use
  reserve.give_back(d);
  CHECK(take(192).at == d.at);
}
