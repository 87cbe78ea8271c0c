// The processor's floating-point control register, for the length of a scope as IEEE 754 has it by default: round to
// nearest even, subnormals kept, no traps. A host may have set it otherwise for itself: programs linked with
// -ffast-math start with subnormals flushed to zero, audio and game engines do it per thread, numerical code changes
// the rounding. Results are defined bit by bit, so each public call and each worker thread brings its own mode along.
#pragma once
#include <cstdint>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace mote {

class FloatMode {
 public:
  FloatMode() : host_(read()) {
    if ((host_ & kControls) != kDefault) write((host_ & ~kControls) | kDefault);
  }
  // The host's exception flags too are what they were.
  ~FloatMode() { write(host_); }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
#if defined(__SSE__)   // MXCSR: flush to zero, rounding, masks of the exceptions, subnormals are zero
  using Word = uint32_t;
  static constexpr Word kControls = 0xffc0, kDefault = 0x1f80;
  static Word read() { return _mm_getcsr(); }
  static void write(Word word) { _mm_setcsr(word); }
#elif defined( \
    __aarch64__)   // FPCR: alternative half, default NaN, flush to zero, rounding, f16 flush, traps, FIZ, AH, NEP
  using Word = uint64_t;
  static constexpr Word kControls = 0x07c89f07, kDefault = 0;
  static Word read() {
    Word word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word)::"memory");
    return word;
  }
  static void write(Word word) { __asm__ volatile("msr fpcr, %0" ::"r"(word) : "memory"); }
#elif defined(__arm__) && defined(__ARM_FP)   // FPSCR: the same without the last three; its other bits are not ours
  using Word = uint32_t;
  static constexpr Word kControls = 0x07c89f00, kDefault = 0;
  static Word read() {
    Word word;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(word)::"memory");
    return word;
  }
  static void write(Word word) { __asm__ volatile("vmsr fpscr, %0" ::"r"(word) : "memory"); }
#else
  using Word = uint32_t;
  static constexpr Word kControls = 0, kDefault = 0;
  static Word read() { return 0; }
  static void write(Word) {}
#endif
  Word host_;
};

}   // namespace mote
