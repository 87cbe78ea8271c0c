// Which model a file is, for telling whether something that was made with one model may be used with another.
#pragma once
#include <span>

#include "core/base/sha256.h"
#include "core/gguf/file.h"

namespace mote::gguf {

struct Identity {
  uint64_t file_bytes = 0;
  Sha256Digest metadata{};   // every entry: key, types, value
  Sha256Digest tensors{};    // every tensor: name, format, dimensions, place
  Sha256Digest samples{};    // bytes of every tensor's data, see kSampledWhole
};

// Tensors of at most kSampledWhole bytes count whole; of a larger one kSamples slices of kSampleBytes, spread evenly
// from its first to its last byte. So a model trained further is another one, at the price of a few pages a tensor;
// weights changed by hand between the samples are not noticed.
inline constexpr uint64_t kSampledWhole = 4096, kSamples = 8, kSampleBytes = 64;

// Reads all of the metadata: some ten milliseconds where there are large vocabularies. The tensors are those of `file`.
Identity identify(const File& file, std::span<const Tensor> tensors);

}   // namespace mote::gguf
