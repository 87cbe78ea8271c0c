// The same model from memory, from a file mapped or copied, and from within a bigger file: the same bits, and quotes
// that say what each takes.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "core/ops/backend.h"
#include "tests/api/sources.h"

namespace mote::test {
namespace {

TEST_CASE("A model from memory, mapped, copied or within another file gives the same bits", "[api][source]") {
  const Engine engine("cpu");
  const Bytes bytes = toy_llama().bytes();
  const auto nothing = [] {};
  const Opened memory = open_and_run(engine, source_of(bytes), nothing);
  CHECK(memory.quote.file_bytes == bytes.size());
  CHECK(memory.quote.packed_bytes < 4096);

  const TemporaryFile file(bytes);
  mote_source mapped = empty_source();
  mapped.path = file.path();
  const Opened map = open_and_run(engine, mapped, nothing);
  CHECK(bit_difference(map.logits, memory.logits) == "");
  CHECK(map.quote.total_bytes == memory.quote.total_bytes);

  mote_source prefaulted = mapped;
  prefaulted.load = MOTE_LOAD_PREFAULT;
  const Opened there = open_and_run(engine, prefaulted, nothing);
  CHECK(bit_difference(there.logits, memory.logits) == "");
  CHECK(there.quote.total_bytes == map.quote.total_bytes);
  CHECK(there.quote.file_bytes == map.quote.file_bytes);

  // A copy is counted, and does not care what becomes of the file.
  mote_source copied = mapped;
  copied.load = MOTE_LOAD_COPY;
  const TemporaryFile changing(bytes);
  copied.path = changing.path();
  const Opened copy = open_and_run(engine, copied, [&] { REQUIRE(truncate(changing.path(), 100) == 0); });
  CHECK(bit_difference(copy.logits, memory.logits) == "");
  CHECK(copy.quote.file_bytes == 0);
  CHECK(copy.quote.packed_bytes >= bytes.size());
  CHECK(copy.quote.total_bytes - map.quote.total_bytes == (bytes.size() + 63) / 64 * 64);
}

TEST_CASE("A model within a bigger file is found by its offset and length, and the descriptor is not kept",
          "[api][source]") {
  const Engine engine("cpu");
  const Bytes bytes = toy_llama().bytes();
  const Opened memory = open_and_run(engine, source_of(bytes), [] {});
  for (const uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{4096}, uint64_t{12289}}) {
    Bytes bigger(offset, 0xAA);
    bigger.insert(bigger.end(), bytes.begin(), bytes.end());
    bigger.insert(bigger.end(), 1000, 0xBB);
    const TemporaryFile file(bigger);
    for (const int32_t load : {MOTE_LOAD_MAP, MOTE_LOAD_COPY})
      for (const uint64_t length : {uint64_t{bytes.size()}, uint64_t{0}}) {
        mote_source source = empty_source();
        source.use_descriptor = 1;
        source.descriptor = open(file.path(), O_RDONLY);
        source.offset_bytes = offset;
        source.length_bytes = length;
        source.load = load;
        REQUIRE(lseek(source.descriptor, 7, SEEK_SET) == 7);
        const Opened opened = open_and_run(engine, source, [&] {
          CHECK(lseek(source.descriptor, 0, SEEK_CUR) == 7);   // its position is the host's
          CHECK(close(source.descriptor) == 0);
        });
        CAPTURE(offset, load, length);
        CHECK(bit_difference(opened.logits, memory.logits) == "");
      }
  }
}

// Whether this process maps the file now.
bool is_mapped(const char* path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (contains(line, path)) return true;
  return false;
}

// The backend looks while the model is quoted and opened.
TEST_CASE("A file that is copied is never mapped, also while it is quoted", "[api][source]") {
  struct Looking final : public Backend {
    explicit Looking(const char* at) : path(at) {
      Arena arena(room, sizeof room);
      inner = built_in_backends()[0].create({}, arena).value();
    }
    const char* name() const override { return "looking"; }
    bool uses_host_values() const override { return inner->uses_host_values(); }
    bool supports(const Step& step, const Plan& plan) const override {
      ++n_looks, n_mapped += is_mapped(path) ? 1 : 0;
      return inner->supports(step, plan);
    }
    Result<Program*> compile(const PlanPart& part, Arena& arena, Footprint* footprint) override {
      return inner->compile(part, arena, footprint);
    }
    Result<Executor*> open(const PlanPart& part, Program* program, const SessionShape& shape, const ValueMemory& values,
                           Arena& arena, Footprint* footprint) override {
      return inner->open(part, program, shape, values, arena, footprint);
    }
    const char* path;
    alignas(64) unsigned char room[4096];
    Backend* inner = nullptr;
    mutable int n_looks = 0, n_mapped = 0;
  };
  // More header than is read at first.
  GgufBuilder builder = toy_llama({.n_layers = 1});
  builder.set_string("test.padding", std::string(size_t{1} << 20, 'x'));
  const Bytes bytes = builder.bytes();
  const TemporaryFile file(bytes);
  Looking looking(file.path());
  void* const extra = static_cast<Backend*>(&looking);
  mote_engine_options options = engine_options("looking");
  options.extra_backends = &extra, options.n_extra_backends = 1;
  const Engine engine(options), plain("cpu");
  const Opened memory = open_and_run(plain, source_of(bytes), [] {});
  mote_source source = empty_source();
  source.path = file.path();
  const Opened mapped = open_and_run(engine, source, [] {});
  CHECK(looking.n_mapped > 0);
  looking.n_looks = looking.n_mapped = 0;
  source.load = MOTE_LOAD_COPY;
  const Opened copied = open_and_run(engine, source, [] {});
  CHECK(looking.n_looks > 0);
  CHECK(looking.n_mapped == 0);
  CHECK(bit_difference(copied.logits, memory.logits) == "");
  uint64_t scratch = 0, mapped_scratch = 0;
  CHECK(mote_model_scratch_bytes(&source, &scratch, nullptr) == MOTE_OK);
  source.load = MOTE_LOAD_MAP;
  CHECK(mote_model_scratch_bytes(&source, &mapped_scratch, nullptr) == MOTE_OK);
  CHECK(scratch == mapped_scratch);
}

TEST_CASE("A file that is copied and is no model is refused as one that is mapped", "[api][source]") {
  const Engine engine("cpu");
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  mote_model* model = nullptr;
  uint32_t n_wrong = 0;
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 5) {
    const TemporaryFile file(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)));
    Outcome said[2];
    for (const int32_t load : {MOTE_LOAD_MAP, MOTE_LOAD_COPY}) {
      mote_source source = empty_source();
      source.path = file.path();
      source.load = load;
      said[load] = outcome([&](mote_error* e) { return mote_model_open(engine, &source, nullptr, {}, &model, e); });
    }
    if (said[0].status == MOTE_OK || said[0].status != said[1].status || said[0].sentence != said[1].sentence)
      ++n_wrong;
  }
  CHECK(n_wrong == 0);
}

TEST_CASE("A range beyond its file is refused", "[api][source]") {
  const Engine engine("cpu");
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  const TemporaryFile file(bytes);
  mote_source source = empty_source();
  source.use_descriptor = 1;
  source.descriptor = open(file.path(), O_RDONLY);
  mote_model* model = nullptr;
  const uint64_t kRanges[][2] = {
      {bytes.size() + 1, 0}, {0, bytes.size() + 1}, {1, bytes.size()}, {UINT64_MAX, 2}, {2, UINT64_MAX - 1}};
  for (const auto& [offset, length] : kRanges) {
    source.offset_bytes = offset;
    source.length_bytes = length;
    const Outcome refused =
        outcome([&](mote_error* e) { return mote_model_open(engine, &source, nullptr, {}, &model, e); });
    CAPTURE(offset, length, refused.sentence);
    CHECK(refused.status == MOTE_IO);
  }
  close(source.descriptor);
}

TEST_CASE("A file cut anywhere is refused with a sentence", "[api][source]") {
  const Engine engine("cpu");
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  mote_model* model = nullptr;
  uint32_t n_wrong = 0;
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 37) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const mote_source source = source_of(cut);
    const Outcome refused =
        outcome([&](mote_error* e) { return mote_model_open(engine, &source, nullptr, {}, &model, e); });
    if (size == 0 ? refused.status == MOTE_OK : refused.status != MOTE_BAD_MODEL) ++n_wrong;
    if (refused.sentence.empty()) ++n_wrong;
  }
  CHECK(n_wrong == 0);
}

}   // namespace
}   // namespace mote::test
