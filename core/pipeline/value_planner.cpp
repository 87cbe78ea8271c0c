#include "core/pipeline/value_planner.h"

#include "core/base/checked.h"

namespace mote {
namespace {

// Free bytes between the live Values, lowest first. Values that live at one time are few (a layer's worth), so a short
// list walked from the front is enough.
class FreeList {
 public:
  uint64_t peak_bytes() const { return peak_; }

  // First fit; ValueMemory::kNowhere when more holes are needed than there is room to note.
  uint64_t take(uint64_t bytes) {
    for (uint32_t i = 0; i < count_; ++i) {
      if (holes_[i].bytes < bytes) continue;
      const uint64_t at = holes_[i].at;
      holes_[i].at += bytes;
      holes_[i].bytes -= bytes;
      if (holes_[i].bytes == 0) remove(i);
      return at;
    }
    // A hole that reaches the end of the block grows.
    uint64_t at = peak_;
    if (count_ > 0 && holes_[count_ - 1].at + holes_[count_ - 1].bytes == peak_) at = holes_[--count_].at;
    peak_ = at + bytes;
    return at;
  }

  bool give_back(uint64_t at, uint64_t bytes) {
    uint32_t i = 0;
    while (i < count_ && holes_[i].at < at) ++i;
    const bool joins_left = i > 0 && holes_[i - 1].at + holes_[i - 1].bytes == at;
    const bool joins_right = i < count_ && at + bytes == holes_[i].at;
    if (joins_left) {
      holes_[i - 1].bytes += bytes;
      if (joins_right) holes_[i - 1].bytes += holes_[i].bytes, remove(i);
      return true;
    }
    if (joins_right) {
      holes_[i] = {at, holes_[i].bytes + bytes};
      return true;
    }
    if (count_ == kMostHoles) return false;
    for (uint32_t j = count_++; j > i; --j) holes_[j] = holes_[j - 1];
    holes_[i] = {at, bytes};
    return true;
  }

 private:
  static constexpr uint32_t kMostHoles = 128;
  struct Hole {
    uint64_t at, bytes;
  };
  void remove(uint32_t i) {
    for (--count_; i < count_; ++i) holes_[i] = holes_[i + 1];
  }

  Hole holes_[kMostHoles];
  uint32_t count_ = 0;
  uint64_t peak_ = 0;
};

class Planner {
 public:
  Planner(const Plan& plan, const SessionShape& shape, std::span<uint64_t> offset_bytes)
      : plan_(plan), shape_(shape), offset_bytes_(offset_bytes) {
    for (uint64_t& offset : offset_bytes_) offset = ValueMemory::kNowhere;
  }

  // Values of a part on a device stay there unless another part made them or reads them. How far some backend may read
  // behind a Value counts for all.
  void mark_host_values(PartWalk parts) {
    for (PlacedPart part; parts.next(&part);) {
      for (const Step& step : part.part.steps()) mark(part, step);
      if (part.backend->over_read_bytes() > over_read_bytes_) over_read_bytes_ = part.backend->over_read_bytes();
    }
    for (const Value result : {plan_.logits, plan_.hidden, plan_.pooled})
      if (result.exists()) mark_value(result);
  }

  Status place(uint32_t index) {
    const Step& step = plan_.steps[index];
    const Value out = step.output;
    if (out.exists() && is_tap(out)) {
      if (offset_bytes_[out.id] == kMarked) MOTE_RETURN_IF_ERROR(place_tap(out));
    } else if (out.exists() && offset_bytes_[out.id] == kMarked) {
      const Value first = step.inputs[0];
      const bool reuse = op_info(step.op).in_place && first.exists() && ends_at(first, index) &&
                         first.rows == out.rows && first.columns == out.columns && placed(first);
      if (reuse) {
        offset_bytes_[out.id] = offset_bytes_[first.id];
        moved_ = first.id;
      } else {
        offset_bytes_[out.id] = free_.take(value_bytes(out));
      }
    }
    for (uint32_t i = 0; i < Step::kMaxInputs; ++i) {
      const Value input = step.inputs[i];
      const bool seen_before = i == 1 && input.id == step.inputs[0].id;
      if (!input.exists() || !ends_at(input, index) || !placed(input) || seen_before) continue;
      if (!release(input)) return too_many();
    }
    // Made and never read: its bytes are free again at once.
    if (out.exists() && placed(out) && plan_.values[out.id].last_step == index && !release(out)) return too_many();
    return {};
  }

  // After the last step: the taps go behind the rest. The bytes of the block.
  Result<uint64_t> finish() {
    const uint64_t others_bytes = free_.peak_bytes();
    uint64_t bytes = 0;
    if (!checked_add(others_bytes, taps_bytes_, &bytes) || bytes >= kMarked) return too_large();
    for (const Step& step : plan_.steps)
      if (step.output.exists() && is_tap(step.output) && placed(step.output))
        offset_bytes_[step.output.id] += others_bytes;
    return bytes;
  }

 private:
  static constexpr uint64_t kMarked = UINT64_MAX - 1;

  static bool is_tap(Value value) { return value.extent != Extent::single; }
  Status place_tap(Value tap) {
    uint64_t count = 0, bytes = 0;
    if (!checked_multiply(uint64_t{most_rows_of(tap, shape_)} * most_positions_of(tap, shape_), tap.columns, &count) ||
        count > (uint64_t{1} << 60) ||
        !checked_add(taps_bytes_, round_up(count * sizeof(float) + over_read_bytes_, kArenaAlignment), &bytes))
      return too_large();
    offset_bytes_[tap.id] = taps_bytes_;
    taps_bytes_ = bytes;
    return {};
  }
  static Status too_large() {
    return Status::error(Code::out_of_memory, "the weights of attention that are tapped need more than 2^64 bytes");
  }

  bool placed(Value value) const { return offset_bytes_[value.id] < kMarked; }
  bool ends_at(Value value, uint32_t index) const { return plan_.values[value.id].last_step == index; }
  uint64_t value_bytes(Value value) const {
    // 2^24 rows x 2^22 columns x 4 fit
    return round_up(uint64_t{most_rows_of(value, shape_)} * value.columns * sizeof(float) + over_read_bytes_,
                    kArenaAlignment);
  }
  static Status too_many() {
    return Status::error(Code::unsupported, "the plan keeps too many Values alive at one time");
  }

  bool release(Value value) {
    if (value.id == moved_) {   // its bytes went on to the step's output
      moved_ = Value::kNone;
      return true;
    }
    return free_.give_back(offset_bytes_[value.id], value_bytes(value));
  }

  void mark(const PlacedPart& placed_part, const Step& step) {
    const PlanPart& part = placed_part.part;
    const bool host = placed_part.backend->uses_host_values();
    for (const Value& input : step.inputs)
      if (input.exists() && (host || plan_.values[input.id].first_step < part.first)) mark_value(input);
    if (step.output.exists() && (host || plan_.values[step.output.id].last_step >= part.first + part.count))
      mark_value(step.output);
  }
  void mark_value(Value value) { offset_bytes_[value.id] = kMarked; }

  const Plan& plan_;
  const SessionShape& shape_;
  std::span<uint64_t> offset_bytes_;
  FreeList free_;
  uint16_t moved_ = Value::kNone;
  uint64_t over_read_bytes_ = 0, taps_bytes_ = 0;
};

}   // namespace

Result<uint64_t> plan_values(const Plan& plan, const PartWalk& parts, const SessionShape& shape,
                             std::span<uint64_t> offset_bytes) {
  Planner planner(plan, shape, offset_bytes);
  planner.mark_host_values(parts);
  for (uint32_t i = 0; i < plan.steps.size(); ++i) MOTE_RETURN_IF_ERROR(planner.place(i));
  return planner.finish();
}

}   // namespace mote
