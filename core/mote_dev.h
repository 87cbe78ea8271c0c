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

#ifdef __cplusplus
}
#endif

#endif
