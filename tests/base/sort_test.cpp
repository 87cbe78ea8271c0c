#include "core/base/sort.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <vector>

using namespace mote;

TEST_CASE("Every order of a few numbers, equal ones among them, is sorted", "[base]") {
  size_t n_orders = 0, n_wrong = 0;
  for (const std::vector<int>& sorted : std::vector<std::vector<int>>{
           {}, {1}, {1, 2}, {1, 1}, {1, 2, 3}, {1, 1, 2, 3}, {1, 2, 3, 4, 5, 6, 7}, {1, 1, 1, 2, 2, 3, 4, 4}}) {
    std::vector<int> order = sorted;
    do {
      std::vector<int> items = order;
      heap_sort(std::span(items), [](int a, int b) { return a < b; });
      n_wrong += items != sorted;
      ++n_orders;
    } while (std::ranges::next_permutation(order).found);
  }
  CHECK(n_wrong == 0);
  CHECK(n_orders > 5000);
}

TEST_CASE("Long runs take n log n comparisons, sorted beforehand or not", "[base]") {
  for (const int kind : {0, 1, 2}) {
    std::vector<int> items(4096);
    for (size_t i = 0; i < items.size(); ++i)
      items[i] = static_cast<int>(kind == 0 ? i : kind == 1 ? items.size() - i : i * 2654435761u % 4096);
    std::vector<int> sorted = items;
    std::ranges::sort(sorted);
    size_t n_compared = 0;
    heap_sort(std::span(items), [&](int a, int b) { return ++n_compared, a < b; });
    CHECK(items == sorted);
    CHECK(n_compared < 2 * 4096 * 12);
  }
}
