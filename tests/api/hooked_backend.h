// A backend that does what a built-in one does and asks the test before each thing it does: to fail, or to raise a
// cancel, at exactly the n-th. It counts what it has compiled and opened, from any thread.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "core/ops/backend.h"

namespace mote::test {

// compile and open: not while they measure; what is asked of a plan and of a shape is asked then too.
struct Hooks {
  std::function<Status()> on_plan = [] { return Status(); };
  std::function<Status(const SessionShape&)> on_shape = [](const SessionShape&) { return Status(); };
  std::function<Status()> on_compile = [] { return Status(); };
  std::function<Status()> on_open = [] { return Status(); };
  std::function<Status()> on_run = [] { return Status(); };
  std::function<Status()> on_import = [] { return Status(); };
  std::function<Status()> on_export = [] { return Status(); };
};

struct HookedCounts {
  std::atomic<int> compiled{0}, programs{0}, opened{0}, executors{0};   // programs, executors: those not closed yet
};

class HookedProgram final : public Program {
 public:
  HookedProgram(Program* wrapped, HookedCounts* counts) : inner(wrapped), counts_(counts) {}
  void close() override {
    --counts_->programs;
    inner->close();
  }
  Program* const inner;

 private:
  HookedCounts* counts_;
};

class HookedExecutor final : public Executor {
 public:
  HookedExecutor(Executor* inner, Hooks* hooks, HookedCounts* counts) : inner_(inner), hooks_(hooks), counts_(counts) {}
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
  void close() override {
    --counts_->executors;
    inner_->close();
  }

 private:
  Executor* inner_;
  Hooks* hooks_;
  HookedCounts* counts_;
};

// Runs on one lane. Must outlive its engine.
class HookedBackend final : public Backend {
 public:
  Hooks hooks;
  HookedCounts counts;
  int n_closed = 0;
  uint64_t bytes_before_asking = 0;   // taken by compile and open before they ask of the plan and the shape
  uint32_t version = 0;               // of the arithmetic; 0: the inner backend's

  explicit HookedBackend(std::string_view inner, const char* name = "hooked") : name_(name) {
    for (const BackendEntry& entry : built_in_backends()) {
      if (inner != entry.name) continue;
      Arena arena(room_, sizeof room_);
      inner_ = entry.create({}, arena).value();
    }
    if (inner_ == nullptr) throw std::runtime_error("no such backend");
  }
  const char* name() const override { return name_; }
  Arithmetic arithmetic() const override {
    const Arithmetic own = inner_->arithmetic();
    return {own.name, version == 0 ? own.version : version};
  }
  bool uses_host_values() const override { return inner_->uses_host_values(); }
  uint32_t over_read_bytes() const override { return inner_->over_read_bytes(); }
  bool supports(const Step& step, const Plan& plan) const override { return inner_->supports(step, plan); }
  Result<Program*> compile(const PlanPart& part, Arena& arena, Footprint* footprint) override {
    arena.take<std::byte>(bytes_before_asking);
    MOTE_RETURN_IF_ERROR(arena.status("what is taken before asking"));
    MOTE_RETURN_IF_ERROR(hooks.on_plan());
    if (arena.measuring()) return inner_->compile(part, arena, footprint);
    ++counts.compiled;
    MOTE_RETURN_IF_ERROR(hooks.on_compile());
    const Result<Program*> compiled = inner_->compile(part, arena, footprint);
    if (!compiled.ok() || compiled.value() == nullptr) return compiled;
    ++counts.programs;
    const std::lock_guard lock(mutex_);
    programs_.push_back(std::make_unique<HookedProgram>(compiled.value(), &counts));
    return static_cast<Program*>(programs_.back().get());
  }
  Result<Executor*> open(const PlanPart& part, Program* program, const SessionShape& shape, const ValueMemory& values,
                         Arena& arena, Footprint* footprint) override {
    Program* const inner = program == nullptr ? nullptr : static_cast<HookedProgram*>(program)->inner;
    arena.take<std::byte>(bytes_before_asking);
    MOTE_RETURN_IF_ERROR(arena.status("what is taken before asking"));
    MOTE_RETURN_IF_ERROR(hooks.on_shape(shape));
    if (arena.measuring()) return inner_->open(part, inner, shape, values, arena, footprint);
    ++counts.opened;
    MOTE_RETURN_IF_ERROR(hooks.on_open());
    const Result<Executor*> opened = inner_->open(part, inner, shape, values, arena, footprint);
    if (!opened.ok() || opened.value() == nullptr) return opened;
    ++counts.executors;
    const std::lock_guard lock(mutex_);
    executors_.push_back(std::make_unique<HookedExecutor>(opened.value(), &hooks, &counts));
    return static_cast<Executor*>(executors_.back().get());
  }
  void close() override { ++n_closed; }

 private:
  alignas(64) unsigned char room_[4096];
  const char* name_;
  Backend* inner_ = nullptr;
  std::mutex mutex_;
  std::vector<std::unique_ptr<HookedProgram>> programs_;
  std::vector<std::unique_ptr<HookedExecutor>> executors_;
};

}   // namespace mote::test
