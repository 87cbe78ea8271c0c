#include "core/base/arena.h"

namespace mote {

Status Arena::status(std::string_view what) const {
  if (!failed_) return {};
  if (wanted_ == UINT64_MAX) return Status::error(Code::out_of_memory, "{} needs more than 2^63 bytes", what);
  return Status::error(Code::out_of_memory, "{} needs at least {} bytes of memory, {} were handed over", what, wanted_,
                       capacity_);
}

std::byte* Arena::take_array(uint64_t count, uint64_t element_bytes) {
  uint64_t bytes = 0;
  return checked_multiply(count, element_bytes, &bytes) ? take_bytes(bytes) : fail();
}

std::byte* Arena::take_bytes(uint64_t bytes) {
  uint64_t end = 0;
  if (failed_ || bytes > (uint64_t{1} << 62) || !checked_add(used_, round_up(bytes, kArenaAlignment), &end) ||
      end > (uint64_t{1} << 62))
    return fail();
  if (memory_ != nullptr && end > capacity_) {
    wanted_ = end;
    failed_ = true;
    return nullptr;
  }
  std::byte* at = memory_ == nullptr ? nullptr : memory_ + used_;
  used_ = end;
  return at;
}

std::byte* Arena::fail() {
  if (!failed_) wanted_ = UINT64_MAX;
  failed_ = true;
  return nullptr;
}

}   // namespace mote
