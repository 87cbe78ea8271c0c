#include "platform/memory.h"

#include <sys/mman.h>

namespace mote {

void* allocate_pages(uint64_t bytes) {
  if (bytes == 0 || bytes > SIZE_MAX) return nullptr;
  void* at = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

void free_pages(void* at, uint64_t bytes) {
  if (at != nullptr) munmap(at, static_cast<size_t>(bytes));
}

}   // namespace mote
