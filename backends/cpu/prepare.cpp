// What the backend supports, the choice of kernels, and the sizes of a session's working memory.
#include <algorithm>

#include "backends/cpu/program.h"

namespace mote {
namespace {

bool supports_matrix(const Matrix& matrix) {
  const FormatInfo& info = format_info(matrix.format);
  return info.enabled && matrix.columns % info.block_values == 0;
}

bool supports_state(const Step& step, const Plan& plan) {
  if (step.state.id >= plan.states.size()) return false;
  const StateInfo& state = plan.states[step.state.id];
  if (state.n_kv_heads == 0 || state.key_dim == 0 || state.value_dim == 0) return false;
  if (step.op == Op::append) return true;
  if (step.attributes.attention.sees == Sees::all && (state.phase != Phase::encode || state.window != 0)) return false;
  return step.attributes.attention.n_heads != 0 && step.attributes.attention.n_heads % state.n_kv_heads == 0;
}

bool attends(Op op) { return op == Op::attention || op == Op::attention_weights; }

bool supports_recurrence(const Step& step, const Plan& plan) {
  if (step.state.id >= plan.states.size() || !supports_matrix(step.matrix)) return false;
  const StateInfo& state = plan.states[step.state.id];
  const uint32_t width = step.output.columns;
  return state.recurrent() && state.n_kv_heads == 1 && state.value_dim == width && step.matrix.rows == width &&
         step.matrix.columns == width;
}

template <class Variants>
auto* choose_table(const Variants& variants, IsaBits available) {
  return choose_kernel(variants.data(), static_cast<uint32_t>(variants.size()), available).table;
}

// What the table says of a step behind one of `op`.
enum class Fusion : uint8_t { none, beside, columns, rows };
Fusion fusion_of(Op op, Op behind) {
#define MOTE_CPU_FUSION(first, second, how) \
  if (op == Op::first && behind == Op::second) return Fusion::how;
#include "backends/cpu/fusions.inc"
#undef MOTE_CPU_FUSION
  return Fusion::none;
}

// Whether `next`, right behind these steps, is fused with them in that way.
bool joins(std::span<const PreparedStep> steps, const PreparedStep& next, Fusion how) {
  const PreparedStep& lead = steps.front();
  const Step& step = *next.step;
  if (fusion_of(steps.back().step->op, step.op) != how || step.phase != lead.step->phase) return false;
  if (how == Fusion::beside)   // their outputs lie apart, since the input lives until the last of them
    return step.inputs[0].id == lead.step->inputs[0].id && next.linear->form == lead.linear->form;
  for (const Value& value : {step.inputs[0], step.inputs[1], step.output})
    if (value.exists() && value.rows != lead.step->output.rows) return false;
  if (how == Fusion::rows) return true;
  // Columns are written while lanes still multiply: where they read x itself, the output may lie on it, and so it may
  // on outputs that the step does not read.
  return lead.linear->form != nullptr && std::all_of(steps.begin(), steps.end(), [&](const PreparedStep& made) {
           const Value output = made.step->output;
           return output.id == step.inputs[0].id || (op_info(step.op).n_inputs > 1 && output.id == step.inputs[1].id);
         });
}

void make_groups(std::span<PreparedStep> steps) {
  for (size_t first = 0, next = 0; first < steps.size(); first = next) {
    PreparedStep& lead = steps[first];
    next = first + 1;
    const auto grows = [&](Fusion how) {
      return next < steps.size() && joins(steps.subspan(first, next - first), steps[next], how);
    };
    if (lead.step->op != Op::linear) continue;
    for (; grows(Fusion::beside); ++next) steps[next].together = 0;
    lead.together = static_cast<uint32_t>(next - first);
    lead.by_columns = grows(Fusion::columns);
    if (lead.by_columns) ++next;
    while (grows(Fusion::rows)) ++next;
    lead.group = static_cast<uint32_t>(next - first);
  }
}

}   // namespace

bool supports_step(const Step& step, const Plan& plan) {
  if (!has_runner(step.op)) return false;
  switch (step.op) {
    case Op::embed:
    case Op::position_embed:
    case Op::linear:
      return supports_matrix(step.matrix);
    case Op::rope:
      return step.attributes.rope.n_rotated % 2 == 0 && step.attributes.rope.n_rotated <= step.attributes.rope.head_dim;
    case Op::rnn:
      return supports_recurrence(step, plan);
    case Op::append:
    case Op::attention:
    case Op::attention_weights:
      return supports_state(step, plan);
    default:   // whatever its attributes: tests/conformance tries what is claimed
      return true;
  }
}

Status prepare_steps(const PlanPart& part, IsaBits available, std::span<PreparedStep> steps) {
  const AttentionTable* attention = choose_table(attention_variants(), available);
  const NormTable* norm = choose_table(norm_variants(), available);
  const ElementwiseTable* elementwise = choose_table(elementwise_variants(), available);
  Value formed;   // the Value that stands in the scratch, and how
  const InputForm* form = nullptr;
  for (uint32_t i = 0; i < part.count; ++i) {
    const Step& step = part.steps()[i];
    const std::string_view op = op_info(step.op).name;
    if (!supports_step(step, *part.plan))
      return Status::error(Code::unsupported, "the cpu backend does not run step {} ({}) of this plan", part.first + i,
                           op);
    if (op_info(step.op).state != StateUse::none && !part.owns(step.state))
      return Status::error(Code::unsupported, "step {} ({}) uses a state that another part keeps", part.first + i, op);
    PreparedStep prepared;
    prepared.step = &step;
    prepared.attention = attention;
    prepared.norm = norm;
    prepared.elementwise = elementwise;
    if (step.op == Op::linear) {
      prepared.linear = choose_linear(step.matrix.format, available);
      if (prepared.linear->form != nullptr) {
        prepared.input_formed = formed.exists() && formed.id == step.inputs[0].id && form == prepared.linear->form;
        formed = step.inputs[0];
        form = prepared.linear->form;
      }
    } else if (step.op == Op::rnn) {
      prepared.linear = choose_linear(step.matrix.format, available);
      formed = {};   // its own input takes the place of the one before
    }
    if (!steps.empty()) steps[i] = prepared;
  }
  make_groups(steps);
  return {};
}

// Positions and pieces of work are counted in 32 bits, with room above them: a position is rounded up to a block, and
// each lane counts one piece beyond the last. The pieces of an `attention` step are query rows, tiles of them or chunks
// of positions, of every head.
Status check_shape(const PlanPart& part, const SessionShape& shape) {
  constexpr uint64_t kMost = 1u << 31;
  if (shape.context > kMost || shape.max_batch > kMost)
    return Status::error(Code::unsupported, "a batch of {} or a context of {} is more than 2^31 positions",
                         shape.max_batch, shape.context);
  const uint64_t chunks = std::max(shape.context, shape.max_batch) / kAttentionChunk + 1;
  for (const Step& step : part.steps()) {
    if (!attends(step.op)) continue;
    const uint64_t n_heads = step.attributes.attention.n_heads;
    if (std::max<uint64_t>(shape.max_batch, chunks) * n_heads > kMost)
      return Status::error(Code::unsupported, "{} heads with a batch of {} or a context of {} are more than 2^31 rows",
                           n_heads, shape.max_batch, shape.context);
  }
  return {};
}

StepScratch take_scratch(const PlanPart& part, const SessionShape& shape, uint32_t lanes, IsaBits available,
                         Arena& arena) {
  uint64_t input = 0, row = 0, records = 0, chunks = 0, lane_bytes = 0;
  for (const Step& step : part.steps()) {
    if (step.op == Op::linear || step.op == Op::rnn) {
      const LinearKernel* kernel = choose_linear(step.matrix.format, available);
      if (kernel == nullptr) continue;   // `compile` has refused it
      lane_bytes = std::max(lane_bytes, kernel->scratch_bytes(step.matrix.columns));
      if (step.op == Op::rnn) row = std::max(row, uint64_t{step.output.columns});
      if (kernel->form == nullptr) continue;
      const uint32_t rows = step.op == Op::rnn ? 1 : most_rows_of(step.inputs[0], shape);
      input = std::max(input, kernel->form->bytes(rows, step.matrix.columns));
    } else if (step.op == Op::position_embed) {
      row = std::max(row, uint64_t{step.output.columns});
    } else if (attends(step.op)) {
      const StateInfo& state = part.plan->states[step.state.id];
      lane_bytes = std::max(lane_bytes, attention_scratch_floats(state.key_dim, state.value_dim) * sizeof(float));
      const uint64_t context_chunks = (uint64_t{capacity_of(state, shape)} + kAttentionChunk - 1) / kAttentionChunk;
      const uint64_t seen =
          state.window == 0 ? context_chunks : std::min<uint64_t>(context_chunks, state.window / kAttentionChunk + 2);
      if (seen <= 1 || step.op != Op::attention) continue;
      chunks = std::max(chunks, seen);
      records =
          std::max(records, uint64_t{step.attributes.attention.n_heads} * attention_record_floats(state.value_dim));
    }
  }
  StepScratch scratch;
  scratch.input = arena.take<uint8_t>(input);
  scratch.row = arena.take<float>(row);
  scratch.records = arena.take<float>(records * chunks);
  scratch.record_chunks = static_cast<uint32_t>(chunks);
  scratch.lane_bytes = round_up(lane_bytes, kArenaAlignment);
  scratch.lanes = arena.take<uint8_t>(scratch.lane_bytes * lanes);
  return scratch;
}

}   // namespace mote
