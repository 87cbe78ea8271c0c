// XNNPACK's header, and what its answers become here: every call is checked, a failure is a sentence that names the
// call.
#pragma once
#include <xnnpack.h>

#include "core/base/status.h"

namespace mote {

// backend_failed: "XNNPACK's `call` failed: `what the status means`".
Status xnn_failure(const char* call, xnn_status status);

// A value that XNNPACK reads behind the end of an array: this many floats more must be there.
inline constexpr uint32_t kOverReadBytes = XNN_EXTRA_BYTES;
inline constexpr uint32_t kOverReadFloats = XNN_EXTRA_BYTES / sizeof(float);

}   // namespace mote

// Leaves the calling function with a Status unless XNNPACK's `function(...)` succeeds.
#define MOTE_RETURN_IF_XNN_FAILS(function, ...)                                                          \
  do {                                                                                                   \
    const xnn_status mote_xnn_status_ = function(__VA_ARGS__);                                           \
    if (mote_xnn_status_ != xnn_status_success) return ::mote::xnn_failure(#function, mote_xnn_status_); \
  } while (false)
