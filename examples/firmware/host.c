/* The same program on a computer: what a board says must be what this says. */
#include <stdio.h>

#include "examples/firmware/board.h"

void board_print(const char* text) { fputs(text, stdout); }
uint32_t board_stack_used(void) { return 0; }
