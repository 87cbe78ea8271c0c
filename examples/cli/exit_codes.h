// What the program's exit code means; part of its contract with scripts.
#pragma once

namespace cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;         // something went wrong while running
inline constexpr int kWrongUsage = 2;     // the command line itself
inline constexpr int kModelRefused = 3;   // the model is missing, broken, or of a kind this build does not run
inline constexpr int kInterrupted = 130;

}   // namespace cli
