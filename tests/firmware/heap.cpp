// Programs that need a heap, linked as the firmware is; all but the first must not link. HEAP_KIND chooses one.
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "examples/firmware/board.h"

namespace {

volatile std::size_t count = 3;   // not known while compiling: no call can be left out

enum { kNone, kMalloc, kNew, kVector, kOwnSbrk };

}   // namespace

#if HEAP_KIND == 4
// Whoever brings the missing piece along does not get a heap either.
extern "C" void* _sbrk(std::ptrdiff_t bytes) {
  alignas(8) static unsigned char heap[1024];
  static std::size_t used = 0;
  used += static_cast<std::size_t>(bytes);
  return heap + used - bytes;
}
#endif

int main() {
  const std::size_t n = count;
  std::size_t total = n;
  if constexpr (HEAP_KIND == kMalloc || HEAP_KIND == kOwnSbrk) {
    total += reinterpret_cast<std::size_t>(std::malloc(n));
  } else if constexpr (HEAP_KIND == kNew) {
    total += reinterpret_cast<std::size_t>(new int[n]);
  } else if constexpr (HEAP_KIND == kVector) {
    std::vector<int> numbers(n);
    total += numbers.size();
  }
  count = total;
  board_print("no heap\n");
  return 0;
}
