// toy_gguf FILE: writes the model that the tests put into a firmware: small, several formats, with a tokenizer.
#include <cstdio>
#include <fstream>

#include "tests/support/toy_model.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: toy_gguf FILE\n", stderr), 2;
  mote::test::ToyOptions options;
  options.seed = 55;
  options.d_ff = 128;
  options.matrices = mote::Format::q4_0;
  options.embedding = mote::Format::f16;
  options.output = mote::Format::q8_0;
  options.rope_scaling = "yarn";   // angles in double precision, in software on a Cortex-M4
  const std::vector<uint8_t> bytes = mote::test::toy_llama(options).bytes();
  std::ofstream file(argv[1], std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return file.flush() ? 0 : 1;
}
