// Which process this is.
#pragma once
#include <cstdint>

namespace mote {

// Another one in a process that was forked off; always 0 where there are no processes.
uint64_t process_id();

}   // namespace mote
