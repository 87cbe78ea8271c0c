#!/bin/sh
# From a fresh machine to an answer: installs what is missing, builds the program, fetches a small model and asks it.
#
#   examples/quickstart.sh [PROMPT]
#
# The answer alone goes to standard output. A second run only asks. MOTE_CACHE_DIR: where the model is kept.
set -eu
mote_root=$(cd "$(dirname "$0")/.." && pwd)
. "$mote_root/tools/dependencies.sh"

case ${1:-} in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
[ $# -le 1 ] || die "one prompt, in quotes, please (got $# words)"
prompt=${1:-Hello! Who are you?}

need_packages program
cd "$mote_root"
log=$mote_cache/quickstart.log
say "Building (log: $log)"
{ cmake --preset release && cmake --build --preset release --target mote_program; } > "$log" 2>&1 ||
  { tail -n 30 "$log" >&2; die "the build failed"; }
model=$(need_model smollm2)
exec build/release/mote run -m "$model" -p "$prompt" --temp 0 -n 256
