/* two_copies MODEL.gguf FIRST.so SECOND.so: both libraries answer in one process, each with the mote inside it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int (*answer_function)(const char* path, char* line, size_t capacity);
typedef const void* (*address_function)(void);

static int look_up(void* library, const char* name, void* function, size_t bytes) {
  void* found = dlsym(library, name);
  memcpy(function, &found, bytes);
  if (found == NULL) fprintf(stderr, "no %s: %s\n", name, dlerror());
  return found != NULL;
}

int main(int argc, char** argv) {
  char lines[2][512] = {"", ""};
  const void* addresses[2];
  if (argc != 4) return 2;
  for (int i = 0; i < 2; ++i) {
    answer_function answer;
    address_function address;
    /* Global: what the first shows, the second would be bound to. */
    void* library = dlopen(argv[2 + i], RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
    if (!look_up(library, "copy_answer", &answer, sizeof answer) ||
        !look_up(library, "copy_address", &address, sizeof address))
      return 1;
    if (!answer(argv[1], lines[i], sizeof lines[i])) return fprintf(stderr, "%s\n", lines[i]), 1;
    addresses[i] = address();
    if (dlsym(library, "mote_version") != NULL) return fprintf(stderr, "%s shows mote_version\n", argv[2 + i]), 1;
  }
  if (addresses[0] == addresses[1]) return fputs("the second library uses the first one's mote\n", stderr), 1;
  if (strcmp(lines[0], lines[1]) != 0) return fprintf(stderr, "%s\n%s\n", lines[0], lines[1]), 1;
  puts(lines[0]);
  return 0;
}
