"""Every source of the library is compiled for arithmetic as it is written, and for no processor in particular.

  flags.py BUILD        its compile_commands.json has the commands
"""
import json
import re
import shlex
import sys

import tree

# Of each group the last word counts.
WANTED = [(r"-ffp-contract=", "-ffp-contract=off"), (r"-f(no-)?fast-math$", "-fno-fast-math")]
FORBIDDEN = r"-Ofast|-f(finite-math-only|unsafe-math-optimizations|associative-math|reciprocal-math|no-signed-zeros|single-precision-constant)" \
            r"|-m(arch|cpu|tune)=native|-mdaz-ftz|-flto.*"
# What kernels for newer processors may ask of one, by the ends of their names.
NEWER = [(r"_avx2\.cpp$", {"-mavx2", "-mfma", "-mf16c"}), (r"_avxvnni\.cpp$", {"-mavx2", "-mfma", "-mf16c", "-mavxvnni"}),
         (r"_(avx512\w*|dotprod|i8mm)\.cpp$", None)]


def main():
    with open(sys.argv[1] + "/compile_commands.json", encoding="utf-8") as file:
        commands = [entry for entry in json.load(file) if re.search(r"\bmote\.dir/", entry["command"])]
    findings = []
    for entry in commands:
        path, words = entry["file"], shlex.split(entry["command"])
        for group, wanted in WANTED:
            found = [word for word in words if re.match(group, word)]
            if not found or found[-1] != wanted:
                findings.append(f"{path}: {found[-1] if found else 'nothing'} and not {wanted} is the last word")
        findings += [f"{path}: {word}" for word in words if re.fullmatch(FORBIDDEN, word)]
        newer = {word for word in words if re.match(r"-m(avx|fma|f16c|sse[34]|ssse|bmi|popcnt|arch=|cpu=)", word)}
        allowed = next((sets for pattern, sets in NEWER if re.search(pattern, path)), set())
        if allowed is not None and newer - allowed:
            findings.append(f"{path}: {' '.join(sorted(newer - allowed))}")
    tree.end(findings, len(commands))


main()
