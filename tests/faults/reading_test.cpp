// Reads that give little, are interrupted or end early, and pages of other sizes.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>

#include "platform/cpu_features.h"
#include "platform/file_map.h"
#include "tests/faults/scenario.h"
#include "tests/platform/temporary_folder.h"
#include "tests/support/emulated.h"

namespace mote::test {
namespace {

TEST_CASE("Reads that are short or interrupted change nothing", "[faults][threads]") {
  const TemporaryFolder folder;
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  const std::string path = folder.write("model.gguf", std::string(bytes.begin(), bytes.end()));
  Scenario scenario;
  scenario.source.struct_bytes = sizeof scenario.source;
  scenario.source.path = path.c_str();
  scenario.source.load = MOTE_LOAD_COPY;
  scenario.source_words = path;
  set_faults({});
  const Told quiet = live(scenario);
  CHECK(quiet.problems == "");
  const uint64_t reads = calls_seen(SystemCall::read_at);
  const uint64_t most_bytes = GENERATE(uint64_t{7}, uint64_t{1000}, uint64_t{0});
  const uint64_t interrupt = GENERATE(uint64_t{0}, uint64_t{2}, uint64_t{3});
  Faults faults;
  faults.most_bytes = most_bytes;
  faults.interrupt = interrupt;
  set_faults(faults);
  const Told told = live(scenario);
  CAPTURE(most_bytes, interrupt, told.first_sentence);
  CHECK(told.problems == "");
  CHECK(told.n_refused == 0);
  CHECK((told.life == quiet.life));
  // Some of the reads are of a few bytes only; the file is read whole more than once.
  if (most_bytes != 0) CHECK(calls_seen(SystemCall::read_at) >= reads / 2 * (bytes.size() / most_bytes));
  if (interrupt != 0) CHECK(calls_seen(SystemCall::open) > 1);
  set_faults({});
}

TEST_CASE("A file that ends while it is copied is a status that names it", "[faults]") {
  const TemporaryFolder folder;
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  const std::string path = folder.write("model.gguf", std::string(bytes.begin(), bytes.end()));
  const Engine engine("cpu");
  mote_source source{};
  source.struct_bytes = sizeof source;
  source.path = path.c_str();
  source.load = MOTE_LOAD_COPY;
  Faults faults;
  faults.files_end = true;
  set_faults(faults);
  mote_model* model = nullptr;
  const Outcome refused = outcome([&](mote_error* error) {
    const Watch watch;
    return mote_model_open(engine, &source, nullptr, {}, &model, error);
  });
  set_faults({});
  CHECK(refused.status == MOTE_IO);
  CHECK(contains(refused.sentence, path + ": became shorter while it was read"));
  CHECK(model == nullptr);
  CHECK(not_given_back() == "");
}

// A machine in files: a quota of 2.5 CPUs, none above it, and one of 7 in a group whose name is a part of ours.
void write_machine(const TemporaryFolder& root) {
  root.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
  root.write("proc/self/cgroup", "0::/user/app\n");
  root.write("sys/fs/cgroup/user/app/cpu.max", "250000 100000\n");
  root.write("sys/fs/cgroup/user/ap/cpu.max", "700000 100000\n");
}

TEST_CASE("Quotas read byte by byte are the same; one that cannot be read to its end is left out", "[faults][cpu]") {
  const TemporaryFolder root;
  write_machine(root);
  const auto quota = [&](const Faults& faults) {
    set_faults(faults);
    const Watch watch;
    return read_cgroup_quota(root.path().c_str());
  };
  CHECK(quota({}) == 2);
  Faults slow;
  slow.most_bytes = 1;
  slow.interrupt = 2;
  CHECK(quota(slow) == 2);
  // With a byte a time a failing read stops in the midst of a number or a name. None may become another one: 25 CPUs of
  // "250000 10000", 7 of "/user/ap".
  bool came = true;
  uint64_t n_left_out = 0;
  for (uint64_t n = 1; came; ++n) {
    Faults faults;
    faults.most_bytes = 1;
    faults.at = n;
    const uint32_t found = quota(faults);
    SystemCall kind = SystemCall::open;
    came = fault_came(&kind);
    CAPTURE(n, system_call_name(kind));
    CHECK((found == 0 || found == 2));
    if (came && found != 2) ++n_left_out;
    REQUIRE(n < 5000);
  }
  CHECK(n_left_out > 20);
  CHECK(not_given_back() == "");
  set_faults({});
}

TEST_CASE("A range is mapped from the start of its page, whatever size pages have", "[faults][files]") {
  const TemporaryFolder folder;
  std::string text(300'000, 0);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 131 + i / 251);
  const int descriptor = open(folder.write("assets", text).c_str(), O_RDONLY);
  const uint64_t true_page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const uint64_t page : {uint64_t{4096}, uint64_t{16384}, uint64_t{65536}}) {
    if (page % true_page != 0) continue;   // the machine's own pages are larger
    Faults faults;
    faults.page_bytes = static_cast<long>(page);
    set_faults(faults);
    for (const uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{4095}, uint64_t{4096}, uint64_t{12288},
                                  uint64_t{16384}, uint64_t{65535}, uint64_t{65537}, uint64_t{131072}}) {
      FileRange file;
      FileMap map;
      bool mapped = false;
      {
        const Watch watch;
        mapped = open_descriptor(descriptor, offset, 10'000, &file).ok() && map_file(file, &map).ok();
      }
      CAPTURE(page, offset);
      REQUIRE(mapped);
      CHECK(map.pages_bytes == offset % page + 10'000);
      CHECK(std::string(static_cast<const char*>(map.data), 10'000) == text.substr(offset, 10'000));
      const Watch watch;
      unmap_file(&map);
      close_file(&file);
    }
  }
  set_faults({});
  CHECK(not_given_back() == "");
  CHECK(given_back_wrongly() == "");
  close(descriptor);
}

TEST_CASE("A map is brought into memory by a kernel that knows the advice, and page by page by one that does not",
          "[faults]") {
  if (is_emulated()) SKIP("an emulator takes no advice of memory");
  const TemporaryFolder folder;
  const std::string text(4'000'000, 'x'), path = folder.write("file", text);
  // Page faults while the whole map is read.
  const auto faults_of_reading = [&](bool prefaults) {
    FileRange file;
    FileMap map;
    REQUIRE(open_file(path.c_str(), &file).ok());
    REQUIRE(map_file(file, &map).ok());
    if (prefaults) {
      const Watch watch;
      prefault_map(map);
    }
    rusage before{}, after{};
    REQUIRE(getrusage(RUSAGE_THREAD, &before) == 0);
    const bool equal = std::memcmp(map.data, text.data(), text.size()) == 0;
    REQUIRE(getrusage(RUSAGE_THREAD, &after) == 0);
    CHECK(equal);
    unmap_file(&map);
    close_file(&file);
    return after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt;
  };
  static_cast<void>(faults_of_reading(false));     // the text's own pages
  const long unasked = faults_of_reading(false);   // a kernel maps some pages or many at once
  CHECK(unasked > 1);
  for (const uint64_t at : {uint64_t{0}, uint64_t{2}}) {   // the second advice is the one that may be unknown
    Faults faults;
    faults.at = at;
    set_faults(faults);
    const long prefaulted = faults_of_reading(true);
    CHECK(prefaulted <= 1);
    CHECK(prefaulted < unasked);
    CHECK(calls_seen(SystemCall::advise) == 2);
  }
  set_faults({});
}

}   // namespace
}   // namespace mote::test
