// Models out of files: what the tests of mote_source share.
#pragma once
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/api/kit.h"
#include "tests/support/guarded_memory.h"

namespace mote::test {

// A file that goes away with it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const Bytes& bytes) : path_(std::filesystem::temp_directory_path() / "mote_source_XXXXXX") {
    const int descriptor = mkstemp(path_.data());
    REQUIRE(descriptor >= 0);
    REQUIRE(write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    close(descriptor);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { unlink(path_.c_str()); }
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

struct Opened {
  mote_quote quote{};
  std::vector<float> logits;
};

// Quotes, opens in exactly that, and runs; `before_running` may do to the file what it likes.
template <class Change>
Opened open_and_run(mote_engine* engine, const mote_source& source, Change before_running) {
  Opened opened;
  mote_error error{};
  opened.quote.struct_bytes = sizeof opened.quote;
  must(mote_model_quote(engine, &source, nullptr, nullptr, &opened.quote, nullptr, &error), error);
  const GuardedMemory memory(opened.quote.total_bytes, 64, Guard::pages, 0xFF);
  mote_model* model = nullptr;
  must(mote_model_open(engine, &source, nullptr, {memory.data(), memory.bytes()}, &model, &error), error);
  before_running();
  {
    const Session session(model, session_options(16, 8));
    opened.logits = logits_after(session, {1, 2, 3, 4, 5});
  }
  must(mote_model_close(model, &error), error);
  return opened;
}

inline mote_source empty_source() {
  mote_source source{};
  source.struct_bytes = sizeof source;
  return source;
}

}   // namespace mote::test
