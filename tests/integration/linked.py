"""What is built in is there however a program is linked: registration asks for no linker's favour.

  linked.py ROOT WORK CC AR ARCHIVE LISTED [BESIDE...]

LISTED: the program of the tree whose lines all of them must print. BESIDE: archives of libraries under a backend.
"""
import os
import shutil
import sys

from steps import run, write

root, work, cc, ar, archive, listed, *beside = sys.argv[1:]
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
wanted = run(listed)
for kind in ("backend cpu\n", "op linear\n", "format q4_1\n"):
    if kind not in wanted:
        sys.exit(f"FAIL: the program of the tree lists no {kind}")
source, libraries = root + "/tests/integration/listed.c", [*beside, "-lm", "-pthread"]
compile_with = [cc, "-std=c99", "-O1", "-I", root]
ways = {
    "as it is": [source, archive],
    "sections collected": ["-Wl,--gc-sections", "-ffunction-sections", "-fdata-sections", source, archive],
    "the program optimised when it is linked": ["-flto", source, archive],
    "static": ["-static", source, archive],
}

# In an archive of the app's own, which is what its main sees, and in one object.
write(work + "/main.c", "int listed(void);\nint main(void) { return listed(); }\n")
run(*compile_with, "-DLISTED_WITHOUT_MAIN", "-c", source, "-o", work + "/part.o")
run(ar, "-M", input=f"CREATE {work}/libapp.a\nADDLIB {archive}\nADDMOD {work}/part.o\nSAVE\nEND\n")
ways["through another archive"] = [work + "/main.c", "-Wl,--gc-sections", work + "/libapp.a"]
run(cc, "-r", "-nostdlib", "-o", work + "/whole.o", work + "/part.o", archive)
ways["as one object"] = [work + "/main.c", work + "/whole.o"]

for linker in ("bfd", "gold", "lld", "mold"):
    if shutil.which("ld." + linker):
        ways["by ld." + linker] = [f"-fuse-ld={linker}", "-Wl,--gc-sections", source, archive]
    else:
        print(f"ld.{linker} is not on this machine")
for name, words in ways.items():
    run(*compile_with, "-o", work + "/program", *words, *libraries)
    found = run(work + "/program")
    if found != wanted:
        sys.exit(f"FAIL: linked {name}, the program lists\n{found}and not\n{wanted}")
    print(f"{name}: the same {len(wanted.splitlines())} names")
