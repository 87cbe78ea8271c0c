// The functions of pthreadpool that XNNPACK calls, on mote's own lanes (https://github.com/google/pthreadpool has what
// they must do: call a function for each index or tile of a range of one to six dimensions).
//
// All of them are here, in one object: a program that also links pthreadpool itself either does not load it, or the
// linker says that a function is there twice; it never mixes the two.
//
// Of the flags none is obeyed: numbers below the normal range are kept, as everywhere in mote, where XNNPACK asks for
// them to be flushed to zero.
#include "backends/xnnpack/threads.h"

#include <array>
#include <atomic>

namespace {

template <size_t kDimensions>
using Index = std::array<size_t, kDimensions>;

// Calls body(start, size, lane) for each tile of the range: `start` its first index, `size` its extent, cut at the end.
// Which lane runs which tile is left to chance; XNNPACK's tiles do not depend on each other.
template <size_t kDimensions, class Body>
void for_tiles(pthreadpool* pool, const Index<kDimensions>& range, const Index<kDimensions>& tile, const Body& body) {
  size_t count = 1;
  for (size_t d = 0; d < kDimensions; ++d) {
    if (range[d] == 0 || tile[d] == 0) return;
    count *= (range[d] - 1) / tile[d] + 1;
  }
  const auto run = [&](size_t number, size_t lane) {
    Index<kDimensions> start, size;
    for (size_t d = kDimensions; d-- > 0;) {
      const size_t tiles = (range[d] - 1) / tile[d] + 1;
      start[d] = number % tiles * tile[d];
      size[d] = range[d] - start[d] < tile[d] ? range[d] - start[d] : tile[d];
      number /= tiles;
    }
    body(start, size, lane);
  };
  if (pool == nullptr || pool->parallel.lanes <= 1 || count == 1) {
    for (size_t number = 0; number < count; ++number) run(number, 0);
    return;
  }
  std::atomic<size_t> next{0};
  pool->parallel.region([&](uint32_t lane) {
    for (;;) {
      const size_t number = next.fetch_add(1, std::memory_order_relaxed);
      if (number >= count) return;
      run(number, lane);
    }
  });
}

}   // namespace

namespace mote {

pthreadpool pool_on(const Parallel& parallel) { return {parallel}; }

}   // namespace mote

extern "C" {

size_t pthreadpool_get_threads_count(pthreadpool_t pool) { return pool == nullptr ? 1 : pool->parallel.lanes; }

void pthreadpool_parallelize_1d(pthreadpool_t pool, pthreadpool_task_1d_t task, void* context, size_t range, uint32_t) {
  for_tiles<1>(pool, {range}, {1}, [&](const auto& at, const auto&, size_t) { task(context, at[0]); });
}

void pthreadpool_parallelize_1d_with_thread(pthreadpool_t pool, pthreadpool_task_1d_with_thread_t task, void* context,
                                            size_t range, uint32_t) {
  for_tiles<1>(pool, {range}, {1}, [&](const auto& at, const auto&, size_t lane) { task(context, lane, at[0]); });
}

void pthreadpool_parallelize_1d_tile_1d(pthreadpool_t pool, pthreadpool_task_1d_tile_1d_t task, void* context,
                                        size_t range, size_t tile, uint32_t) {
  for_tiles<1>(pool, {range}, {tile}, [&](const auto& at, const auto& n, size_t) { task(context, at[0], n[0]); });
}

void pthreadpool_parallelize_2d(pthreadpool_t pool, pthreadpool_task_2d_t task, void* context, size_t range_i,
                                size_t range_j, uint32_t) {
  for_tiles<2>(pool, {range_i, range_j}, {1, 1},
               [&](const auto& at, const auto&, size_t) { task(context, at[0], at[1]); });
}

void pthreadpool_parallelize_2d_with_thread(pthreadpool_t pool, pthreadpool_task_2d_with_thread_t task, void* context,
                                            size_t range_i, size_t range_j, uint32_t) {
  for_tiles<2>(pool, {range_i, range_j}, {1, 1},
               [&](const auto& at, const auto&, size_t lane) { task(context, lane, at[0], at[1]); });
}

void pthreadpool_parallelize_2d_tile_1d(pthreadpool_t pool, pthreadpool_task_2d_tile_1d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t tile_j, uint32_t) {
  for_tiles<2>(pool, {range_i, range_j}, {1, tile_j},
               [&](const auto& at, const auto& n, size_t) { task(context, at[0], at[1], n[1]); });
}

void pthreadpool_parallelize_2d_tile_2d(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t tile_i, size_t tile_j, uint32_t) {
  for_tiles<2>(pool, {range_i, range_j}, {tile_i, tile_j},
               [&](const auto& at, const auto& n, size_t) { task(context, at[0], at[1], n[0], n[1]); });
}

void pthreadpool_parallelize_3d(pthreadpool_t pool, pthreadpool_task_3d_t task, void* context, size_t range_i,
                                size_t range_j, size_t range_k, uint32_t) {
  for_tiles<3>(pool, {range_i, range_j, range_k}, {1, 1, 1},
               [&](const auto& at, const auto&, size_t) { task(context, at[0], at[1], at[2]); });
}

void pthreadpool_parallelize_3d_tile_1d(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t range_k, size_t tile_k, uint32_t) {
  for_tiles<3>(pool, {range_i, range_j, range_k}, {1, 1, tile_k},
               [&](const auto& at, const auto& n, size_t) { task(context, at[0], at[1], at[2], n[2]); });
}

void pthreadpool_parallelize_3d_tile_1d_with_thread(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_with_thread_t task,
                                                    void* context, size_t range_i, size_t range_j, size_t range_k,
                                                    size_t tile_k, uint32_t) {
  for_tiles<3>(pool, {range_i, range_j, range_k}, {1, 1, tile_k},
               [&](const auto& at, const auto& n, size_t lane) { task(context, lane, at[0], at[1], at[2], n[2]); });
}

void pthreadpool_parallelize_3d_tile_2d(pthreadpool_t pool, pthreadpool_task_3d_tile_2d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t range_k, size_t tile_j, size_t tile_k,
                                        uint32_t) {
  for_tiles<3>(pool, {range_i, range_j, range_k}, {1, tile_j, tile_k},
               [&](const auto& at, const auto& n, size_t) { task(context, at[0], at[1], at[2], n[1], n[2]); });
}

void pthreadpool_parallelize_4d(pthreadpool_t pool, pthreadpool_task_4d_t task, void* context, size_t range_i,
                                size_t range_j, size_t range_k, size_t range_l, uint32_t) {
  for_tiles<4>(pool, {range_i, range_j, range_k, range_l}, {1, 1, 1, 1},
               [&](const auto& at, const auto&, size_t) { task(context, at[0], at[1], at[2], at[3]); });
}

void pthreadpool_parallelize_4d_tile_2d(pthreadpool_t pool, pthreadpool_task_4d_tile_2d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t range_k, size_t range_l, size_t tile_k,
                                        size_t tile_l, uint32_t) {
  for_tiles<4>(pool, {range_i, range_j, range_k, range_l}, {1, 1, tile_k, tile_l},
               [&](const auto& at, const auto& n, size_t) { task(context, at[0], at[1], at[2], at[3], n[2], n[3]); });
}

void pthreadpool_parallelize_5d(pthreadpool_t pool, pthreadpool_task_5d_t task, void* context, size_t range_i,
                                size_t range_j, size_t range_k, size_t range_l, size_t range_m, uint32_t) {
  for_tiles<5>(pool, {range_i, range_j, range_k, range_l, range_m}, {1, 1, 1, 1, 1},
               [&](const auto& at, const auto&, size_t) { task(context, at[0], at[1], at[2], at[3], at[4]); });
}

void pthreadpool_parallelize_5d_tile_2d(pthreadpool_t pool, pthreadpool_task_5d_tile_2d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t range_k, size_t range_l, size_t range_m,
                                        size_t tile_l, size_t tile_m, uint32_t) {
  for_tiles<5>(
      pool, {range_i, range_j, range_k, range_l, range_m}, {1, 1, 1, tile_l, tile_m},
      [&](const auto& at, const auto& n, size_t) { task(context, at[0], at[1], at[2], at[3], at[4], n[3], n[4]); });
}

void pthreadpool_parallelize_6d_tile_2d(pthreadpool_t pool, pthreadpool_task_6d_tile_2d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t range_k, size_t range_l, size_t range_m,
                                        size_t range_n, size_t tile_m, size_t tile_n, uint32_t) {
  for_tiles<6>(pool, {range_i, range_j, range_k, range_l, range_m, range_n}, {1, 1, 1, 1, tile_m, tile_n},
               [&](const auto& at, const auto& n, size_t) {
                 task(context, at[0], at[1], at[2], at[3], at[4], at[5], n[4], n[5]);
               });
}

// On processors with cores of several kinds XNNPACK may have a kernel for each kind. Which core runs a tile is not
// asked here: the kernel of the default kind runs on all of them, and the bits do not depend on where.

void pthreadpool_parallelize_2d_tile_1d_with_uarch(pthreadpool_t pool, pthreadpool_task_2d_tile_1d_with_id_t task,
                                                   void* context, uint32_t kind, uint32_t, size_t range_i,
                                                   size_t range_j, size_t tile_j, uint32_t) {
  for_tiles<2>(pool, {range_i, range_j}, {1, tile_j},
               [&](const auto& at, const auto& n, size_t) { task(context, kind, at[0], at[1], n[1]); });
}

void pthreadpool_parallelize_2d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_with_id_t task,
                                                   void* context, uint32_t kind, uint32_t, size_t range_i,
                                                   size_t range_j, size_t tile_i, size_t tile_j, uint32_t) {
  for_tiles<2>(pool, {range_i, range_j}, {tile_i, tile_j},
               [&](const auto& at, const auto& n, size_t) { task(context, kind, at[0], at[1], n[0], n[1]); });
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_with_id_t task,
                                                   void* context, uint32_t kind, uint32_t, size_t range_i,
                                                   size_t range_j, size_t range_k, size_t tile_k, uint32_t) {
  for_tiles<3>(pool, {range_i, range_j, range_k}, {1, 1, tile_k},
               [&](const auto& at, const auto& n, size_t) { task(context, kind, at[0], at[1], at[2], n[2]); });
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch_with_thread(pthreadpool_t pool,
                                                               pthreadpool_task_3d_tile_1d_with_id_with_thread_t task,
                                                               void* context, uint32_t kind, uint32_t, size_t range_i,
                                                               size_t range_j, size_t range_k, size_t tile_k,
                                                               uint32_t) {
  for_tiles<3>(pool, {range_i, range_j, range_k}, {1, 1, tile_k}, [&](const auto& at, const auto& n, size_t lane) {
    task(context, kind, lane, at[0], at[1], at[2], n[2]);
  });
}

void pthreadpool_parallelize_3d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_3d_tile_2d_with_id_t task,
                                                   void* context, uint32_t kind, uint32_t, size_t range_i,
                                                   size_t range_j, size_t range_k, size_t tile_j, size_t tile_k,
                                                   uint32_t) {
  for_tiles<3>(pool, {range_i, range_j, range_k}, {1, tile_j, tile_k},
               [&](const auto& at, const auto& n, size_t) { task(context, kind, at[0], at[1], at[2], n[1], n[2]); });
}

void pthreadpool_parallelize_4d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_4d_tile_2d_with_id_t task,
                                                   void* context, uint32_t kind, uint32_t, size_t range_i,
                                                   size_t range_j, size_t range_k, size_t range_l, size_t tile_k,
                                                   size_t tile_l, uint32_t) {
  for_tiles<4>(
      pool, {range_i, range_j, range_k, range_l}, {1, 1, tile_k, tile_l},
      [&](const auto& at, const auto& n, size_t) { task(context, kind, at[0], at[1], at[2], at[3], n[2], n[3]); });
}

}   // extern "C"
