"""Writes what programs print into the README, or checks that it is what they print now.

  readme.py [--check] ROOT BUILD_FOLDER

A block of the README between <!-- NAME --> and <!-- end NAME --> belongs to this script; the rest is for people.
  answer  what examples/quickstart.sh answers to the prompt in the block
  tests   the last lines of tests/run.sh, from the log it leaves; numbers differ from run to run and are not compared
  matrix  what each backend runs, printed by support_matrix
  hello   examples/hello/hello.c between its first declaration and its end
"""
import os
import re
import subprocess
import sys

import model as models

PROMPT = "Hello! Who are you?"   # what quickstart.sh asks when it is asked nothing


def output(*command, cwd=None):
    result = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    if result.returncode:
        sys.exit(f"{' '.join(command)} failed with status {result.returncode}:\n{result.stderr}")
    return result.stdout


def answer(root, build, model):
    text = output(build + "/mote", "run", "-m", model, "-p", PROMPT, "--temp", "0", "-n", "256")
    return f'```console\n$ examples/quickstart.sh\n{text.rstrip()}\n```\n'


def tests(root, build, model):
    path = root + "/build/all/ctest.log"
    lines = []
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as file:
            lines = [line.rstrip() for line in file if re.match(r"\d+% tests passed|Total Test time", line)]
    return "```console\n$ tests/run.sh\n" + "\n".join(["..."] + lines) + "\n```\n" if lines else None


def matrix(root, build, model):
    return output(build + "/tests/scripts/support_matrix")


def without_columns(text, kept):
    """The table without the columns of backends that this build, or this machine, does not have."""
    lines = text.splitlines(keepends=True)
    heads = [cell.strip() for cell in next(line for line in lines if line.startswith("| op |")).split("|")[2:-1]]
    gone = [2 + i for i, head in enumerate(heads) if head not in kept]
    return "".join("|".join(cell for i, cell in enumerate(line.split("|")) if i not in gone) if line.startswith("|") else line
                   for line in lines)


def backends_of(text):
    """The table's backends that run anything."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return {head for i, head in enumerate(rows[0]) if i and any(row[i] != "-" for row in rows[2:])}


def hello(root, build, model):
    with open(root + "/examples/hello/hello.c", encoding="utf-8") as file:
        body = re.search(r"  const mote_memory.*?\n  if \(status\)[^\n]*\n", file.read(), flags=re.DOTALL).group(0)
    return "```c\n" + re.sub(r"^  ", "", body, flags=re.MULTILINE) + "```\n"


BLOCKS = {"answer": answer, "tests": tests, "matrix": matrix, "hello": hello}


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    check = len(arguments) != len(sys.argv) - 1
    root, build = arguments
    model = models.smollm2(root)
    path = root + "/README.md"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    stale = []
    for name, make in BLOCKS.items():
        pattern = re.compile(f"(<!-- {name} -->\n)(.*?)(<!-- end {name} -->)", re.DOTALL)
        found = pattern.search(text)
        if not found:
            sys.exit(f"README.md has no block {name}")
        old, new = found.group(2), make(root, build, model)
        if name == "tests" and (new is None or check):
            # A run of the tests cannot wait for its own end: the block must look like a run in which all passed.
            if not re.search(r"^100% tests passed, 0 tests failed out of \d+\nTotal Test time \(real\) = +[\d.]+ sec$", old, re.MULTILINE):
                stale.append(name)
            continue
        if name == "matrix" and check:   # a library or a driver may be missing here
            there = backends_of(new)
            old, new = without_columns(old, there), without_columns(new, there)
        if old != new:
            stale.append(name)
            print(f"--- {name} in README.md\n{old}+++ {name} now\n{new}")
        text = pattern.sub(lambda match: match.group(1) + new + match.group(3), text)
    if check:
        print("README.md: " + (f"stale: {', '.join(stale)}; tests/scripts/readme.py writes them" if stale else "as printed now"))
        sys.exit(1 if stale else 0)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


main()
