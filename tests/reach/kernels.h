// Parts by themselves: the cpu backend's kernels, with what no architecture of this build asks them for, and numbers in
// double precision that come out of mote.h only as what was chosen by them or rounded.
#pragma once

namespace mote::test {

// A line each for the norms, the elementwise ops and attention, by the kernels that are chosen on this processor.
void print_kernels();
// Probabilities that sampler chains leave, and rotary frequencies.
void print_doubles();

}   // namespace mote::test
