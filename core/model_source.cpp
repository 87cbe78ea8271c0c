#include "core/model_source.h"

#include <new>

#include "core/base/checked.h"
#include "core/handles.h"
#include "platform/memory.h"

namespace mote {
namespace {

constexpr size_t kMostParts = 1024;   // real models have some dozens
constexpr uint64_t kCopyAlignment = 64;

// Which part a sentence is about, where there are several.
Status in_part(const Status& status, size_t number, size_t count) {
  if (status.ok() || count == 1) return status;
  return Status::error(status.code(), "part {} of {}: {}", number + 1, count, status);
}

Status check_source(const mote_source& source) {
  const int kinds = (source.data != nullptr) + (source.path != nullptr) + (source.use_descriptor != 0);
  if (kinds != 1)
    return Status::error(Code::invalid_argument,
                         "mote_source must give exactly one of data, path and use_descriptor; it gives {}", kinds);
  if (source.use_descriptor != 0 && source.use_descriptor != 1)
    return Status::error(Code::invalid_argument, "mote_source.use_descriptor is {}; it must be 0 or 1",
                         source.use_descriptor);
  if (source.use_descriptor == 0 && (source.offset_bytes != 0 || source.length_bytes != 0))
    return Status::error(Code::invalid_argument,
                         "mote_source gives offset_bytes {} and length_bytes {}, which are a descriptor's",
                         source.offset_bytes, source.length_bytes);
  if (source.load < MOTE_LOAD_MAP || source.load > MOTE_LOAD_PREFAULT)
    return Status::error(Code::invalid_argument,
                         "mote_source.load is {}; it must be MOTE_LOAD_MAP, MOTE_LOAD_COPY or MOTE_LOAD_PREFAULT",
                         source.load);
  return {};
}

Status file_error(const mote_source& source, const PlatformError& error) {
  if (source.path != nullptr)
    return Status::error(Code::io, "file {}: {} (error {})", source.path, error.what, error.code);
  return Status::error(Code::io, "file descriptor {}: {} (error {})", source.descriptor, error.what, error.code);
}

Status open_source(const mote_source& given, OpenedSource* opened) {
  mote_source source;
  MOTE_RETURN_IF_ERROR(read_options(&given, "mote_source", &source));
  MOTE_RETURN_IF_ERROR(check_source(source));
  opened->given = source;
  if (source.data != nullptr) {
    if (source.data_bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(source.data))
      return Status::error(Code::invalid_argument, "mote_source.data_bytes is {}, more than this machine addresses",
                           source.data_bytes);
    opened->bytes = {static_cast<const uint8_t*>(source.data), static_cast<size_t>(source.data_bytes)};
    opened->size_bytes = opened->bytes.size();
    return {};
  }
  const uint64_t length = source.length_bytes == 0 ? kToEndOfFile : source.length_bytes;
  PlatformError error = source.path != nullptr
                            ? open_file(source.path, &opened->file)
                            : open_descriptor(source.descriptor, source.offset_bytes, length, &opened->file);
  if (!error.ok()) return file_error(source, error);
  opened->is_file = true;
  opened->copies = source.load == MOTE_LOAD_COPY;
  opened->size_bytes = opened->file.size_bytes;
  if (opened->copies) return {};
  error = map_file(opened->file, &opened->map);
  if (!error.ok()) return file_error(source, error);
  opened->bytes = {static_cast<const uint8_t*>(opened->map.data), static_cast<size_t>(opened->map.size_bytes)};
  return {};
}

// Of a file that is to be copied, everything before the tensor data, into memory of the platform: nothing of such a
// file is mapped. How long that is, its own bytes say: it is read in pieces, each four times the one before, until one
// can be walked to its end. What is no model at all is seen in the first piece.
Status read_head(OpenedSource* source, gguf::Formats formats, gguf::PartNumber number) {
  constexpr uint64_t kFirstBytes = uint64_t{1} << 18, kMostBytes = 2 * gguf::File::kMaxMetadataBytes;
  if (!source->copies) return {};
  for (uint64_t bytes = kFirstBytes;; bytes *= 4) {
    const bool is_last = bytes >= source->size_bytes || bytes >= kMostBytes;
    if (bytes > source->size_bytes) bytes = source->size_bytes;
    source->release_head();
    source->bytes = {};
    source->head_room_bytes = bytes;
    source->head_pages = allocate_pages(bytes);
    if (source->head_pages == nullptr && bytes != 0)
      return Status::error(Code::out_of_memory,
                           "reading the model's header needs {} bytes of memory, which the platform does not give",
                           bytes);
    const PlatformError error = read_file(source->file, 0, source->head_pages, bytes);
    if (!error.ok()) return file_error(source->given, error);
    source->bytes = {static_cast<const uint8_t*>(source->head_pages), static_cast<size_t>(bytes)};
    const Status status = gguf::File::read_part(source->bytes, source->size_bytes, formats, number).status();
    const bool is_gguf = bytes >= 4 && __builtin_memcmp(source->head_pages, "GGUF", 4) == 0;
    if (status.ok() || is_last || !is_gguf || status.code() == Code::unsupported) return status;
  }
}

}   // namespace

void OpenedSource::release_head() {
  free_pages(head_pages, head_room_bytes);
  head_pages = nullptr;
}

void OpenedSource::release() {
  release_head();
  unmap_file(&map);
  if (is_file) close_file(&file);
  is_file = false;
}

Status ModelSource::open(const mote_source* given) {
  if (given == nullptr) return Status::error(Code::invalid_argument, "source is NULL");
  size_t count = 0;
  mote_source source{};
  for (const mote_source* next = given; next != nullptr; next = source.next) {
    if (++count > kMostParts)
      return Status::error(Code::invalid_argument, "a model has at most {} parts; the chain of mote_source goes on",
                           kMostParts);
    MOTE_RETURN_IF_ERROR(in_part(read_options(next, "mote_source", &source), count - 1, count));
  }
  if (count > 1) {
    const size_t others = count - 1;
    pages_bytes_ = others * (sizeof(OpenedSource) + sizeof(gguf::Part));
    pages_ = allocate_pages(pages_bytes_);
    if (pages_ == nullptr)
      return Status::error(Code::out_of_memory,
                           "opening {} parts needs {} bytes of memory, which the platform does not give", count,
                           pages_bytes_);
    others_ = {static_cast<OpenedSource*>(pages_), others};
    for (OpenedSource& part : others_) new (&part) OpenedSource;
    parts_ = {reinterpret_cast<gguf::Part*>(others_.data() + others), others};
    for (gguf::Part& part : parts_) new (&part) gguf::Part;
  }
  for (size_t i = 0; i < count; ++i, given = part(i - 1).given.next)
    MOTE_RETURN_IF_ERROR(in_part(open_source(*given, &part(i)), i, count));
  return {};
}

void ModelSource::release() {
  for (size_t i = 0; i < count(); ++i) part(i).release();
  others_ = {};
  parts_ = {};
  free_pages(pages_, pages_bytes_);
  pages_ = nullptr;
}

Status ModelSource::read_heads(gguf::Formats formats) {
  for (size_t i = 0; i < count(); ++i)
    MOTE_RETURN_IF_ERROR(in_part(read_head(&part(i), formats, {i, count()}), i, count()));
  return {};
}

uint64_t ModelSource::copied_bytes() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < count(); ++i)
    if (part(i).copies && !checked_add(round_up(bytes, kCopyAlignment), part(i).size_bytes, &bytes)) return UINT64_MAX;
  return bytes;
}

uint64_t ModelSource::mapped_bytes() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < count(); ++i)
    if (!part(i).copies && !checked_add(bytes, part(i).size_bytes, &bytes)) return UINT64_MAX;
  return bytes;
}

Status ModelSource::copy(std::span<uint8_t> to) {
  size_t used = 0;
  for (size_t i = 0; i < count(); ++i) {
    OpenedSource& source = part(i);
    if (!source.copies) continue;
    source.release_head();
    used = static_cast<size_t>(round_up(used, kCopyAlignment));
    const std::span<uint8_t> copy = to.subspan(used, static_cast<size_t>(source.size_bytes));
    used += copy.size();
    const PlatformError error = read_file(source.file, 0, copy.data(), copy.size());
    if (!error.ok()) return in_part(file_error(source.given, error), i, count());
    source.bytes = copy;
  }
  return {};
}

Status ModelSource::open_file(gguf::Formats formats, std::span<gguf::Part> parts, gguf::File* file) const {
  {
    const Result<gguf::File> first =   // 6 KiB, only here: a part is read in a call of its own
        gguf::File::open(first_.bytes, first_.size_bytes, formats, {0, count()});
    if (!first.ok()) return in_part(first.status(), 0, count());
    *file = first.value();
  }
  for (size_t i = 1; i < count(); ++i) {
    const Result<gguf::Part> other = gguf::File::read_part(part(i).bytes, part(i).size_bytes, formats, {i, count()});
    if (!other.ok()) return in_part(other.status(), i, count());
    parts[i - 1] = other.value();
  }
  return count() == 1 ? Status() : file->join(parts);
}

}   // namespace mote
