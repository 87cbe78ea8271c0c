"""mote inside a project whose flags are everything that mote's are not: the same bits, or one sentence.

  embedded.py ROOT WORK CMAKE C_COMPILER CXX_COMPILER NM ANSWER MODEL

WORK is kept: a second run compiles only what changed.
"""
import os
import re
import sys

from steps import expect_equal, must_fail, run

root, work, cmake, cc, cxx, nm, answer, model = sys.argv[1:]
configure = [cmake, "-S", root + "/tests/integration/embedded", "-B", work, "-G", "Ninja", f"-DCMAKE_C_COMPILER={cc}",
             f"-DCMAKE_CXX_COMPILER={cxx}", f"-DSOURCES={root}"]
# A backend that is named and cannot be built is an error; `all` leaves it out.
must_fail("MOTE_BACKENDS names vulkan, which cannot be built here: it needs", *configure, "-DMOTE_BACKENDS=cpu;vulkan", "-DMOTE_PLATFORM=bare")
# A project that puts -ffast-math behind mote's own flags is told so.
run(*configure, "-DWITH_FAST_MATH_FORCED=ON", "-DMOTE_BACKENDS=cpu", "-DMOTE_PLATFORM=posix")
must_fail("mote must be built without -ffast-math", cmake, "--build", work, "--target", "mote/CMakeFiles/mote.dir/core/base/math.cpp.o")
run(*configure, "-DWITH_FAST_MATH_FORCED=OFF")
run(cmake, "--build", work, "--target", "answer", "--parallel", "1")
expect_equal(run(os.path.join(work, "answer"), model), run(answer, model), "a project with -Ofast around mote")

# To the project around it mote adds options of its own prefix, and no tests or programs.
with open(work + "/CMakeCache.txt", encoding="utf-8") as file:
    options = set(re.findall(r"^(\w+):(?!INTERNAL|STATIC)\w+=", file.read(), flags=re.MULTILINE))
foreign = sorted(name for name in options if not re.match(r"(MOTE|CMAKE|WITH)_|SOURCES$", name))
targets = sorted(set(re.findall(r"^(?:mote/)?(test\w*|mote|hello\w*|quickstart\w*): \w", run(cmake, "--build", work, "--target", "help"),
                                flags=re.MULTILINE)) - {"mote"})
if foreign or targets or not {"MOTE_BACKENDS", "MOTE_BUILD_TESTS"} <= options:
    sys.exit(f"FAIL: mote adds the options {foreign} and the targets {targets} to the project around it")

# Of what was switched off no symbol is there. What is there shows that the names would be seen.
symbols = run(nm, "--defined-only", work + "/mote/libmote.a")
for name, there in (("cpu", True), ("reference", False), ("iq4", False), ("mxfp4", False)):
    if bool(re.search(rf"^[0-9a-f]+ \w \w*{name}", symbols, flags=re.MULTILINE | re.IGNORECASE)) != there:
        sys.exit(f"FAIL: {name} is {'not ' if there else ''}among the symbols of a build {'with' if there else 'without'} it")
kernels = set(re.findall(r"linear_blocks\w*Unpack\w*?FormatE(\d+)E", symbols))   # by the numbers of their formats
if len(kernels) != 1:
    sys.exit(f"FAIL: a build with one block format has the kernels of {sorted(kernels)}")
