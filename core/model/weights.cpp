#include "core/model/weights.h"

#include "core/base/math.h"

namespace mote {
namespace {

// Of what divides a rotary frequency; no real factor comes near it.
constexpr double kMaxRopeFactor = 1e30;

// Tensors that change no result when they are left out, by how their names end behind "blk.3.".
constexpr std::string_view kNeedless[] = {
    "attn_rot_embd", "attn_rot_embd.weight",   // inverse rotary frequencies of old converters: rope.freq_base says them
};

bool is_needless(std::string_view name) {
  if (!name.starts_with("blk.")) return false;
  name.remove_prefix(4);
  while (!name.empty() && name[0] >= '0' && name[0] <= '9') name.remove_prefix(1);
  if (!name.starts_with('.')) return false;
  name.remove_prefix(1);
  for (const std::string_view needless : kNeedless)
    if (name == needless) return true;
  return false;
}

// YaRN's dimension at which a frequency makes `turns` turns over the original context.
// https://arxiv.org/abs/2309.00071, section 3.2
double dimension_of_turns(const RopeConfig& rope, double turns) {
  constexpr double kTwoPi = 6.283185307179586476925286766559;
  return rope.n_rotated * log_f64(rope.original_context / (turns * kTwoPi)) / (2 * log_f64(rope.base));
}

// A NaN becomes `low`.
double clamp(double x, double low, double high) { return x >= low ? (x > high ? high : x) : low; }

double floor_of(double x) {
  const auto whole = static_cast<double>(static_cast<int64_t>(clamp(x, -1e15, 1e15)));
  return whole > x ? whole - 1 : whole;
}

// Frequency i of `count`, in radians per position.
double rope_frequency(const RopeConfig& rope, uint32_t i, double factor) {
  const double plain = pow_f64(rope.base, -2.0 * i / rope.n_rotated) / factor;
  if (rope.scaling == RopeScaling::none) return plain;
  const double stretched = plain / rope.factor;
  if (rope.scaling == RopeScaling::linear) return stretched;
  const double last = rope.n_rotated - 1;
  const double low = clamp(floor_of(dimension_of_turns(rope, rope.beta_fast)), 0, last);
  const double high = clamp(-floor_of(-dimension_of_turns(rope, rope.beta_slow)), 0, last);
  const double span = high - low < 0.001 ? 0.001 : high - low;
  const double keep = 1 - clamp((i - low) / span, 0, 1);   // 1: fast enough to stay as it was trained
  return stretched * (1 - keep) + plain * keep;
}

}   // namespace

const gguf::Tensor* Weights::require(std::string_view name) {
  const gguf::Tensor* tensor = index_.take(name);
  if (tensor == nullptr) fail(Status::error(Code::bad_model, "tensor {} is missing", name));
  return tensor;
}

Matrix Weights::matrix(std::string_view name, uint32_t rows, uint32_t columns) {
  const gguf::Tensor* tensor = require(name);
  if (tensor == nullptr) return {};
  if (tensor->dimensions[0] != columns || tensor->dimensions[1] != rows || tensor->dimensions[2] != 1 ||
      tensor->dimensions[3] != 1) {
    fail(Status::error(Code::bad_model, "tensor {} is [{}, {}, {}, {}]; the metadata asks for [{}, {}]", name,
                       tensor->dimensions[0], tensor->dimensions[1], tensor->dimensions[2], tensor->dimensions[3],
                       columns, rows));
    return {};
  }
  return {tensor->data, rows, columns, tensor->format, tensor->name};
}

std::span<float> Weights::widen(const gguf::Tensor& tensor, uint32_t count) {
  if (tensor.dimensions[0] != count || tensor.dimensions[1] != 1 || tensor.dimensions[2] != 1 ||
      tensor.dimensions[3] != 1) {
    fail(Status::error(Code::bad_model, "tensor {} is [{}, {}, {}, {}]; a vector of {} values is needed", tensor.name,
                       tensor.dimensions[0], tensor.dimensions[1], tensor.dimensions[2], tensor.dimensions[3], count));
    return {};
  }
  const std::span<float> values = arena_.take<float>(count);
  if (!values.empty()) dequantize_row(tensor.format, tensor.data, count, values.data());
  return values;
}

Vector Weights::vector(std::string_view name, uint32_t count) {
  const gguf::Tensor* tensor = require(name);
  return tensor == nullptr ? Vector{} : Vector{widen(*tensor, count).data(), count};
}

Vector Weights::first_row(std::string_view name, uint32_t columns) {
  const gguf::Tensor* tensor = require(name);
  if (tensor == nullptr) return {};
  const Matrix matrix = this->matrix(name, static_cast<uint32_t>(tensor->dimensions[1]), columns);
  const std::span<float> values = arena_.take<float>(columns);
  if (status_.ok() && !values.empty()) dequantize_row(matrix.format, matrix.data, columns, values.data());
  return {values.data(), columns};
}

Vector Weights::distance_bias(std::string_view name, uint32_t n_buckets, uint32_t n_heads,
                              std::span<const uint16_t> bucket) {
  const Matrix table = matrix(name, n_buckets, n_heads);
  const std::span<float> values = arena_.take<float>(uint64_t{n_heads} * bucket.size());
  const std::span<float> row = arena_.take<float>(n_heads);
  for (size_t i = 0; i < bucket.size() && status_.ok() && !values.empty() && !row.empty(); ++i) {
    dequantize_row(table.format, table.data + static_cast<size_t>(bucket[i] * row_bytes(table.format, n_heads)),
                   n_heads, row.data());
    for (size_t head = 0; head < n_heads; ++head) {
      if (!(row[head] - row[head] == 0))
        fail(Status::error(Code::bad_model, "tensor {} holds {} in row {}; every bias must be finite", name,
                           static_cast<double>(row[head]), bucket[i]));
      values[head * bucket.size() + i] = row[head];
    }
  }
  return {values.data(), static_cast<uint32_t>(uint64_t{n_heads} * bucket.size())};
}

const double* Weights::sinusoids(uint32_t columns) {
  const std::span<double> frequency = arena_.take<double>(columns / 2);
  for (size_t i = 0; i < frequency.size(); ++i) frequency[i] = pow_f64(10000, -2.0 * static_cast<double>(i) / columns);
  return frequency.data();
}

RopeSettings Weights::rope(const RopeConfig& config, RopePairing pairing, std::string_view factors_name) {
  const uint32_t count = config.n_rotated / 2;
  const std::span<double> frequency = arena_.take<double>(count);
  const gguf::Tensor* factors = index_.take(factors_name);
  const std::span<float> factor = factors == nullptr ? std::span<float>() : widen(*factors, count);
  for (uint32_t i = 0; i < frequency.size(); ++i) {
    const double f = factor.empty() ? 1 : static_cast<double>(factor[i]);
    if (!(f > 0 && f <= kMaxRopeFactor)) {
      fail(Status::error(Code::bad_model, "tensor {} holds {} at {}; every factor must be above 0 and at most {}",
                         factors_name, f, i, kMaxRopeFactor));
      break;
    }
    frequency[i] = rope_frequency(config, i, f);
    if (!(frequency[i] <= RopeConfig::kMaxFrequency)) {
      fail(Status::error(Code::bad_model,
                         "tensor {} holds {} at {}: a position would turn by {} radians, at most {} are allowed",
                         factors_name, f, i, frequency[i], RopeConfig::kMaxFrequency));
      break;
    }
  }
  double magnitude = config.attention_factor;
  if (config.scaling == RopeScaling::yarn && config.factor > 1) magnitude *= 1 + 0.1 * log_f64(config.factor);
  return {{frequency.data(), config.n_rotated, magnitude}, pairing, n_rope_settings_++};
}

Status Weights::check_all_used(std::string_view architecture) const {
  const gguf::Tensor* left = index_.first_left(is_needless);
  if (left == nullptr) return {};
  return Status::error(
      Code::unsupported,
      "tensor {} is not used by {}; without it the model would give other results than it was made for", left->name,
      architecture);
}

Result<uint32_t> read_vocabulary_rows(const gguf::TensorIndex& index) {
  const gguf::Tensor* embedding = index.find("token_embd.weight");
  if (embedding == nullptr) return Status::error(Code::bad_model, "tensor token_embd.weight is missing");
  const uint64_t rows = embedding->dimensions[1];
  if (rows > Config::kMaxVocab)
    return Status::error(Code::bad_model, "tensor token_embd.weight has {} rows; at most {} are allowed", rows,
                         Config::kMaxVocab);
  return static_cast<uint32_t>(rows);
}

}   // namespace mote
