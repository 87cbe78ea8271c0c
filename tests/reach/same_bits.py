"""The cpu backend's results are the same bits on another processor: same_bits.py NATIVE SETS COMMAND...

Runs NATIVE (bits.cpp, built for this machine) and COMMAND, the same program for or as another processor in an emulator.
All hashes must agree, and COMMAND must have seen the instruction sets SETS, such as "64-bit: avx2 fma f16c": an emulator
that hides some would leave kernels untried. 77 where the emulator or NATIVE is not on this machine.
"""
import os
import shutil
import subprocess
import sys

FEWEST = 10   # one format and the nine other lines


def hashes(command):
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}: {run.stderr[-2000:]}")
    rows = dict(line.split(" ", 1) for line in run.stdout.splitlines())
    return rows.pop("this", ""), rows


def main():
    native, wanted, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    for program, what in ((native, "the same program for this machine (MOTE_REACH_NATIVE)"), (command[0], "qemu-user")):
        if shutil.which(program) is None:
            print(f"{what} is not here: no {program}")
            return 77
    sets, expected = hashes([native])
    other_sets, found = hashes(command)
    print(f"here: {sets}\nthere: {other_sets}\n{len(expected)} hashes")
    if other_sets != wanted:
        sys.exit(f"the emulated processor should have been seen as {wanted}")
    if len(expected) < FEWEST:
        sys.exit(f"too few hashes: {expected}")
    if found != expected:
        differing = [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]
        sys.exit(f"other bits than here: {' '.join(differing)}")
    return 0


sys.exit(main())
