#include "backends/vulkan/weights.h"

#include <algorithm>
#include <cstring>

#include "core/format/blocks.h"

namespace mote {
namespace {

constexpr uint64_t kBlockValues = 32;

uint64_t row_words_of(DeviceFormat format, uint64_t columns) {
  const uint64_t blocks = columns / kBlockValues;
  switch (format) {
    case DeviceFormat::f32:
      return columns;
    case DeviceFormat::f16:
      return (columns + 1) / 2;
    case DeviceFormat::q8_0:
      return blocks * 8 + (blocks + 1) / 2;
    case DeviceFormat::q4_0:
      return blocks * 4 + (blocks + 1) / 2;
  }
  return columns;
}

// Codes first, then scales: both at whole words.
template <Format format>
void split_row(const uint8_t* from, uint64_t blocks, std::byte* to) {
  constexpr size_t kCodeBytes = sizeof(Block<format>::codes);
  std::byte* scales = to + blocks * kCodeBytes;
  for (uint64_t i = 0; i < blocks; ++i, from += sizeof(Block<format>)) {
    const auto* block = reinterpret_cast<const Block<format>*>(from);
    std::memcpy(to + i * kCodeBytes, block->codes, kCodeBytes);
    std::memcpy(scales + i * 2, block->d.bytes, 2);
  }
  if (blocks % 2 != 0) std::memset(scales + blocks * 2, 0, 2);
}

void write_row(const Matrix& matrix, const MatrixLayout& layout, const uint8_t* from, std::byte* to) {
  switch (layout.format) {
    case DeviceFormat::f32:
      dequantize_row(matrix.format, from, matrix.columns, reinterpret_cast<float*>(to));
      return;
    case DeviceFormat::f16:
      std::memcpy(to, from, size_t{matrix.columns} * 2);
      if (matrix.columns % 2 != 0) std::memset(to + size_t{matrix.columns} * 2, 0, 2);
      return;
    case DeviceFormat::q8_0:
      return split_row<Format::q8_0>(from, matrix.columns / kBlockValues, to);
    case DeviceFormat::q4_0:
      return split_row<Format::q4_0>(from, matrix.columns / kBlockValues, to);
  }
}

DeviceFormat device_format(Format format) {
  switch (format) {
    case Format::f16:
      return DeviceFormat::f16;
    case Format::q8_0:
      return DeviceFormat::q8_0;
    case Format::q4_0:
      return DeviceFormat::q4_0;
    default:
      return DeviceFormat::f32;
  }
}

}   // namespace

MatrixLayout matrix_layout(const Matrix& matrix, uint64_t binding_bytes) {
  MatrixLayout layout;
  layout.format = device_format(matrix.format);
  layout.rows = matrix.rows;
  const uint64_t words = row_words_of(layout.format, matrix.columns);
  if (words == 0 || words * 4 > binding_bytes || matrix.rows == 0) return layout;
  layout.row_words = static_cast<uint32_t>(words);
  layout.rows_in_window = static_cast<uint32_t>(std::min<uint64_t>(binding_bytes / (words * 4), matrix.rows));
  layout.windows = (matrix.rows - 1) / layout.rows_in_window + 1;
  return layout;
}

Uploader::~Uploader() {
  if (fence_ != VK_NULL_HANDLE) device_.vk.vkDestroyFence(device_.handle(), fence_, nullptr);
  if (pool_ != VK_NULL_HANDLE) device_.vk.vkDestroyCommandPool(device_.handle(), pool_, nullptr);
  device_.release_buffer(&staging_);
}

Status Uploader::open(uint64_t bytes) {
  MOTE_RETURN_IF_ERROR(device_.make_buffer(bytes, MemoryKind::host, &staging_));
  MOTE_RETURN_IF_ERROR(device_.make_commands(&pool_, &commands_, 1));
  MOTE_RETURN_IF_ERROR(device_.make_fence(&fence_));
  return begin();
}

Status Uploader::begin() {
  auto info = vulkan_struct<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  MOTE_VK_TRY(device_, vkBeginCommandBuffer, commands_, &info);
  used_ = 0;
  return {};
}

Status Uploader::flush() {
  auto barrier = vulkan_struct<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT;
  device_.vk.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1,
                                  &barrier, 0, nullptr, 0, nullptr);
  MOTE_VK_TRY(device_, vkEndCommandBuffer, commands_);
  MOTE_RETURN_IF_ERROR(device_.run(commands_, fence_));
  return begin();
}

// Where `bytes` that go to `to` at an offset are to be written now.
Result<std::byte*> Uploader::put(const Binding& to, uint64_t offset_bytes, uint64_t bytes) {
  if (used_ + bytes > staging_.bytes) MOTE_RETURN_IF_ERROR(flush());
  const VkBufferCopy region = {used_, to.offset_bytes + offset_bytes, bytes};
  device_.vk.vkCmdCopyBuffer(commands_, staging_.buffer, to.buffer, 1, &region);
  std::byte* at = staging_.mapped + used_;
  used_ += bytes;
  return at;
}

Status Uploader::matrix_rows(const Matrix& matrix, const MatrixLayout& layout, uint32_t window, const Binding& to) {
  const uint64_t from_bytes = row_bytes(matrix.format, matrix.columns), to_bytes = uint64_t{layout.row_words} * 4;
  const uint64_t most = std::max<uint64_t>(staging_.bytes / to_bytes, 1);
  const uint8_t* from = matrix.data + static_cast<size_t>(layout.first_row(window) * from_bytes);
  for (uint64_t first = 0, left = layout.window_rows(window); left != 0;) {
    const uint64_t rows = std::min(left, most);
    MOTE_ASSIGN_OR_RETURN(std::byte * at, put(to, first * to_bytes, rows * to_bytes));
    for (uint64_t row = 0; row < rows; ++row, from += from_bytes, at += to_bytes) write_row(matrix, layout, from, at);
    first += rows;
    left -= rows;
  }
  return {};
}

Status Uploader::vector(const Vector& vector, const Binding& to) {
  const size_t bytes = size_t{vector.count} * sizeof(float);
  MOTE_ASSIGN_OR_RETURN(std::byte * at, put(to, 0, bytes));
  std::memcpy(at, vector.data, bytes);
  return {};
}

}   // namespace mote
