// Writes the candidate file that the goldens' check.py reads for its section `sampler`:
//   dump_sampler GOLDENS_DIR > candidates.jsonl
//   check.py sampler GOLDENS_DIR/sampler/cases.jsonl candidates.jsonl
#include <fstream>
#include <iostream>

#include "tests/golden/sampler_cases.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: dump_sampler GOLDENS_DIR\n";
    return 2;
  }
  try {
    const mote::test::SamplerInputs inputs = mote::test::read_sampler_inputs(std::string(argv[1]) + "/sampler");
    for (const mote::test::SamplerCase& test : inputs.cases) {
      const mote::test::SamplerAnswer answer = mote::test::run_sampler_case(inputs, test);
      std::cout << nlohmann::json{{"id", test.id},
                                  {"n_kept", answer.n_kept},
                                  {"ids", answer.ids},
                                  {"probs", answer.probs}}
                << "\n";
    }
  } catch (const std::exception& error) {
    std::cerr << "dump_sampler: " << error.what() << "\n";
    return 1;
  }
  return std::cout.flush() ? 0 : 1;
}
