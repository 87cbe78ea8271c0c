// Memory that grows until it is enough: every size below the quote is refused, nothing beside it is touched and nothing
// of what was begun stays; the quote itself is the first that does.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/faults/scenario.h"
#include "tests/memory/shapes.h"
#include "tests/platform/temporary_folder.h"
#include "tests/support/guarded_memory.h"

namespace mote::test {
namespace {

// 0, 64, 128 ... up to the quote, and between them primes, whose ends fall anywhere.
std::vector<uint64_t> growing_sizes(uint64_t quote) {
  std::vector<uint64_t> sizes;
  const uint64_t step = quote < 64 * 600 ? 64 : quote / 600 / 64 * 64;
  for (uint64_t size = 0; size < quote; size += size < 64 * 40 ? 64 : step) sizes.push_back(size);
  for (const uint64_t prime : {1u, 2u, 61u, 67u, 127u, 131u, 1021u, 4093u, 4099u, 16381u, 65537u, 131071u, 262147u})
    if (prime < quote) sizes.push_back(prime);
  for (const uint64_t less : {1u, 2u, 63u, 64u, 65u, 128u}) sizes.push_back(quote - less);
  return sizes;
}

// open(memory, error) opens and, where that succeeds, closes again; it says whether there was a handle.
template <class Open>
std::string grow(const mote_quote& quote, Open open) {
  std::string problems;
  const int threads = process_threads();
  uint64_t n_sizes = 0;
  const auto attempt = [&](uint64_t size) {
    const GuardedMemory memory(size, 64, Guard::pages, 0xA5);
    bool opened = false;
    mote_error error{-1, "untouched"};
    mote_status status;
    {
      const Watch watch;
      status = open(mote_memory{memory.data(), size}, &opened, &error);
    }
    const std::string at = std::to_string(size) + " of " + std::to_string(quote.total_bytes) + " bytes: ";
    const bool enough = size >= quote.total_bytes;
    if (status != (enough ? MOTE_OK : MOTE_OUT_OF_MEMORY))
      problems += at + mote_status_name(status) + " " + error.message + "\n";
    if (opened != enough) problems += at + "a handle, or none\n";
    if (!enough && !contains(error.message, std::to_string(size))) problems += at + error.message + "\n";
    if (!memory.damage().empty()) problems += at + memory.damage() + "\n";
    if (!not_given_back().empty()) problems += at + "left behind " + not_given_back() + "\n";
    ++n_sizes;
  };
  for (const uint64_t size : growing_sizes(quote.total_bytes)) attempt(size);
  attempt(quote.total_bytes);
  if (!threads_go_down_to(threads)) problems += "threads are left\n";
  if (n_sizes < 10) problems += "only " + std::to_string(n_sizes) + " sizes\n";
  return problems;
}

TEST_CASE("An engine's memory grows until it is enough", "[faults][memory][threads]") {
  set_faults({});
  const uint32_t threads = GENERATE(1u, 4u);
  const char* backends = GENERATE("cpu", "reference", "auto");
  CAPTURE(threads, backends);
  const mote_engine_options options = engine_options(backends, threads);
  CHECK(grow(quote_engine(options), [&](mote_memory memory, bool* opened, mote_error* error) {
          mote_engine* engine = nullptr;
          const mote_status status = mote_engine_open(&options, memory, &engine, error);
          *opened = engine != nullptr;
          mote_engine_close(engine, nullptr);
          return status;
        }) == "");
}

TEST_CASE("A model's memory grows until it is enough, mapped, copied and in memory", "[faults][memory]") {
  set_faults({});
  const TemporaryFolder folder;
  const Bytes bytes = toy_llama({.n_layers = 1, .d_model = 32, .n_heads = 2, .n_kv_heads = 1, .d_ff = 32}).bytes();
  const std::string path = folder.write("model.gguf", std::string(bytes.begin(), bytes.end()));
  const Engine engine(GENERATE("cpu", "reference"));
  for (const int kind : {0, 1, 2}) {
    mote_source source{};
    source.struct_bytes = sizeof source;
    source.load = kind == 1 ? MOTE_LOAD_COPY : MOTE_LOAD_MAP;
    if (kind < 2)
      source.path = path.c_str();
    else
      source = source_of(bytes);
    mote_quote quote{};
    quote.struct_bytes = sizeof quote;
    REQUIRE(mote_model_quote(engine, &source, nullptr, nullptr, &quote, nullptr, nullptr) == MOTE_OK);
    CAPTURE(kind, quote.total_bytes);
    CHECK(grow(quote, [&](mote_memory memory, bool* opened, mote_error* error) {
            mote_model* model = nullptr;
            const mote_status status = mote_model_open(engine, &source, nullptr, memory, &model, error);
            *opened = model != nullptr;
            mote_model_close(model, nullptr);
            return status;
          }) == "");
  }
  // Were a model half open, the engine would count it.
  CHECK(given_back_wrongly() == "");
}

TEST_CASE("A session's memory grows until it is enough", "[faults][memory]") {
  set_faults({});
  const Engine engine(GENERATE("cpu", "reference", "auto"), 2);
  const Model model(engine, toy_llama({.n_layers = 2, .d_model = 32, .n_heads = 2, .n_kv_heads = 1, .d_ff = 32}));
  for (const Shape& shape : session_shapes()) {
    if (shape.options.context == 0 || shape.options.context > 100) continue;   // their quotes are large
    CAPTURE(shape.name);
    CHECK(grow(quote_session(model, shape.options), [&](mote_memory memory, bool* opened, mote_error* error) {
            mote_session* session = nullptr;
            const mote_status status = mote_session_open(model, &shape.options, memory, &session, error);
            *opened = session != nullptr;
            mote_session_close(session, nullptr);
            return status;
          }) == "");
  }
}

}   // namespace
}   // namespace mote::test
