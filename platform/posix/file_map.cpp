#define _FILE_OFFSET_BITS 64   // files beyond 2 GiB on 32-bit systems; before any system header
#include "platform/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mote {
namespace {

// strerror is neither thread-safe nor free of locale and heap.
const char* open_words(int code) {
  switch (code) {
    case ENOENT:
      return "does not exist";
    case ENOTDIR:
      return "has a path whose folder is not a folder";
    case EACCES:
    case EPERM:
      return "may not be read by this user";
    case ELOOP:
      return "is a chain of too many symbolic links";
    case ENAMETOOLONG:
      return "has a name that is too long";
    case EMFILE:
      return "cannot be opened: this process has too many open files";
    case ENFILE:
      return "cannot be opened: the system has too many open files";
    case ENXIO:
      return "is a socket or a device without a driver, not a file";
    case EBADF:
      return "is not an open descriptor";
    default:
      return "cannot be opened";
  }
}

// What a mode other than that of a regular file is called.
const char* kind_words(mode_t mode) {
  if (S_ISDIR(mode)) return "is a directory, not a file";
  if (S_ISFIFO(mode)) return "is a pipe, not a regular file";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "is a device, not a regular file";
  if (S_ISSOCK(mode)) return "is a socket, not a regular file";
  return "is not a regular file";
}

PlatformError regular_file_size(int descriptor, uint64_t* bytes) {
  struct stat information{};
  if (fstat(descriptor, &information) != 0) return {errno, open_words(errno)};
  if (!S_ISREG(information.st_mode))
    return {S_ISDIR(information.st_mode) ? EISDIR : EINVAL, kind_words(information.st_mode)};
  *bytes = static_cast<uint64_t>(information.st_size);
  return {};
}

}   // namespace

PlatformError open_file(const char* path, FileRange* file) {
  *file = {};
  if (path == nullptr || path[0] == 0) return {ENOENT, "has an empty path"};
  int descriptor;
  do {
    // O_NONBLOCK: opening a pipe must not wait for its writer. It means nothing to regular files.
    descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) return {errno, open_words(errno)};
  uint64_t bytes = 0;
  if (PlatformError error = regular_file_size(descriptor, &bytes); !error.ok()) {
    close(descriptor);
    return error;
  }
  *file = {descriptor, true, 0, bytes};
  return {};
}

PlatformError open_descriptor(int descriptor, uint64_t offset_bytes, uint64_t length_bytes, FileRange* file) {
  *file = {};
  uint64_t bytes = 0;
  if (PlatformError error = regular_file_size(descriptor, &bytes); !error.ok()) return error;
  if (const int flags = fcntl(descriptor, F_GETFL); flags >= 0 && (flags & O_ACCMODE) == O_WRONLY)
    return {EBADF, "is open for writing alone"};
  if (offset_bytes > bytes) return {EINVAL, "ends before the offset that was given"};
  if (length_bytes == kToEndOfFile) length_bytes = bytes - offset_bytes;
  if (length_bytes > bytes - offset_bytes) return {EINVAL, "ends before the length that was given"};
  *file = {descriptor, false, offset_bytes, length_bytes};
  return {};
}

void close_file(FileRange* file) {
  if (file->owned && file->descriptor >= 0) close(file->descriptor);   // never again after EINTR: it is closed
  *file = {};
}

PlatformError map_file(const FileRange& file, FileMap* map) {
  *map = {};
  if (file.size_bytes == 0) return {};
  const long page = sysconf(_SC_PAGESIZE);   // 4, 16 or 64 KiB: known at run time alone
  if (page <= 0) return {EINVAL, "cannot be mapped: the page size is unknown"};
  const uint64_t lead_bytes = file.offset_bytes % static_cast<uint64_t>(page);
  if (file.size_bytes > SIZE_MAX - lead_bytes) return {ENOMEM, "is larger than the address space"};
  const uint64_t pages_bytes = lead_bytes + file.size_bytes;
  void* pages = mmap(nullptr, static_cast<size_t>(pages_bytes), PROT_READ, MAP_SHARED, file.descriptor,
                     static_cast<off_t>(file.offset_bytes - lead_bytes));
  if (pages == MAP_FAILED)
    return {errno, errno == ENOMEM   ? "cannot be mapped: no address space is left"
                   : errno == ENODEV ? "cannot be mapped: its file system does not map files"
                                     : "cannot be mapped"};
  *map = {static_cast<const unsigned char*>(pages) + lead_bytes, file.size_bytes, pages, pages_bytes};
  return {};
}

void unmap_file(FileMap* map) {
  if (map->pages != nullptr) munmap(map->pages, static_cast<size_t>(map->pages_bytes));
  *map = {};
}

void prefault_map(const FileMap& map) {
  if (map.pages == nullptr) return;
  const auto bytes = static_cast<size_t>(map.pages_bytes);
  madvise(map.pages, bytes, MADV_WILLNEED);   // in reads as large as the disk likes them, all at once
#if defined(__linux__)
  constexpr int kPopulateRead = 22;   // MADV_POPULATE_READ, of Linux 5.14 and of later headers
  // Any other failure is a file that became shorter or a disk that fails: touching would end the process.
  if (madvise(map.pages, bytes, kPopulateRead) == 0 || errno != EINVAL) return;
#endif
  const long page = sysconf(_SC_PAGESIZE);
  if (page <= 0) return;
  const auto* at = static_cast<const volatile unsigned char*>(map.pages);
  for (size_t i = 0; i < bytes; i += static_cast<size_t>(page)) static_cast<void>(at[i]);
}

PlatformError read_file(const FileRange& file, uint64_t at_bytes, void* to, uint64_t count_bytes) {
  if (at_bytes > file.size_bytes || count_bytes > file.size_bytes - at_bytes)
    return {EINVAL, "ends before the bytes that were asked for"};
  unsigned char* out = static_cast<unsigned char*>(to);
  uint64_t offset = file.offset_bytes + at_bytes;
  while (count_bytes > 0) {
    // Linux reads at most 2^31 - 4096 bytes a call, macOS refuses more.
    const size_t part = count_bytes < (size_t{1} << 30) ? static_cast<size_t>(count_bytes) : size_t{1} << 30;
    const ssize_t got = pread(file.descriptor, out, part, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {errno, errno == EIO ? "cannot be read: the disk reports an error" : "cannot be read"};
    if (got == 0) return {EIO, "became shorter while it was read"};
    out += got;
    offset += static_cast<uint64_t>(got);
    count_bytes -= static_cast<uint64_t>(got);
  }
  return {};
}

}   // namespace mote
