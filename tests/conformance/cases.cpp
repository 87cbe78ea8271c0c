#include "tests/conformance/cases.h"

namespace mote::test {

std::vector<Case> conformance_cases(Op op) {
  switch (op) {
#define MOTE_OP(name, inputs, state, in_place) \
  case Op::name:                               \
    return name##_cases();
#include "core/ops/ops.inc"
#undef MOTE_OP
  }
  return {};
}

std::vector<int32_t> random_tokens(uint32_t positions, uint32_t n_vocab, CaseRandom& random) {
  std::vector<int32_t> tokens(positions);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.below(n_vocab));
  return tokens;
}

}   // namespace mote::test
