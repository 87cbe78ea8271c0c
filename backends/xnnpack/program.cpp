#include "backends/xnnpack/program.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/xnnpack/quantize.h"

namespace mote {
namespace {

constexpr size_t kNotFound = SIZE_MAX;   // what a weights cache answers
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Takes in one matrix: notes how many bytes XNNPACK wants for it, and hands over `room` when it is large enough. The
// operator is then created over it, or refused for want of memory.
class PackingCache {
 public:
  explicit PackingCache(std::span<uint8_t> room) : room_(room) {
    provider_.context = this;
    provider_.look_up = [](void*, const xnn_weights_cache_look_up_key*) { return kNotFound; };
    provider_.reserve_space = [](void* self, size_t bytes) { return static_cast<PackingCache*>(self)->reserve(bytes); };
    provider_.look_up_or_insert = [](void*, const xnn_weights_cache_look_up_key*, void*, size_t) { return size_t{0}; };
    provider_.is_finalized = [](void*) { return false; };
    provider_.offset_to_addr = [](void* self, size_t offset) -> void* {
      return static_cast<PackingCache*>(self)->room_.data() + offset;
    };
    provider_.delete_cache = [](void*) { return xnn_status_success; };
  }
  PackingCache(const PackingCache&) = delete;
  PackingCache& operator=(const PackingCache&) = delete;
  xnn_weights_cache_t cache() { return &provider_; }
  size_t wanted_bytes() const { return wanted_; }

 private:
  void* reserve(size_t bytes) {
    wanted_ = bytes;
    return bytes <= room_.size() ? room_.data() : nullptr;
  }

  xnn_weights_cache_provider provider_{};
  std::span<uint8_t> room_;
  size_t wanted_ = 0;
};

// What XNNPACK packs: f32, or int8 codes [rows, columns] with a scale per row; a bias or null. With a cache that has
// the matrix already none of it is read.
struct LinearSource {
  const void* kernel;
  const float* scales;
  const float* bias;
};
Status create(const Matrix& matrix, bool quantized, const LinearSource& from, xnn_weights_cache_t cache,
              xnn_operator_t* made) {
  const size_t in = matrix.columns, out = matrix.rows;
  if (quantized)
    MOTE_RETURN_IF_XNN_FAILS(xnn_create_fully_connected_nc_qd8_f32_qc8w, in, out, in, out, from.scales,
                             static_cast<const int8_t*>(from.kernel), from.bias, -kInfinity, kInfinity, 0, nullptr,
                             cache, made);
  else
    MOTE_RETURN_IF_XNN_FAILS(xnn_create_fully_connected_nc_f32, in, out, in, out,
                             static_cast<const float*>(from.kernel), from.bias, -kInfinity, kInfinity, 0, nullptr,
                             cache, made);
  return {};
}

// The bytes that the packed matrix takes.
Result<uint64_t> packed_bytes(const Matrix& matrix, bool quantized) {
  PackingCache cache({});
  xnn_operator_t made = nullptr;
  const uint8_t unread = 0;
  const Status status = create(matrix, quantized, {&unread, nullptr, nullptr}, cache.cache(), &made);
  if (made != nullptr) xnn_delete_operator(made);
  if (cache.wanted_bytes() == 0)
    return status.ok() ? Status::error(Code::unsupported, "XNNPACK packs {} without asking for memory", matrix.name)
                       : status;
  return uint64_t{cache.wanted_bytes()};
}

// The numbers that XNNPACK packs from: they lie behind the packed bytes, where the next matrix will be packed.
struct Unpacked {
  std::span<uint8_t> kernel;   // [rows, columns] f32 or int8
  std::span<float> scales;     // [rows], int8 alone
  std::span<float> row;        // [columns], int8 alone
};
Unpacked take_unpacked(const Matrix& matrix, bool quantized, Arena& arena) {
  Unpacked taken;
  uint64_t bytes = 0;
  const uint64_t row = uint64_t{matrix.columns} * (quantized ? 1 : sizeof(float));
  taken.kernel = arena.take<uint8_t>(checked_multiply(row, matrix.rows, &bytes) ? bytes : UINT64_MAX);
  taken.scales = arena.take<float>(quantized ? matrix.rows : 0);
  taken.row = arena.take<float>(quantized ? matrix.columns : 0);
  return taken;
}

// Widens the matrix to f32, or makes int8 codes of it. Returns the error that this causes, relative.
double unpack(const Matrix& matrix, bool quantized, const Unpacked& to) {
  const auto bytes = static_cast<size_t>(row_bytes(matrix.format, matrix.columns));
  QuantizingError error;
  for (size_t row = 0; row < matrix.rows; ++row) {
    const uint8_t* from = matrix.data + row * bytes;
    if (!quantized) {
      float* wide = reinterpret_cast<float*>(to.kernel.data()) + row * matrix.columns;
      dequantize_row(matrix.format, from, matrix.columns, wide);
      continue;
    }
    dequantize_row(matrix.format, from, matrix.columns, to.row.data());
    int8_t* codes = reinterpret_cast<int8_t*>(to.kernel.data()) + row * matrix.columns;
    to.scales[row] = quantize_channel(to.row, codes, &error);
  }
  return error.relative();
}

Status pack(XnnStep& prepared, std::span<uint8_t> room, const Unpacked& unpacked) {
  const Step& step = *prepared.step;
  prepared.weight_error = unpack(step.matrix, prepared.quantized, unpacked);
  prepared.packed = room.data();
  PackingCache cache(room);
  xnn_operator_t made = nullptr;
  const LinearSource from = {unpacked.kernel.data(), unpacked.scales.data(), step.bias.data};
  const Status status = create(step.matrix, prepared.quantized, from, cache.cache(), &made);
  if (made != nullptr) xnn_delete_operator(made);
  return status;
}

// A place in `room` for the packed matrix, and one behind it for the numbers that it is packed from; the next matrix
// comes right behind the packed one.
struct Places {
  std::span<uint8_t> packed;
  Unpacked unpacked;
  uint64_t end_bytes;   // of both
};
Result<Places> take_places(const Matrix& matrix, Arena& room) {
  const bool quantized = runs_quantized(matrix.format);
  MOTE_ASSIGN_OR_RETURN(const uint64_t bytes, packed_bytes(matrix, quantized));
  Places places{};
  places.packed = room.take<uint8_t>(bytes);
  Arena behind = room;
  places.unpacked = take_unpacked(matrix, quantized, behind);
  MOTE_RETURN_IF_ERROR(behind.status("the packed weights of backend xnnpack"));
  places.end_bytes = behind.used_bytes();
  return places;
}

// Packed matrices one after the other, those of the last steps first: the output layer, the largest, is then not the
// one whose numbers stick out at the end.
Status pack_all(const PlanPart& part, Arena& arena, XnnProgram* program) {
  uint64_t needed = 0;
  Arena measured;
  for (uint32_t i = part.count; i-- > 0;) {
    if (part.steps()[i].op != Op::linear) continue;
    MOTE_ASSIGN_OR_RETURN(const Places places, take_places(part.steps()[i].matrix, measured));
    needed = std::max(needed, places.end_bytes);
  }
  const std::span<uint8_t> block = arena.take<uint8_t>(needed);
  if (program == nullptr || block.empty()) return {};
  Arena room(block.data(), block.size());
  for (uint32_t i = part.count; i-- > 0;) {
    if (part.steps()[i].op != Op::linear) continue;
    MOTE_ASSIGN_OR_RETURN(const Places places, take_places(part.steps()[i].matrix, room));
    MOTE_RETURN_IF_ERROR(pack(program->steps[i], places.packed, places.unpacked));
  }
  program->weights.set(block);
  return {};
}

}   // namespace

bool runs_quantized(Format format) { return format_info(format).block_values != 1; }

void PackedWeights::set(std::span<uint8_t> bytes) {
  bytes_ = bytes;
  provider_.context = this;
  provider_.look_up = [](void* self, const xnn_weights_cache_look_up_key* key) {
    const auto* own = static_cast<PackedWeights*>(self);
    return static_cast<size_t>(static_cast<const uint8_t*>(key->kernel) - own->bytes_.data());
  };
  provider_.reserve_space = [](void*, size_t) -> void* { return nullptr; };
  provider_.look_up_or_insert = [](void*, const xnn_weights_cache_look_up_key*, void*, size_t) { return kNotFound; };
  provider_.is_finalized = [](void*) { return true; };
  provider_.offset_to_addr = [](void* self, size_t offset) -> void* {
    return static_cast<PackedWeights*>(self)->bytes_.data() + offset;
  };
  provider_.delete_cache = [](void*) { return xnn_status_success; };
}

Status create_linear(const XnnStep& prepared, PackedWeights& weights, xnn_operator_t* made) {
  return create(prepared.step->matrix, prepared.quantized, {prepared.packed, nullptr, nullptr}, weights.cache(), made);
}

Result<Program*> compile_part(const PlanPart& part, Arena& model_arena) {
  XnnProgram* program = model_arena.create<XnnProgram>();
  const std::span<XnnStep> steps = model_arena.take<XnnStep>(part.count);
  MOTE_RETURN_IF_ERROR(model_arena.status("the model on backend xnnpack"));
  Value quantized;   // the Value whose codes the session has
  for (uint32_t i = 0; i < part.count && !steps.empty(); ++i) {
    const Step& step = part.steps()[i];
    XnnStep prepared;
    prepared.step = &step;
    if (step.op == Op::linear && runs_quantized(step.matrix.format)) {
      prepared.quantized = true;
      prepared.input_quantized = quantized.exists() && quantized.id == step.inputs[0].id;
      quantized = step.inputs[0];
    }
    steps[i] = prepared;
  }
  if (program != nullptr) program->steps = steps;
  MOTE_RETURN_IF_ERROR(pack_all(part, model_arena, steps.empty() ? nullptr : program));
  MOTE_RETURN_IF_ERROR(model_arena.status("the model on backend xnnpack"));
  return static_cast<Program*>(program);
}

}   // namespace mote
