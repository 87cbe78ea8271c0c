"""The static program gives the text that the command line gives: answers.py HELLO MOTE, with the model in MOTE_SMOLLM2."""
import os
import subprocess
import sys

PROMPT = "Hello! Who are you?"


def main():
    hello, mote = sys.argv[1:]
    model = os.environ.get("MOTE_SMOLLM2")
    if not model:
        print("MOTE_SMOLLM2 names no model: skipped")
        sys.exit(77)
    told = subprocess.run([hello, model, PROMPT], capture_output=True, check=True).stdout
    wanted = subprocess.run([mote, "run", "-m", model, "-p", PROMPT, "--temp", "0", "-c", "4096"], capture_output=True, check=True).stdout
    print(told.decode())
    if len(told) < 10 or told.rstrip() != wanted.rstrip():
        sys.exit(f"the command line says instead:\n{wanted.decode()}")


main()
