#include "platform/memory.h"

namespace mote {

void* allocate_pages(uint64_t) { return nullptr; }
void free_pages(void*, uint64_t) {}

}   // namespace mote
