// A part of a plan as dispatches: which kernel, on which pieces of which buffers, with which numbers. The same walk
// counts everything while a session is quoted and then hands the dispatches out to be recorded.
//
// Values lie in one buffer on the device, placed by liveness and never over an input of their own step, so every
// buffer of a shader is read or written only. What other parts make and read passes through the exchange, one buffer
// that the host sees; so do tokens, angles of rotary embedding and the grids. What is larger than a shader may see is
// cut: matrices and caches into windows, Values into chunks of rows.
#pragma once
#include <span>

#include "backends/vulkan/kv_cache.h"
#include "backends/vulkan/program.h"

namespace mote {

inline constexpr uint32_t kMostGroups = 65535;   // along an axis of a dispatch: what every device allows

// The first words of the exchange; shaders/include/common.glsl reads them.
struct BatchHeader {
  uint32_t rows, outputs, first_position, unused;
};

// The size of a dispatch, which the host works out for each run: `x` groups times the rows that are there.
struct Grid {
  uint32_t x = 0;
  uint32_t row_base = 0, chunk_rows = 0;   // the rows of its chunk
  uint32_t rows_in_group = 1;              // where the run has more than one row
  bool by_outputs = false;

  uint32_t groups(uint32_t rows, bool many) const {
    const uint32_t left = rows > row_base ? rows - row_base : 0, own = left < chunk_rows ? left : chunk_rows;
    const uint32_t share = many ? rows_in_group : 1;
    return (own + share - 1) / share;
  }
};

struct Dispatch {
  Kernel one{}, many{};   // for a run of one row and of more: the same bits
  Grid grid;
  Binding bindings[VulkanDevice::kMostBindings];
  uint32_t n_bindings = 0, n_words = 0;
  uint32_t words[VulkanDevice::kPushBytes / 4] = {};   // push constants

  Dispatch& bind(const Binding& binding) {
    bindings[n_bindings++] = binding;
    return *this;
  }
  Dispatch& word(uint32_t value) {
    words[n_words++] = value;
    return *this;
  }
  Dispatch& number(float value) { return word(__builtin_bit_cast(uint32_t, value)); }
};

// Who is handed the dispatches, in order.
class DispatchSink {
 public:
  virtual Status take(const Dispatch& dispatch) = 0;
  // What was taken since the last one is a submission: waited for, and looked at the cancel flag before it.
  virtual Status end_submission() = 0;

 protected:
  ~DispatchSink() = default;
};

struct Transfer {
  Value value;
  uint64_t offset_bytes = 0;   // in the exchange
};
struct AnglesRows {
  const Step* step = nullptr;
  uint64_t offset_bytes = 0;   // [max_batch, n_rotated]
};
struct NanRows {
  uint32_t layer = 0;
  uint64_t offset_bytes = 0;   // [max_batch]: 1 where `append` met a NaN
};

// What a session needs. Its tables are filled where they have room.
struct Lowered {
  uint32_t n_dispatches = 0, n_submissions = 0, n_uploads = 0, n_downloads = 0, n_angles = 0, n_nan_rows = 0;
  uint32_t n_submissions_planned = 0;   // while they are handed out: how many there will be
  uint64_t values_bytes = 0;            // on the device
  uint64_t exchange_bytes = 0, tokens_offset_bytes = 0, output_rows_offset_bytes = 0, grids_offset_bytes = 0;
  std::span<Grid> grids;
  std::span<Transfer> uploads, downloads;
  std::span<AnglesRows> angles;
  std::span<NanRows> nan_rows;
};

struct LoweringInput {
  const PlanPart& part;
  const SessionShape& shape;
  const DeviceLimits& limits;
  const ValueMemory& values_of_host;   // which Values have a place there
  // Empty while measuring:
  const VulkanProgram* program = nullptr;
  std::span<const KvCache> caches = {};   // by State::id
  VkBuffer values = VK_NULL_HANDLE, exchange = VK_NULL_HANDLE;
};

// Without a sink it only counts. unsupported where a piece is larger than a shader may see and cannot be cut.
Status lower(const LoweringInput& input, DispatchSink* sink, Lowered* lowered);

}   // namespace mote
