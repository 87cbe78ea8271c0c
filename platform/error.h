// What a call to the operating system answered: a number of the system and a fixed text, nothing to release.
#pragma once
#include <cstdint>

namespace mote {

struct PlatformError {
  int32_t code = 0;             // errno where there is one, else 0
  const char* what = nullptr;   // nullptr: no error; else what is wrong ("is a directory"), in static storage
  bool ok() const { return what == nullptr; }
};

}   // namespace mote
