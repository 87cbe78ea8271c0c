// The verbs of a sequence's state on every backend: what they promise in core/ops/backend.h.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <string>

#include "core/base/half.h"
#include "core/pipeline/snapshot.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/harness.h"

namespace mote::test {
namespace {

const AttentionShape kShapes[] = {
    {4, 2, 32, 32, 0, 90, KvType::f16, 0, 1},
    {3, 1, 6, 10, 0, 90, KvType::f32, 0, 1},
    {2, 2, 16, 16, 9, 90, KvType::f16, 0, 1},   // a ring holds far fewer positions than the sequence has
    {2, 1, 16, 8, 40, 230, KvType::f32, 20, 2},
};

// Of every kind of state.
std::vector<Case> cases_of_states() {
  std::vector<Case> cases;
  for (const AttentionShape& shape : kShapes) cases.push_back(attention_case(shape, 900));
  for (const KvType type : {KvType::f16, KvType::f32}) {   // f32 under both
    cases.push_back(rnn_case(Format::f32, 33, 60, Phase::decode, 901));
    cases.back().kv_type = type;
  }
  return cases;
}

// Runs `body` for every case on every backend that takes it; gives the sentences of what went wrong.
using Body = std::function<std::string(const BackendEntry&, const Case&)>;
std::string on_every_backend(const Body& body) {
  std::string wrong;
  for (const Case& made : cases_of_states()) {
    for (const BackendEntry& entry : backends_under_test()) {
      std::string sentence;
      try {
        if (Rig(entry, made, {}).supported()) sentence = body(entry, made);
      } catch (const std::exception& error) {
        sentence = error.what();
      }
      if (!sentence.empty()) wrong += std::string("\n") + entry.name + ", " + made.name + ": " + sentence;
    }
  }
  return wrong;
}

RunOptions batches_of(uint32_t max_batch) {
  RunOptions options;
  options.lanes = 2;
  options.max_batch = max_batch;
  return options;
}

// Rows [first, end) in batches of at most `batch`.
void run_range(Rig& rig, uint32_t first, uint32_t end, uint32_t batch) {
  for (; first < end; first += batch) rig.run_batch(first, std::min(batch, end - first));
}

// What a fresh session gives for rows [first, all) after the rows before; batches of 8.
std::vector<float> fresh_tail(const BackendEntry& entry, const Case& made, uint32_t first) {
  Rig rig(entry, made, batches_of(8));
  run_range(rig, 0, first, 8);
  rig.forget_output();
  run_range(rig, first, made.positions(), 8);
  return rig.output();
}

}   // namespace

TEST_CASE("after truncate, the sequence goes on with the bits of a fresh one", "[conformance][state]") {
  const std::string wrong = on_every_backend([](const BackendEntry& entry, const Case& made) -> std::string {
    Rig rig(entry, made, batches_of(8));
    const uint32_t window = made.plan.states[0].window, all = made.positions();
    const bool recurrent = made.plan.states[0].recurrent();
    for (const uint32_t kept : {all - 1, all - 3, all - 8, all - 20, 1U, 0U}) {
      if (!rig.executor().truncate(0).ok()) return "truncate to nothing failed";
      run_range(rig, 0, all, 8);
      const Status status = rig.executor().truncate(kept);
      // A ring may have lost what the window before `kept` needs, but never within the last batch; a recurrent vector
      // may be of the last position alone.
      const bool may_refuse = recurrent ? kept != 0 : window != 0 && kept + 1 < all;
      if (!status.ok() && (status.code() != Code::wrong_state || status.message().empty() || !may_refuse))
        return "truncate to " + std::to_string(kept) + ": " + std::string(status.message());
      if (!status.ok()) continue;
      rig.forget_output();
      run_range(rig, kept, all, 5);
      const std::string sentence = compare_bits(fresh_tail(entry, made, kept), rig.output());
      if (!sentence.empty()) return "truncated to " + std::to_string(kept) + ": " + sentence;
      rig.check_memory();
    }
    return {};
  });
  CHECK(wrong == "");
}

TEST_CASE("a discarded batch leaves no trace", "[conformance][state]") {
  const std::string wrong = on_every_backend([](const BackendEntry& entry, const Case& made) -> std::string {
    Rig rig(entry, made, batches_of(16));
    const uint32_t all = made.positions(), kept = all - 20;
    run_range(rig, 0, kept, 16);
    const std::atomic<uint32_t> set{1}, not_set{0};
    for (const std::atomic<uint32_t>* flag : {&not_set, &set}) {   // run to its end, and cancelled
      if (!rig.executor().begin(kept, 16).ok()) return "begin failed";
      (void)rig.run_only(kept, 16, flag);
      rig.executor().discard();
    }
    if (!rig.executor().begin(kept, 16).ok()) return "begin failed";   // never run at all
    rig.executor().discard();
    rig.forget_output();
    run_range(rig, kept, all, 7);
    rig.check_memory();
    return compare_bits(fresh_tail(entry, made, kept), rig.output());
  });
  CHECK(wrong == "");
}

TEST_CASE("exported positions are the oracle's, byte for byte, and imported elsewhere they give the same bits",
          "[conformance][state]") {
  const std::string wrong = on_every_backend([](const BackendEntry& entry, const Case& made) -> std::string {
    const uint32_t all = made.positions(), kept = all - 20;
    Rig from(entry, made, batches_of(8)), to(entry, made, batches_of(8)),
        reference(oracle_entry(), made, batches_of(8));
    run_range(from, 0, kept, 8);
    run_range(reference, 0, kept, 8);
    const uint32_t first = first_kept_row(made.plan.states[0], kept);   // what the next query sees must be there
    State state;
    state.id = 0;
    std::vector<uint8_t> row(from.state_row_bytes(0)), expected(row.size());
    for (uint32_t position = first; position < kept; ++position) {
      if (!from.executor().export_row(state, position, row).ok()) return "export_row failed";
      if (!reference.executor().export_row(state, position, expected).ok()) return "the oracle's export_row failed";
      if (row != expected && !made.plan.states[0].recurrent())   // which is computed, not copied
        return "position " + std::to_string(position) + " is exported with other bytes than the oracle's";
      const Status imported = to.executor().import_row(state, position, row);
      if (!imported.ok()) return "import_row: " + std::string(imported.message());
    }
    run_range(to, kept, all, 8);
    to.check_memory();
    return compare_bits(fresh_tail(entry, made, kept), to.output());
  });
  CHECK(wrong == "");
}

TEST_CASE("what is imported is brought into the range of its type, as what is appended is", "[conformance][state]") {
  const std::string wrong = on_every_backend([](const BackendEntry& entry, const Case& made) -> std::string {
    Rig rig(entry, made, batches_of(8));
    State state;
    state.id = 0;
    std::vector<uint8_t> row(rig.state_row_bytes(0)), kept(row.size());
    for (const double value : {double{NAN}, double{INFINITY}, -double{INFINITY}, -0.0, 1.5}) {
      const StateInfo& info = made.plan.states[0];
      const bool f16 = row.size() == size_t{info.n_kv_heads} * (info.key_dim + info.value_dim) * 2;
      const size_t size = f16 ? 2 : 4;
      const double limit = f16 ? 65504.0 : double{std::numeric_limits<float>::max()};
      const auto bytes_of = [&](double number, std::vector<uint8_t>& to) {
        const auto single = static_cast<float>(number);
        const uint16_t half = f32_to_f16(single);
        for (size_t at = 0; at < to.size(); at += size)
          std::memcpy(&to[at], f16 ? static_cast<const void*>(&half) : &single, size);
      };
      bytes_of(value, row);
      if (!rig.executor().import_row(state, 0, row).ok() || !rig.executor().export_row(state, 0, kept).ok())
        return "a row was not taken";
      bytes_of(value != value ? 0.0 : std::clamp(value, -limit, limit), row);
      if (kept != row) return std::to_string(value) + " is kept as something else";
    }
    return {};
  });
  CHECK(wrong == "");
}

TEST_CASE("a position that is not there, or a row of another size, is a status", "[conformance][state]") {
  const std::string wrong = on_every_backend([](const BackendEntry& entry, const Case& made) -> std::string {
    Rig rig(entry, made, batches_of(8));
    run_range(rig, 0, made.positions(), 8);
    State state;
    state.id = 0;
    std::vector<uint8_t> row(rig.state_row_bytes(0) + 1);
    const std::span<uint8_t> right = std::span(row).first(row.size() - 1), small = std::span(row).first(row.size() - 2);
    const uint32_t last = made.positions() - 1;
    if (!rig.executor().export_row(state, last, right).ok()) return "the last position cannot be exported";
    State no_state;
    no_state.id = 7;
    for (const Status& status :
         {rig.executor().export_row(state, last + 1, right), rig.executor().import_row(state, last + 1, right),
          rig.executor().export_row(state, UINT32_MAX, right), rig.executor().export_row(state, last, small),
          rig.executor().export_row(state, last, row), rig.executor().import_row(state, last, small),
          rig.executor().import_row(state, last, row), rig.executor().export_row(no_state, last, right)}) {
      if (status.ok() || status.message().empty()) return "a wrong position or size was taken";
    }
    rig.check_memory();
    return {};
  });
  CHECK(wrong == "");
}

}   // namespace mote::test
