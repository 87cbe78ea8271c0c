// One thread: the caller. A pool of one lane keeps the engine free of special cases.
#include "platform/thread_pool.h"

#include <new>

namespace mote {

class ThreadPool {
 public:
  static void run(void* self, uint32_t, ParallelTask task, void* context) {
    ++static_cast<ThreadPool*>(self)->tasks_done;
    task(context, 0);
  }
  uint64_t tasks_done = 0;
};

uint64_t thread_pool_bytes(uint32_t) { return 64; }
uint64_t thread_pool_stack_bytes(const ThreadPoolOptions&) { return 0; }

PlatformError start_thread_pool(const ThreadPoolOptions& options, void* memory, ThreadPool** pool) {
  *pool = nullptr;
  if (options.threads != 1) return {0, "this platform has one thread"};
  static_assert(sizeof(ThreadPool) <= 64);
  *pool = new (memory) ThreadPool();
  return {};
}

void stop_thread_pool(ThreadPool*) {}
Parallel thread_pool_parallel(ThreadPool* pool) { return {pool, &ThreadPool::run, 1}; }
uint64_t thread_pool_tasks_done(const ThreadPool* pool, uint32_t thread) { return thread == 0 ? pool->tasks_done : 0; }
uint64_t thread_pool_regions_seen(const ThreadPool*, uint32_t) { return 0; }
uint64_t thread_pool_inline_regions(const ThreadPool*) { return 0; }

}   // namespace mote
