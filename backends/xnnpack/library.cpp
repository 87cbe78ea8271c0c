#include "backends/xnnpack/library.h"

namespace mote {
namespace {

const char* meaning(xnn_status status) {
  switch (status) {
    case xnn_status_success:
      return "success";
    case xnn_status_uninitialized:
      return "it is not initialised";
    case xnn_status_invalid_parameter:
      return "invalid parameter";
    case xnn_status_invalid_state:
      return "invalid state";
    case xnn_status_unsupported_parameter:
      return "unsupported parameter";
    case xnn_status_unsupported_hardware:
      return "unsupported hardware";
    case xnn_status_out_of_memory:
      return "out of memory";
    default:
      return "unknown status";
  }
}

}   // namespace

Status xnn_failure(const char* call, xnn_status status) {
  return Status::error(Code::backend_failed, "XNNPACK's {} failed: {}", call, meaning(status));
}

}   // namespace mote
