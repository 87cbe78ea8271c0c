// Twenty cycles of load, generate, unload: nothing stays of any of them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <fstream>

#include "tests/faults/scenario.h"
#include "tests/platform/temporary_folder.h"
#include "tests/support/emulated.h"
#include "tests/support/sanitized.h"

namespace mote::test {
namespace {

struct Process {
  int threads = 0, descriptors = 0;
  size_t mappings = 0;
  long anonymous_kb = 0;
};

Process look() {
  Process now;
  now.threads = process_threads();
  now.descriptors = process_descriptors();
  std::ifstream maps("/proc/self/maps"), status("/proc/self/status");
  for (std::string line; std::getline(maps, line);) ++now.mappings;
  for (std::string line; std::getline(status, line);)
    if (line.rfind("RssAnon:", 0) == 0) now.anonymous_kb = std::stol(line.substr(8));
  return now;
}

TEST_CASE("After twenty cycles of load, generate and unload the process is what it was", "[faults][threads]") {
  const TemporaryFolder folder;
  const Bytes bytes = toy_llama({.n_layers = 3, .d_model = 128, .d_ff = 256, .n_vocab = 2000}).bytes();
  const std::string path = folder.write("model.gguf", std::string(bytes.begin(), bytes.end()));
  Scenario scenario;
  scenario.source.struct_bytes = sizeof scenario.source;
  scenario.source.path = path.c_str();
  scenario.source.load = GENERATE(MOTE_LOAD_MAP, MOTE_LOAD_COPY);
  scenario.threads = 4;
  set_faults({});
  const int idle = process_threads();
  Told first = live(scenario);
  CHECK(first.problems == "");
  for (int cycle = 2; cycle <= 3; ++cycle) live(scenario);   // the C library keeps a few stacks and its heap
  REQUIRE(threads_go_down_to(idle));
  const Process before = look();
  bool same = true;
  for (int cycle = 4; cycle <= 23; ++cycle) same = live(scenario).life == first.life && same;
  REQUIRE(threads_go_down_to(idle));
  const Process after = look();
  CHECK(same);
  CHECK(after.threads == before.threads);
  CHECK(after.descriptors == before.descriptors);
  CHECK(not_given_back() == "");
  CHECK(given_back_wrongly() == "");
  // A sanitizer keeps what was freed for a while, an emulator what it translated.
  if (kSanitized || is_emulated()) return;
  CAPTURE(before.mappings, after.mappings, before.anonymous_kb, after.anonymous_kb, bytes.size());
  CHECK(after.mappings <= before.mappings);
  // A cycle that kept its model, or a session, would show twenty times.
  CHECK(after.anonymous_kb <= before.anonymous_kb + 128);
}

}   // namespace
}   // namespace mote::test
