// answer_cpp MODEL.gguf: what answer.c prints, through mote.hpp. May use exceptions, run-time types and the heap.
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/mote.hpp"

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  mote::Error error;
  auto must = [&](bool ok) {
    if (!ok) throw std::runtime_error(error.message());
  };
  mote::Engine engine;
  mote::Model model;
  mote::Session session;
  mote_engine_options options = {};
  options.backends = "cpu";
  options.threads = 2;
  must(engine.open(options, &error));
  must(model.open(engine, mote::Source::file(argv[1]), {}, &error));
  must(session.open(model, {}, &error));
  must(session.feed(std::vector<int32_t>{1, 17, 42, 5, 99, 7, 23, 64, 11, 3}, &error));
  std::string line = mote_version();
  uint64_t hash = 1469598103934665603u;
  for (int i = 0; i < 8; ++i) {
    must(session.step(&error));
    for (const float logit : session.logits()) {
      uint32_t bits = 0;
      std::memcpy(&bits, &logit, sizeof bits);
      hash = (hash ^ bits) * 1099511628211u;
    }
    int32_t token = -1;
    must(session.next(&token, &error));
    line += " " + std::to_string(token);
  }
  std::printf("%s %016llx\n", line.c_str(), static_cast<unsigned long long>(hash));
  return 0;
} catch (const std::exception& problem) {
  std::fprintf(stderr, "%s\n", problem.what());
  return 1;
}
