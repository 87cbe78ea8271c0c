// Libraries that are looked for at run time, so that a program also starts where they are not installed.
#pragma once
#include "platform/error.h"

namespace mote {

struct DynLib {
  void* handle = nullptr;
};

// By a file name such as "libvulkan.so.1", searched for where the system looks for libraries.
PlatformError open_dyn_lib(const char* name, DynLib* library);
// nullptr: the library has no such symbol, or was not opened.
void* dyn_lib_symbol(const DynLib& library, const char* name);
// Nothing that came out of the library may be used after it. Does nothing where nothing is open.
void close_dyn_lib(DynLib* library);

}   // namespace mote
