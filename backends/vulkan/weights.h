// How weights lie on the device, and how they get there.
#pragma once
#include "backends/vulkan/device.h"
#include "core/ops/step.h"
#include "shaders/shared.h"

namespace mote {

enum class DeviceFormat : uint8_t { f32 = MOTE_VK_F32, f16 = MOTE_VK_F16, q8_0 = MOTE_VK_Q8_0, q4_0 = MOTE_VK_Q4_0 };

// A matrix on the device: windows of whole rows, each small enough for a shader.
struct MatrixLayout {
  DeviceFormat format = DeviceFormat::f32;
  uint32_t row_words = 0;
  uint32_t rows = 0, rows_in_window = 0, windows = 0;   // 0 windows: a row is too long for a shader

  uint32_t first_row(uint32_t window) const { return window * rows_in_window; }
  uint32_t window_rows(uint32_t window) const {
    const uint32_t left = rows - first_row(window);
    return left < rows_in_window ? left : rows_in_window;
  }
  uint64_t window_bytes(uint32_t window) const { return uint64_t{window_rows(window)} * row_words * 4; }
};
// F32, F16, Q8_0 and Q4_0 keep their numbers and change only where they lie; every other format becomes f32, exactly.
MatrixLayout matrix_layout(const Matrix& matrix, uint64_t binding_bytes);

// Writes through a piece of host memory, which is sent off whenever it is full.
class Uploader {
 public:
  explicit Uploader(VulkanDevice& device) : device_(device) {}
  Uploader(const Uploader&) = delete;
  ~Uploader();

  Status open(uint64_t bytes);
  Status matrix_rows(const Matrix& matrix, const MatrixLayout& layout, uint32_t window, const Binding& to);
  Status vector(const Vector& vector, const Binding& to);
  // Waits until everything is there.
  Status flush();

 private:
  Result<std::byte*> put(const Binding& to, uint64_t offset_bytes, uint64_t bytes);
  Status begin();

  VulkanDevice& device_;
  Buffer staging_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
  uint64_t used_ = 0;
};

}   // namespace mote
