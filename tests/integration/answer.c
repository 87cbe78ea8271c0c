/* answer MODEL.gguf: the version, 8 greedy ids after a fixed prompt, and a hash of all logits on the way. One line that
 * every way of building mote into a program must print alike. C99 and C++. */
#include <stdio.h>

#include "tests/integration/answer.h"

int main(int argc, char** argv) {
  char line[512];
  if (argc != 2) return 2;
  if (!answer(argv[1], line, sizeof line)) {
    fprintf(stderr, "%s\n", line);
    return 1;
  }
  puts(line);
  return 0;
}
