// What `compile` and `open` make.
#pragma once
#include <span>

#include "backends/cpu/step.h"
#include "core/ops/backend.h"

namespace mote {

// The steps of a part with their kernels: shared by sessions.
class CpuProgram final : public Program {
 public:
  std::span<PreparedStep> steps;   // empty while measuring
};

// Chooses the kernels of a part.
Status prepare_steps(const PlanPart& part, IsaBits available, std::span<PreparedStep> steps);
// Whether sessions of this shape can be counted in 32 bits, as pieces of work are.
Status check_shape(const PlanPart& part, const SessionShape& shape);
// Whether the op has a row in runners.inc.
bool has_runner(Op op);
// Whether this backend runs the step.
bool supports_step(const Step& step, const Plan& plan);

class CpuExecutor final : public Executor {
 public:
  Status run(const Batch& batch, CancelFlag cancel) override;
  Status begin(uint32_t first_position, uint32_t rows) override;
  void commit() override;
  void discard() override;
  Status truncate(uint32_t positions) override;
  Status export_row(State state, uint32_t position, std::span<uint8_t> to) override;
  Status import_row(State state, uint32_t position, std::span<const uint8_t> from) override;

  // Set by `open`, once.
  const CpuProgram* program = nullptr;
  ValueMemory values;
  Parallel parallel;
  StepScratch scratch;
  std::span<KvState> states;             // by State::id; those of other parts and of the other kind do not exist
  std::span<RecurrentState> recurrent;   // likewise
  SessionShape shape;

 private:
  bool has_states() const;
  Status check_row(State state, uint32_t position, size_t bytes) const;
  uint32_t length_ = 0;   // positions that are committed
  uint32_t pending_first_ = 0, pending_rows_ = 0;
};

}   // namespace mote
