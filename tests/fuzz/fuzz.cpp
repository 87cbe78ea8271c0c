#include "tests/fuzz/fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
uint64_t* __llvm_profile_begin_counters(void);
uint64_t* __llvm_profile_end_counters(void);
}

namespace mote::fuzz {

uint8_t Cursor::byte() {
  const Input one = take(1);
  return one.empty() ? uint8_t{0} : one.front();
}

Input Cursor::take(size_t bytes) {
  const Input taken = left_.first(bytes < left_.size() ? bytes : left_.size());
  left_ = left_.subspan(taken.size());
  return taken;
}

mote_engine* engine() {
  static mote_engine* const opened = [] {
    mote_engine_options options{};
    options.struct_bytes = sizeof options;
    options.backends = "cpu";
    options.threads = 1;
    mote_engine* engine = nullptr;
    mote_error error{};
    if (mote_engine_open(&options, {}, &engine, &error) != MOTE_OK) wrong(error.message);
    return engine;
  }();
  return opened;
}

bool fine(mote_status status, const mote_error& error) {
  if (status == MOTE_OK) return true;
  const size_t length = strnlen(error.message, sizeof error.message);
  bool printable = length > 0 && length < sizeof error.message && error.status == status;
  for (size_t i = 0; i < length; ++i) printable = printable && error.message[i] >= ' ' && error.message[i] <= '~';
  if (!printable) wrong("a failure without a proper sentence");
  return false;
}

void wrong(const char* line) {
  std::fprintf(stderr, "%s\n", line);
  std::abort();
}

uint64_t regions_executed() {
  uint64_t sum = 0;
  for (const uint64_t* at = __llvm_profile_begin_counters(); at != __llvm_profile_end_counters(); ++at) sum += *at;
  return sum;
}

WorkBound::WorkBound(size_t bytes, uint64_t per_byte, uint64_t constant)
    : start_(regions_executed()), allowed_(per_byte * bytes + constant), bytes_(bytes) {}

WorkBound::~WorkBound() {
  const uint64_t done = regions_executed() - start_;
  static const bool told = std::getenv("MOTE_FUZZ_WORK") != nullptr;   // to choose a bound: how much is it now?
  if (told) std::fprintf(stderr, "work: %zu bytes, %llu regions\n", bytes_, static_cast<unsigned long long>(done));
  if (done > allowed_) {
    std::fprintf(stderr, "%llu regions of code for %zu bytes, %llu allowed\n", static_cast<unsigned long long>(done),
                 bytes_, static_cast<unsigned long long>(allowed_));
    std::abort();
  }
}

mote_source ExactBytes::source() const {
  mote_source source{};
  source.struct_bytes = sizeof source;
  source.data = bytes_.data();
  source.data_bytes = bytes_.size();
  return source;
}

}   // namespace mote::fuzz
