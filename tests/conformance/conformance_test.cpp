// Every backend of the registry against the oracle, op by op. Adding a row to ops.inc adds a test here, which is red
// until the op has cases; adding a row to the registry adds a backend to every test.
#include <catch2/catch_test_macros.hpp>
#include <exception>
#include <string>

#include "tests/conformance/cases.h"
#include "tests/conformance/harness.h"

namespace mote::test {
namespace {

std::vector<uint32_t> ones(uint32_t n) { return std::vector<uint32_t>(n, 1); }
// 3, 1, 7, 1, 16, then the rest: every change between one row and many.
std::vector<uint32_t> uneven(uint32_t n) {
  std::vector<uint32_t> cuts;
  for (const uint32_t next : {3U, 1U, 7U, 1U, 16U}) {
    if (n <= next) break;
    cuts.push_back(next);
    n -= next;
  }
  cuts.push_back(n);
  return cuts;
}

// Empty outputs mean that the backend does not run the case.
std::vector<float> run(const BackendEntry& entry, const Case& test_case, const RunOptions& options) {
  Rig rig(entry, test_case, options);
  if (!rig.supported()) return {};
  rig.run_all();
  rig.check_memory();
  return test_case.compared.exists() ? rig.output() : state_values(rig, test_case);
}

struct Report {
  size_t compared = 0, wrong = 0;
  std::string text;   // the first few

  void add(const BackendEntry& entry, const Case& test_case, const std::string& how, const std::string& sentence) {
    ++compared;
    if (sentence.empty()) return;
    if (++wrong <= 12) text += std::string("\n") + entry.name + ", " + test_case.name + how + ": " + sentence;
  }
};

// The same case in other ways, which must not change a bit.
void compare_ways(const BackendEntry& entry, const Case& test_case, const std::vector<float>& first, Report* report) {
  struct Way {
    const char* name;
    RunOptions options;
  };
  const uint32_t n = test_case.positions();
  std::vector<Way> ways = {{", row by row on 3 lanes", {3, false, Guard::pages, false, ones(n), 0}},
                           {", cut unevenly on 4 threads", {4, true, Guard::bands, false, uneven(n), 0}}};
  if (op_info(test_case.plan.steps.back().op).in_place)
    ways.push_back({", in place", {2, false, Guard::pages, true, {}, 0}});
  for (const Way& way : ways) {
    if (!test_case.compared.exists() && way.options.in_place) continue;
    report->add(entry, test_case, way.name, compare_bits(first, run(entry, test_case, way.options)));
  }
}

void check_case(const BackendEntry& entry, const Case& test_case, const std::vector<float>& expected, Report* report) {
  try {
    const std::vector<float> found = run(entry, test_case, {});
    if (found.empty() && !expected.empty()) return;
    report->add(entry, test_case, "", compare(test_case, expected, found, entry.name));
    compare_ways(entry, test_case, found, report);
  } catch (const std::exception& error) {
    report->add(entry, test_case, "", error.what());
  }
}

void check_op(Op op) {
  const std::vector<Case> cases = conformance_cases(op);
  if (cases.empty()) FAIL("the op " << op_info(op).name << " has no case in tests/conformance");
  Report report;
  for (const Case& test_case : cases) {
    const std::vector<float> expected = oracle(test_case);
    for (const BackendEntry& entry : backends_under_test()) check_case(entry, test_case, expected, &report);
  }
  INFO(report.wrong << " of " << report.compared << " comparisons failed:" << report.text);
  if (tries_all_backends()) CHECK(report.compared >= cases.size());
  CHECK(report.wrong == 0);
}

}   // namespace

#define MOTE_OP(name, inputs, state, in_place) \
  TEST_CASE("every backend agrees with the oracle on " #name, "[conformance][op][threads]") { check_op(Op::name); }
#include "core/ops/ops.inc"
#undef MOTE_OP

TEST_CASE("the registry names its backends once each and makes them", "[conformance][registry]") {
  std::string wrong;
  for (const BackendEntry& entry : backends_under_test()) {
    Case made = conformance_cases(Op::add).at(0);
    Rig rig(entry, made, {});
    if (!rig.supported()) wrong += std::string(entry.name) + " does not even add; ";
    int same = 0;
    for (const BackendEntry& other : backends_under_test()) same += std::string_view(other.name) == entry.name;
    if (same != 1) wrong += std::string(entry.name) + " is there twice; ";
  }
  CHECK(backends_under_test().size() >= 1);
  CHECK(wrong == "");
}

}   // namespace mote::test
