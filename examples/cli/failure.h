// How a command gives up: an exit code and one sentence.
#pragma once
#include <string>

#include "core/mote.h"
#include "examples/cli/exit_codes.h"

namespace cli {

struct Failure {
  int exit_code;
  std::string message;            // empty: ends without a word
  mote_status status = MOTE_OK;   // of the call that failed, if it was one
};

// Throws unless `status` is MOTE_OK. A wrong argument is the user's (kWrongUsage), a cancelled call means Ctrl-C, of
// which only JSON has a record; everything else gets `exit_code`.
void check(mote_status status, const mote_error& error, int exit_code = kFailed);

}   // namespace cli
