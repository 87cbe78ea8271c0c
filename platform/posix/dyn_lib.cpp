#include "platform/dyn_lib.h"

#include <dlfcn.h>

namespace mote {

PlatformError open_dyn_lib(const char* name, DynLib* library) {
  library->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) return {0, "cannot be opened"};
  return {};
}

void* dyn_lib_symbol(const DynLib& library, const char* name) {
  return library.handle == nullptr ? nullptr : dlsym(library.handle, name);
}

void close_dyn_lib(DynLib* library) {
  if (library->handle != nullptr) dlclose(library->handle);
  library->handle = nullptr;
}

}   // namespace mote
