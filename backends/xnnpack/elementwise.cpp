// activate, gate, add, scale, softcap, on XNNPACK's unary and binary operators.
//   silu     x * sigmoid(x)                gate: f(g), then times u
//   relu     x < 0 ? 0 : x, and softcap of core/base: XNNPACK's clamp and tanh lose a NaN on x86 without AVX
#include <cstring>

#include "backends/xnnpack/executor.h"
#include "core/base/math_blocks.h"

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

void run_softcap(float factor, const float* in, float* out, size_t count) {
  for (size_t at = 0; at < count; at += kMathBlock) {
    const size_t part = count - at < kMathBlock ? count - at : kMathBlock;
    float block[kMathBlock] = {};
    std::memcpy(block, in + at, part * sizeof(float));
    softcap_block(static_cast<double>(factor), block, block);
    std::memcpy(out + at, block, part * sizeof(float));
  }
}

namespace {

void run_relu(const float* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = in[i] < 0 ? 0.0f : in[i];
}

}   // namespace

// The output may lie where the first input lies: what is still needed goes to the scratch.
Status xnn_run_activate(const StepContext& context) {
  const SharedOperators& shared = context.session.shared;
  const size_t count = context.elements();
  const float* x = context.input(0);
  if (count == 0) return {};
  if (context.step().attributes.activate.function == Activation::relu) {
    run_relu(x, context.output(), count);
    return {};
  }
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
    run_relu(x, made, count);
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
  run_softcap(context.step().attributes.scale.factor, context.input(0), context.output(), context.elements());
  return {};
}

}   // namespace mote
