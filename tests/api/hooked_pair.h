// Two hooked backends before an engine, what it tells, and memory to hand over.
#pragma once
#include <cstddef>
#include <memory>

#include "tests/api/hooked_backend.h"
#include "tests/api/kit.h"

namespace mote::test {

inline Status told_to_fail() { return Status::error(Code::backend_failed, "told to fail"); }

// "first", which the test lets fail, before "second"; what they compute is that of the built-in ones named.
struct Pair {
  HookedBackend first, second;
  std::vector<std::string> lines;

  explicit Pair(const char* inner_first = "reference", const char* inner_second = "cpu")
      : first(inner_first, "first"), second(inner_second, "second") {}
  mote_engine_options options(const char* backends = "first,second") {
    extra_[0] = static_cast<Backend*>(&first);
    extra_[1] = static_cast<Backend*>(&second);
    mote_engine_options options = engine_options(backends);
    options.extra_backends = extra_;
    options.n_extra_backends = 2;
    options.log = [](void* self, const char* line) {
      auto* to = static_cast<Pair*>(self);
      const std::lock_guard lock(to->mutex_);
      to->lines.push_back(line);
    };
    options.log_user = this;
    return options;
  }
  // From the n-th on (0: the first) runs of the first one fail.
  void fail_from_run(int n) {
    first.hooks.on_run = [n, runs = 0]() mutable { return runs++ < n ? Status() : told_to_fail(); };
  }

 private:
  void* extra_[2];
  std::mutex mutex_;
};

// Bytes at a multiple of 64, as often as wanted.
struct Bench {
  std::vector<std::max_align_t> bytes;
  explicit Bench(uint64_t size) : bytes((size + 64) / sizeof(std::max_align_t) + 1) {}
  mote_memory of(uint64_t size) {
    void* at = bytes.data();
    size_t space = bytes.size() * sizeof bytes[0];
    return {std::align(64, static_cast<size_t>(size), at, space), size};
  }
};

}   // namespace mote::test
