// The chain against transformers' own processors (tests/golden/data/sampler).
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/golden/sampler_cases.h"
#include "tests/support/goldens.h"

namespace {

using namespace mote::test;

std::string difference(const SamplerCase& expected, const SamplerAnswer& found) {
  if (expected.ties) {
    // Which of the equal ones stay is the library's choice; the probabilities that are there must be right.
  } else {
    if (found.n_kept != expected.n_kept) return "kept " + std::to_string(found.n_kept);
    if (found.ids != expected.ids) return "ids";
    if (expected.sum_of_kept_ids >= 0 && found.sum_of_kept_ids != expected.sum_of_kept_ids) return "sum of ids";
  }
  if (found.probs.size() < std::min<size_t>(expected.probs.size(), expected.n_kept)) return "too few";
  for (size_t i = 0; i < std::min(found.probs.size(), expected.probs.size()); ++i)
    if (!(std::fabs(found.probs[i] - expected.probs[i]) <= 1e-11 * std::max(expected.probs[i], 1e-12) + 1e-15))
      return "probability " + std::to_string(i);
  return "";
}

TEST_CASE("the chain keeps what transformers keeps, with its probabilities", "[sampler][golden]") {
  const SamplerInputs inputs = read_sampler_inputs((goldens_dir() / "sampler").string());
  std::string wrong;
  for (const SamplerCase& test : inputs.cases)
    if (const std::string what = difference(test, run_sampler_case(inputs, test)); !what.empty())
      wrong += test.id + " on " + test.input + ": " + what + " (expected " + std::to_string(test.n_kept) + ")\n";
  CHECK(wrong == "");
  CHECK(inputs.cases.size() >= 400);
}

}   // namespace
