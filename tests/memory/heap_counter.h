// Counts the calls of this program's heap, by any thread or by one: malloc and its relatives are watched, new rests on
// them.
#pragma once
#include <cstdint>

namespace mote::test {

enum class Counted : uint8_t { all_threads, this_thread };
void start_counting(Counted threads = Counted::all_threads);
// Allocations and releases since start_counting.
uint64_t stop_counting();

}   // namespace mote::test
