// Sessions of many shapes: what a quote depends on.
#pragma once
#include <string>
#include <vector>

#include "tests/api/kit.h"

namespace mote::test {

struct Shape {
  std::string name;
  mote_session_options options;
};

// The lists that the options point at live as long as the program.
std::vector<Shape> session_shapes();

}   // namespace mote::test
