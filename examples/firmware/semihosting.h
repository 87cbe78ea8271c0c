/* Calls that a debugger, here the emulator, carries out for a machine without an operating system.
 * Arm, Semihosting for AArch32 and AArch64, https://github.com/ARM-software/abi-aa */
#pragma once
#include <stdint.h>

static inline int32_t semihosting_call(int32_t operation, const void* argument) {
  register int32_t r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
