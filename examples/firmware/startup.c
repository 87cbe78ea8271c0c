/* From reset to main: vectors, FPU, memory; and the few words that a board says, here through semihosting. */
#include <stddef.h>
#include <stdint.h>

#include "examples/firmware/board.h"
#include "examples/firmware/semihosting.h"

/* Placed by sections.ld. */
extern uint32_t data_begin[], data_end[], data_load[], bss_begin[], bss_end[], stack_begin[], stack_end[];
extern void (*const init_begin[])(void);
extern void (*const init_end[])(void);

int main(void);

enum { kWriteText = 0x04, kExitExtended = 0x20, kApplicationExit = 0x20026 };
#define STACK_PAINT 0xC5C5C5C5u

void board_print(const char* text) { semihosting_call(kWriteText, text); }

__attribute__((noreturn)) static void board_exit(int32_t status) {
  const int32_t block[2] = {kApplicationExit, status};
  for (;;) semihosting_call(kExitExtended, block);
}

uint32_t board_stack_used(void) {
  const uint32_t* lowest = stack_begin;
  while (lowest < stack_end && *lowest == STACK_PAINT) ++lowest;
  return (uint32_t)(stack_end - lowest) * (uint32_t)sizeof *lowest;
}

__attribute__((noreturn)) static void fault(void) {
  board_print("fault\n");
  board_exit(3);
}

__attribute__((noreturn)) void reset(void) {
  /* Full access to coprocessors 10 and 11: the FPU, and Helium where there is one. Subnormals are kept and NaNs travel
   * (FPSCR is 0 after reset): mote's results count on both. */
  volatile uint32_t* const cpacr = (volatile uint32_t*)0xE000ED88;
  *cpacr |= 0xFu << 20;
  __asm__ volatile("dsb\n isb" ::: "memory");

  const uint32_t* from = data_load;
  for (uint32_t* to = data_begin; to < data_end;) *to++ = *from++;
  for (uint32_t* to = bss_begin; to < bss_end;) *to++ = 0;
  /* Below what this function itself has on it. */
  uint32_t* const here = (uint32_t*)__builtin_frame_address(0) - 64;
  for (uint32_t* to = stack_begin; to < here;) *to++ = STACK_PAINT;
  for (void (*const* init)(void) = init_begin; init < init_end; ++init) (*init)();
  board_exit(main());
}

/* Named by classes with pure virtual functions; the C++ library's own brings in printing and the heap. */
__attribute__((noreturn)) void __cxa_pure_virtual(void) { fault(); }
/* Named by the deleting destructors of mote's interfaces, which nobody calls: operator delete(void*), sized or not. */
__attribute__((noreturn)) void _ZdlPv(void* object) {
  (void)object;
  fault();
}
__attribute__((noreturn)) void _ZdlPvj(void* object, size_t bytes) {
  (void)object;
  (void)bytes;
  fault();
}

/* The stack's end, reset, then the fourteen exceptions of the core itself. */
typedef union vector {
  const void* stack;
  void (*handler)(void);
} vector;
__attribute__((section(".vectors"), used)) static const vector vectors[16] = {
    {.stack = stack_end}, {.handler = reset}, {.handler = fault}, {.handler = fault},
    {.handler = fault},   {.handler = fault}, {.handler = fault}, {.handler = fault},
    {.handler = fault},   {.handler = fault}, {.handler = fault}, {.handler = fault},
    {.handler = fault},   {.handler = fault}, {.handler = fault}, {.handler = fault},
};
