// Mapped weights stay in the file: after loading and after ten tokens the process has taken no more anonymous memory
// than the quotes say, whatever the format, the backend and the place of the model in its file.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <fstream>

#include "tests/api/kit.h"
#include "tests/platform/temporary_folder.h"
#include "tests/support/emulated.h"
#include "tests/support/sanitized.h"

namespace mote::test {
namespace {

struct Resident {
  int64_t anonymous_bytes = 0, file_bytes = 0;   // a file in memory alone (tmpfs) counts as shared
};

Resident resident() {
  Resident now;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) now.anonymous_bytes += 1024 * std::stoll(line.substr(8));
    if (line.rfind("RssFile:", 0) == 0) now.file_bytes += 1024 * std::stoll(line.substr(8));
    if (line.rfind("RssShmem:", 0) == 0) now.file_bytes += 1024 * std::stoll(line.substr(9));
  }
  return now;
}

// The heap and the stacks of the test itself, and pages that were there in part.
constexpr int64_t kSlackBytes = 256 << 10;

struct OpenModel {
  mote_model* model = nullptr;
  mote_quote quote{};
  OpenModel(mote_engine* engine, const mote_source& source) {
    mote_error error{};
    quote.struct_bytes = sizeof quote;
    must(mote_model_quote(engine, &source, nullptr, nullptr, &quote, nullptr, &error), error);
    must(mote_model_open(engine, &source, nullptr, {}, &model, &error), error);
  }
  OpenModel(const OpenModel&) = delete;
  OpenModel& operator=(const OpenModel&) = delete;
  ~OpenModel() { mote_model_close(model, nullptr); }
};

void check_resident(const Bytes& bytes, uint64_t offset, const char* backend) {
  const TemporaryFolder folder;
  std::string text(offset, 'x');
  text.append(bytes.begin(), bytes.end());
  const std::string path = folder.write("model.gguf", text);
  text = {};
  mote_source source{};
  source.struct_bytes = sizeof source;
  source.use_descriptor = 1;
  source.descriptor = open(path.c_str(), O_RDONLY);
  source.offset_bytes = offset;
  const Engine engine(backend, 2);
  const mote_session_options options = session_options(64, 16);
  const Tokens prompt = some_tokens(12, 300);

  const Resident before = resident();
  const OpenModel opened(engine, source);
  const Resident loaded = resident();
  CHECK(loaded.anonymous_bytes - before.anonymous_bytes <=
        static_cast<int64_t>(opened.quote.total_bytes) + kSlackBytes);
  const auto session_bytes = static_cast<int64_t>(quote_session(opened.model, options).total_bytes);
  const Session session(opened.model, options);
  feed(session, prompt);
  generate(session, 10);
  const Resident used = resident();
  CHECK(used.anonymous_bytes - before.anonymous_bytes <=
        static_cast<int64_t>(opened.quote.total_bytes) + session_bytes + 2 * kSlackBytes);
  // The output matrix, half of the file, was read where it lies.
  CHECK(used.file_bytes - before.file_bytes >= static_cast<int64_t>(bytes.size()) / 3);
  CHECK(opened.quote.file_bytes == bytes.size());
  // What a copy of the weights would be is well above what the quotes and the slack leave.
  CHECK(static_cast<int64_t>(bytes.size()) >
        2 * (static_cast<int64_t>(opened.quote.total_bytes) + session_bytes + 2 * kSlackBytes));

  const OpenModel second(engine, source);
  const Session other(second.model, options);
  feed(other, prompt);
  generate(other, 10);
  CHECK(resident().anonymous_bytes - used.anonymous_bytes <=
        static_cast<int64_t>(second.quote.total_bytes) + session_bytes + kSlackBytes);
  close(source.descriptor);
}

TEST_CASE("Mapped weights of every format take no anonymous memory, and a second model none again", "[memory][quote]") {
  if (kSanitized) SKIP("a sanitizer has anonymous memory of its own");
  if (is_emulated()) SKIP("an emulator has anonymous memory of its own: what it translated");
  const char* backend = GENERATE("cpu", "reference");
  for (size_t i = 0; i < format_table().size(); ++i) {
    const FormatInfo& format = format_table()[i];
    if (!format.enabled || 256 % format.block_values != 0) continue;
    const auto kind = static_cast<Format>(i);
    // At least 3 MiB in either matrix of the vocabulary.
    const auto rows = static_cast<uint32_t>((uint64_t{3} << 20) / (256 / format.block_values * format.block_bytes));
    const Bytes bytes = toy_llama({.n_layers = 1,
                                   .d_model = 256,
                                   .d_ff = 256,
                                   .n_vocab = rows,
                                   .matrices = kind,
                                   .embedding = kind,
                                   .output = kind,
                                   .tokenizer = ToyTokenizer::none})
                            .bytes();
    CAPTURE(backend, format.name, bytes.size());
    check_resident(bytes, 0, backend);
    if (i % 5 == 0) check_resident(bytes, 4097, backend);
  }
}

TEST_CASE("All of a file that is prefaulted is resident when the model opens, and of no other", "[memory]") {
  if (is_emulated()) SKIP("an emulator takes no advice of memory");
  const Bytes bytes =
      toy_llama({.n_layers = 1, .d_model = 256, .d_ff = 256, .n_vocab = 8192, .tokenizer = ToyTokenizer::none}).bytes();
  const TemporaryFolder folder;
  const std::string path = folder.write("model.gguf", std::string(bytes.begin(), bytes.end()));
  const Engine engine("cpu", 2);
  const auto grown_by = [&](int32_t load, bool vocabulary_only) {
    mote_source source{};
    source.struct_bytes = sizeof source;
    source.path = path.c_str();
    source.load = load;
    mote_model_options options{};
    options.struct_bytes = sizeof options;
    options.vocabulary_only = vocabulary_only ? 1 : 0;
    mote_error error{};
    mote_quote quote{};
    quote.struct_bytes = sizeof quote;
    mote_model* model = nullptr;
    const int64_t before = resident().file_bytes;
    must(mote_model_quote(engine, &source, &options, nullptr, &quote, nullptr, &error), error);
    const int64_t quoted = resident().file_bytes;
    must(mote_model_open(engine, &source, &options, {}, &model, &error), error);
    const int64_t opened = resident().file_bytes;
    must(mote_model_close(model, &error), error);
    CHECK(quoted - before < static_cast<int64_t>(bytes.size()) / 4);
    return opened - before;
  };
  const auto file_bytes = static_cast<int64_t>(bytes.size());
  REQUIRE(file_bytes > int64_t{8} << 20);
  CHECK(grown_by(MOTE_LOAD_PREFAULT, false) >= file_bytes);
  CHECK(grown_by(MOTE_LOAD_MAP, false) < file_bytes / 4);
  CHECK(grown_by(MOTE_LOAD_PREFAULT, true) < file_bytes / 4);
}

}   // namespace
}   // namespace mote::test
