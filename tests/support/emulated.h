// Whether this program runs in an emulator of another processor: tens of times slower, with memory and threads of its
// own, and not every call of the system is followed.
#pragma once

#include <cstdlib>
#include <string_view>

namespace mote::test {

// MOTE_EMULATED=1, which the tests of such a build have from ctest.
inline bool is_emulated() {
  const char* said = std::getenv("MOTE_EMULATED");
  return said != nullptr && std::string_view(said) == "1";
}

}   // namespace mote::test
