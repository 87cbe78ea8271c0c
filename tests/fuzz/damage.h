// A whole small model, damaged as the input says: a few bytes of input reach every part of a file of twenty thousand.
#pragma once
#include "tests/fuzz/fuzz.h"
#include "tests/support/gguf_builder.h"

namespace mote::fuzz {

// The first byte chooses the model; then, until the input ends, each change is one byte for its kind and what that
// takes.
test::Bytes damaged_model(Cursor input);

}   // namespace mote::fuzz
