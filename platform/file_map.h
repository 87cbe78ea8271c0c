// Read-only files: opened by path or by descriptor, then mapped or read into memory of the caller.
#pragma once
#include <cstdint>

#include "platform/error.h"

namespace mote {

inline constexpr uint64_t kToEndOfFile = UINT64_MAX;

// A range of an open regular file. Plain data: close_file ends it, copying it does not double it.
struct FileRange {
  int descriptor = -1;
  bool owned = false;          // close_file closes the descriptor
  uint64_t offset_bytes = 0;   // where the range begins in the file
  uint64_t size_bytes = 0;     // length of the range, which lay inside the file when it was opened
};

// The bytes of a range in memory. They stay until unmap_file, whether or not the file is still open. If the file
// is shortened meanwhile, touching what is gone ends the process (SIGBUS), and if it is rewritten, what was checked is
// no longer what is there: no library can mend that, reading a copy can.
struct FileMap {
  const void* data = nullptr;   // byte 0 of the range, at any address; nullptr when the range is empty
  uint64_t size_bytes = 0;
  void* pages = nullptr;   // what the system mapped, from the start of a page
  uint64_t pages_bytes = 0;
};

// Opens a regular file for reading. Directories, pipes, sockets and devices are refused by name, without waiting for a
// writer. A program started later by this process does not inherit the descriptor.
PlatformError open_file(const char* path, FileRange* file);

// Borrows a descriptor of the caller, which stays open until close_file, and is neither moved (its read position) nor
// closed here. The range is `length_bytes` from `offset_bytes` on, any byte (Android hands out assets so);
// kToEndOfFile takes the rest.
PlatformError open_descriptor(int descriptor, uint64_t offset_bytes, uint64_t length_bytes, FileRange* file);

void close_file(FileRange* file);

PlatformError map_file(const FileRange& file, FileMap* map);
void unmap_file(FileMap* map);

// Has the bytes read into memory and into this process's page tables, and returns when they are there. What the system
// does not do of it is left to whoever reads the bytes: it is no error.
void prefault_map(const FileMap& map);

// Copies `count_bytes` from byte `at_bytes` of the range. All of them or an error: a file that ends early is one.
PlatformError read_file(const FileRange& file, uint64_t at_bytes, void* to, uint64_t count_bytes);

}   // namespace mote
