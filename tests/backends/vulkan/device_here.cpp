// vulkan_device_here PROGRAM ARGUMENTS...: becomes PROGRAM where there is a Vulkan device, else says why there is none
// and ends with 4, which ctest takes for "skipped" (with 1 when tests/run.sh has installed a driver).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "core/mote.h"

int main(int argc, char** argv) {
  mote_engine_options options{};
  options.struct_bytes = sizeof options;
  options.backends = "vulkan";
  options.log = [](void*, const char* line) { std::puts(line); };
  mote_engine* engine = nullptr;
  if (argc < 2) return 2;
  if (mote_engine_open(&options, {nullptr, 0}, &engine, nullptr) != MOTE_OK)
    return std::getenv("MOTE_VULKAN_MUST_RUN") != nullptr ? 1 : 4;
  mote_engine_close(engine, nullptr);
  execv(argv[1], argv + 1);
  std::perror(argv[1]);
  return 1;
}
