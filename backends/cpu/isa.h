// The choice of a kernel by what it requires of the processor, in one word.
#pragma once
#include "platform/instruction_sets.h"

namespace mote {

// The last variant whose requirement `available` meets: variants stand in order of preference, the scalar one first.
// Variant needs a member `required`; the first one requires nothing.
template <class Variant>
const Variant& choose_kernel(const Variant* variants, uint32_t count, IsaBits available) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < count; ++i)
    if ((variants[i].required & ~available) == 0) best = i;
  return variants[best];
}

}   // namespace mote
