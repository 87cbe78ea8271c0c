#include "platform/process.h"

namespace mote {

uint64_t process_id() { return 0; }

}   // namespace mote
