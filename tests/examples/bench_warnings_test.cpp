// When `mote bench` calls its own numbers doubtful.
#include <catch2/catch_test_macros.hpp>

#include "examples/cli/bench_warnings.h"

namespace mote::test {

TEST_CASE("mote bench says when its yardstick is wrong and when the machine is not its own", "[examples][cli]") {
  // Each of them just within what is let pass.
  const cli::Doubts fine = {{95, 100, 104.9}, {100, 114.9, 101}, {0.9, 1.02, 1.3}, {0, 0, 0}, 0.02, 0.01};
  CHECK(cli::warnings_of(fine).empty());
  CHECK(cli::warnings_of({}).empty());   // nothing is known
  const auto only = [&](auto change) {
    cli::Doubts doubts = fine;
    change(doubts);
    const std::vector<std::string> found = cli::warnings_of(doubts);
    return found.size() == 1 ? found[0] : std::to_string(found.size()) + " warnings";
  };
  CHECK(only([](cli::Doubts& d) { d.bandwidth_shares = {0.9, 1.021, 1.3}; }) ==
        "the yardstick is wrong: the work reads at 102.1 % of what was measured as the limit");
  CHECK(only([](cli::Doubts& d) { d.compute_shares = {1.1, 1.2}; }) ==
        "the yardstick is wrong: the work computes at 115.0 % of what was measured as the limit");
  CHECK(only([](cli::Doubts& d) { d.samples_ns[0] = 94; }) == "the machine is noisy: the runs lie 10.9 % apart");
  CHECK(only([](cli::Doubts& d) { d.own_limits[1] = 117; }) ==
        "the machine is throttled or shared: its own limit changed by 16.8 % meanwhile");
  CHECK(only([](cli::Doubts& d) { d.waited = 0.021; }) ==
        "the machine is shared: others had the processors for 2.1 % of the time");
  CHECK(only([](cli::Doubts& d) { d.stolen = 0.5; }) ==
        "the machine is shared: its host took 50.0 % of the processors' time");
}

}   // namespace mote::test
