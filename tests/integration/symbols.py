"""What a shared library shows and how it lies in memory: only the API, only libc and libm, pages of 16 KB.

  symbols.py NM READELF LIBRARY PATTERN [HEADER...]

Every function that the headers declare with MOTE_API is shown, and nothing else; without headers: what PATTERN matches.
"""
import re
import sys

from steps import run

nm, readelf, library, pattern = sys.argv[1:5]
findings = []
shown = {line.split()[-1].split("@")[0] for line in run(nm, "-D", "--defined-only", library).splitlines()}
shown -= {"_init", "_fini"}   # of older linkers
declared = set()
for header in sys.argv[5:]:
    with open(header, encoding="utf-8") as file:
        declared |= set(re.findall(r"^MOTE_API [^;(]*?(\w+)\(", file.read(), flags=re.MULTILINE))
if sys.argv[5:]:
    findings += [f"{name} is in a header and not shown" for name in sorted(declared - shown)]
    findings += [f"{name} is shown and in no header" for name in sorted(shown - declared)]
findings += [f"{name} is shown" for name in sorted(shown) if not re.fullmatch(pattern, name)]
if not shown:
    findings.append("nothing is shown")

segments = re.findall(r"^\s*LOAD\s.*\s(0x[0-9a-f]+)$", run(readelf, "-lW", library), flags=re.MULTILINE)
findings += [f"a segment is aligned to {align}, not to 16 KB" for align in segments if int(align, 16) % 16384]
if not segments:
    findings.append("no segments were read")
dynamic = run(readelf, "-dW", library)
needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
findings += [f"needs {name}" for name in needed if not re.match(r"(libc|libm|libpthread|libdl|ld-linux[\w-]*)\.so", name)]
if "TEXTREL" in dynamic:
    findings.append("has text relocations")
if re.search(r"^\s*GNU_STACK\s.*E\s", run(readelf, "-lW", library), flags=re.MULTILINE):
    findings.append("has an executable stack")
print(f"{library}: {len(shown)} symbols, {len(segments)} segments, needs {', '.join(needed)}")
if findings:
    sys.exit("\n".join(["FAIL:"] + findings))
