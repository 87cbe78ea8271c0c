// Backends that do not run a model, or a session of this shape: the next ones do from the beginning, and quotes are
// those of the backends that are left.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "core/mote_dev.h"
#include "tests/api/device_backend.h"
#include "tests/api/hooked_pair.h"

namespace mote::test {
namespace {

Status does_not_run() { return Status::error(Code::unsupported, "not this"); }
Status up_to_64(const SessionShape& shape) { return shape.context > 64 ? does_not_run() : Status(); }

const mote_session_options kLong = session_options(100, 8);

void check_same(const mote_quote& a, const mote_quote& b) {
  CHECK(a.total_bytes == b.total_bytes);
  CHECK(a.state_bytes == b.state_bytes);
  CHECK(a.activation_bytes == b.activation_bytes);
  CHECK(a.scratch_bytes == b.scratch_bytes);
  CHECK(a.fallback_bytes == b.fallback_bytes);
}

// A session too long for a backend of `engine`, which `plain_engine` has not: in exactly the memory of the quotes, in
// less, in the platform's.
void check_long_session(mote_engine* engine, mote_engine* plain_engine, const Bytes& bytes) {
  const Model model(engine, bytes), plain_model(plain_engine, bytes);
  const mote_quote quote = quote_session(model, kLong);
  check_same(quote, quote_session(plain_model, kLong));
  check_same(quote, quote_model(engine, bytes, kLong).session);
  CHECK(sum_of_kinds(quote) == quote.total_bytes);
  Bench bench(quote.total_bytes);
  mote_session* none = nullptr;
  const mote_memory little = bench.of(quote.total_bytes - 64);
  const Outcome refused = outcome([&](mote_error* e) { return mote_session_open(model, &kLong, little, &none, e); });
  CHECK(refused.status == MOTE_OUT_OF_MEMORY);
  CHECK(contains(refused.sentence, std::to_string(little.bytes) + " were handed over"));
  const Tokens tokens = some_tokens(80, 300);
  const std::vector<float> expected = logits_after(Session(plain_model, kLong), tokens);
  for (const mote_memory memory : {bench.of(quote.total_bytes), mote_memory{}}) {
    const Session session(model, kLong, memory);
    CHECK(bit_difference(logits_after(session, tokens), expected) == "");
    CHECK(mote_dev_session_fallbacks(session) == 1);
  }
}

Outcome try_open(mote_model* model, const mote_session_options& options) {
  mote_session* none = nullptr;
  return outcome([&](mote_error* e) { return mote_session_open(model, &options, {}, &none, e); });
}
Outcome try_quote(mote_model* model, const mote_session_options& options) {
  mote_quote quote{};
  quote.struct_bytes = sizeof quote;
  return outcome([&](mote_error* e) { return mote_session_quote(model, &options, &quote, e); });
}

TEST_CASE("A session of a shape that a backend does not run is quoted and opened on the next one",
          "[api][fallback][left-out]") {
  const std::string inner = GENERATE("reference", "cpu");   // either takes more than the other
  const Bytes bytes = toy_llama(kSmallToy).bytes();
  Pair pair(inner.c_str(), inner == "cpu" ? "reference" : "cpu");
  pair.first.hooks.on_shape = up_to_64;
  pair.first.bytes_before_asking = GENERATE(0u, 1u << 20);   // so that it may run out of the memory of such a quote
  const Engine engine(pair.options()), plain_engine(pair.options("second"));
  check_long_session(engine, plain_engine, bytes);
  REQUIRE(pair.lines.size() == 2);
  CHECK(pair.lines[0] == "backend first did not open the session (not this); it begins with second");
  CHECK(pair.lines[1] == pair.lines[0]);
  // One that is not too long stays with the first.
  const Model model(engine, bytes);
  const Session fits(model, session_options(64, 8));
  CHECK(std::string(mote_dev_session_backend(fits, 0)) == "first");
  CHECK(quote_session(model, session_options(64, 8)).fallback_bytes > 0);
  CHECK(pair.first.counts.executors == 1);
}

TEST_CASE("On a device that does not run a shape nothing of the quote is the device's", "[api][seam][left-out]") {
  // Values on a device take nothing of the host: a session there is far smaller.
  const bool device_first = GENERATE(true, false);
  const Bytes bytes = toy_llama(kSmallToy).bytes();
  DeviceBackend device("cpu");
  HookedBackend host("cpu", "host");
  void* extra[] = {static_cast<Backend*>(&device), static_cast<Backend*>(&host)};
  if (device_first)
    device.most_context = 64, device.refused = {Op::gate};
  else
    host.hooks.on_shape = up_to_64;
  const auto options = [&](const char* names) {
    mote_engine_options made = engine_options(names);
    made.extra_backends = extra;
    made.n_extra_backends = 2;
    return made;
  };
  const Engine engine(options(device_first ? "device,host" : "host,device"));
  const Engine plain_engine(options(device_first ? "host" : "device"));
  check_long_session(engine, plain_engine, bytes);
}

TEST_CASE("A shape that nobody runs, or whose session wants no other backend, is refused with the first reason",
          "[api][fallback][left-out]") {
  Pair pair;
  pair.first.hooks.on_shape = up_to_64;
  const Bytes bytes = toy_llama(kSmallToy).bytes();
  const Engine engine(pair.options());
  const Model model(engine, bytes);
  mote_session_options stops = kLong;
  stops.on_backend_failure = MOTE_ON_BACKEND_FAILURE_STOP;
  const auto check_refused = [&](const mote_session_options& options) {
    for (const Outcome& said : {try_quote(model, options), try_open(model, options)}) {
      CHECK(said.status == MOTE_UNSUPPORTED);
      CHECK(said.sentence == "not this");
    }
  };
  check_refused(stops);
  pair.second.hooks.on_shape = [](const SessionShape&) { return Status::error(Code::unsupported, "nor this"); };
  check_refused(kLong);
  CHECK(pair.first.counts.executors + pair.second.counts.executors == 0);
}

TEST_CASE("What only an opening finds out that it does not run goes to the next backend too",
          "[api][fallback][left-out]") {
  Pair pair;
  const Bytes bytes = toy_llama(kSmallToy).bytes();
  const Engine engine(pair.options()), plain_engine("cpu");
  const Model plain_model(plain_engine, bytes);
  const Tokens tokens = some_tokens(20, 300);
  const std::vector<float> expected = logits_after(Session(plain_model, kLong), tokens);
  {
    const Model model(engine, bytes);
    pair.first.hooks.on_open = does_not_run;
    CHECK(bit_difference(logits_after(Session(model, kLong), tokens), expected) == "");
  }
  pair.first.hooks.on_compile = does_not_run;
  const Model model(engine, bytes);
  CHECK(bit_difference(logits_after(Session(model, kLong), tokens), expected) == "");
  CHECK(pair.lines ==
        std::vector<std::string>{"backend first did not open the session (not this); it begins with second",
                                 "backend first failed to compile the model (not this); it goes on with second"});
}

TEST_CASE("A model that a backend does not compile is quoted and opened on the next ones",
          "[api][fallback][left-out]") {
  const std::string inner = GENERATE("reference", "cpu");
  const Bytes bytes = toy_llama(kSmallToy).bytes();
  Pair pair(inner.c_str(), inner == "cpu" ? "reference" : "cpu");
  pair.first.hooks.on_plan = does_not_run;
  pair.first.bytes_before_asking = GENERATE(0u, 1u << 20);
  const Engine engine(pair.options()), plain_engine(pair.options("second"));
  const ModelQuotes quotes = quote_model(engine, bytes, kLong), plain = quote_model(plain_engine, bytes, kLong);
  check_same(quotes.model, plain.model);
  check_same(quotes.session, plain.session);
  Bench bench(quotes.model.total_bytes);
  const mote_source source = source_of(bytes);
  mote_model* none = nullptr;
  const mote_memory little = bench.of(quotes.model.total_bytes - 64);
  const Outcome refused =
      outcome([&](mote_error* e) { return mote_model_open(engine, &source, nullptr, little, &none, e); });
  CHECK(refused.status == MOTE_OUT_OF_MEMORY);
  const Tokens tokens = some_tokens(20, 300);
  const Model plain_model(plain_engine, bytes);
  const std::vector<float> expected = logits_after(Session(plain_model, kLong), tokens);
  pair.lines.clear();
  for (const mote_memory memory : {bench.of(quotes.model.total_bytes), mote_memory{}}) {
    const Model model(engine, bytes, memory);
    CHECK(bit_difference(logits_after(Session(model, kLong), tokens), expected) == "");
    CHECK(quote_session(model, kLong).total_bytes == quotes.session.total_bytes);
    CHECK(!pair.lines.empty());
    for (const std::string& line : pair.lines) CHECK(contains(line, "compile the model (not this)"));
  }
  // Alone it is refused, with the reason.
  const Engine alone(pair.options("first"));
  const Outcome said = outcome([&](mote_error* e) { return mote_model_open(alone, &source, nullptr, {}, &none, e); });
  CHECK(said.status == MOTE_UNSUPPORTED);
  CHECK(said.sentence == "not this");
}

}   // namespace
}   // namespace mote::test
