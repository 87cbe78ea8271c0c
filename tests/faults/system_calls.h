// Stands between the library and the system (the linker's --wrap, see CMakeLists.txt): counts what is asked for, lets a
// call fail, and knows what has not been given back. The library has no hook for it.
#pragma once
#include <cstdint>
#include <string>

namespace mote::test {

enum class SystemCall : uint8_t {
  open,
  file_size,
  file_flags,
  read,
  read_at,
  close,
  map,
  unmap,
  advise,
  page_size,
  affinity,
  thread_attributes,
  stack_size,
  start_thread,
  count,
};
const char* system_call_name(SystemCall call);

// Calls of the thread that watches; the clock is apart, below.
class Watch {
 public:
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
};

// What shall go wrong in watched calls.
struct Faults {
  uint64_t at = 0;             // the at-th call fails, counted from 1; 0: none
  bool from_then_on = false;   // and all after it
  uint64_t interrupt = 0;      // every interrupt-th open, read and read_at ends with EINTR; 0: none
  uint64_t most_bytes = 0;     // what a read gives at most; 0: all that was asked for
  bool files_end = false;      // read_at finds the end of the file
  long page_bytes = 0;         // what the system says its pages are; 0: the truth
};
// Also begins to count anew.
void set_faults(const Faults& faults);
// Watched calls since set_faults, of all kinds or one.
uint64_t calls_seen();
uint64_t calls_seen(SystemCall call);
// Whether the fault has come, and the kind of call it came to first.
bool fault_came(SystemCall* call);

// The clock, on all threads.
struct ClockFaults {
  uint64_t at = 0;                 // the at-th reading fails; 0: none
  uint64_t every = 0;              // every such reading fails; 1: all
  uint64_t step_nanoseconds = 0;   // each reading moves a clock of our own by so much; 0: the true one
};
void set_clock_faults(const ClockFaults& faults);
uint64_t clock_readings();   // since set_clock_faults

// What watched calls have taken and not given back, "" when nothing; and what they gave back without having it.
std::string not_given_back();
std::string given_back_wrongly();
// Threads, descriptors of this process, from /proc. -1: not known.
int process_threads();
int process_descriptors();
// Waits until the process has no more than `threads`: one that was joined may still be on its way out.
bool threads_go_down_to(int threads);

}   // namespace mote::test
