"""suite.py on a made-up build: its verdicts, where it goes on, its limits, and what it refuses."""
import os
import subprocess
import sys
import tempfile

SUITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "suite.py")
# A test fails until there is a file "mended"; each says which processor it is to run as.
TESTS = {"good": "echo run >> good.runs; test \"$QEMU_CPU$MOTE_EMULATED\" = Old1", "skips": "exit 4", "red": "echo so; test -e mended",
         "endless": "while :; do :; done"}


def main():
    with tempfile.TemporaryDirectory() as build:
        def write(environment, names):
            with open(os.path.join(build, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
                for name in names:
                    file.write(f"add_test([=[x {name}]=] sh -c [=[{TESTS[name]}]=])\nset_tests_properties([=[x {name}]=] PROPERTIES "
                               f"SKIP_RETURN_CODE 4 WORKING_DIRECTORY {build} ENVIRONMENT {environment})\n")

        def suite():
            return subprocess.run([sys.executable, "-B", SUITE, build, os.path.join(build, "log"), "-p", "Old", "--cpu-seconds", "1"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

        def expect(done, code, *texts):
            if done.returncode != code or any(text not in done.stdout for text in texts):
                sys.exit(f"not {code} and {texts}, but {done.returncode}:\n{done.stdout}")
        write("MOTE_EMULATED=0", ["good"])
        expect(suite(), 1, "no tests that run in an emulator")
        write("MOTE_EMULATED=1", TESTS)
        expect(suite(), 1, "4 tests: 1 passed, 1 skipped by themselves, 2 failed, 0 left out, 0 not tried yet", "failed: x red\n",
               "failed: x endless\n")
        with open(os.path.join(build, "log.red"), encoding="utf-8") as red:
            said = red.read()
        if "=== x red\nso\n\nended with 1\n" not in said or "=== x good" in said:
            sys.exit(f"log.red: {said}")
        TESTS["endless"] = "true"
        write("MOTE_EMULATED=1", TESTS)
        with open(os.path.join(build, "mended"), "w", encoding="utf-8"):
            expect(suite(), 0, "4 tests: 3 passed, 1 skipped by themselves, 0 failed")
        with open(os.path.join(build, "good.runs"), encoding="utf-8") as runs:
            if runs.read() != "run\n":
                sys.exit("a test that had passed was run again")


main()
