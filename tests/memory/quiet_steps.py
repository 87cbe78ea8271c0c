"""What mote asks of the system between set-up and the end of generation: waiting and the time, nothing else.

    quiet_steps.py GENERATE smollm2|toy

Runs GENERATE (generate.cpp) under strace and looks at every call of every thread between its two marks. 77 where
strace is missing or may not trace, or where MOTE_SMOLLM2 names no model. For a model's file also compares the anonymous
memory with the quotes.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Threads wait for each other, look at the clock, yield, and the pool asks whether it was forked off; that is all.
ALLOWED = {"futex", "sched_yield", "clock_gettime", "getpid"}
# A thread started at set-up that a busy machine lets run only now: its C library's first words.
ALLOWED |= {"rseq", "set_robust_list", "rt_sigprocmask"}
SLACK_BYTES = 1 << 20


def trace(generate, model, backend, threads, prompt, steps):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "trace")
        run = subprocess.run(["strace", "-f", "-o", log, generate, model, backend, str(threads), str(prompt), str(steps)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if run.returncode != 0:
            return run, []
        with open(log, encoding="utf-8", errors="replace") as lines:
            return run, list(lines)


def calls_between_marks(lines):
    inside, marks, calls = False, 0, {}
    for line in lines:
        # "1234  futex(0x..." and "1234  <... futex resumed>..."; a thread's name may stand with its number.
        found = re.match(r"\[?(?:pid\s+)?\d+\]?\s+(?:<\.\.\. )?(\w+)", line)
        if found is None or "+++" in line or "---" in line:
            continue
        if 'write(1, "begin\\n"' in line or 'write(1, "end\\n"' in line:
            inside, marks = "begin" in line, marks + 1
            continue
        if inside and not (found.group(1) == "write" and "resumed" in line):
            calls[found.group(1)] = calls.get(found.group(1), 0) + 1
    return marks, calls


def main():
    generate, model = sys.argv[1:]
    if model == "smollm2":
        model = os.environ.get("MOTE_SMOLLM2", "")
        if not model:
            print("MOTE_SMOLLM2 names no model")
            return 77
    if shutil.which("strace") is None:
        print("strace is not on this machine")
        return 77
    if subprocess.run(["strace", "-f", "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        print("strace may not trace here")
        return 77
    faults = 0
    backends, prompt, steps = (("cpu",), 100, 12) if model != "toy" else (("cpu", "reference"), 200, 40)
    for backend in backends:
        for threads in (1, 2, 3):
            run, lines = trace(generate, model, backend, threads, prompt, steps)
            if run.returncode != 0:
                print(f"{backend}, {threads} threads: {run.stderr.strip()}")
                faults += 1
                continue
            marks, calls = calls_between_marks(lines)
            others = {name: n for name, n in calls.items() if name not in ALLOWED}
            print(f"{backend}, {threads} threads: {calls or 'no call at all'}")
            if marks != 2 or others:
                print(f"  {marks} marks; not expected: {others}")
                faults += 1
            anonymous, promised = map(int, run.stdout.split()[-2:])
            if model != "toy":
                print(f"  anonymous memory {anonymous} bytes, quoted {promised}")
                if anonymous > promised + SLACK_BYTES:
                    print(f"  {anonymous - promised} bytes above the quotes, allowed are {SLACK_BYTES}")
                    faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
