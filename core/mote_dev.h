/* Unstable companion of mote.h for the command line, tests and benchmarks: it follows the version and promises nothing.
 */
#ifndef MOTE_DEV_H
#define MOTE_DEV_H

#include "core/mote.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The index-th backend of this build, in order of preference, or NULL. */
MOTE_API const char* mote_dev_backend_name(uint32_t index);
/* The index-th backend that the engine opened (the app's own included), or NULL. */
MOTE_API const char* mote_dev_engine_backend(const mote_engine* engine, uint32_t index);
/* The index-th op, or NULL. */
MOTE_API const char* mote_dev_op_name(uint32_t index);
/* The index-th weight format, or NULL. */
MOTE_API const char* mote_dev_format_name(uint32_t index);
/* 1 when the engine's backend of that name runs the op (on matrices of that format, where the op has one). Asked by
 * the backend's own supports(), with plain attributes. */
MOTE_API int32_t mote_dev_supports(const mote_engine* engine, const char* backend, const char* op, const char* format);

/* The plan of a model, on the backends where a session that opens now begins: step `index` < count as one line ("linear
 * blk.3.attn_q.weight q4_1 [576, 576]"), the name of the op and of the backend that runs it. A backend may run weights
 * otherwise than the file has them: weight_error is the root mean square of what that changes over the root mean square
 * of the weights; 0: as the file has them. */
typedef struct mote_dev_step {
  char text[128];
  const char* op;
  const char* format; /* of its matrix; "" without one */
  const char* backend;
  double weight_error;
} mote_dev_step;
MOTE_API uint32_t mote_dev_step_count(const mote_model* model);
MOTE_API mote_status mote_dev_get_step(const mote_model* model, uint32_t index, mote_dev_step* step, mote_error* error);

/* The backend that runs step `index` of this session now, or NULL: there is no such step, or the session is inside a
 * call. How often the session has left a backend that failed; 0 inside a call. */
MOTE_API const char* mote_dev_session_backend(const mote_session* session, uint32_t index);
MOTE_API uint32_t mote_dev_session_fallbacks(const mote_session* session);

/* Tasks that each thread of the engine's own pool has run since it opened; 0: the callers. Returns the number of lanes.
 */
MOTE_API uint32_t mote_dev_lane_tasks(const mote_engine* engine, uint64_t* tasks, uint32_t capacity);

/* What step `index` has taken and was worth, summed over batches. Bytes and operations are those of the step, whatever
 * its backend makes of them; a product and its sum are two operations. */
typedef struct mote_dev_step_profile {
  uint64_t batches;      /* that it was part of */
  uint64_t nanoseconds;  /* until it was done, since the step before; 0: its backend does not tell its steps apart, or
                            ran it along with the step before */
  uint64_t weight_bytes; /* of its matrix (of a table those rows that are taken) and vectors, each once a batch */
  uint64_t state_bytes;  /* keys and values that some row of the batch sees, each once a batch, or that are written */
  uint64_t value_bytes;  /* inputs and output, f32 */
  uint64_t int8_operations; /* of matrices of blocks: 2 x values of the matrix x rows */
  uint64_t f32_operations;  /* the same of f32, f16 and bf16; and of attention's scores and sums, over what is seen */
} mote_dev_step_profile;
/* Adds every batch from now on to steps[mote_dev_step_count], which the caller keeps until it sets another or NULL:
 * then nothing is measured, which costs nothing. It takes some 50 ns a step, and steps that a backend runs as one are
 * run one by one, so that each has its own time: the same bits, for a little more of it. */
MOTE_API mote_status mote_dev_profile(mote_session* session, mote_dev_step_profile* steps, uint32_t count,
                                      mote_error* error);

/* The limits of this machine, as the threads of the engine reach them together with the instruction sets that it may
 * use: by loops that do nothing else, all that there are of a kind for some milliseconds each, the best one counts.
 * They change with what else the machine does, so take turns between measuring and what is compared with it. */
typedef struct mote_dev_limits {
  double read_bytes_per_second; /* of the block, read from its beginning to its end */
  double int8_operations_per_second;
  double f32_operations_per_second;
  char read_loop[64]; /* which loop it was: "avx2: 32 bytes, in order" */
  char int8_loop[64];
  char f32_loop[64];
} mote_dev_limits;
/* The block is read alone, but what was never written to reads as one page: fill it. How large it is says what is
 * measured: much more than all caches together, memory; as much as a token reads, what caches help it too.
 * MOTE_INVALID_ARGUMENT: less than 4096 bytes, or not at a multiple of 64. MOTE_UNSUPPORTED: in a build without the
 * backend cpu, and where there is no clock. */
MOTE_API mote_status mote_dev_measure_limits(const mote_engine* engine, const void* block, size_t block_bytes,
                                             mote_dev_limits* limits, mote_error* error);

#ifdef __cplusplus
}
#endif

#endif
