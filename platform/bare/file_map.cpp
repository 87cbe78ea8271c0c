#include "platform/file_map.h"

namespace mote {
namespace {

constexpr PlatformError kNoFiles{0, "cannot be opened: this platform has no files"};

}   // namespace

PlatformError open_file(const char*, FileRange* file) {
  *file = {};
  return kNoFiles;
}

PlatformError open_descriptor(int, uint64_t, uint64_t, FileRange* file) {
  *file = {};
  return kNoFiles;
}

void close_file(FileRange* file) { *file = {}; }

PlatformError map_file(const FileRange&, FileMap* map) {
  *map = {};
  return kNoFiles;
}

void unmap_file(FileMap* map) { *map = {}; }
void prefault_map(const FileMap&) {}

PlatformError read_file(const FileRange&, uint64_t, void*, uint64_t) { return kNoFiles; }

}   // namespace mote
