// What this process's threads do, from /proc.
#pragma once
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace mote::test {

// Whether a thread of this process sleeps, at the moment.
inline bool thread_sleeps(const std::string& id) {
  std::string line;
  std::getline(std::ifstream("/proc/self/task/" + id + "/stat"), line);
  const size_t name_end = line.rfind(')');   // "tid (name) state ..."
  return name_end == std::string::npos || line.compare(name_end, 3, ") S") == 0;
}

// Whether all threads of this process but the caller come to sleep. One that spins is ready to run whenever one looks.
inline bool workers_fall_asleep() {
  const std::string caller = std::to_string(gettid());
  for (int i = 0; i < 10'000; ++i) {
    bool asleep = true;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const std::string id = task.path().filename();
      if (id != caller && !thread_sleeps(id)) asleep = false;
    }
    if (asleep) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}   // namespace mote::test
