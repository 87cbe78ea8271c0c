#include "platform/dyn_lib.h"

namespace mote {

PlatformError open_dyn_lib(const char*, DynLib*) { return {0, "cannot be opened: this platform has no libraries"}; }
void* dyn_lib_symbol(const DynLib&, const char*) { return nullptr; }
void close_dyn_lib(DynLib*) {}

}   // namespace mote
