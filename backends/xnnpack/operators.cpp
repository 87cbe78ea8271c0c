// The operators of a session: made when it opens, deleted when it closes; and its working memory.
#include <algorithm>
#include <limits>

#include "backends/xnnpack/executor.h"

namespace mote {
namespace {

Status create_unary(xnn_unary_operator kind, xnn_operator_t* made) {
  MOTE_RETURN_IF_XNN_FAILS(xnn_create_unary_elementwise_nc, kind, xnn_datatype_fp32, xnn_datatype_fp32, nullptr,
                           nullptr, nullptr, 0, made);
  return {};
}

Status create_binary(xnn_binary_operator kind, xnn_operator_t* made) {
  MOTE_RETURN_IF_XNN_FAILS(xnn_create_binary_elementwise_nd, kind, xnn_datatype_fp32, nullptr, nullptr, nullptr, 0,
                           made);
  return {};
}

Status create_shared(SharedOperators& shared) {
  MOTE_RETURN_IF_ERROR(create_binary(xnn_binary_add, &shared.add));
  MOTE_RETURN_IF_ERROR(create_binary(xnn_binary_multiply, &shared.multiply));
  MOTE_RETURN_IF_ERROR(create_unary(xnn_unary_sigmoid, &shared.sigmoid));
  MOTE_RETURN_IF_XNN_FAILS(xnn_create_rope_nthc_f32, 0, &shared.rope);
  MOTE_RETURN_IF_XNN_FAILS(xnn_create_convert_nc_f32_qd8, 0, &shared.quantize);
  return {};
}

Status create_lane(AttentionLane& lane) {
  MOTE_RETURN_IF_ERROR(create_binary(xnn_binary_multiply, &lane.multiply));
  MOTE_RETURN_IF_XNN_FAILS(xnn_create_batch_matrix_multiply_nc_f32, XNN_FLAG_TRANSPOSE_B, &lane.scores);
  MOTE_RETURN_IF_XNN_FAILS(xnn_create_batch_matrix_multiply_nc_f32, 0, &lane.sums);
  MOTE_RETURN_IF_XNN_FAILS(xnn_create_softmax_nc_f32, 0, &lane.softmax);
  MOTE_RETURN_IF_XNN_FAILS(xnn_create_unary_elementwise_nc, xnn_unary_convert, xnn_datatype_fp16, xnn_datatype_fp32,
                           nullptr, nullptr, nullptr, 0, &lane.widen);
  return {};
}

void let_go(xnn_operator_t& op) {
  if (op != nullptr) xnn_delete_operator(op);
  op = nullptr;
}

// The bytes that a batch matrix multiply of these shapes packs its second operand into.
Result<uint64_t> workspace_bytes(uint32_t flags, uint64_t m, uint64_t k, uint64_t n) {
  if (std::max({m, k, n}) > UINT32_MAX) return Status::error(Code::unsupported, "a matrix of {} by {}", k, n);
  xnn_operator_t op = nullptr;
  MOTE_RETURN_IF_XNN_FAILS(xnn_create_batch_matrix_multiply_nc_f32, flags, &op);
  const size_t one = 1;
  size_t bytes = 0, alignment = 0;
  const xnn_status status =
      xnn_reshape_batch_matrix_multiply_nc_f32(op, 1, &one, &one, static_cast<size_t>(m), static_cast<size_t>(k),
                                               static_cast<size_t>(n), &bytes, &alignment, nullptr);
  let_go(op);
  if (status != xnn_status_success) return xnn_failure("xnn_reshape_batch_matrix_multiply_nc_f32", status);
  if (alignment > kArenaAlignment)
    return Status::error(Code::unsupported, "XNNPACK wants its workspace at a multiple of {} bytes", alignment);
  return uint64_t{bytes};
}

// The largest of each over the steps of a part.
struct Sizes {
  uint64_t codes = 0, code_rows = 0, rows = 0, angles = 0;
  uint64_t two_in = 0, two_out = 0;
  uint64_t q = 0, scores = 0, widened_keys = 0, widened_values = 0, workspace = 0;
  bool attends = false;
};

Status add_attention(const PlanPart& part, const Step& step, const SessionShape& shape, Sizes* sizes) {
  const StateInfo& state = part.plan->states[step.state.id];
  const uint64_t group = step.attributes.attention.n_heads / state.n_kv_heads, context = shape.context;
  const bool widens = shape.kv_type == KvType::f16;
  sizes->attends = true;
  sizes->q = std::max(sizes->q, group * state.key_dim);
  sizes->scores = std::max(sizes->scores, group * context);
  if (widens) sizes->widened_keys = std::max(sizes->widened_keys, context * state.key_dim);
  if (widens) sizes->widened_values = std::max(sizes->widened_values, context * state.value_dim);
  MOTE_ASSIGN_OR_RETURN(const uint64_t for_scores,
                        workspace_bytes(XNN_FLAG_TRANSPOSE_B, group, state.key_dim, context));
  MOTE_ASSIGN_OR_RETURN(const uint64_t for_sums, workspace_bytes(0, group, context, state.value_dim));
  sizes->workspace = std::max({sizes->workspace, for_scores, for_sums});
  return {};
}

Status add_step(const PlanPart& part, const Step& step, const SessionShape& shape, Sizes* sizes) {
  switch (step.op) {
    case Op::linear:
      if (!runs_quantized(step.matrix.format)) {
        if (kOneRowAsTwo) sizes->two_in = std::max(sizes->two_in, 2 * uint64_t{step.matrix.columns});
        if (kOneRowAsTwo) sizes->two_out = std::max(sizes->two_out, 2 * uint64_t{step.matrix.rows});
        return {};
      }
      sizes->code_rows = std::max(sizes->code_rows, uint64_t{most_rows_of(step.inputs[0], shape)});
      sizes->codes = std::max(sizes->codes, uint64_t{most_rows_of(step.inputs[0], shape)} * step.matrix.columns);
      return {};
    case Op::activate:
    case Op::gate:
      sizes->rows = std::max(sizes->rows, uint64_t{most_rows_of(step.output, shape)} * step.output.columns);
      return {};
    case Op::position_embed:
      sizes->rows = std::max(sizes->rows, uint64_t{step.output.columns});
      return {};
    case Op::rope:
      sizes->rows = std::max(sizes->rows, uint64_t{most_rows_of(step.output, shape)} * step.output.columns);
      sizes->angles =
          std::max(sizes->angles, uint64_t{most_rows_of(step.output, shape)} * step.attributes.rope.n_rotated);
      return {};
    case Op::attention:
      return add_attention(part, step, shape, sizes);
    default:
      return {};
  }
}

}   // namespace

Result<SessionScratch> take_session_scratch(const PlanPart& part, const SessionShape& shape, uint32_t lanes,
                                            Arena& arena) {
  Sizes sizes;
  for (const Step& step : part.steps()) MOTE_RETURN_IF_ERROR(add_step(part, step, shape, &sizes));
  SessionScratch scratch;
  const auto floats = [&arena](uint64_t count) { return arena.take<float>(count + kOverReadFloats); };
  scratch.codes = arena.take<int8_t>(sizes.codes + kOverReadBytes);
  scratch.scales = arena.take<xnn_quantization_params>(sizes.code_rows + XNN_EXTRA_QUANTIZATION_PARAMS);
  scratch.rows = floats(sizes.rows);
  scratch.angles = floats(sizes.angles);
  if (kOneRowAsTwo) scratch.two_in = floats(sizes.two_in);
  if (kOneRowAsTwo) scratch.two_out = floats(sizes.two_out);
  const uint32_t n_lanes = sizes.attends ? lanes : 0;
  scratch.lanes = arena.take<AttentionLane>(n_lanes);
  for (uint32_t i = 0; i < n_lanes; ++i) {
    AttentionLane lane;
    lane.q = floats(sizes.q);
    lane.scores_of_group = floats(sizes.scores);
    lane.weights = floats(sizes.scores);
    lane.keys = floats(sizes.widened_keys);
    lane.values = floats(sizes.widened_values);
    lane.workspace = arena.take<std::byte>(sizes.workspace + kOverReadBytes);
    if (!scratch.lanes.empty()) new (&scratch.lanes[i]) AttentionLane(lane);
  }
  return scratch;
}

uint64_t operator_count(const PlanPart& part, uint32_t lanes) {
  uint64_t count = SharedOperators::kCount;
  bool attends = false;
  for (const Step& step : part.steps()) {
    count += step.op == Op::linear ? 1 : 0;
    attends = attends || step.op == Op::attention;
  }
  return count + (attends ? uint64_t{lanes} * AttentionLane::kOperators : 0);
}

Status XnnExecutor::create_operators() {
  MOTE_RETURN_IF_ERROR(create_shared(shared));
  for (AttentionLane& lane : scratch.lanes) MOTE_RETURN_IF_ERROR(create_lane(lane));
  for (uint32_t i = 0; i < part.count; ++i)
    if (program->steps[i].step->op == Op::linear)
      MOTE_RETURN_IF_ERROR(create_linear(program->steps[i], program->weights, &operators[i]));
  return {};
}

void XnnExecutor::close() {
  for (xnn_operator_t& op : operators) let_go(op);
  for (xnn_operator_t* op : {&shared.add, &shared.multiply, &shared.sigmoid, &shared.rope, &shared.quantize})
    let_go(*op);
  for (AttentionLane& lane : scratch.lanes)
    for (xnn_operator_t* op : {&lane.multiply, &lane.scores, &lane.softmax, &lane.sums, &lane.widen}) let_go(*op);
}

}   // namespace mote
