"""mote inside a project whose flags are everything that mote's are not: the same bits, or one sentence.

  embedded.py ROOT WORK CMAKE C_COMPILER CXX_COMPILER ANSWER MODEL

WORK is kept: a second run compiles only what changed.
"""
import os
import sys

from steps import expect_equal, must_fail, run

root, work, cmake, cc, cxx, answer, model = sys.argv[1:]
configure = [cmake, "-S", root + "/tests/integration/embedded", "-B", work, "-G", "Ninja", f"-DCMAKE_C_COMPILER={cc}",
             f"-DCMAKE_CXX_COMPILER={cxx}", f"-DSOURCES={root}"]
# A project that puts -ffast-math behind mote's own flags is told so.
run(*configure, "-DWITH_FAST_MATH_FORCED=ON")
must_fail("mote must be built without -ffast-math", cmake, "--build", work, "--target", "mote/CMakeFiles/mote.dir/core/base/math.cpp.o")
run(*configure, "-DWITH_FAST_MATH_FORCED=OFF")
run(cmake, "--build", work, "--target", "answer", "--parallel", "1")
expect_equal(run(os.path.join(work, "answer"), model), run(answer, model), "a project with -Ofast around mote")
