#include "backends/vulkan/program.h"

#include <algorithm>

namespace mote {
namespace {

// The earlier step of the part that has the same matrix (a tied output layer), or `step` itself.
uint32_t owner_of_matrix(const PlanPart& part, uint32_t step) {
  const Matrix& matrix = part.steps()[step].matrix;
  for (uint32_t i = 0; i < step; ++i) {
    const Matrix& other = part.steps()[i].matrix;
    if (other.rows == matrix.rows && other.columns == matrix.columns && other.data == matrix.data &&
        other.format == matrix.format && other.name == matrix.name)
      return i;
  }
  return step;
}

// place_window(step, window, bytes), place_vector(step, is_bias, bytes) for everything in order, matrices that are
// shared once.
template <class Windows, class Vectors>
void visit_weights(const PlanPart& part, uint64_t binding_bytes, Windows place_window, Vectors place_vector) {
  for (uint32_t i = 0; i < part.count; ++i) {
    const Step& step = part.steps()[i];
    if (step.matrix.rows != 0 && owner_of_matrix(part, i) == i) {
      const MatrixLayout layout = matrix_layout(step.matrix, binding_bytes);
      for (uint32_t window = 0; window < layout.windows; ++window) place_window(i, window, layout.window_bytes(window));
    }
    if (step.vector.exists()) place_vector(i, false, uint64_t{step.vector.count} * 4);
    if (step.bias.exists()) place_vector(i, true, uint64_t{step.bias.count} * 4);
  }
}

}   // namespace

Status VulkanProgram::layout(VulkanDevice& device, const PlanPart& part, Arena& arena, VulkanProgram* program,
                             Footprint* footprint) {
  const uint64_t binding_bytes = device.limits().binding_bytes;
  uint32_t n_windows = 0;
  SlabLayout measured = arena.measuring() ? SlabLayout(device) : SlabLayout(std::span<Buffer>());
  visit_weights(
      part, binding_bytes, [&](uint32_t, uint32_t, uint64_t bytes) { measured.place(bytes), ++n_windows; },
      [&](uint32_t, bool, uint64_t bytes) { measured.place(bytes); });
  measured.finish();
  const std::span<StepWeights> steps = arena.take<StepWeights>(part.count);
  const std::span<Binding> windows = arena.take<Binding>(n_windows);
  const std::span<Buffer> slabs = arena.take<Buffer>(measured.count());
  MOTE_RETURN_IF_ERROR(arena.status("the model on backend vulkan"));
  if (program == nullptr) {
    if (footprint != nullptr) footprint->device_bytes += measured.device_bytes();
    return {};
  }
  program->device_ = &device;
  program->steps_ = steps;
  program->windows_ = windows;
  program->slabs_ = slabs;
  for (StepWeights& weights : steps) weights = {};
  for (Buffer& slab : slabs) slab = {};
  const Status status = program->upload(part);
  if (!status.ok()) program->close();
  for (const Buffer& slab : slabs)
    if (footprint != nullptr) footprint->device_bytes += slab.allocated_bytes;
  return status;
}

Status VulkanProgram::upload(const PlanPart& part) {
  const uint64_t binding_bytes = device_->limits().binding_bytes;
  uint64_t largest_row = 4;
  SlabLayout sizes(slabs_);
  const auto measure = [&](uint64_t bytes) { sizes.place(bytes); };
  visit_weights(
      part, binding_bytes, [&](uint32_t, uint32_t, uint64_t bytes) { measure(bytes); },
      [&](uint32_t, bool, uint64_t bytes) { measure(bytes), largest_row = std::max(largest_row, bytes); });
  sizes.finish();
  for (Buffer& slab : slabs_) MOTE_RETURN_IF_ERROR(device_->make_buffer(slab.bytes, MemoryKind::device, &slab));

  SlabLayout places{std::span<Buffer>()};
  uint32_t n_windows = 0;
  const auto bind = [&](uint64_t bytes) {
    const Place place = places.place(bytes);
    return Binding{slabs_[place.slab].buffer, place.offset_bytes, bytes};
  };
  visit_weights(
      part, binding_bytes,
      [&](uint32_t step, uint32_t window, uint64_t bytes) {
        if (window == 0) steps_[step].first_window = n_windows;
        windows_[n_windows++] = bind(bytes);
      },
      [&](uint32_t step, bool is_bias, uint64_t bytes) {
        (is_bias ? steps_[step].bias : steps_[step].vector) = bind(bytes);
      });
  for (const Step& step : part.steps())
    if (step.matrix.rows != 0)
      largest_row = std::max(largest_row, uint64_t{matrix_layout(step.matrix, binding_bytes).row_words} * 4);

  constexpr uint64_t kStagingBytes = uint64_t{4} << 20;
  Uploader uploader(*device_);
  MOTE_RETURN_IF_ERROR(uploader.open(std::max(kStagingBytes, largest_row)));
  for (uint32_t i = 0; i < part.count; ++i) {
    const Step& step = part.steps()[i];
    const uint32_t owner = step.matrix.rows == 0 ? i : owner_of_matrix(part, i);
    steps_[i].first_window = steps_[owner].first_window;
    const MatrixLayout layout = matrix_layout(step.matrix, binding_bytes);
    for (uint32_t window = 0; owner == i && window < layout.windows; ++window)
      MOTE_RETURN_IF_ERROR(uploader.matrix_rows(step.matrix, layout, window, this->window(i, window)));
    if (step.vector.exists()) MOTE_RETURN_IF_ERROR(uploader.vector(step.vector, steps_[i].vector));
    if (step.bias.exists()) MOTE_RETURN_IF_ERROR(uploader.vector(step.bias, steps_[i].bias));
  }
  return uploader.flush();
}

void VulkanProgram::close() {
  for (Buffer& slab : slabs_) device_->release_buffer(&slab);
  slabs_ = {};
}

}   // namespace mote
