// Where the bytes of a model are while a call lasts: one mote_source, or the chain of a split model's parts.
#pragma once
#include <span>

#include "core/gguf/file.h"
#include "core/mote.h"
#include "platform/file_map.h"

namespace mote {

// One file of a model.
struct OpenedSource {
  mote_source given{};
  std::span<const uint8_t> bytes;
  FileMap map;
  FileRange file;
  bool is_file = false;
  bool copies = false;          // `bytes` are then those that read_heads has read, or none
  uint64_t size_bytes = 0;      // of the model, or of this part of it
  void* head_pages = nullptr;   // where read_heads put them
  uint64_t head_room_bytes = 0;

  void release_head();
  void release();
};

// All of them. release() lets go of what was not handed on; it must be called, whatever open said.
class ModelSource {
 public:
  Status open(const mote_source* given);
  void release();

  // Of files that are to be copied, everything before the tensor data, into memory of the platform.
  Status read_heads(gguf::Formats formats);
  // Reads them all into `to`, which has copied_bytes(), and makes it their bytes.
  Status copy(std::span<uint8_t> to);
  // The whole model, which views this and `parts` [count() - 1]; the caller has the File, of 6 KiB.
  Status open_file(gguf::Formats formats, std::span<gguf::Part> parts, gguf::File* file) const;
  // For as long as this lives: room for `parts`.
  std::span<gguf::Part> own_parts() { return parts_; }

  size_t count() const { return 1 + others_.size(); }
  OpenedSource& part(size_t number) { return number == 0 ? first_ : others_[number - 1]; }
  const OpenedSource& part(size_t number) const { return number == 0 ? first_ : others_[number - 1]; }
  uint64_t copied_bytes() const;   // of the files that are to be copied, each at a multiple of 64
  uint64_t mapped_bytes() const;   // of the others

 private:
  OpenedSource first_;
  std::span<OpenedSource> others_;
  std::span<gguf::Part> parts_;   // [others_]
  void* pages_ = nullptr;         // that others_ and parts_ lie in
  uint64_t pages_bytes_ = 0;
};

}   // namespace mote
