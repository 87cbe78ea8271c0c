/* listed: the names of the backends, ops and weight formats that are built in, one a line. C99. With
 * LISTED_WITHOUT_MAIN for a program that finds it in an archive of its own. */
#include <stdio.h>

#include "core/mote_dev.h"

int listed(void);
int listed(void) {
  const char* name;
  uint32_t i;
  for (i = 0; (name = mote_dev_backend_name(i)) != NULL; ++i) printf("backend %s\n", name);
  for (i = 0; (name = mote_dev_op_name(i)) != NULL; ++i) printf("op %s\n", name);
  for (i = 0; (name = mote_dev_format_name(i)) != NULL; ++i) printf("format %s\n", name);
  return 0;
}

#ifndef LISTED_WITHOUT_MAIN
int main(void) { return listed(); }
#endif
