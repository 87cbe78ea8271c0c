// Counts the calls of this program's heap, by any thread: malloc and its relatives are watched, new rests on them.
#pragma once
#include <cstdint>

namespace mote::test {

void start_counting();
// Allocations and releases since start_counting.
uint64_t stop_counting();

}   // namespace mote::test
