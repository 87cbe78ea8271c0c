// What the fuzz targets share: the input as a cursor, an engine that lives on, the sentence that every failure owes,
// and the count of the work done.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/mote.h"

namespace mote::fuzz {

using Input = std::span<const uint8_t>;

// Takes the front of what is left; zeros behind the end, so that every input is a whole one.
class Cursor {
 public:
  explicit Cursor(Input input) : left_(input) {}
  uint8_t byte();
  Input take(size_t bytes);   // at most what is left
  Input rest() { return take(left_.size()); }
  bool empty() const { return left_.empty(); }

 private:
  Input left_;
};

// An engine of the cpu backend on one thread, opened once.
mote_engine* engine();

// Ends the program when a failed call left no proper sentence. True when the call went well.
bool fine(mote_status status, const mote_error& error);

// Ends the program with that line: an expectation of a target does not hold.
[[noreturn]] void wrong(const char* line);

// Regions of the library's code executed so far, as the compiler's coverage counters say. The bound of a target is
// checked for every input that libFuzzer runs: not a time, so the same on every machine.
uint64_t regions_executed();
class WorkBound {
 public:
  // At most per_byte x bytes + constant regions from here to the end of the scope.
  WorkBound(size_t bytes, uint64_t per_byte, uint64_t constant);
  WorkBound(const WorkBound&) = delete;
  WorkBound& operator=(const WorkBound&) = delete;
  ~WorkBound();

 private:
  uint64_t start_, allowed_;
  size_t bytes_;
};

// A source of these bytes, copied to the end of a block of exactly their size so that a sanitizer sees the first byte
// read behind them.
class ExactBytes {
 public:
  explicit ExactBytes(Input input) : bytes_(input.begin(), input.end()) { bytes_.shrink_to_fit(); }
  mote_source source() const;
  Input span() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

}   // namespace mote::fuzz
