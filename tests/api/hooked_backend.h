// A backend that does what a built-in one does and asks the test before each run and each row of a state: to fail, or
// to raise a cancel, at exactly the n-th.
#pragma once
#include <functional>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "core/ops/backend.h"

namespace mote::test {

struct Hooks {
  std::function<Status()> on_run = [] { return Status(); };
  std::function<Status()> on_import = [] { return Status(); };
  std::function<Status()> on_export = [] { return Status(); };
};

class HookedExecutor final : public Executor {
 public:
  HookedExecutor(Executor* inner, Hooks* hooks) : inner_(inner), hooks_(hooks) {}
  Status run(const Batch& batch, CancelFlag cancel) override {
    MOTE_RETURN_IF_ERROR(hooks_->on_run());
    return inner_->run(batch, cancel);
  }
  Status begin(uint32_t first_position, uint32_t rows) override { return inner_->begin(first_position, rows); }
  void commit() override { inner_->commit(); }
  void discard() override { inner_->discard(); }
  Status truncate(uint32_t positions) override { return inner_->truncate(positions); }
  Status export_row(State state, uint32_t position, std::span<uint8_t> to) override {
    MOTE_RETURN_IF_ERROR(hooks_->on_export());
    return inner_->export_row(state, position, to);
  }
  Status import_row(State state, uint32_t position, std::span<const uint8_t> from) override {
    MOTE_RETURN_IF_ERROR(hooks_->on_import());
    return inner_->import_row(state, position, from);
  }
  void close() override { inner_->close(); }

 private:
  Executor* inner_;
  Hooks* hooks_;
};

// Runs on one lane. Must outlive its engine.
class HookedBackend final : public Backend {
 public:
  Hooks hooks;
  int n_closed = 0;
  uint32_t version = 0;   // of the arithmetic; 0: the inner backend's

  explicit HookedBackend(std::string_view inner) {
    for (const BackendEntry& entry : built_in_backends()) {
      if (inner != entry.name) continue;
      Arena arena(room_, sizeof room_);
      inner_ = entry.create({}, arena).value();
    }
    if (inner_ == nullptr) throw std::runtime_error("no such backend");
  }
  const char* name() const override { return "hooked"; }
  Arithmetic arithmetic() const override {
    const Arithmetic own = inner_->arithmetic();
    return {own.name, version == 0 ? own.version : version};
  }
  bool uses_host_values() const override { return inner_->uses_host_values(); }
  uint32_t over_read_bytes() const override { return inner_->over_read_bytes(); }
  bool supports(const Step& step, const Plan& plan) const override { return inner_->supports(step, plan); }
  Result<Program*> compile(const PlanPart& part, Arena& arena, Footprint* footprint) override {
    return inner_->compile(part, arena, footprint);
  }
  Result<Executor*> open(const PlanPart& part, Program* program, const SessionShape& shape, const ValueMemory& values,
                         Arena& arena, Footprint* footprint) override {
    const Result<Executor*> opened = inner_->open(part, program, shape, values, arena, footprint);
    if (!opened.ok() || opened.value() == nullptr) return opened;
    executors_.push_back(std::make_unique<HookedExecutor>(opened.value(), &hooks));
    return static_cast<Executor*>(executors_.back().get());
  }
  void close() override { ++n_closed; }

 private:
  alignas(64) unsigned char room_[4096];
  Backend* inner_ = nullptr;
  std::vector<std::unique_ptr<HookedExecutor>> executors_;
};

}   // namespace mote::test
