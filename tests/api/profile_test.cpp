// mote_dev.h: what steps are worth and take, and what the machine reaches.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstring>
#include <map>

#include "core/mote_dev.h"
#include "tests/api/kit.h"

namespace mote::test::profile {   // names of its own: tests are compiled several files at once
namespace {

using Sums = std::vector<mote_dev_step_profile>;

Sums room(mote_model* model) { return Sums(mote_dev_step_count(model)); }
void set_profile(mote_session* session, Sums* sums) {
  mote_error error{};
  must(mote_dev_profile(session, sums == nullptr ? nullptr : sums->data(),
                        sums == nullptr ? 0 : static_cast<uint32_t>(sums->size()), &error),
       error);
}
// By the names of the ops.
std::map<std::string, mote_dev_step_profile> by_op(mote_model* model, const Sums& sums) {
  std::map<std::string, mote_dev_step_profile> ops;
  for (size_t i = 0; i < sums.size(); ++i) {
    mote_dev_step step{};
    mote_error error{};
    must(mote_dev_get_step(model, static_cast<uint32_t>(i), &step, &error), error);
    mote_dev_step_profile& sum = ops[step.op];
    sum.batches += sums[i].batches;
    sum.nanoseconds += sums[i].nanoseconds;
    sum.weight_bytes += sums[i].weight_bytes;
    sum.state_bytes += sums[i].state_bytes;
    sum.value_bytes += sums[i].value_bytes;
    sum.int8_operations += sums[i].int8_operations;
    sum.f32_operations += sums[i].f32_operations;
  }
  return ops;
}

}   // namespace

TEST_CASE("A profile has the bytes and operations of every batch, and changes no bit", "[api][profile]") {
  // Two layers, of which the first sees 8 positions; q8_0 but for embedding and output.
  const ToyOptions options{.matrices = Format::q8_0};
  const uint64_t d = options.d_model, kv = d / 2, ff = options.d_ff, vocab = options.n_vocab, layers = 2;
  const uint64_t matrices = d * d + 2 * d * kv + d * d + 3 * d * ff;   // values of a layer: q, k and v, o, the rest
  const char* backend = GENERATE(from_range(host_backends()));
  CAPTURE(backend);
  const Engine engine(with_cpu(backend).c_str());
  const Model model(engine, toy_phi3(options));
  const Tokens tokens = some_tokens(12, 300);
  mote_session_options session_opts = session_options(64, 32);
  session_opts.kv_type = MOTE_KV_F16;
  const Session plain(model, session_opts), session(model, session_opts);
  Sums sums = room(model);
  set_profile(session, &sums);
  feed(session, tokens);                             // a batch of 11 rows without logits
  const std::vector<float> logits = step(session);   // and one of a row with them
  feed(plain, tokens);
  CHECK(step(plain) == logits);

  auto ops = by_op(model, sums);
  CHECK(ops["linear"].int8_operations == layers * 2 * matrices * 12);
  CHECK(ops["linear"].f32_operations == 2 * vocab * d);
  CHECK(ops["linear"].weight_bytes == layers * matrices / 32 * 34 * 2 + vocab * d * 4);
  CHECK(ops["embed"].weight_bytes == 12 * d * 4);
  CHECK(ops["embed"].int8_operations + ops["embed"].f32_operations == 0);
  CHECK(ops["rms_norm"].weight_bytes == layers * 2 * d * 4 * 2 + d * 4);   // and the last one, of the row with logits
  const uint64_t position = 2 * kv * 2, heads = options.n_heads, head = d / heads;
  CHECK(ops["append"].state_bytes == layers * 12 * position);
  // Rows 0 to 10 see positions 0 to 10 together, row 11 the last 8 or all 12.
  CHECK(ops["attention"].state_bytes == (11 + 8 + 11 + 12) * position);
  CHECK(ops["attention"].f32_operations == 2 * heads * 2 * head * ((36 + 4 * 8) + 78));
  CHECK(ops["add"].value_bytes == layers * 2 * 12 * 3 * d * 4);
  for (const mote_dev_step_profile& sum : sums) CHECK(sum.batches == 2);
  if (std::string(backend) == "cpu" || std::string(backend) == "reference") CHECK(ops["linear"].nanoseconds > 0);

  const Sums before = sums;
  set_profile(session, nullptr);
  feed(session, tokens);
  CHECK(std::memcmp(sums.data(), before.data(), sums.size() * sizeof sums[0]) == 0);
}

TEST_CASE("A profile of an encoder counts its own batches alone", "[api][profile]") {
  const Engine engine("cpu,reference");
  const Model model(engine, toy_t5());
  const Session session(model, session_options(64, 32));
  Sums sums = room(model);
  set_profile(session, &sums);
  encode(session, some_tokens(9, 300));
  uint32_t encoding = 0;
  for (const mote_dev_step_profile& sum : sums) encoding += sum.batches == 1 ? 1 : 0;
  CHECK(encoding > 10);
  CHECK(encoding < sums.size());   // the decoder has not run
  // Two layers, 4 heads of 16: each of 9 rows sees all 9.
  CHECK(by_op(model, sums)["attention"].f32_operations == 2 * 4 * 2 * 16 * 2 * 9 * 9);
}

TEST_CASE("A profile with room for another number of steps is refused", "[api][profile]") {
  const Engine engine("reference");
  const Model model(engine, toy_llama(kSmallToy));
  const Session session(model, session_options(64, 8));
  Sums sums(3);
  const Outcome said = outcome([&](mote_error* e) { return mote_dev_profile(session, sums.data(), 3, e); });
  CHECK(said.status == MOTE_INVALID_ARGUMENT);
  CHECK(said.sentence == "room for the profile of 3 steps, the plan has " + std::to_string(mote_dev_step_count(model)));
}

TEST_CASE("The machine's limits are measured on a block, by the instruction sets that the engine may use",
          "[api][profile]") {
  alignas(64) static uint8_t block[3 * 4096 + 64] = {1};
  mote_dev_limits limits{};
  mote_error error{};
  for (const char* set : {"baseline", "auto"}) {
    mote_engine_options options = engine_options("auto", 2);
    options.instruction_set = set;
    const Engine engine(options);
    const mote_status status = mote_dev_measure_limits(engine, block, sizeof block, &limits, &error);
    if (mote_dev_supports(engine, "cpu", "add", nullptr) == 0) {   // a build without it
      CHECK(status == MOTE_UNSUPPORTED);
      return;
    }
    must(status, error);
    for (const double per_second :
         {limits.read_bytes_per_second, limits.int8_operations_per_second, limits.f32_operations_per_second})
      CHECK(per_second > 1e5);
    for (const std::string loop : {limits.read_loop, limits.int8_loop, limits.f32_loop}) {
      CAPTURE(loop);
      CHECK(contains(loop, ": "));
      if (std::strcmp(set, "baseline") == 0) CHECK(loop.starts_with("baseline: "));
    }
  }
  const Engine engine("reference");
  const auto refused = [&](const void* at, size_t bytes) {
    return outcome([&](mote_error* e) { return mote_dev_measure_limits(engine, at, bytes, &limits, e); }).sentence;
  };
  CHECK(refused(block, 4095) == "a block of 4095 bytes; it must have 4096 or more and begin at a multiple of 64");
  CHECK(contains(refused(block + 8, 4096), "begin at a multiple of 64"));
  CHECK(contains(refused(nullptr, 4096), "NULL"));
}

}   // namespace mote::test::profile
