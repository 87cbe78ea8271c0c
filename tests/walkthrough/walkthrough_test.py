#!/usr/bin/env python3
"""Adds an op and an architecture to a copy of the tree, as the folders' pages say, and runs the tests that judge them.

  walkthrough_test.py ROOT BUILD      BUILD: the build that runs this; compiler, generator and Catch2 are taken from it

The patches touch the places that the pages of core/ops and core/model name as all there is to a new op and a new
architecture, and nothing else. A step that is left out must be noticed where the pages say that it is.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import patches

HERE = os.path.dirname(os.path.abspath(__file__))
OP, ARCHITECTURE = "clamp", "stablelm"
# Place: the files that it may be in.
OP_PLACES = {
    "a row": ["core/ops/ops.inc"],
    "attributes and the method that fills them": ["core/ops/step.h", "core/ops/plan_builder.h", "core/ops/plan_builder.cpp",
                                                  "tests/ops/plan_builder_test.cpp"],
    "reference kernel": ["backends/reference/elementwise.cpp"],
    "conformance cases": ["tests/conformance/cases_elementwise.cpp", "tests/conformance/oracle_test.cpp"],
}
ARCHITECTURE_PLACES = {
    "a file": ["core/model/arch/%s.cpp" % ARCHITECTURE],
    "a row": ["core/model/arches.inc"],
    "golden": ["tests/golden/forward_%s.py" % ARCHITECTURE],
}
# The cheapest build that proves it.
OPTIONS = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DCMAKE_C_FLAGS_DEBUG=-O0", "-DMOTE_BACKENDS=reference",
           "-DMOTE_FORMATS=f32", "-DCMAKE_UNITY_BUILD=ON", "-DMOTE_WARNINGS_AS_ERRORS=ON", "-DMOTE_BUILD_EXAMPLES=OFF", "-DMOTE_BUILD_TESTS=ON",
           "-DMOTE_TEST_FOLDERS=support;conformance;golden;ops"]
INHERITED = ["CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER", "CMAKE_MAKE_PROGRAM", "CMAKE_PREFIX_PATH", "Catch2_DIR", "Python3_EXECUTABLE"]


def fail(sentence, output=""):
    print("FAIL", sentence)
    print(output[-4000:])
    sys.exit(1)


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    return done.returncode, done.stdout


class Copy:
    """A copy of the tree without what these builds do not read, and its build."""

    def __init__(self, root, build, folder):
        self.tree, self.build, self.scratch = os.path.join(folder, "mote"), os.path.join(folder, "build"), folder
        left_out = shutil.ignore_patterns(".*", "build", "corpus", "__pycache__")
        shutil.copytree(root, self.tree, ignore=left_out)
        with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
            cache = dict(re.findall(r"^(\w+):\w+=(.*)$", file.read(), re.MULTILINE))
        self.compiler = cache["CMAKE_CXX_COMPILER"]
        self.arguments = ["-G", cache["CMAKE_GENERATOR"], *OPTIONS]
        self.arguments += ["-D%s=%s" % (name, cache[name]) for name in INHERITED if cache.get(name)]

    def apply(self, changes):
        for change in changes:
            change.apply(self.tree)

    def path(self, name):
        return os.path.join(self.tree, name)

    def configure(self):
        return run("cmake", "-S", self.tree, "-B", self.build, *self.arguments)

    def configured(self):
        status, output = self.configure()
        if status != 0:
            fail("the copy could not be configured", output)

    def make(self, *targets):
        return run("cmake", "--build", self.build, "-j", str(os.cpu_count() or 1), "--target", *targets)

    def passes(self, what, *command):
        status, output = run(*command, cwd=self.build)
        if status != 0:
            fail(what, output)
        return output

    def catch2(self, program, name):
        """Runs cases by their names, which must be there."""
        path = os.path.join(self.build, "tests", program, "test_" + program)
        output = self.passes("%s of test_%s" % (name, program), path, name, "--warn", "NoAssertions", "--warn", "UnmatchedTestSpec")
        print("  test_%s: %s" % (program, output.strip().splitlines()[-1]))

    def compiles(self, *sources):
        """Sources that this build leaves out: what they make of the tables' rows."""
        for source in sources:
            self.passes(source, self.compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", self.tree, "-I",
                        os.path.join(self.build, "generated"), self.path(source))

    def golden(self):
        return (sys.executable, "-B", self.path("tests/golden/run_goldens.py"), "logits", "--only", ARCHITECTURE,
                "--backend", "reference", "--dump", os.path.join(self.build, "tests", "golden", "dump"))


def expect_failure(step, result, *names):
    """A step that was left out: something fails, and says what is missing."""
    status, output = result
    if status == 0:
        fail("nothing failed without %s" % step)
    for name in names:
        if name not in output:
            fail("without %s the failure does not name %s" % (step, name), output)
    print("  without %s: fails and names %s" % (step, ", ".join(names)))


def read_patch(name, places):
    """The patch's changes by place: all of these, and no other."""
    changes = patches.read(os.path.join(HERE, name))
    allowed = [path for paths in places.values() for path in paths]
    for path, change in changes.items():
        if path not in allowed:
            fail("%s touches %s; what it may touch: %s" % (name, path, ", ".join(allowed)))
        if change.removes():
            fail("%s takes lines away from %s: adding must not mean changing" % (name, path))
    for place, paths in places.items():
        if not any(path in changes for path in paths):
            fail("%s lacks %s" % (name, place))
        if place == "a row" and [len(changes[path].added()) for path in paths] != [1]:
            fail("%s adds more than a row to %s" % (name, paths[0]))
    print("%s: %d files at %d places" % (name, len(changes), len(places)))
    return {place: [changes[path] for path in paths if path in changes] for place, paths in places.items()}


def add_op(copy, by_place):
    copy.apply(by_place["a row"] + by_place["attributes and the method that fills them"])
    copy.configured()
    expect_failure("definition and cases", copy.make("test_conformance"), "ReferenceExecutor::%s" % OP, "%s_cases" % OP)
    copy.apply(by_place["reference kernel"] + by_place["conformance cases"])
    status, output = copy.make("test_conformance", "test_ops")
    if status != 0:
        fail("the copy with the op does not build", output)
    copy.catch2("conformance", "every backend agrees with the oracle on %s" % OP)
    copy.catch2("conformance", "the oracle's %s*" % OP)
    copy.catch2("ops", "Shapes that contradict each other are said in a sentence")
    copy.compiles("backends/cpu/executor.cpp", "backends/cpu/prepare.cpp")   # which know nothing of the op


def add_architecture(copy, by_place):
    copy.apply(by_place["a file"])
    expect_failure("row", copy.configure(), "arch/%s.cpp has no row" % ARCHITECTURE)
    os.rename(copy.path(by_place["a file"][0].path), copy.path("put-aside"))
    copy.apply(by_place["a row"])
    expect_failure("file", copy.configure(), "arch/%s.cpp" % ARCHITECTURE)
    os.rename(copy.path("put-aside"), copy.path(by_place["a file"][0].path))
    copy.configured()
    expect_failure("golden", run(*copy.golden()), "no outputs of the architecture %s" % ARCHITECTURE)
    copy.apply(by_place["golden"])
    status, output = copy.make("golden_dump")
    if status != 0:
        fail("the copy with the architecture does not build", output)
    output = copy.passes("the logits are not those of the forward pass", *copy.golden())
    if output.count("logits: max") != 3:
        fail("not every case was compared", output)
    print("  " + output.strip().splitlines()[-1])


def main():
    root, build = (os.path.abspath(each) for each in sys.argv[1:3])
    try:
        op = read_patch("add_op.patch", OP_PLACES)
        architecture = read_patch("add_architecture.patch", ARCHITECTURE_PLACES)
        with tempfile.TemporaryDirectory() as folder:
            copy = Copy(root, build, folder)
            add_op(copy, op)
            add_architecture(copy, architecture)
    except ValueError as error:
        fail("%s. Apply the patch by hand, mend it and write it again: git diff -U1" % error)


if __name__ == "__main__":
    main()
