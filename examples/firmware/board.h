/* What the program needs from a board: all that has to be written anew for another one. */
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void board_print(const char* text);
/* Bytes of the stack that have been used so far, at the deepest; 0: this board does not count. */
uint32_t board_stack_used(void);

#ifdef __cplusplus
}
#endif
