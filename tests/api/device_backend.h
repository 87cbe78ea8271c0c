// A backend on a device that exists only here: its Values lie in memory of its own, which nobody else reads or writes.
// What other parts have made is copied there when a batch begins, what they or the host will read is copied back at its
// end. It computes with a built-in backend, so what it gives is that one's bits, unless the seam is not tight.
#pragma once
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

#include "core/ops/backend.h"

namespace mote::test {

class DeviceExecutor final : public Executor {
 public:
  DeviceExecutor(const PlanPart& part, const SessionShape& shape, const ValueMemory& host)
      : part_(part), host_(host), offset_bytes_(part.plan->values.size(), ValueMemory::kNowhere) {
    uint64_t bytes = 0;
    for (const Step& step : part_.steps()) {
      for (const Value& input : step.inputs) place(input, shape, &bytes);
      place(step.output, shape, &bytes);
    }
    memory_.resize((bytes + 64) / sizeof(float));
    void* at = memory_.data();
    size_t space = memory_.size() * sizeof(float);
    values_ =
        ValueMemory(static_cast<std::byte*>(std::align(64, static_cast<size_t>(bytes), at, space)), offset_bytes_);
    for (const Value& value : touched_) {
      const bool has_place = host_.data(value) != nullptr;
      if (has_place != (comes_from_outside(value) || is_read_outside(value))) ++n_wrong_places;
    }
  }

  Executor* inner = nullptr;
  size_t n_wrong_places = 0;   // a crossing Value without a place on the host, or the other way round
  const ValueMemory& values() const { return values_; }

  Status run(const Batch& batch, CancelFlag cancel) override {
    if (n_wrong_places != 0) return Status::error(Code::unsupported, "{} Values in wrong places", n_wrong_places);
    for (float& value : memory_) value = NAN;   // nothing stays from batch to batch
    copy(batch, [this](Value value) { return comes_from_outside(value); }, values_, host_);
    MOTE_RETURN_IF_ERROR(inner->run(batch, cancel));
    copy(batch, [this](Value value) { return is_read_outside(value); }, host_, values_);
    return {};
  }
  Status begin(uint32_t first_position, uint32_t rows) override { return inner->begin(first_position, rows); }
  void commit() override { inner->commit(); }
  void discard() override { inner->discard(); }
  Status truncate(uint32_t positions) override { return inner->truncate(positions); }
  Status export_row(State state, uint32_t position, std::span<uint8_t> to) override {
    return inner->export_row(state, position, to);
  }
  Status import_row(State state, uint32_t position, std::span<const uint8_t> from) override {
    return inner->import_row(state, position, from);
  }
  void close() override { inner->close(); }

 private:
  void place(Value value, const SessionShape& shape, uint64_t* bytes) {
    if (!value.exists() || offset_bytes_[value.id] != ValueMemory::kNowhere) return;
    const uint64_t rows = most_rows_of(value, shape);
    offset_bytes_[value.id] = *bytes;
    *bytes += round_up(rows * value.columns * most_positions_of(value, shape) * sizeof(float), 64);
    touched_.push_back(value);
  }
  bool comes_from_outside(Value value) const { return part_.plan->values[value.id].first_step < part_.first; }
  bool is_read_outside(Value value) const {
    const ValueInfo& info = part_.plan->values[value.id];
    return info.first_step >= part_.first && info.last_step >= part_.first + part_.count;
  }
  void copy(const Batch& batch, const std::function<bool(Value)>& wanted, const ValueMemory& to,
            const ValueMemory& from) {
    for (const Value& value : touched_) {
      const Step& maker = part_.plan->steps[part_.plan->values[value.id].first_step];
      if (!wanted(value) || maker.phase != batch.phase) continue;
      const size_t count = size_t{rows_of(value, batch)} * value.columns * positions_of(value, batch);
      std::memcpy(to.data(value), from.data(value), count * sizeof(float));
    }
  }

  PlanPart part_;
  ValueMemory host_, values_;
  std::vector<uint64_t> offset_bytes_;
  std::vector<Value> touched_;
  std::vector<float> memory_;
};

// Runs on one lane. Must outlive its engine.
class DeviceBackend final : public Backend {
 public:
  std::set<Op> refused;
  uint32_t most_context = UINT32_MAX;
  size_t n_parts = 0;   // opened

  explicit DeviceBackend(std::string_view inner) {
    for (const BackendEntry& entry : built_in_backends()) {
      if (inner != entry.name) continue;
      Arena arena(room_, sizeof room_);
      inner_ = entry.create({}, arena).value();
    }
    if (inner_ == nullptr) throw std::runtime_error("no such backend");
  }
  const char* name() const override { return "device"; }
  bool uses_host_values() const override { return false; }
  bool supports(const Step& step, const Plan& plan) const override {
    return refused.count(step.op) == 0 && inner_->supports(step, plan);
  }
  Result<Program*> compile(const PlanPart& part, Arena& arena, Footprint* footprint) override {
    return inner_->compile(part, arena, footprint);
  }
  Result<Executor*> open(const PlanPart& part, Program* program, const SessionShape& shape, const ValueMemory& values,
                         Arena& arena, Footprint* footprint) override {
    if (shape.context > most_context) return Status::error(Code::unsupported, "a context of {}", shape.context);
    if (arena.measuring()) return inner_->open(part, program, shape, values, arena, footprint);
    auto device = std::make_unique<DeviceExecutor>(part, shape, values);
    const Result<Executor*> inner = inner_->open(part, program, shape, device->values(), arena, footprint);
    if (!inner.ok()) return inner;
    device->inner = inner.value();
    executors_.push_back(std::move(device));
    ++n_parts;
    return static_cast<Executor*>(executors_.back().get());
  }

 private:
  alignas(64) unsigned char room_[4096];
  Backend* inner_ = nullptr;
  std::vector<std::unique_ptr<DeviceExecutor>> executors_;
};

}   // namespace mote::test
