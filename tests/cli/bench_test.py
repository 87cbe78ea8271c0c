"""`mote bench`: its records, lists and profiles; never how fast anything was."""
import csv
import io
import os
import resource
import subprocess
import sys
import unittest

from program import EMULATED, MODEL, SANITIZED, Case, mote, strict_json


class Bench(Case):
    SMALL = ("bench", "-m", MODEL, "-p", "8,16", "-n", "4", "-d", "0,5", "-r", "2")
    FIELDS = ("cpu_info", "backends", "model_filename", "model_type", "model_size", "model_n_params", "n_batch", "n_threads", "n_decode_threads",
              "type_k", "type_v", "n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts",
              "samples_ns", "samples_ts", "load_ms", "first_token_ms", "anonymous_bytes", "file_backed_bytes", "cpus",
              "cpu_ns_per_token", "waited_share", "stolen_share", "bytes_per_token", "int8_operations_per_token",
              "f32_operations_per_token", "bytes_per_second", "operations_per_second", "limit_bytes_per_second",
              "limit_int8_operations_per_second", "limit_f32_operations_per_second", "read_loop", "int8_loop", "f32_loop",
              "bandwidth_share", "compute_share", "warnings", "profile")

    def test_json(self):
        records = strict_json(mote(*self.SMALL, "-o", "json")[0])
        self.assertEqual([(r["n_prompt"], r["n_gen"], r["n_depth"]) for r in records],
                         [(8, 0, 0), (16, 0, 0), (0, 4, 0), (8, 0, 5), (16, 0, 5), (0, 4, 5)])
        for record in records:
            for name in self.FIELDS:
                self.assertIn(name, record)
            self.assertEqual(len(record["samples_ns"]), 2)
            self.assertGreater(record["avg_ts"], 0)
            self.assertEqual(record["first_token_ms"] is None, record["n_prompt"] == 0)

    def test_csv_and_table(self):
        text = mote(*self.SMALL, "-o", "csv", "--backend", "reference,cpu")[0].decode()
        rows = list(csv.DictReader(io.StringIO(text), strict=True))
        self.assertEqual(len(rows), 6)
        self.assertEqual(rows[0]["n_prompt"], "8")
        self.assertEqual(rows[0]["backends"], "reference")   # which ran all of it
        table, below = mote(*self.SMALL)[0].decode().split("\n\n", 1)
        table = table.splitlines()
        self.assertEqual(len(table), 8)
        self.assertEqual({line.count("|") for line in table}, {14})
        self.assertIn("pp16 @ d5", table[6])
        self.assertRegex(table[2], r"Gop/s \| \d+\.\d % of f32 \|")
        self.assertRegex(table[4], r"GB/s \| \d+\.\d % of reading \|")
        self.assertEqual(sum(line.startswith("- ") and "GB/s (" in line for line in below.splitlines()), 6)   # the limits

    @unittest.skipIf(SANITIZED, "a limit on address space does not go with sanitizers")
    @unittest.skipIf(EMULATED, "an emulator takes more address space than the limit")
    def test_a_failing_run_in_the_middle(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
        arguments = ("bench", "-m", MODEL, "-p", "4,4000000,8", "-n", "0", "-r", "1", "-t", "1")
        records = strict_json(mote(*arguments, "-o", "json", preexec_fn=limit, expect=1)[0])
        self.assertEqual([r["error"] is None for r in records], [True, False, True])
        self.assertIsNone(records[1]["avg_ts"])
        rows = list(csv.DictReader(io.StringIO(mote(*arguments, "-o", "csv", preexec_fn=limit, expect=1)[0].decode())))
        self.assertEqual(len(rows), 3)

    def test_lists_of_threads_and_ranges(self):
        records = strict_json(mote("bench", "-m", MODEL, "-p", "2-6+2,3", "-n", "0", "-r", "1", "-t", "2", "-t", "1-4*4", "-o", "json")[0])
        self.assertEqual([(r["n_threads"], r["n_prompt"]) for r in records], [(t, p) for t in (2, 1, 4) for p in (2, 4, 6, 3)])

    def test_decode_threads(self):
        arguments = ("bench", "-m", MODEL, "-p", "4", "-n", "2", "-r", "1", "-t", "3", "--decode-threads", "2")
        records = strict_json(mote(*arguments, "-o", "json")[0])
        self.assertEqual([(r["n_threads"], r["n_decode_threads"]) for r in records], [(3, 2), (3, 2)])
        rows = mote(*arguments)[0].decode().splitlines()
        self.assertIn("| 3 | pp4 |", rows[2])
        self.assertIn("| 2 of 3 | tg2 |", rows[3])
        out, said = mote("bench", "-m", MODEL, "-p", "4", "-n", "0", "-r", "1", "-t", "1", "--decode-threads", "2", "-o", "json", expect=1)
        self.assertEqual(strict_json(out)[0]["error"], "decode_threads is 2; the engine has 1")
        self.assertIn(b"decode_threads is 2; the engine has 1", said)

    # The tiny model: layers of q, k, v, o, gate, up, down, and an output, all f32; keys and values f16.
    def test_what_a_run_is_worth(self):
        one, many, deep = strict_json(mote("bench", "-m", MODEL, "-p", "0", "-n", "1,4", "-d", "0,20", "-r", "1", "-o", "json")[0])[:3]
        prompt, = strict_json(mote("bench", "-m", MODEL, "-p", "33", "-n", "0", "-r", "2", "--no-warmup", "-o", "json")[0])
        info = strict_json(mote("info", "-m", MODEL, "--json")[0])["model"]
        kv = 2 * info["n_kv_heads"] * info["head_dim"] * info["n_layers"] * 2   # of a position
        self.assertEqual(deep["bytes_per_token"] - one["bytes_per_token"], 20 * kv)   # it reads 20 more
        self.assertEqual(many["bytes_per_token"] - one["bytes_per_token"], 1.5 * kv)   # 0, 1, 2 and 3 more
        self.assertEqual(one["int8_operations_per_token"], 0)
        layers = info["n_layers"] * info["d_model"] * (2 * info["n_heads"] * info["head_dim"] + 2 * info["n_kv_heads"] * info["head_dim"]
                                                       + 3 * info["d_ff"])
        self.assertEqual(one["f32_operations_per_token"], 2 * (layers + info["n_vocab"] * info["d_model"]))
        self.assertAlmostEqual(prompt["f32_operations_per_token"], 2 * (layers + info["n_vocab"] * info["d_model"] / 33), delta=0.01)
        for record in (one, many, deep, prompt):
            tokens, seconds = record["n_prompt"] + record["n_gen"], record["avg_ns"] * 1e-9
            self.assertAlmostEqual(record["bytes_per_second"] * seconds / tokens / record["bytes_per_token"], 1, places=3)
            for name in ("limit_bytes_per_second", "limit_int8_operations_per_second", "limit_f32_operations_per_second"):
                self.assertGreater(record[name], 1e5)
            self.assertGreater(record["cpu_ns_per_token"], 0)
            self.assertGreater(record["bandwidth_share"], 0)
            self.assertGreater(record["compute_share"], 0)

    def test_profile(self):
        arguments = ("bench", "-m", MODEL, "-p", "33", "-n", "4", "-r", "3", "--profile")
        n_linear = 7 * strict_json(mote("info", "-m", MODEL, "--json")[0])["model"]["n_layers"] + 1
        prompt, token = strict_json(mote(*arguments, "-o", "json")[0])
        for record, runs in ((prompt, 33), (token, 1)):   # one prompt, one token
            rows = {(row["op"], row["format"]): row for row in record["profile"]}
            self.assertEqual(len(rows), len(record["profile"]))
            self.assertEqual(record["profile"][-1]["op"], "(between steps)")
            self.assertLessEqual({("linear", "f32"), ("attention", ""), ("rms_norm", ""), ("embed", "f32")}, set(rows))
            self.assertEqual(rows["linear", "f32"]["steps"], n_linear)
            self.assertGreater(rows["linear", "f32"]["ns"], 0)
            self.assertGreater(rows["linear", "f32"]["share_of_limit"], 0)
            self.assertIsNone(rows["add", ""]["share_of_limit"])
            self.assertGreater(rows["add", ""]["value_bytes"], 0)
            self.assertAlmostEqual(rows["linear", "f32"]["f32_operations"], record["f32_operations_per_token"] * runs, delta=1)
            self.assertAlmostEqual(sum(row["bytes"] for row in rows.values()), record["bytes_per_token"] * runs, delta=len(rows))
        text = mote(*arguments)[0].decode()
        self.assertIn(f"| linear | f32 | {n_linear} | ", text)
        self.assertEqual(text.count("| (between steps) |"), 2)
        self.assertIn(b"--profile has no place in csv", mote(*arguments, "-o", "csv", expect=2)[1])

    @unittest.skipIf(EMULATED, "an emulator waits as itself")
    @unittest.skipUnless(os.path.exists("/proc/self/schedstat"), "this system does not say who waited")
    def test_a_shared_processor_is_noticed(self):
        cpu = {min(os.sched_getaffinity(0))}
        with subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, cpu)) as other:
            try:
                out, said = mote("bench", "-m", MODEL, "-p", "0", "-n", "16", "-r", "8", "-t", "1", "-o", "json",
                                 preexec_fn=lambda: os.sched_setaffinity(0, cpu))
            finally:
                other.kill()
        record, = strict_json(out)
        self.assertGreater(record["waited_share"], 0.02)
        self.assertEqual(record["cpus"], str(min(cpu)))
        self.assertTrue(any("others had the processors" in warning for warning in record["warnings"]), record["warnings"])
        self.assertIn(b"warning: tg16: the machine is shared: others had the processors", said)
