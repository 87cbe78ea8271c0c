// Three backends that could each run all of a plan, and a sequence on it: for tests of what happens when one fails.
#pragma once
#include "tests/pipeline/fixture.h"

namespace mote::test {

inline SequenceOptions wanted(uint32_t context = 32, uint32_t max_batch = 4, bool slide = false) {
  SequenceOptions options;
  options.shape = {max_batch, 2, context, KvType::f32};
  options.slide = slide;
  options.keep = slide ? 2 : 0;
  return options;
}

// Three backends that could each run all of it, and a sequence.
struct Three {
  FakeBackend first{"first"}, second{"second"}, third{"third"};
  TestPlan test;
  OpenedPlan opened;
  Sequence* sequence = nullptr;
  Status status;

  explicit Three(SequenceOptions options = wanted(), uint64_t beyond_bytes = 0,
                 const std::function<void(Three&)>& set_up = {}, const std::set<Op>& first_refuses = {})
      : test((first.refused = first_refuses, [](PlanBuilder& b) { build_small(b); })),
        opened(test.plan, {&first, &second, &third}) {
    if (set_up) set_up(*this);
    const Result<Sequence*> created = opened.open(options, beyond_bytes);
    status = created.status();
    sequence = created.ok() ? created.value() : nullptr;
  }

  Status feed(const std::vector<int32_t>& tokens) { return sequence->feed(tokens, &done); }
  std::vector<int32_t> history() const { return {sequence->history().begin(), sequence->history().end()}; }
  const Backend* runs_on() const { return sequence->parts()[0].backend; }
  size_t done = 0;
};

}   // namespace mote::test
