#!/bin/sh
# mote and llama.cpp side by side on the same models, in turns: compare_llama.sh [OPTIONS] LLAMA_BENCH MODEL...
# `compare_llama.sh --help` lists the options; compare_llama.py does the work, with python3 alone.
exec python3 -B "$(dirname "$0")/compare_llama.py" "$@"
