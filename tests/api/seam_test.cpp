// Between a device and the host: a Value that crosses has a place on the host, one that stays on the device has none,
// and whoever runs which steps, the bits are the same.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "core/handles.h"
#include "core/mote_dev.h"
#include "tests/api/device_backend.h"
#include "tests/api/kit.h"

namespace mote::test {
namespace {

struct Device {
  DeviceBackend backend;
  void* extra[1] = {static_cast<Backend*>(&backend)};
  explicit Device(const char* inner) : backend(inner) {}
  mote_engine_options options(const char* backends) {
    mote_engine_options options = engine_options(backends);
    options.extra_backends = extra;
    options.n_extra_backends = 1;
    return options;
  }
};

mote_session_options f32_session() {
  mote_session_options options = session_options(64, 8);
  options.max_output_rows = 3;
  return options;
}

// Fed in batches, stepped, evaluated in slices, wound back.
std::vector<float> use(mote_session* session) {
  std::vector<float> seen;
  if (!use_encoder(session, &seen)) return seen;
  for (const float logit : logits_after(session, some_tokens(21, 300))) seen.push_back(logit);
  const auto take = [](void* user, size_t, size_t rows, const float* logits, size_t n_vocab) -> int32_t {
    auto* to = static_cast<std::vector<float>*>(user);
    to->insert(to->end(), logits, logits + rows * n_vocab);
    return 0;
  };
  const Tokens more = some_tokens(10, 300, 2);
  must(mote_evaluate(session, more.data(), more.size(), take, &seen, nullptr, nullptr), {});
  must(mote_rewind(session, 9, nullptr), {});
  for (const float logit : logits_after(session, some_tokens(4, 300, 3))) seen.push_back(logit);
  return seen;
}

TEST_CASE("Whichever op stays on the host, a device beside it gives the bits of the host alone", "[api][seam]") {
  const std::string inner = GENERATE("cpu", "reference");
  const ToyModel toy = GENERATE(from_range(kAllToys));
  const Bytes bytes =
      toy({.n_layers = 2, .d_model = 32, .n_heads = 2, .n_kv_heads = 1, .d_ff = 48, .tied = true}).bytes();
  const Engine host_engine(inner.c_str());
  const Model host_model(host_engine, bytes);
  const std::vector<float> expected = use(Session(host_model, f32_session()));
  std::set<Op> ops;
  for (const Step& step : static_cast<mote_model*>(host_model)->plan.steps) ops.insert(step.op);
  REQUIRE(ops.size() > 3);
  for (const Op refused : ops) {
    Device device(inner.c_str());
    device.backend.refused = {refused};
    const Engine engine(device.options(("device," + inner).c_str()));
    const Model model(engine, bytes);
    const Session session(model, f32_session());
    CAPTURE(inner, name_of(toy), op_info(refused).name);
    CHECK(bit_difference(use(session), expected) == "");
    // The last op, and those before the first layer, part nothing in two.
    CHECK(device.backend.n_parts >= 1);
  }
  // And each op alone on the device.
  for (const Op alone : ops) {
    Device device(inner.c_str());
    for (const Op op : ops)
      if (op != alone) device.backend.refused.insert(op);
    const Engine engine(device.options(("device," + inner).c_str()));
    const Model model(engine, bytes);
    CAPTURE(inner, name_of(toy), op_info(alone).name);
    CHECK(bit_difference(use(Session(model, f32_session())), expected) == "");
    const StateUse use = op_info(alone).state;
    const bool of_a_state = use == StateUse::writes || use == StateUse::reads;   // they go together or not at all
    CHECK((device.backend.n_parts > 0) == !of_a_state);
  }
}

TEST_CASE("What stays on a device takes no memory of the host", "[api][seam]") {
  const Bytes bytes = toy_llama().bytes();
  Device device("cpu");
  const Engine engine(device.options("device,cpu")), host_engine("cpu");
  const Model model(engine, bytes), host_model(host_engine, bytes);
  const mote_session_options options = f32_session();
  const Session session(model, options);
  CHECK(device.backend.n_parts == 1);
  // The logits alone: 3 rows of 320.
  CHECK(quote_session(model, options).activation_bytes == 3 * 320 * sizeof(float));
  CHECK(quote_session(host_model, options).activation_bytes > 3 * 320 * sizeof(float));
  CHECK(bit_difference(use(session), use(Session(host_model, options))) == "");
}

}   // namespace
}   // namespace mote::test
