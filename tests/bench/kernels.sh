#!/bin/sh
# Builds the bench of kernels, getting what it needs, and runs it: kernels.sh [OPTIONS OF GOOGLE BENCHMARK...]
#   tests/bench/kernels.sh --benchmark_filter='linear/q4_0/.*/4$' --benchmark_repetitions=20
set -eu
mote_root=$(cd "$(dirname "$0")/../.." && pwd)
. "$mote_root/tools/dependencies.sh"
need_packages program tests bench
need_catch2 "${CXX:-c++}" ''   # which the tests' folder asks for
folder=$mote_root/build/bench
mkdir -p "$folder"
{ cmake -S "$mote_root" --preset ci -B "$folder" -DMOTE_BUILD_EXAMPLES=OFF -DMOTE_SHARED=OFF -DMOTE_BACKENDS='reference;cpu' \
    '-DMOTE_TEST_FOLDERS=bench;conformance;support' -DCMAKE_PREFIX_PATH="$catch2_prefix" &&
  cmake --build "$folder" --target bench_kernels; } > "$folder/build.log" 2>&1 ||
  { tail -n 30 "$folder/build.log" >&2; die "the bench of kernels could not be built (log: $folder/build.log)"; }
exec "$folder/tests/bench/bench_kernels" "$@"
