"""mote and llama.cpp side by side on the same models: prompt, decode, and decode behind many tokens.

Each round runs mote, then llama-bench without and with flash attention, one process each, so that all see the same machine.
A run counts as the median of its repetitions, a contender as the median of its rounds; the better of the peer's two settings
is the peer. A ratio is taken within each round, mote over peer: above 1 mote is faster. Printed are the median of the ratios
and how far they lie apart.

CPU time for each token: of mote, that of its timed runs; of the peer, that of its whole process less that of one that makes a
single token, over the tokens that it makes, the warm-up's one included.
"""
import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SETTINGS = ("off", "on")   # of the peer's flash attention


class Failure(Exception):
    pass


def counts(text):
    numbers = [int(word) for word in text.split(",")]
    if min(numbers) < 1:
        raise ValueError(text)
    return numbers


def parse_arguments():
    parser = argparse.ArgumentParser(prog="compare_llama.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_bench", metavar="LLAMA_BENCH", help="the peer's program")
    parser.add_argument("models", metavar="MODEL", nargs="+", help="GGUF files that both can run")
    parser.add_argument("--mote", default=os.path.join(ROOT, "build", "release", "mote"), help="mote's program (default: that of build/release)")
    parser.add_argument("--rounds", type=int, default=5, help="how often all take turns (default: 5)")
    parser.add_argument("-r", "--repetitions", type=int, default=3, help="timed runs in each process (default: 3)")
    parser.add_argument("-t", "--threads", type=counts, default=[1, 2], help="default: 1,2")
    parser.add_argument("-p", "--prompt", type=int, default=512, help="tokens; 0: no such test (default: 512)")
    parser.add_argument("-n", "--decode", type=int, default=128, help="tokens; 0: no such test (default: 128)")
    parser.add_argument("-d", "--depth", type=int, default=0, help="also decode behind so many tokens (4096 shows long contexts)")
    parser.add_argument("--kv-type", choices=("f16", "f32"), default="f16", help="how both keep keys and values (default: f16)")
    parser.add_argument("--json", metavar="FILE", help="what was measured, run by run")
    options = parser.parse_args()
    if min(options.rounds, options.repetitions) < 1 or min(options.prompt, options.decode, options.depth) < 0:
        parser.error("rounds and repetitions must be 1 or more, numbers of tokens 0 or more")
    if options.prompt + options.decode == 0:
        parser.error("-p and -n are 0: there is nothing to compare")
    return options


def run(command):
    """Standard output and the seconds of CPU time that the process took."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(command, stdout=out, stderr=said, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise Failure(f"{command[0]} cannot be run: {error.strerror}")
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said.seek(0)
        if process.returncode != 0:
            last = said.read().decode(errors="replace").strip().splitlines()[-3:]
            raise Failure(f"{shlex.join(command)} ended with {process.returncode}: {' / '.join(last)}")
        return out.read().decode(errors="replace"), usage.ru_utime + usage.ru_stime


def version_of(program):
    with tempfile.TemporaryFile() as out:
        done = subprocess.run([program, "--version"], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        out.seek(0)
        lines = [line for line in out.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[0] if done.returncode == 0 and lines else "does not say its version"


class Test:
    def __init__(self, prompt, decode, depth):
        self.prompt, self.decode, self.depth = prompt, decode, depth
        self.name = (f"pp{prompt}" if prompt else f"tg{decode}") + (f" @ d{depth}" if depth else "")

    def flags(self, model, threads, repetitions, decode=None):
        return ["-m", model, "-p", str(self.prompt), "-n", str(self.decode if decode is None else decode), "-d", str(self.depth),
                "-t", str(threads), "-r", str(repetitions), "-o", "json"]


class Contender:
    """One program in one setting."""
    def __init__(self, name, program, flags, kv_type):
        self.name, self.program, self.flags, self.kv_type = name, program, flags, kv_type

    def measure(self, test, model, threads, repetitions, decode=None):
        command = [self.program, *(["bench"] if self.name == "mote" else []), *test.flags(model, threads, repetitions, decode), *self.flags]
        text, cpu_seconds = run(command)
        try:
            records = json.loads(text)
        except ValueError:
            raise Failure(f"{shlex.join(command)} wrote no JSON but {text[:60]!r}")
        if not isinstance(records, list) or len(records) != 1:
            raise Failure(f"{shlex.join(command)} wrote {len(records) if isinstance(records, list) else 'no list'} of records, not one")
        record = records[0]
        wanted = {"n_prompt": test.prompt, "n_gen": test.decode if decode is None else decode, "n_depth": test.depth,
                  "n_threads": threads, "type_k": self.kv_type, "type_v": self.kv_type}
        for key, value in wanted.items():
            if record.get(key) != value:
                raise Failure(f"{shlex.join(command)}: its {key} is {record.get(key)}, not {value}")
        record["process_cpu_seconds"] = cpu_seconds
        record["command"] = shlex.join(command)
        return record


def speed(record):
    return statistics.median(record["samples_ts"])


def middle(values):
    return statistics.median(values)


def cpu_per_token(records, short, test, repetitions):
    """Milliseconds; None where nothing says so."""
    if test.prompt or test.depth:
        return None
    if records[0].get("cpu_ns_per_token") is not None:
        return middle([record["cpu_ns_per_token"] for record in records]) * 1e-6
    tokens = test.decode * repetitions - 1   # the short one has made one, and the warm-up's
    if short is None or tokens < 1:
        return None
    return max(0.0, middle([record["process_cpu_seconds"] for record in records]) - short["process_cpu_seconds"]) * 1e3 / tokens


def compare(contenders, test, model, threads, options):
    """One row of the table, and everything that it comes from."""
    runs = {contender.name: [] for contender in contenders}
    for _ in range(options.rounds):
        for contender in contenders:
            runs[contender.name].append(contender.measure(test, model, threads, options.repetitions))
    own, peers = runs["mote"], {name: runs[name] for name in runs if name != "mote"}
    best = max(peers, key=lambda name: middle([speed(record) for record in peers[name]]))
    short = None
    if not test.prompt and not test.depth and test.decode > 1:
        short = next(c for c in contenders if c.name == best).measure(test, model, threads, 1, decode=1)
    ratios = [speed(a) / speed(b) for a, b in zip(own, runs[best])]
    share = [record.get("compute_share" if test.prompt else "bandwidth_share") for record in own]
    return {
        "model": os.path.basename(model), "test": test.name, "threads": threads,
        "mote_ts": middle([speed(record) for record in own]), "peer_ts": middle([speed(record) for record in runs[best]]),
        "peer_flash_attention": best.split()[-1], "ratio": middle(ratios), "ratio_least": min(ratios), "ratio_most": max(ratios),
        "mote_share_of_limit": middle(share) if all(value is not None for value in share) else None,
        "mote_cpu_ms_per_token": cpu_per_token(own, None, test, options.repetitions),
        "peer_cpu_ms_per_token": cpu_per_token(runs[best], short, test, options.repetitions),
        "warnings": sorted({warning for record in own for warning in record.get("warnings", [])}), "runs": runs}


def number(value, form):
    return "" if value is None else format(value, form)


def row_text(row):
    cells = [row["model"], row["test"], str(row["threads"]), number(row["mote_ts"], ".2f"), number(row["peer_ts"], ".2f"),
             row["peer_flash_attention"], number(row["ratio"], ".3f"), f"{row['ratio_least']:.3f} to {row['ratio_most']:.3f}",
             number(row["mote_share_of_limit"], ".1%"), number(row["mote_cpu_ms_per_token"], ".2f"), number(row["peer_cpu_ms_per_token"], ".2f")]
    return "| " + " | ".join(cells) + " |"


def affinity():
    if not hasattr(os, "sched_getaffinity"):
        return "not known"
    return ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))


def heading(options, contenders):
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    lines = [f"mote: {version_of(options.mote)} ({options.mote})", f"peer: {version_of(options.llama_bench)} ({options.llama_bench})"]
    example = Test(options.prompt, 0, 0) if options.prompt else Test(0, options.decode, 0)
    for contender in contenders:
        lines.append(f"{contender.name}: {shlex.join(example.flags('MODEL', options.threads[0], options.repetitions) + contender.flags)}")
    lines += [f"keys and values: {options.kv_type}", f"processors that both may run on: {affinity()} of {os.cpu_count()}; threads: "
              f"{', '.join(map(str, options.threads))}", f"rounds: {options.rounds} of {options.repetitions} repetitions",
              f"machine: {platform.machine()}, {platform.system()} {platform.release()}, load before the first run {load}"]
    return "\n".join("- " + line for line in lines)


def main():
    options = parse_arguments()
    contenders = [Contender("mote", options.mote, ["--kv-type", options.kv_type], options.kv_type)]
    for setting in SETTINGS:
        contenders.append(Contender("peer, flash attention " + setting, options.llama_bench,
                                    ["-fa", setting, "-ctk", options.kv_type, "-ctv", options.kv_type], options.kv_type))
    tests = [Test(options.prompt, 0, 0)] if options.prompt else []
    tests += [Test(0, options.decode, 0)] if options.decode else []
    tests += [Test(0, options.decode, options.depth)] if options.decode and options.depth else []
    try:
        print(heading(options, contenders) + "\n", flush=True)
    except OSError as error:
        raise Failure(f"{error.filename} cannot be run: {error.strerror}")
    print("| model | test | threads | mote t/s | peer t/s | peer's flash attention | mote / peer | rounds | mote of the limit "
          "| mote CPU ms/token | peer CPU ms/token |\n| --- | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    rows = []
    for model in options.models:
        for threads in options.threads:
            for test in tests:
                rows.append(compare(contenders, test, model, threads, options))
                print(row_text(rows[-1]), flush=True)
    for row in rows:
        for warning in row["warnings"]:
            print(f"{row['model']}, {row['test']}, {row['threads']} threads: {warning}", file=sys.stderr)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        print(f"compare_llama.sh: {failure}", file=sys.stderr)
        sys.exit(1)
