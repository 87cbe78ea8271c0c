// A backend that computes nothing but writes down what it is asked: for tests of placement, planning and sequences.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "core/ops/backend.h"
#include "core/ops/plan_builder.h"

namespace mote::test {

struct FakeExecutor final : Executor {
  struct Run {
    uint32_t first_position, rows;
    size_t outputs;
  };
  std::vector<Run> runs;
  std::vector<uint32_t> truncations;
  uint32_t n_committed = 0, n_discarded = 0, n_closed = 0;
  struct Imported {
    uint32_t state, position;
    size_t bytes;
    uint8_t said_state, said_position;
  };
  std::vector<Imported> imported;   // and not forgotten since
  size_t fail_import_at = SIZE_MAX;
  uint32_t fail_run_at = UINT32_MAX;   // the run of this number fails
  Code failure = Code::backend_failed;
  bool fails_begin = false;
  bool looks_at_cancel = true;
  bool refuses_truncate = false;   // like a ring that no longer holds the window
  std::atomic<uint32_t>* cancel_during_run = nullptr;
  size_t cancel_at = 0;   // from the run of this number on
  Value logits;
  ValueMemory values;

  // Logits of a row: position in the first entry, token in the second.
  Status run(const Batch& batch, CancelFlag cancel) override {
    if (runs.size() == fail_run_at) return Status::error(failure, "run {} was told to fail", runs.size());
    if (cancel_during_run != nullptr && runs.size() >= cancel_at) cancel_during_run->store(1);
    if (looks_at_cancel && cancel.requested()) return Status::error(Code::cancelled, "cancelled");
    runs.push_back({batch.first_position, static_cast<uint32_t>(batch.tokens.size()), batch.output_rows.size()});
    if (logits.exists() && values.data(logits) != nullptr)
      for (size_t i = 0; i < batch.output_rows.size(); ++i) {
        float* row = values.data(logits) + i * logits.columns;
        row[0] = static_cast<float>(batch.first_position + batch.output_rows[i]);
        row[1] = static_cast<float>(batch.tokens[batch.output_rows[i]]);
      }
    return {};
  }
  Status begin(uint32_t, uint32_t) override {
    return fails_begin ? Status::error(Code::backend_failed, "a batch was told not to begin") : Status();
  }
  void close() override { ++n_closed; }
  void commit() override { ++n_committed; }
  void discard() override { ++n_discarded; }
  Status truncate(uint32_t positions) override {
    truncations.push_back(positions);
    if (positions == 0) imported.clear();
    if (refuses_truncate && positions != 0) return Status::error(Code::wrong_state, "the window is gone");
    return {};
  }
  // A row is its layer and position, repeated.
  Status export_row(State state, uint32_t position, std::span<uint8_t> to) override {
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<uint8_t>(i % 2 == 0 ? state.id : position);
    return {};
  }
  Status import_row(State state, uint32_t position, std::span<const uint8_t> from) override {
    if (imported.size() == fail_import_at) return Status::error(Code::backend_failed, "an import was told to fail");
    imported.push_back({state.id, position, from.size(), from[0], from[1]});
    return {};
  }
};

struct FakeProgram final : Program {
  int n_closed = 0;
  void close() override { ++n_closed; }
};

struct FakeBackend final : Backend {
  explicit FakeBackend(const char* name, bool host = true) : name_(name), host_(host) {}
  std::set<Op> refused;
  FakeExecutor executor;
  FakeProgram program;
  bool has_program = false;   // else null, whatever is compiled
  bool fails_compile = false, fails_open = false;
  uint32_t n_compiled = 0, n_opened = 0;
  uint64_t program_bytes = 0, executor_bytes = 0;   // taken from the arenas
  uint64_t more_than_measured = 0;                  // of both, in bytes
  Arithmetic rounds = {nullptr, 0};                 // NULL: its name, version 1
  uint32_t over_read = 0;

  const char* name() const override { return name_; }
  Arithmetic arithmetic() const override { return rounds.name == nullptr ? Backend::arithmetic() : rounds; }
  bool uses_host_values() const override { return host_; }
  uint32_t over_read_bytes() const override { return over_read; }
  bool supports(const Step& step, const Plan&) const override { return refused.count(step.op) == 0; }
  Result<Program*> compile(const PlanPart&, Arena& arena, Footprint*) override {
    if (!arena.measuring()) ++n_compiled;
    if (fails_compile && !arena.measuring()) return Status::error(Code::backend_failed, "told not to compile");
    arena.take<std::byte>(program_bytes + (arena.measuring() ? 0 : more_than_measured));
    return arena.measuring() || !has_program ? static_cast<Program*>(nullptr) : &program;
  }
  Result<Executor*> open(const PlanPart& part, Program*, const SessionShape&, const ValueMemory& values, Arena& arena,
                         Footprint*) override {
    arena.take<std::byte>(executor_bytes + (arena.measuring() ? 0 : more_than_measured));
    if (arena.measuring()) return static_cast<Executor*>(nullptr);
    ++n_opened;
    if (fails_open) return Status::error(Code::backend_failed, "told not to open");
    executor.logits = part.plan->logits;
    executor.values = values;
    return static_cast<Executor*>(&executor);
  }

 private:
  const char* name_;
  bool host_;
};

// A plan in the heap: llama-like layers over fake tensors.
struct TestPlan {
  std::vector<Step> steps;
  std::vector<ValueInfo> values;
  std::vector<StateInfo> states;
  Plan plan;

  template <class Build>
  explicit TestPlan(Build build) : steps(512), values(512), states(64) {
    PlanBuilder builder(steps, values, states);
    build(builder);
    plan = builder.finish().value();
  }
};

inline Matrix fake_matrix(uint32_t rows, uint32_t columns) { return {nullptr, rows, columns, Format::f32, "fake"}; }

// window: of the odd layers; 0: none.
inline void build_small(PlanBuilder& b, uint32_t n_layers = 2, uint32_t d = 32, uint32_t n_vocab = 100,
                        uint32_t window = 0) {
  const RopeSettings rope{{nullptr, 8, 1}, RopePairing::halves, 0};
  Value x = b.embed(fake_matrix(n_vocab, d));
  for (uint32_t i = 0; i < n_layers; ++i) {
    b.enter_layer(i);
    Value h = b.rms_norm(x, {nullptr, d}, 1e-5f);
    Value q = b.rope(b.linear(h, fake_matrix(d, d)), 8, rope);
    Value k = b.rope(b.linear(h, fake_matrix(d, d)), 8, rope);
    State past = b.append(b.kv_state(d / 8, 8, 8, i % 2 == 1 ? window : 0), k, b.linear(h, fake_matrix(d, d)));
    x = b.add(x, b.linear(b.causal_attention(q, past, {d / 8, 1, 0}), fake_matrix(d, d)));
    h = b.rms_norm(x, {nullptr, d}, 1e-5f);
    x = b.add(x,
              b.linear(b.gate(b.linear(h, fake_matrix(3 * d, d)), b.linear(h, fake_matrix(3 * d, d)), Activation::silu),
                       fake_matrix(d, 3 * d)));
  }
  b.leave_layers();
  static_cast<void>(
      b.logits(b.linear(b.rms_norm(b.take_wanted_rows(x), {nullptr, d}, 1e-5f), fake_matrix(n_vocab, d))).ok());
}

}   // namespace mote::test
