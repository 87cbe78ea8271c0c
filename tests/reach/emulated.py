"""A test program run as another processor: emulated.py EMULATOR OPTIONS... PROGRAM ARGUMENTS... (77 without the emulator)."""
import os
import shutil
import subprocess
import sys

command = sys.argv[1:]
if shutil.which(command[0]) is None:
    print(f"{command[0]} (package qemu-user) is not on this machine")
    sys.exit(77)
status = subprocess.run(command, env=dict(os.environ, MOTE_EMULATED="1")).returncode
if status < 0:
    print(f"ended by signal {-status}")
sys.exit(1 if status < 0 else status)
