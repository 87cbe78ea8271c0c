// Numbers that shaders and the backend must agree on. Read by both compilers: preprocessor lines only (glslang has no
// #pragma once).
#ifndef MOTE_VK_GROUP

// Invocations of a work group.
#define MOTE_VK_GROUP 64
// The largest head that `attention` takes: four numbers of an output for each invocation.
#define MOTE_VK_MOST_HEAD_DIM 256
// Rows of x that an invocation of `linear` multiplies at once when a batch has many.
#define MOTE_VK_LINEAR_ROWS 8

// How the rows of a matrix lie on the device, in words of 32 bits; a block is 32 values.
//   f32   a word for each value
//   f16   two values in a word, the first in the lower half
//   q8_0  8 words of codes for each block, then the blocks' scales, two in a word
//   q4_0  4 words of codes for each block, as GGUF has them, then the scales
#define MOTE_VK_F32 0
#define MOTE_VK_F16 1
#define MOTE_VK_Q8_0 2
#define MOTE_VK_Q4_0 3

// f of `activate` and `gate`, by the numbers of enum class Activation in core/ops/step.h, and how many the shaders
// have.
#define MOTE_VK_RELU 0
#define MOTE_VK_SILU 1
#define MOTE_VK_GELU_TANH 2
#define MOTE_VK_GELU_ERF 3
#define MOTE_VK_ACTIVATIONS 4
#endif
