#include "tests/faults/system_calls.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <filesystem>
#include <thread>

namespace mote::test {
namespace {

thread_local bool watching = false;

// Written by the one thread that watches, read by the tests' own.
Faults faults;
uint64_t n_calls = 0, n_interruptible = 0;
std::array<uint64_t, static_cast<size_t>(SystemCall::count)> n_of_kind{};
bool came = false;
SystemCall came_to = SystemCall::open;

std::atomic<uint64_t> clock_at{0}, clock_every{0}, clock_step{0}, n_readings{0};

// What is held. Lists of fixed length: the tests count the heap's calls meanwhile.
template <class Entry>
class FixedList {
 public:
  void add(const Entry& entry) {
    if (count_ < std::size(entries_)) entries_[count_++] = entry;
  }
  bool remove(const Entry& entry) {
    for (size_t i = 0; i < count_; ++i) {
      if (!(entries_[i] == entry)) continue;
      entries_[i] = entries_[--count_];
      return true;
    }
    return false;
  }
  size_t size() const { return count_; }

 private:
  Entry entries_[128] = {};
  size_t count_ = 0;
};
struct Mapping {
  void* at = nullptr;
  size_t bytes = 0;
  bool operator==(const Mapping&) const = default;
};
struct Held {
  FixedList<int> descriptors;
  FixedList<Mapping> mappings;
  FixedList<pthread_t> threads;
  uint32_t wrong_descriptors = 0, wrong_mappings = 0, wrong_threads = 0;
};
Held held;   // of the one thread that watches

// Whether this watched call is to fail.
bool fails(SystemCall call) {
  if (!watching) return false;
  ++n_of_kind[static_cast<size_t>(call)];
  ++n_calls;
  const bool now = faults.at != 0 && (n_calls == faults.at || (faults.from_then_on && n_calls > faults.at));
  if (now && !came) {
    came = true;
    came_to = call;
  }
  return now;
}
bool interrupted() { return watching && faults.interrupt != 0 && ++n_interruptible % faults.interrupt == 0; }
int refuse(int error) {
  errno = error;
  return -1;
}
template <class Change>
void note(Change change) {
  if (!watching) return;
  change(held);
}

}   // namespace

const char* system_call_name(SystemCall call) {
  constexpr const char* kNames[] = {"open",     "fstat",      "fcntl",      "read",          "pread",
                                    "close",    "mmap",       "munmap",     "madvise",       "sysconf",
                                    "affinity", "attributes", "stack size", "pthread_create"};
  static_assert(std::size(kNames) == static_cast<size_t>(SystemCall::count));
  return kNames[static_cast<size_t>(call)];
}

Watch::Watch() { watching = true; }
Watch::~Watch() { watching = false; }

void set_faults(const Faults& wanted) {
  faults = wanted;
  n_calls = n_interruptible = 0;
  n_of_kind = {};
  came = false;
}
uint64_t calls_seen() { return n_calls; }
uint64_t calls_seen(SystemCall call) { return n_of_kind[static_cast<size_t>(call)]; }
bool fault_came(SystemCall* call) {
  *call = came_to;
  return came;
}

void set_clock_faults(const ClockFaults& wanted) {
  clock_at = wanted.at;
  clock_every = wanted.every;
  clock_step = wanted.step_nanoseconds;
  n_readings = 0;
}
uint64_t clock_readings() { return n_readings; }

std::string not_given_back() {
  std::string text;
  const auto add = [&](size_t count, const char* what) {
    if (count != 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(held.descriptors.size(), "descriptors");
  add(held.mappings.size(), "mappings");
  add(held.threads.size(), "threads");
  return text;
}
std::string given_back_wrongly() {
  std::string text;
  const auto add = [&](uint32_t count, const char* what) {
    if (count != 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(held.wrong_descriptors, "descriptors");
  add(held.wrong_mappings, "mappings");
  add(held.wrong_threads, "threads");
  return text;
}

int process_threads() {
  int count = 0;
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator("/proc/self/task", error); at != std::filesystem::end(at);
       at.increment(error))
    ++count;
  return error ? -1 : count;
}
int process_descriptors() {
  int count = -1;   // the one that reads the folder
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator("/proc/self/fd", error); at != std::filesystem::end(at);
       at.increment(error))
    ++count;
  return error ? -1 : count;
}
bool threads_go_down_to(int threads) {
  for (int i = 0; i < 5000; ++i) {
    if (process_threads() <= threads) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}   // namespace mote::test

// The linker sends the library's calls here; __real_x is what x would have been.
extern "C" {

using mote::test::SystemCall;

#define MOTE_WRAPPED_OPEN(name)                                                                 \
  int __real_##name(const char* path, int flags, ...);                                          \
  int __wrap_##name(const char* path, int flags, ...) {                                         \
    mode_t mode = 0;                                                                            \
    if ((flags & O_CREAT) != 0) {                                                               \
      va_list values;                                                                           \
      va_start(values, flags);                                                                  \
      mode = static_cast<mode_t>(va_arg(values, int));                                          \
      va_end(values);                                                                           \
    }                                                                                           \
    if (mote::test::fails(SystemCall::open)) return mote::test::refuse(EMFILE);                 \
    if (mote::test::interrupted()) return mote::test::refuse(EINTR);                            \
    const int descriptor = __real_##name(path, flags, mode);                                    \
    if (descriptor >= 0) mote::test::note([&](auto& all) { all.descriptors.add(descriptor); }); \
    return descriptor;                                                                          \
  }
MOTE_WRAPPED_OPEN(open)

#define MOTE_WRAPPED_FSTAT(name, type)                                            \
  int __real_##name(int descriptor, struct type* to);                             \
  int __wrap_##name(int descriptor, struct type* to) {                            \
    if (mote::test::fails(SystemCall::file_size)) return mote::test::refuse(EIO); \
    return __real_##name(descriptor, to);                                         \
  }
MOTE_WRAPPED_FSTAT(fstat, stat)

#define MOTE_WRAPPED_FCNTL(name)                                                   \
  int __real_##name(int descriptor, int command, ...);                             \
  int __wrap_##name(int descriptor, int command, ...) {                            \
    va_list values;                                                                \
    va_start(values, command);                                                     \
    const long argument = va_arg(values, long);                                    \
    va_end(values);                                                                \
    if (mote::test::fails(SystemCall::file_flags)) return mote::test::refuse(EIO); \
    return __real_##name(descriptor, command, argument);                           \
  }
MOTE_WRAPPED_FCNTL(fcntl)

ssize_t __real_read(int descriptor, void* to, size_t bytes);
ssize_t __wrap_read(int descriptor, void* to, size_t bytes) {
  using namespace mote::test;
  if (fails(SystemCall::read)) return refuse(EIO);
  if (interrupted()) return refuse(EINTR);
  if (watching && faults.most_bytes != 0 && bytes > faults.most_bytes) bytes = faults.most_bytes;
  return __real_read(descriptor, to, bytes);
}
// What read becomes where the compiler guards buffers.
ssize_t __wrap___read_chk(int descriptor, void* to, size_t bytes, size_t) { return __wrap_read(descriptor, to, bytes); }

#define MOTE_WRAPPED_PREAD(name, offset_type)                                                       \
  ssize_t __real_##name(int descriptor, void* to, size_t bytes, offset_type offset);                \
  ssize_t __wrap_##name(int descriptor, void* to, size_t bytes, offset_type offset) {               \
    using namespace mote::test;                                                                     \
    if (fails(SystemCall::read_at)) return refuse(EIO);                                             \
    if (interrupted()) return refuse(EINTR);                                                        \
    if (watching && faults.files_end) return 0;                                                     \
    if (watching && faults.most_bytes != 0 && bytes > faults.most_bytes) bytes = faults.most_bytes; \
    return __real_##name(descriptor, to, bytes, offset);                                            \
  }
MOTE_WRAPPED_PREAD(pread, off_t)

// A close or unmap that fails has let go all the same, as on Linux.
int __real_close(int descriptor);
int __wrap_close(int descriptor) {
  using namespace mote::test;
  const bool failing = fails(SystemCall::close);
  note([&](auto& all) {
    if (!all.descriptors.remove(descriptor)) ++all.wrong_descriptors;
  });
  const int result = __real_close(descriptor);
  return failing ? refuse(EIO) : result;
}

#define MOTE_WRAPPED_MMAP(name, offset_type)                                                                   \
  void* __real_##name(void* at, size_t bytes, int protection, int flags, int descriptor, offset_type offset);  \
  void* __wrap_##name(void* at, size_t bytes, int protection, int flags, int descriptor, offset_type offset) { \
    using namespace mote::test;                                                                                \
    if (fails(SystemCall::map)) {                                                                              \
      errno = ENOMEM;                                                                                          \
      return MAP_FAILED;                                                                                       \
    }                                                                                                          \
    void* mapped = __real_##name(at, bytes, protection, flags, descriptor, offset);                            \
    if (mapped != MAP_FAILED) note([&](auto& all) { all.mappings.add({mapped, bytes}); });                     \
    return mapped;                                                                                             \
  }
MOTE_WRAPPED_MMAP(mmap, off_t)

// EINVAL: what a kernel says that does not know the advice.
int __real_madvise(void* at, size_t bytes, int advice);
int __wrap_madvise(void* at, size_t bytes, int advice) {
  if (mote::test::fails(SystemCall::advise)) return mote::test::refuse(EINVAL);
  return __real_madvise(at, bytes, advice);
}

int __real_munmap(void* at, size_t bytes);
int __wrap_munmap(void* at, size_t bytes) {
  using namespace mote::test;
  const bool failing = fails(SystemCall::unmap);
  note([&](auto& all) {
    if (!all.mappings.remove({at, bytes})) ++all.wrong_mappings;
  });
  const int result = __real_munmap(at, bytes);
  return failing ? refuse(ENOMEM) : result;
}

long __real_sysconf(int name);
long __wrap_sysconf(int name) {
  using namespace mote::test;
  if (fails(SystemCall::page_size)) return refuse(EINVAL);
  if (watching && name == _SC_PAGESIZE && faults.page_bytes != 0) return faults.page_bytes;
  return __real_sysconf(name);
}

int __real_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t* set);
int __wrap_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t* set) {
  if (mote::test::fails(SystemCall::affinity)) return mote::test::refuse(EINVAL);
  return __real_sched_getaffinity(process, bytes, set);
}

int __real_pthread_attr_init(pthread_attr_t* attributes);
int __wrap_pthread_attr_init(pthread_attr_t* attributes) {
  if (mote::test::fails(SystemCall::thread_attributes)) return ENOMEM;
  return __real_pthread_attr_init(attributes);
}
int __real_pthread_attr_setstacksize(pthread_attr_t* attributes, size_t bytes);
int __wrap_pthread_attr_setstacksize(pthread_attr_t* attributes, size_t bytes) {
  if (mote::test::fails(SystemCall::stack_size)) return EINVAL;
  return __real_pthread_attr_setstacksize(attributes, bytes);
}
int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument);
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  using namespace mote::test;
  if (fails(SystemCall::start_thread)) return EAGAIN;
  const int code = __real_pthread_create(thread, attributes, run, argument);
  if (code == 0) note([&](auto& all) { all.threads.add(*thread); });
  return code;
}
int __real_pthread_join(pthread_t thread, void** result);
int __wrap_pthread_join(pthread_t thread, void** result) {
  mote::test::note([&](auto& all) {
    if (!all.threads.remove(thread)) ++all.wrong_threads;
  });
  return __real_pthread_join(thread, result);
}

int __real_clock_gettime(clockid_t clock, struct timespec* now);
int __wrap_clock_gettime(clockid_t clock, struct timespec* now) {
  using namespace mote::test;
  const uint64_t reading = n_readings.fetch_add(1) + 1;
  const uint64_t every = clock_every.load(), step = clock_step.load();
  if (reading == clock_at.load() || (every != 0 && reading % every == 0)) return refuse(EINVAL);
  if (step == 0) return __real_clock_gettime(clock, now);
  now->tv_sec = static_cast<time_t>(reading * step / 1'000'000'000u);
  now->tv_nsec = static_cast<long>(reading * step % 1'000'000'000u);
  return 0;
}

// What files of more than 2 GiB make of the names on 32-bit systems, and on others where a program asks for it.
#if defined(__GLIBC__)
MOTE_WRAPPED_OPEN(open64)
MOTE_WRAPPED_FSTAT(fstat64, stat64)
MOTE_WRAPPED_FCNTL(fcntl64)
MOTE_WRAPPED_PREAD(pread64, off64_t)
MOTE_WRAPPED_MMAP(mmap64, off64_t)
#endif

}   // extern "C"
