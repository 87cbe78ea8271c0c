#include "core/gguf/identity.h"

namespace mote::gguf {
namespace {

// A text with its length, so that no two lists of texts are the same bytes.
void add_text(Sha256& sha, std::string_view text) {
  sha.add_number(text.size());
  sha.add(text);
}

void add_samples(Sha256& sha, const Tensor& tensor) {
  if (tensor.data == nullptr) return;
  if (tensor.bytes <= kSampledWhole) {
    sha.add(tensor.data, static_cast<size_t>(tensor.bytes));
    return;
  }
  const uint64_t last = tensor.bytes - kSampleBytes, stride = last / (kSamples - 1);
  for (uint64_t i = 0; i < kSamples; ++i)
    sha.add(tensor.data + static_cast<size_t>(i + 1 == kSamples ? last : i * stride), kSampleBytes);
}

}   // namespace

Identity identify(const File& file, std::span<const Tensor> tensors) {
  Identity identity;
  identity.file_bytes = file.file_bytes();
  Sha256 metadata, table, samples;
  for (uint64_t i = 0; i < file.n_entries(); ++i) {
    const Entry entry = file.entry(i);
    add_text(metadata, entry.key);
    metadata.add_number(static_cast<uint64_t>(entry.type));
    metadata.add_number(static_cast<uint64_t>(entry.element_type));
    metadata.add_number(entry.count);
    metadata.add_number(entry.value_bytes);
    metadata.add(entry.value, static_cast<size_t>(entry.value_bytes));
  }
  for (const Tensor& tensor : tensors) {
    add_text(table, tensor.name);
    add_text(table, format_info(tensor.format).name);
    table.add_number(tensor.n_dimensions);
    for (const uint64_t dimension : tensor.dimensions) table.add_number(dimension);
    table.add_number(tensor.offset_bytes);
    table.add_number(tensor.bytes);
    add_samples(samples, tensor);
  }
  identity.metadata = metadata.finish();
  identity.tensors = table.finish();
  identity.samples = samples.finish();
  return identity;
}

}   // namespace mote::gguf
