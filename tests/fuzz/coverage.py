"""Which lines of the library the fuzz corpora reach: coverage.py ROOT BUILD_FOLDER TARGETS...

Runs each target once over its corpus with coverage counters and adds up, for each folder of FOLDERS, the lines that were
executed. Fails below LEAST; with --missing prints the lines that were not.
"""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

FOLDERS = ["core/gguf", "core/tokenizer", "core/pipeline"]
LEAST = 90.0   # per cent of the lines


def tool(name):
    found = shutil.which(name + "-19") or shutil.which(name)
    if not found:
        print(f"{name} is not on this machine: skipped")
        sys.exit(77)
    return found


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--missing"]
    show_missing = len(arguments) != len(sys.argv) - 1
    root, build, targets = arguments[0], arguments[1], arguments[2:]
    profdata, cov = tool("llvm-profdata"), tool("llvm-cov")
    programs = [os.path.join(build, "fuzz_" + target) for target in targets]
    with tempfile.TemporaryDirectory() as folder:
        raws = []
        for target, program in zip(targets, programs):
            raw = os.path.join(folder, target + ".profraw")
            subprocess.run([program, "-runs=0", os.path.join(root, "tests/fuzz/corpus", target)], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "LLVM_PROFILE_FILE": raw})
            raws.append(raw)
        merged = os.path.join(folder, "merged.profdata")
        subprocess.run([profdata, "merge", "-o", merged, *raws], check=True)
        objects = [programs[0]] + [part for program in programs[1:] for part in ("-object", program)]
        exported = json.loads(subprocess.run([cov, "export", "-instr-profile", merged, *(["-summary-only"] if not show_missing else []),
                                              *objects], check=True, capture_output=True).stdout)
    lines, covered = collections.Counter(), collections.Counter()
    for file in exported["data"][0]["files"]:
        name = os.path.relpath(file["filename"], root)
        for folder in FOLDERS:
            if name.startswith(folder + "/"):
                lines[folder] += file["summary"]["lines"]["count"]
                covered[folder] += file["summary"]["lines"]["covered"]
                if show_missing:
                    missing = sorted({segment[0] for segment in file["segments"] if segment[3] and segment[2] == 0})
                    print(f"{name}: {file['summary']['lines']['percent']:.1f} %, not reached from: {missing}")
    failed = False
    for folder in FOLDERS:
        percent = 100.0 * covered[folder] / lines[folder] if lines[folder] else 0.0
        print(f"{folder}: {covered[folder]} of {lines[folder]} lines, {percent:.1f} %")
        failed = failed or percent < LEAST
    if failed:
        sys.exit(f"less than {LEAST} % of a folder's lines are reached")


main()
