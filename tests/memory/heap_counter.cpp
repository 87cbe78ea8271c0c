#include "tests/memory/heap_counter.h"

#include <atomic>
#include <cstddef>

#include "tests/support/sanitized.h"

namespace {

std::atomic<bool> counting{false};
thread_local bool counting_here = false;
std::atomic<uint64_t> calls{0};

void count() {
  if (counting.load(std::memory_order_relaxed) || counting_here) calls.fetch_add(1, std::memory_order_relaxed);
}

}   // namespace

#if MOTE_TEST_SANITIZED

// Declared here: not every gcc brings the sanitizers' headers.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, size_t),
                                                         void (*free_hook)(const volatile void*));

namespace {
const int installed = __sanitizer_install_malloc_and_free_hooks([](const volatile void*, size_t) { count(); },
                                                                [](const volatile void*) { count(); });
}   // namespace

#else

// glibc's own names for its heap; the program's malloc, calloc ... stand before them.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* at, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* at);

void* malloc(size_t bytes) { return count(), __libc_malloc(bytes); }
void* calloc(size_t n, size_t bytes) { return count(), __libc_calloc(n, bytes); }
void* realloc(void* at, size_t bytes) { return count(), __libc_realloc(at, bytes); }
void* memalign(size_t alignment, size_t bytes) { return count(), __libc_memalign(alignment, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return count(), __libc_memalign(alignment, bytes); }
int posix_memalign(void** at, size_t alignment, size_t bytes) {
  count();
  *at = __libc_memalign(alignment, bytes);
  return *at == nullptr ? 12 : 0;
}
void free(void* at) {
  if (at != nullptr) count();
  __libc_free(at);
}
}

#endif

namespace mote::test {

void start_counting(Counted threads) {
  calls.store(0);
  counting.store(threads == Counted::all_threads);
  counting_here = threads == Counted::this_thread;
}

uint64_t stop_counting() {
  counting.store(false);
  counting_here = false;
  return calls.load();
}

}   // namespace mote::test
