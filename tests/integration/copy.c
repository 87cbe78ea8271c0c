/* One of two shared libraries, each with a mote of its own inside: only copy_answer and copy_address can be seen. */
#include "tests/integration/answer.h"

__attribute__((visibility("default"))) int copy_answer(const char* path, char* line, size_t capacity) {
  return answer(path, line, capacity);
}
__attribute__((visibility("default"))) const void* copy_address(void) { return (const void*)mote_version(); }
