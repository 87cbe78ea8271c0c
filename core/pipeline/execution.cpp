#include "core/pipeline/execution.h"

#include "core/pipeline/value_planner.h"

namespace mote {

Status Execution::open(const Plan& plan, const PartWalk& parts, const SessionShape& shape, Arena& arena,
                       std::span<uint64_t> offset_scratch, ExecutionBytes* bytes, Backend** failed) {
  uint64_t before = arena.used_bytes(), count = 0;
  const auto kind = [&](uint64_t* counter) {
    *counter += arena.used_bytes() - before;
    before = arena.used_bytes();
  };
  *failed = nullptr;
  PartWalk counting = parts;
  for (PlacedPart part; counting.next(&part);) ++count;
  MOTE_RETURN_IF_ERROR(counting.status());
  const std::span<uint64_t> own_offsets = arena.take<uint64_t>(plan.values.size());
  executors_ = arena.take<Executor*>(count);
  for (Executor*& executor : executors_) executor = nullptr;
  kind(&bytes->plan_bytes);
  const std::span<uint64_t> offsets = arena.measuring() ? offset_scratch : own_offsets;
  if (offsets.size() < plan.values.size()) {
    MOTE_RETURN_IF_ERROR(arena.status("the session"));
    return Status::error(Code::out_of_memory, "no working memory for the places of {} Values", plan.values.size());
  }
  MOTE_ASSIGN_OR_RETURN(const uint64_t block_bytes, plan_values(plan, parts, shape, offsets));
  const std::span<std::byte> block = arena.take<std::byte>(block_bytes);
  kind(&bytes->activation_bytes);
  MOTE_RETURN_IF_ERROR(arena.status("the session"));
  parts_ = parts.table();
  values_ = ValueMemory(block.data(), offsets);
  return open_parts(parts, shape, arena, &bytes->footprint, failed);
}

Status Execution::open_parts(PartWalk parts, const SessionShape& shape, Arena& arena, Footprint* footprint,
                             Backend** failed) {
  PlacedPart part;
  for (size_t i = 0; parts.next(&part); ++i) {
    const Result<Executor*> executor = part.backend->open(part.part, part.program, shape, values_, arena, footprint);
    const Status status = executor.ok() ? arena.status("the session") : executor.status();
    if (executor.ok() && i < executors_.size()) executors_[i] = executor.value();
    if (status.ok()) continue;
    close();
    *failed = part.backend;
    return status;
  }
  return parts.status();
}

void Execution::close() {
  for (Executor* executor : executors_)
    if (executor != nullptr) executor->close();
  executors_ = {};
}

Status Execution::run(const Batch& batch, const std::atomic<uint32_t>& cancel, Backend** failed) {
  const auto rows = static_cast<uint32_t>(batch.tokens.size());
  const bool is_decode = batch.phase == Phase::decode;   // only then states are begun, kept and given up
  Status status;
  size_t begun = 0;
  while (is_decode && begun < executors_.size() && status.ok()) {
    *failed = parts_[begun].backend;
    status = executors_[begun]->begin(batch.first_position, rows);
    if (status.ok()) ++begun;
  }
  for (size_t i = 0; i < executors_.size() && status.ok(); ++i) {
    if (!parts_[i].part.runs_in(batch.phase)) continue;
    if (batch.observer != nullptr) batch.observer->part_begins(batch.observer->self, parts_[i].part, batch);
    *failed = parts_[i].backend;
    // Also before the first part: a flag set between two calls counts for the next.
    if (cancel.load(std::memory_order_relaxed) != 0)
      status = Status::error(Code::cancelled, "cancelled at position {}", batch.first_position);
    else
      status = executors_[i]->run(batch, CancelFlag(&cancel));
  }
  for (size_t i = 0; i < begun; ++i) status.ok() ? executors_[i]->commit() : executors_[i]->discard();
  if (status.ok()) *failed = nullptr;
  return status;
}

bool Execution::truncate(uint32_t positions) {
  bool can_go_back = true;
  for (size_t i = 0; i < executors_.size() && can_go_back; ++i) can_go_back = executors_[i]->truncate(positions).ok();
  return can_go_back;
}

void Execution::forget() {
  for (Executor* executor : executors_) static_cast<void>(executor->truncate(0).ok());
}

}   // namespace mote
