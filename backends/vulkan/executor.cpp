// Running a session, and the verbs of its states.
#include "backends/vulkan/executor.h"

#include <cstring>

#include "core/ops/rope_angles.h"

namespace mote {

// ---------------------------------------------------------------- a run

Status VulkanExecutor::check_batch(const Batch& batch) const {
  if (batch.tokens.size() > shape_.max_batch || batch.output_rows.size() > shape_.max_outputs)
    return Status::error(Code::invalid_argument, "a batch has {} rows and {} outputs, the session takes {} and {}",
                         batch.tokens.size(), batch.output_rows.size(), shape_.max_batch, shape_.max_outputs);
  for (const uint32_t row : batch.output_rows)
    if (row >= batch.tokens.size())
      return Status::error(Code::invalid_argument, "output row {} is wanted of a batch of {}", row,
                           batch.tokens.size());
  for (const Step& step : part_.steps()) {
    const Matrix& matrix = step.matrix;
    if (step.op == Op::embed) {
      for (const int32_t token : batch.tokens)
        if (token < 0 || static_cast<uint32_t>(token) >= matrix.rows)
          return Status::error(Code::invalid_argument, "token {} is outside {} with its {} rows", token, matrix.name,
                               matrix.rows);
    } else if (step.op == Op::position_embed) {
      if (uint64_t{batch.first_position} + batch.tokens.size() > matrix.rows)
        return Status::error(Code::invalid_argument, "position {} is outside {} with its {} rows",
                             uint64_t{batch.first_position} + batch.tokens.size() - 1, matrix.name, matrix.rows);
    }
  }
  return {};
}

void VulkanExecutor::write_exchange(const Batch& batch) {
  const auto n_tokens = static_cast<uint32_t>(batch.tokens.size());
  const BatchHeader header = {n_tokens, static_cast<uint32_t>(batch.output_rows.size()), batch.first_position, 0};
  std::memcpy(exchange_.mapped, &header, sizeof header);
  if (n_tokens != 0)
    std::memcpy(exchange_.mapped + lowered_.tokens_offset_bytes, batch.tokens.data(), batch.tokens.size_bytes());
  if (header.outputs != 0)
    std::memcpy(exchange_.mapped + lowered_.output_rows_offset_bytes, batch.output_rows.data(),
                batch.output_rows.size_bytes());
  for (const Transfer& upload : lowered_.uploads)
    std::memcpy(exchange_.mapped + upload.offset_bytes, values_of_host_.data(upload.value),
                size_t{rows_of(upload.value, batch)} * upload.value.columns * sizeof(float));
  for (const AnglesRows& angles : lowered_.angles) {
    const RopeAnglesAttributes& attributes = angles.step->attributes.rope_angles;
    auto* row = reinterpret_cast<float*>(exchange_.mapped + angles.offset_bytes);
    for (uint32_t i = 0; i < n_tokens; ++i, row += attributes.n_rotated)
      rope_angles_row(attributes, batch.first_position + i, row);
  }
}

// Whether the commands for more than one row are to run.
bool VulkanExecutor::write_grids(const Batch& batch) {
  const auto rows = static_cast<uint32_t>(batch.tokens.size()),
             outputs = static_cast<uint32_t>(batch.output_rows.size());
  const bool many = rows > 1 || outputs > 1;
  auto* to = reinterpret_cast<VkDispatchIndirectCommand*>(exchange_.mapped + lowered_.grids_offset_bytes);
  for (const Grid& grid : lowered_.grids) *to++ = {grid.x, grid.groups(grid.by_outputs ? outputs : rows, many), 1};
  return many;
}

void VulkanExecutor::read_exchange(const Batch& batch) {
  for (const Transfer& download : lowered_.downloads)
    std::memcpy(values_of_host_.data(download.value), exchange_.mapped + download.offset_bytes,
                size_t{rows_of(download.value, batch)} * download.value.columns * sizeof(float));
}

// Windows of a state follow each other, so at one position the earlier layer is noted first.
Status VulkanExecutor::first_nan(const Batch& batch) const {
  FirstNan first;
  for (const NanRows& rows : lowered_.nan_rows) {
    const auto* has_nan = reinterpret_cast<const uint32_t*>(exchange_.mapped + rows.offset_bytes);
    for (uint32_t row = 0; row < batch.tokens.size(); ++row) {
      if (has_nan[row] == 0) continue;
      first.note(batch.first_position + row, rows.layer);
      break;
    }
  }
  return first.status();
}

Status VulkanExecutor::run(const Batch& batch, CancelFlag cancel) {
  MOTE_RETURN_IF_ERROR(device_->usable());
  MOTE_RETURN_IF_ERROR(check_batch(batch));
  write_exchange(batch);
  const bool many = write_grids(batch);
  const uint32_t n = lowered_.n_submissions;
  for (uint32_t i = 0; i < n; ++i) {
    if (cancel.requested()) return Status::error(Code::cancelled, "cancelled");
    MOTE_RETURN_IF_ERROR(device_->run(commands_[i + (many ? n : 0)], fence_));
  }
  read_exchange(batch);
  return first_nan(batch);
}

// ---------------------------------------------------------------- states

Status VulkanExecutor::begin(uint32_t first_position, uint32_t rows) {
  if (rows > shape_.max_batch)
    return Status::error(Code::invalid_argument, "a batch of {} rows, the session was opened for {}", rows,
                         shape_.max_batch);
  if (uint64_t{first_position} + rows > shape_.context)
    return Status::error(Code::context_full, "positions {} to {} do not fit in a context of {}", first_position,
                         uint64_t{first_position} + rows, shape_.context);
  bool has_state = false;   // without one, there is nothing that could be missing
  for (const KvCache& cache : caches_) has_state = has_state || cache.info != nullptr;
  if (first_position > length_ && has_state)
    return Status::error(Code::wrong_state, "a batch begins at position {}, but only {} are there", first_position,
                         length_);
  if (first_position < length_) MOTE_RETURN_IF_ERROR(truncate(first_position));
  pending_first_ = first_position;
  pending_rows_ = rows;
  for (KvCache& cache : caches_)
    if (cache.info != nullptr) cache.overwrite_up_to(first_position + rows);
  return {};
}

void VulkanExecutor::commit() {
  length_ = pending_first_ + pending_rows_;
  pending_rows_ = 0;
}

// Rows that were written stand at positions that are not in use; a ring has lost only what lay before every window.
void VulkanExecutor::discard() {
  length_ = pending_first_;
  pending_rows_ = 0;
}

Status VulkanExecutor::truncate(uint32_t positions) {
  if (positions >= length_) return {};
  for (const KvCache& cache : caches_)
    if (cache.info != nullptr && !cache.can_continue_at(positions))
      return Status::error(
          Code::wrong_state,
          "layer {} keeps positions from {} on, which is too late to go on at position {} with a window of {}",
          cache.info->layer, cache.held_from(), positions, cache.info->window);
  for (KvCache& cache : caches_)
    if (cache.info != nullptr) cache.truncate(positions);
  length_ = positions;
  pending_first_ = positions;
  pending_rows_ = 0;
  return {};
}

Status VulkanExecutor::check_row(State state, uint32_t position, size_t bytes) const {
  if (state.id >= caches_.size() || caches_[state.id].info == nullptr)
    return Status::error(Code::invalid_argument, "state {} is not one of this part", unsigned{state.id});
  const StateInfo& info = *caches_[state.id].info;
  const uint64_t needed =
      uint64_t{info.n_kv_heads} * (uint64_t{info.key_dim} + info.value_dim) * (shape_.kv_type == KvType::f16 ? 2 : 4);
  if (bytes != needed)
    return Status::error(Code::invalid_argument, "a row of layer {} is {} bytes, the span has {}", info.layer, needed,
                         bytes);
  if (position >= shape_.context)
    return Status::error(Code::invalid_argument, "position {} is outside a context of {}", position, shape_.context);
  return {};
}

// Between the device and the row in the exchange: the keys of all heads, then the values.
Status VulkanExecutor::move_row(const KvCache& cache, uint32_t position, bool to_device) {
  const VkCommandBuffer commands = commands_.back();
  auto info = vulkan_struct<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  MOTE_VK_TRY(*device_, vkBeginCommandBuffer, commands, &info);
  auto barrier = vulkan_struct<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  constexpr VkPipelineStageFlags kBoth = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  device_->vk.vkCmdPipelineBarrier(commands, kBoth, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &barrier, 0, nullptr, 0,
                                   nullptr);
  const KvLayout& layout = cache.layout;
  const uint64_t slot = position % layout.capacity;
  uint64_t at = row_offset_bytes_;
  for (const bool of_keys : {true, false}) {
    const uint64_t bytes = uint64_t{of_keys ? layout.key_words : layout.value_words} * 4;
    for (uint32_t head = 0; head < layout.heads; ++head, at += bytes) {
      const uint32_t window = head / layout.heads_in_window;
      const Binding& there = (of_keys ? cache.keys : cache.values)[window];
      const uint64_t in_window = uint64_t{head - layout.first_head(window)} * layout.capacity + slot;
      const VkBufferCopy out = {there.offset_bytes + in_window * bytes, at, bytes}, in = {at, out.srcOffset, bytes};
      device_->vk.vkCmdCopyBuffer(commands, to_device ? exchange_.buffer : there.buffer,
                                  to_device ? there.buffer : exchange_.buffer, 1, to_device ? &in : &out);
    }
  }
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT;
  device_->vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                   VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
                                   nullptr, 0, nullptr);
  MOTE_VK_TRY(*device_, vkEndCommandBuffer, commands);
  return device_->run(commands, fence_);
}

Status VulkanExecutor::export_row(State state, uint32_t position, std::span<uint8_t> to) {
  MOTE_RETURN_IF_ERROR(check_row(state, position, to.size()));
  const KvCache& cache = caches_[state.id];
  if (position >= length_ || position < cache.held_from())
    return Status::error(Code::wrong_state, "layer {} does not hold position {}: it keeps {} to {}", cache.info->layer,
                         position, cache.held_from(), length_);
  MOTE_RETURN_IF_ERROR(move_row(cache, position, false));
  row_from_device(*cache.info, shape_.kv_type, exchange_.mapped + row_offset_bytes_, to.data());
  return {};
}

Status VulkanExecutor::import_row(State state, uint32_t position, std::span<const uint8_t> from) {
  MOTE_RETURN_IF_ERROR(check_row(state, position, from.size()));
  KvCache& cache = caches_[state.id];
  row_to_device(*cache.info, shape_.kv_type, from.data(), exchange_.mapped + row_offset_bytes_);
  MOTE_RETURN_IF_ERROR(move_row(cache, position, true));
  cache.overwrite_up_to(position + 1);
  if (position >= length_) length_ = position + 1;
  return {};
}

}   // namespace mote
