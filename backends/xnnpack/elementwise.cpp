// activate, gate, add, scale, softcap, on XNNPACK's unary and binary operators.
//   relu     clamp to [0, infinity)
//   silu     x * sigmoid(x)                gate: f(g), then times u
//   softcap  factor * tanh(x * (1 / factor))
#include "backends/xnnpack/executor.h"

namespace mote {

Status run_unary(xnn_operator_t op, const float* in, float* out, size_t count, pthreadpool* pool) {
  MOTE_RETURN_IF_XNN_FAILS(xnn_reshape_unary_elementwise_nc, op, 1, count, count, count, pool);
  MOTE_RETURN_IF_XNN_FAILS(xnn_setup_unary_elementwise_nc, op, in, out);
  MOTE_RETURN_IF_XNN_FAILS(xnn_run_operator, op, pool);
  return {};
}

Status run_binary(xnn_operator_t op, const float* a, const float* b, size_t count_b, float* out, size_t count,
                  pthreadpool* pool) {
  MOTE_RETURN_IF_XNN_FAILS(xnn_reshape_binary_elementwise_nd, op, 1, &count, 1, &count_b, pool);
  MOTE_RETURN_IF_XNN_FAILS(xnn_setup_binary_elementwise_nd, op, a, b, out);
  MOTE_RETURN_IF_XNN_FAILS(xnn_run_operator, op, pool);
  return {};
}

Status run_scale(xnn_operator_t multiply, const float* in, float factor, float* out, size_t count, pthreadpool* pool) {
  float padded[1 + kOverReadFloats] = {factor};
  return run_binary(multiply, in, padded, 1, out, count, pool);
}

// The output may lie where the first input lies: what is still needed goes to the scratch.
Status xnn_run_activate(const StepContext& context) {
  const SharedOperators& shared = context.session.shared;
  const size_t count = context.elements();
  const float* x = context.input(0);
  if (count == 0) return {};
  if (context.step().attributes.activate.function == Activation::relu)
    return run_unary(shared.clamp, x, context.output(), count, context.pool());
  float* sigmoid = context.session.scratch.rows.data();
  MOTE_RETURN_IF_ERROR(run_unary(shared.sigmoid, x, sigmoid, count, context.pool()));
  return run_binary(shared.multiply, sigmoid, x, count, context.output(), count, context.pool());
}

Status xnn_run_gate(const StepContext& context) {
  const SharedOperators& shared = context.session.shared;
  const size_t count = context.elements();
  const float* x = context.input(0);
  if (count == 0) return {};
  float* made = context.session.scratch.rows.data();
  if (context.step().attributes.activate.function == Activation::relu) {
    MOTE_RETURN_IF_ERROR(run_unary(shared.clamp, x, made, count, context.pool()));
  } else {
    MOTE_RETURN_IF_ERROR(run_unary(shared.sigmoid, x, made, count, context.pool()));
    MOTE_RETURN_IF_ERROR(run_binary(shared.multiply, made, x, count, made, count, context.pool()));
  }
  return run_binary(shared.multiply, made, context.input(1), count, context.output(), count, context.pool());
}

Status xnn_run_add(const StepContext& context) {
  const size_t count = context.elements();
  if (count == 0) return {};
  return run_binary(context.session.shared.add, context.input(0), context.input(1), count, context.output(), count,
                    context.pool());
}

Status xnn_run_scale(const StepContext& context) {
  const size_t count = context.elements();
  if (count == 0) return {};
  return run_scale(context.session.shared.multiply, context.input(0), context.step().attributes.scale.factor,
                   context.output(), count, context.pool());
}

Status xnn_run_softcap(const StepContext& context) {
  const SharedOperators& shared = context.session.shared;
  const float factor = context.step().attributes.scale.factor;
  const size_t count = context.elements();
  float* y = context.output();
  if (count == 0) return {};
  MOTE_RETURN_IF_ERROR(run_scale(shared.multiply, context.input(0), 1 / factor, y, count, context.pool()));
  MOTE_RETURN_IF_ERROR(run_unary(shared.tanh, y, y, count, context.pool()));
  return run_scale(shared.multiply, y, factor, y, count, context.pool());
}

}   // namespace mote
