// The norms in plain loops, included by one source per instruction set. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/kernel_base.h"
#include "backends/cpu/norm/norm.h"

namespace mote {
namespace {

inline float inverse_root(float total, uint32_t count, float epsilon) {
  return 1.0f / sqrt_f32(total / static_cast<float>(count) + epsilon);
}

void rms_norm_row(const NormJob& job) {
  float squares[kLanes] = {};
  uint32_t i = 0;
  for (; i + kLanes <= job.count; i += kLanes) fma_lanes(squares, job.x + i, job.x + i);
  for (uint32_t lane = 0; i < job.count; ++i, ++lane) squares[lane] = fma_f32(job.x[i], job.x[i], squares[lane]);
  const float scale = inverse_root(fold16(squares), job.count, job.epsilon);
  if (job.weight == nullptr) {
    for (i = 0; i < job.count; ++i) job.y[i] = job.x[i] * scale;
  } else {
    for (i = 0; i < job.count; ++i) job.y[i] = (job.x[i] * scale) * job.weight[i];
  }
}

void layer_norm_row(const NormJob& job) {
  const float* x = job.x;
  float sums[kLanes] = {}, squares[kLanes] = {};
  uint32_t i = 0;
  for (; i + kLanes <= job.count; i += kLanes)
    for (uint32_t lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane];
  for (uint32_t lane = 0; i < job.count; ++i, ++lane) sums[lane] += x[i];
  const float mean = fold16(sums) / static_cast<float>(job.count);
  for (i = 0; i + kLanes <= job.count; i += kLanes) {
    float d[kLanes];
    for (uint32_t lane = 0; lane < kLanes; ++lane) d[lane] = x[i + lane] - mean;
    fma_lanes(squares, d, d);
  }
  for (uint32_t lane = 0; i < job.count; ++i, ++lane) squares[lane] = fma_f32(x[i] - mean, x[i] - mean, squares[lane]);
  const float scale = inverse_root(fold16(squares), job.count, job.epsilon);
  for (i = 0; i < job.count; ++i) job.y[i] = (x[i] - mean) * scale;
  if (job.weight != nullptr)
    for (i = 0; i < job.count; ++i) job.y[i] *= job.weight[i];
  if (job.bias != nullptr)
    for (i = 0; i < job.count; ++i) job.y[i] += job.bias[i];
}

}   // namespace
}   // namespace mote
