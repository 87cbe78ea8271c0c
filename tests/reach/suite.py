"""All tests of a build that has an emulator: suite.py BUILD LOG [-p PROCESSOR] [-R REGEX] [--cpu-seconds N]

For hours of tests, which ctest could not take up again: runs ctest's list one by one, and appends a line of verdict, seconds
and name to LOG (what a failed test said: LOG.red). The same command goes on where LOG ends and tries once more what failed.
PROCESSOR is for emulators that the build does not tell which one they are (QEMU_CPU). The limit of a test is processor time,
so that a busy machine fails none. In the end: the counts, what was left out and why, the slowest tests; 1 with a red one.
"""
import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

# What no processor changes, or no emulator can do. The builds themselves have no real models (their MOTE_TEST_SPEC), nor
# what looks at the tree or compiles; single cases say so by themselves (tests/support/emulated.h).
LEFT_OUT = (
    (r"bench: mote and llama\.cpp side by side$", "scripts in place of programs"),
)
SLOWEST = 10


def listed(build):
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], stdout=subprocess.PIPE, check=True)
    for test in json.loads(shown.stdout)["tests"]:
        yield test["name"], test.get("command"), {each["name"]: each["value"] for each in test.get("properties", [])}


def reason_of(name):
    return next((why for pattern, why in LEFT_OUT if re.search(pattern, name)), None)


def run(command, properties, build, processor, cpu_seconds):
    """Verdict, seconds and what was said."""
    if command is None:
        return "failed", 0.0, b"not built"
    environment = dict(os.environ, **dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", [])))
    environment["MOTE_EMULATED"] = "1"
    if processor:
        environment["QEMU_CPU"] = processor

    def prepare():
        os.setpgid(0, 0)   # no session of its own, which Linux would give a full share of the machine
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    begun = time.monotonic()
    process = subprocess.Popen(command, cwd=properties.get("WORKING_DIRECTORY", build), env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=prepare)
    try:
        said, code = process.communicate(timeout=4 * cpu_seconds)[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, code = process.communicate()[0], None
    verdict = "passed" if code == 0 else "skipped" if code is not None and code == properties.get("SKIP_RETURN_CODE") else "failed"
    return verdict, time.monotonic() - begun, said + f"\nended with {code}\n".encode()


def verdicts(log):
    """The last of each test's."""
    if not os.path.exists(log):
        return {}
    with open(log, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t", 2) for line in file if line.count("\t") == 2]
    return {name: (verdict, float(seconds)) for verdict, seconds, name in rows}


def summary(names, done):
    count = {verdict: sum(done.get(name, ("",))[0] == verdict for name in names) for verdict in ("passed", "skipped", "failed")}
    print(f"{len(names)} tests: {count['passed']} passed, {count['skipped']} skipped by themselves, {count['failed']} failed, "
          f"{sum(reason_of(name) is not None for name in names)} left out, "
          f"{sum(name not in done and reason_of(name) is None for name in names)} not tried yet")
    for name in names:
        if reason_of(name):
            print(f"left out: {name}: {reason_of(name)}")
    for name in sorted((name for name in names if name in done), key=lambda name: -done[name][1])[:SLOWEST]:
        print(f"{done[name][1]:8.0f} s  {name}")
    for verdict in ("skipped", "failed"):
        for name in names:
            if done.get(name, ("",))[0] == verdict:
                print(f"{verdict}: {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("log")
    parser.add_argument("-p", "--processor")
    parser.add_argument("-R", "--regex", default="", help="only tests whose name has this")
    parser.add_argument("--cpu-seconds", type=int, default=3600)
    parser.add_argument("--summary", action="store_true", help="run nothing")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    tests = list(listed(build))
    if not any("MOTE_EMULATED=1" in properties.get("ENVIRONMENT", []) for _, _, properties in tests):
        sys.exit(f"{build} has no tests that run in an emulator (CMAKE_CROSSCOMPILING_EMULATOR)")
    done = verdicts(options.log)
    for name, command, properties in tests:
        if options.summary or reason_of(name) or not re.search(options.regex, name) or done.get(name, ("failed",))[0] != "failed":
            continue
        verdict, seconds, said = run(command, properties, build, options.processor, options.cpu_seconds)
        done[name] = verdict, seconds
        with open(options.log, "a", encoding="utf-8") as log:
            log.write(f"{verdict}\t{seconds:.1f}\t{name}\n")
        if verdict == "failed":
            with open(options.log + ".red", "ab") as red:
                red.write(f"=== {name}\n".encode() + said[-6000:])
    names = [name for name, _, _ in tests]
    summary(names, done)
    return 1 if any(done.get(name, ("",))[0] == "failed" for name in names) else 0


sys.exit(main())
