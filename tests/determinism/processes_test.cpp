// Logits are the same bits in separate processes, whatever the threads, the batches and the rewinds.
#include <sys/wait.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/emulated.h"
#include "tests/support/sanitized.h"

namespace {

struct Printed {
  std::map<std::string, std::string> hashes;   // by what they are of
  std::string again;
  std::vector<uint64_t> lanes;
};

Printed run_logits_hash(const std::string& arguments) {
  const std::string command = std::string(MOTE_LOGITS_HASH) + " " + arguments;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  std::string text;
  std::array<char, 4096> buffer;
  for (size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) text.append(buffer.data(), n);
  const int status = pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::runtime_error(command + " failed");
  Printed printed;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string what, hash;
    words >> what;
    if (what == "lanes") {
      for (uint64_t n = 0; words >> n;) printed.lanes.push_back(n);
    } else {
      words >> hash;
      // "again" may come several times: a different one of them must not hide behind the last.
      if (what == "again" && printed.again.empty())
        printed.again = hash;
      else if (what == "again" && printed.again != hash)
        printed.again = "several";
      else if (what != "again")
        printed.hashes[what] = hash;
    }
  }
  return printed;
}

// Empty when all that was printed agrees with `first` and within itself, and every thread did work.
std::string fault_of(const Printed& first, const Printed& printed, uint32_t threads) {
  std::string fault;
  for (const auto& [what, hash] : printed.hashes) {
    const auto expected = first.hashes.find(what == "every" ? "every" : "cold");
    if (expected == first.hashes.end() || hash != expected->second) fault += what + " ";
  }
  if (!printed.again.empty() && printed.again != first.hashes.at("cold")) fault += "again ";
  if (printed.hashes.size() != first.hashes.size()) fault += "(not all were run) ";
  if (printed.lanes.size() != threads) fault += "(other threads) ";
  for (size_t lane = 0; lane < printed.lanes.size() && threads > 1; ++lane)
    if (printed.lanes[lane] == 0) fault += "(thread " + std::to_string(lane) + " did nothing) ";
  return fault;
}

// How many of them decode: another number for each size of batches. All where there is nothing but batches of one row,
// for each thread is to do some work.
uint32_t decode_threads(uint32_t threads, uint32_t batch) { return batch == 1 ? 0 : 1 + batch % threads; }

// With a sanitizer or in an emulator, which are many times as slow: the corners of a shorter prompt.
bool is_in_full() { return !mote::test::kSanitized && !mote::test::is_emulated(); }

TEST_CASE("A prompt of 1,100 tokens gives the same bits over threads, batches and rewinds, in separate processes",
          "[determinism][processes]") {
  const bool all = is_in_full();
  const std::string rewinds = " 63 64 65 1023 1025";
  constexpr const char* kKinds[][2] = {{"toy", "f16"}, {"toy", "f32"}, {"windows", "f16"}};
  for (const auto& [model, kv] : kKinds) {
    const bool in_full = all && &model == &kKinds[0][0];
    Printed first;
    for (const uint32_t threads : {1u, 2u, 3u, 8u})
      for (const uint32_t batch : {1u, 7u, 64u, 512u}) {
        const bool corner = (threads == 1 && batch == 512) || (threads == 3 && batch == 7);
        if (!corner && !in_full) continue;   // the further kinds: the corners alone
        CAPTURE(model, kv, threads, batch);
        const Printed printed = run_logits_hash(
            std::string(model) + (all ? " 1100 " : " 300 ") + std::to_string(threads) + " " +
            std::to_string(decode_threads(threads, batch)) + " " + std::to_string(batch) + " " + kv + rewinds);
        if (first.hashes.empty()) first = printed;
        REQUIRE(first.hashes.size() == (all ? 7 : 5));
        CHECK(fault_of(first, printed, threads) == "");
      }
  }
}

TEST_CASE("SmolLM2 gives the same bits over threads, batches and rewinds, in separate processes",
          "[determinism][processes][real]") {
  const char* model = std::getenv("MOTE_SMOLLM2");
  if (model == nullptr) SKIP("MOTE_SMOLLM2 names no model");
  Printed first;
  constexpr uint32_t kPairs[][2] = {{1, 512}, {2, 64}, {3, 7}, {8, 512}, {2, 1}, {8, 64}};
  for (const auto& [threads, batch] : kPairs) {
    CAPTURE(threads, batch);
    const Printed printed =
        run_logits_hash(std::string(model) + " 300 " + std::to_string(threads) + " " +
                        std::to_string(decode_threads(threads, batch)) + " " + std::to_string(batch) + " f16 63 64 65");
    if (first.hashes.empty()) first = printed;
    REQUIRE(first.hashes.size() == 4);
    CHECK(fault_of(first, printed, threads) == "");
  }
}

}   // namespace
