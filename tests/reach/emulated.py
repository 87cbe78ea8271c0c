"""A test program run as another x86 processor: emulated.py PROCESSOR PROGRAM ARGUMENTS... (77 without qemu-user)."""
import shutil
import subprocess
import sys

processor, command = sys.argv[1], sys.argv[2:]
if shutil.which("qemu-x86_64") is None:
    print("qemu-x86_64 (package qemu-user) is not on this machine")
    sys.exit(77)
status = subprocess.run(["qemu-x86_64", "-cpu", processor, *command]).returncode
if status < 0:
    print(f"ended by signal {-status}")
sys.exit(1 if status < 0 else status)
