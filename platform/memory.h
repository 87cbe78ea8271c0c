// Memory straight from the system, for callers that hand over none. Used at set-up alone.
#pragma once
#include <cstdint>

namespace mote {

// `bytes` zeroed bytes at a multiple of 64 (of the page size, in fact), or nullptr: no such memory, `bytes` is 0, or
// the system hands out none at all (bare). Pages are taken from the system as they are first touched.
void* allocate_pages(uint64_t bytes);

// Gives back what allocate_pages returned for the same `bytes`. nullptr is allowed.
void free_pages(void* at, uint64_t bytes);

}   // namespace mote
