"""The library's own compile commands refuse a function that takes more than 12 KiB of stack, and no smaller one.

  frames.py BUILD        its compile_commands.json has the commands
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile

import tree

FOLDERS = ("core/", "backends/", "platform/")
REFUSED_BYTES, ALLOWED_BYTES = 13000, 10000


def main():
    build = sys.argv[1]
    with open(build + "/compile_commands.json", encoding="utf-8") as file:
        commands = [entry for entry in json.load(file) if "mote.dir/" in entry["command"]]
    findings, checked = [], 0
    for folder in FOLDERS:
        entry = next((entry for entry in commands if f"mote.dir/{folder}" in entry["command"]), None)
        if entry is None:
            findings.append(f"{folder}: no compile command of it is known")
            continue
        words = shlex.split(entry["command"])
        words = words[:words.index("-o")]
        for frame_bytes, wanted in ((REFUSED_BYTES, True), (ALLOWED_BYTES, False)):
            with tempfile.TemporaryDirectory() as scratch:
                path = scratch + "/frame.cpp"
                with open(path, "w", encoding="utf-8") as file:
                    file.write("void use(char* room);\nvoid take_stack();\n"
                               f"void take_stack() {{\n  char room[{frame_bytes}];\n  use(room);\n}}\n")
                result = subprocess.run([*words, "-o", scratch + "/frame.o", "-c", path], cwd=entry["directory"],
                                        capture_output=True, text=True)
            checked += 1
            refused = result.returncode != 0 and "frame" in result.stderr and "error" in result.stderr
            if refused != wanted or (result.returncode != 0) != wanted:
                findings.append(f"{folder}: a frame of {frame_bytes} bytes is {'refused' if result.returncode else 'allowed'}: "
                                f"{result.stderr.strip()[:300]}")
    tree.end(findings, checked)


main()
