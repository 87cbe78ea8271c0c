// The cpu backend's kernels by themselves: what no architecture of this build reaches through mote.h is among them.
#pragma once

namespace mote::test {

// Prints a line each for the norms, the elementwise ops and attention, by the kernels that are chosen on this
// processor.
void print_kernels();

}   // namespace mote::test
