// A backend outside of mote's tree, whole, in one file: it adds and it gates, on the host, and leaves every other step
// to the backends after it. A start for a backend of your own; core/ops/backend.h says what each call promises.
//
// It can be told to fail in each of its three stages, to see what becomes of that: the backends after it take over, and
// where there are none, a status with a sentence.
#pragma once
#include <cmath>
#include <string_view>

#include "core/ops/backend.h"

namespace skeleton {

enum class FailAt { never, compile, open, run };

// What one session runs. Values lie in memory that the session has planned; nothing is kept from batch to batch.
class Executor final : public mote::Executor {
 public:
  void set(const mote::PlanPart& part, const mote::ValueMemory& values, FailAt fail_at) {
    part_ = part;
    values_ = values;
    if (fail_at == FailAt::run) runs_left_ = kGoodRuns;
  }

  mote::Status run(const mote::Batch& batch, mote::CancelFlag cancel) override {
    if (runs_left_ == 0)
      return mote::Status::error(mote::Code::backend_failed, "skeleton was told to fail when it runs");
    if (runs_left_ != kNeverFails) --runs_left_;
    for (const mote::Step& step : part_.steps()) {
      if (cancel.requested()) return mote::Status::error(mote::Code::cancelled, "skeleton was cancelled");
      run_step(step, batch);
    }
    return {};
  }

  // There is no state, so there is nothing to begin, to keep or to forget.
  mote::Status begin(uint32_t, uint32_t) override { return {}; }
  void commit() override {}
  void discard() override {}
  mote::Status truncate(uint32_t) override { return {}; }
  mote::Status export_row(mote::State, uint32_t, std::span<uint8_t>) override { return no_state(); }
  mote::Status import_row(mote::State, uint32_t, std::span<const uint8_t>) override { return no_state(); }

 private:
  static mote::Status no_state() { return mote::Status::error(mote::Code::unsupported, "skeleton keeps no state"); }

  // Both ops work element by element, and the output may lie where the first input lies.
  void run_step(const mote::Step& step, const mote::Batch& batch) const {
    const size_t rows = mote::rows_of(step.output, batch);
    const float* a = values_.data(step.inputs[0]);
    const float* b = values_.data(step.inputs[1]);
    float* y = values_.data(step.output);
    for (size_t i = 0; i < rows * step.output.columns; ++i)
      y[i] = step.op == mote::Op::add ? a[i] + b[i] : silu(a[i]) * b[i];
  }
  static float silu(float x) { return static_cast<float>(x / (1.0 + std::exp(-double{x}))); }

  mote::PlanPart part_;
  mote::ValueMemory values_;
  static constexpr uint32_t kGoodRuns = 2, kNeverFails = UINT32_MAX;
  uint32_t runs_left_ = kNeverFails;
};

// What all sessions of a model share: here nothing, for there are no weights to pack.
class Program final : public mote::Program {};

class Backend final : public mote::Backend {
 public:
  // mote::Backend() notes the interface that this is compiled against; an engine with another one refuses the backend.
  explicit Backend(FailAt fail_at = FailAt::never) : fail_at_(fail_at) {}

  const char* name() const override { return "skeleton"; }
  bool uses_host_values() const override { return true; }

  bool supports(const mote::Step& step, const mote::Plan&) const override {
    return step.op == mote::Op::add ||
           (step.op == mote::Op::gate && step.attributes.activate.function == mote::Activation::silu);
  }

  mote::Result<mote::Program*> compile(const mote::PlanPart&, mote::Arena& model_arena, mote::Footprint*) override {
    if (fail_at_ == FailAt::compile && !model_arena.measuring())   // a quote is no try
      return mote::Status::error(mote::Code::backend_failed, "skeleton was told to fail when it compiles");
    mote::Program* program = model_arena.create<Program>();
    MOTE_RETURN_IF_ERROR(model_arena.status("skeleton's program"));
    return program;
  }

  mote::Result<mote::Executor*> open(const mote::PlanPart& part, mote::Program*, const mote::SessionShape&,
                                     const mote::ValueMemory& values, mote::Arena& session_arena,
                                     mote::Footprint*) override {
    if (fail_at_ == FailAt::open && !session_arena.measuring())
      return mote::Status::error(mote::Code::backend_failed, "skeleton was told to fail when it opens a session");
    Executor* executor = session_arena.create<Executor>();
    MOTE_RETURN_IF_ERROR(session_arena.status("skeleton's executor"));
    if (executor != nullptr) executor->set(part, values, fail_at_);   // null while the arena only measures
    return static_cast<mote::Executor*>(executor);
  }

 private:
  FailAt fail_at_;
};

}   // namespace skeleton
