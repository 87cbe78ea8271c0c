// The functions of pthreadpool on mote's lanes: every index exactly once, tiles cut at the ends, for any number of
// lanes.
#include "backends/xnnpack/threads.h"

#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <thread>
#include <vector>

using namespace mote;

namespace {

constexpr size_t kRange = 7;   // in each dimension but the first
constexpr size_t kMost = 5 * kRange * kRange * kRange * kRange * kRange;

struct Counts {
  std::array<std::atomic<uint8_t>, kMost> seen{};
  std::atomic<size_t> wrong{0};
  uint32_t lanes = 1;

  // Counts a tile: `start` and `size` in each of the dimensions.
  template <size_t kDimensions>
  void count(std::array<size_t, kDimensions> start, std::array<size_t, kDimensions> size, size_t d = 0, size_t at = 0) {
    if (d == kDimensions) {
      ++seen[at];
      return;
    }
    for (size_t i = start[d]; i < start[d] + size[d]; ++i) {
      if (i >= (d == 0 ? 5 : kRange)) ++wrong;
      count(start, size, d + 1, at * kRange + i);
    }
  }
  std::string fault(size_t expected) const {
    size_t others = 0;
    for (size_t i = 0; i < kMost; ++i) others += seen[i] != (i < expected ? 1 : 0);
    if (wrong == 0 && others == 0) return {};
    return std::to_string(others) + " indices not once, " + std::to_string(wrong) + " beyond the range";
  }
};

void run_on_threads(void*, uint32_t lanes, ParallelTask task, void* context) {
  std::vector<std::thread> threads;
  for (uint32_t lane = 1; lane < lanes; ++lane) threads.emplace_back(task, context, lane);
  task(context, 0);
  for (std::thread& thread : threads) thread.join();
}

// What was counted wrong on no pool and on pools of some lanes, or empty.
template <class Run>
std::string on_pools(size_t expected, Run run) {
  std::string wrong;
  for (uint32_t lanes : {0u, 1u, 2u, 5u}) {
    pthreadpool pool = pool_on({nullptr, run_on_threads, lanes});
    auto counts = std::make_unique<Counts>();
    run(lanes == 0 ? nullptr : &pool, counts.get());
    const std::string fault = counts->fault(expected);
    if (!fault.empty()) wrong += std::to_string(lanes) + " lanes: " + fault + "; ";
  }
  return wrong;
}

Counts& of(void* context) { return *static_cast<Counts*>(context); }

}   // namespace

TEST_CASE("Each function that XNNPACK calls covers its range once", "[xnnpack][threads]") {
  CHECK(on_pools(5, [](pthreadpool* pool, Counts* counts) {
          pthreadpool_parallelize_1d(pool, [](void* c, size_t i) { of(c).count<1>({i}, {1}); }, counts, 5, 0);
        }) == "");
  CHECK(on_pools(5, [](pthreadpool* pool, Counts* counts) {
          counts->lanes = static_cast<uint32_t>(pthreadpool_get_threads_count(pool));
          pthreadpool_parallelize_1d_with_thread(
              pool,
              [](void* c, size_t thread, size_t i) {
                of(c).count<1>({i}, {1});
                if (thread >= of(c).lanes) ++of(c).wrong;
              },
              counts, 5, 0);
        }) == "");
  for (const size_t tile : {1u, 2u, 3u, 5u, 9u}) {
    CAPTURE(tile);
    CHECK(on_pools(5, [&](pthreadpool* pool, Counts* counts) {
            pthreadpool_parallelize_1d_tile_1d(
                pool, [](void* c, size_t i, size_t n) { of(c).count<1>({i}, {n}); }, counts, 5, tile, 0);
          }) == "");
    CHECK(on_pools(35, [&](pthreadpool* pool, Counts* counts) {
            pthreadpool_parallelize_2d_tile_1d(
                pool, [](void* c, size_t i, size_t j, size_t n) { of(c).count<2>({i, j}, {1, n}); }, counts, 5, kRange,
                tile, 0);
          }) == "");
    CHECK(on_pools(35, [&](pthreadpool* pool, Counts* counts) {
            pthreadpool_parallelize_2d_tile_2d(
                pool, [](void* c, size_t i, size_t j, size_t m, size_t n) { of(c).count<2>({i, j}, {m, n}); }, counts,
                5, kRange, 2, tile, 0);
          }) == "");
    CHECK(on_pools(245, [&](pthreadpool* pool, Counts* counts) {
            pthreadpool_parallelize_3d_tile_2d(
                pool,
                [](void* c, size_t i, size_t j, size_t k, size_t m, size_t n) { of(c).count<3>({i, j, k}, {1, m, n}); },
                counts, 5, kRange, kRange, 3, tile, 0);
          }) == "");
    CHECK(on_pools(1715, [&](pthreadpool* pool, Counts* counts) {
            pthreadpool_parallelize_4d_tile_2d(
                pool,
                [](void* c, size_t i, size_t j, size_t k, size_t l, size_t m, size_t n) {
                  of(c).count<4>({i, j, k, l}, {1, 1, m, n});
                },
                counts, 5, kRange, kRange, kRange, tile, 4, 0);
          }) == "");
  }
  CHECK(on_pools(245, [](pthreadpool* pool, Counts* counts) {
          pthreadpool_parallelize_3d(
              pool, [](void* c, size_t i, size_t j, size_t k) { of(c).count<3>({i, j, k}, {1, 1, 1}); }, counts, 5,
              kRange, kRange, 0);
        }) == "");
  CHECK(on_pools(0, [](pthreadpool* pool, Counts* counts) {
          pthreadpool_parallelize_2d(
              pool, [](void* c, size_t i, size_t j) { of(c).count<2>({i, j}, {1, 1}); }, counts, 5, 0, 0);
        }) == "");
}

TEST_CASE("A null pool is one thread", "[xnnpack]") {
  pthreadpool pool = pool_on({nullptr, nullptr, 3});
  CHECK(pthreadpool_get_threads_count(nullptr) == 1);
  CHECK(pthreadpool_get_threads_count(&pool) == 3);
}
