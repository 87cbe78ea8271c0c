// A pool of threads that lives as long as its engine. A region runs a task once per lane; the calling thread works too.
//
// One thread per lane, and lane i is thread i's own, so that what a core has in its cache stays useful. A lane whose
// thread has not begun within about a microsecond is taken by whoever is free: a worker that sleeps, is held up by
// another program, or is lost to a fork delays nothing but the lane it is in. The first region and every 64th after it
// are roll calls, in which each thread runs its own lane unless it does not come in time: each has its share of the
// work however busy the machine is. Workers that wait spin for a short time and then sleep. With more threads than
// cores, about as many are awake as there are cores.
//
// A region may take fewer lanes than there are threads: then the threads of the others neither run anything nor wait
// for its end, but sleep until a region has a lane for them.
//
// Two threads may run regions at once: the first leases the workers, the other runs all its lanes itself, one after the
// other. Since results never depend on who runs a lane (parallel.h), both get the same bits.
#pragma once
#include <cstdint>

#include "platform/error.h"
#include "platform/parallel.h"

namespace mote {

inline constexpr uint32_t kMaxThreads = 256;
inline constexpr uint64_t kWorkerStackBytes = 262144;

struct ThreadPoolOptions {
  uint32_t threads = 1;   // lanes; the caller is one of them, so one less is started
  uint32_t cores = 0;     // how many of them can run at once; 0: ask the system
  uint32_t spin_nanoseconds = 50'000;
  uint64_t stack_bytes = kWorkerStackBytes;   // for each started thread
};

class ThreadPool;

// Memory the pool itself needs, a multiple of 64; and what the system adds for the stacks of the started threads.
uint64_t thread_pool_bytes(uint32_t threads);
uint64_t thread_pool_stack_bytes(const ThreadPoolOptions& options);

// Starts the threads. `memory` holds thread_pool_bytes(threads) at a multiple of 64 and stays until stop_thread_pool.
// On an error every thread that had been started has ended again.
PlatformError start_thread_pool(const ThreadPoolOptions& options, void* memory, ThreadPool** pool);

// Ends the threads and waits for them; no region may be running. In a process that was forked off, where the threads do
// not exist, it only lets go. nullptr is allowed.
void stop_thread_pool(ThreadPool* pool);

// The view that backends get; valid until stop_thread_pool. A task that itself runs a region gets it inline. Its
// `lanes` may be lowered (Parallel::on_at_most), not raised.
Parallel thread_pool_parallel(ThreadPool* pool);

// For tests and reports: how many tasks thread `thread` (0: callers that leased the pool) has run, and how many regions
// found the pool leased and ran inline. And how often the worker `thread` has come out of waiting since a region began.
uint64_t thread_pool_tasks_done(const ThreadPool* pool, uint32_t thread);
uint64_t thread_pool_regions_seen(const ThreadPool* pool, uint32_t thread);
uint64_t thread_pool_inline_regions(const ThreadPool* pool);

}   // namespace mote
