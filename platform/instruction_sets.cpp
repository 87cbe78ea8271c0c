#include "platform/instruction_sets.h"

namespace mote {
namespace {

struct InstructionSet {
  std::string_view name;
  IsaBits allowed;
};
constexpr InstructionSet kInstructionSets[] = {
#define MOTE_INSTRUCTION_SET(name, allowed) {name, allowed},
#include "platform/instruction_sets.inc"
#undef MOTE_INSTRUCTION_SET
};

}   // namespace

// The separator comes first; the pointer stands behind it.
#define MOTE_INSTRUCTION_SET(name, allowed) ", " name
constexpr char kNames[] =
#include "platform/instruction_sets.inc"
    ;
#undef MOTE_INSTRUCTION_SET
const char* const kInstructionSetNames = kNames + 2;

IsaBits isa_bits(const CpuFeatures& f) {
  return (f.avx2 ? kIsaAvx2 : 0) | (f.fma ? kIsaFma : 0) | (f.f16c ? kIsaF16c : 0) |
         (f.avx512f && f.avx512bw && f.avx512vl && f.avx512dq ? kIsaAvx512 : 0) | (f.avx512vnni ? kIsaAvx512Vnni : 0) |
         (f.avx_vnni ? kIsaAvxVnni : 0) | (f.dotprod ? kIsaDotprod : 0) | (f.i8mm ? kIsaI8mm : 0);
}

bool find_instruction_set(std::string_view name, IsaBits* allowed) {
  for (const InstructionSet& set : kInstructionSets) {
    if (set.name != name) continue;
    *allowed = set.allowed;
    return true;
  }
  return false;
}

}   // namespace mote
