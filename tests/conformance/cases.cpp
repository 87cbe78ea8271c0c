#include "tests/conformance/cases.h"

namespace mote::test {

// No default: the compiler names an op without cases.
std::vector<Case> conformance_cases(Op op) {
  switch (op) {
    case Op::embed:
      return embed_cases();
    case Op::position_embed:
      return position_embed_cases();
    case Op::rms_norm:
      return rms_norm_cases();
    case Op::layer_norm:
      return layer_norm_cases();
    case Op::linear:
      return linear_cases();
    case Op::rope_angles:
      return rope_angles_cases();
    case Op::rope:
      return rope_cases();
    case Op::append:
      return append_cases();
    case Op::attention:
      return attention_cases();
    case Op::activate:
      return activate_cases();
    case Op::gate:
      return gate_cases();
    case Op::add:
      return add_cases();
    case Op::scale:
      return scale_cases();
    case Op::softcap:
      return softcap_cases();
    case Op::take_rows:
      return take_rows_cases();
  }
  return {};
}

std::vector<int32_t> random_tokens(uint32_t positions, uint32_t n_vocab, CaseRandom& random) {
  std::vector<int32_t> tokens(positions);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.below(n_vocab));
  return tokens;
}

}   // namespace mote::test
