"""compare_kl.py with scripts in place of the programs: the ids they get, and what it makes of two logits for each token."""
import json
import math
import os
import re
import stat
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compare_kl.py")
PYTHON = os.environ.get("MOTE_PYTHON") or sys.executable   # one that has numpy

# A token is a byte of the text, 1 starts a text. FAKE_FIRST: of each of the programs, the probability of the first of two
# tokens after some ids, instead of 1/2.
FAKE = """#!{python}
import json, math, os, struct, sys
words = sys.argv[1:]
value = lambda flag: words[words.index(flag) + 1]
if words[0] == "tokenize":
    print(json.dumps({{"ids": [1] * ("--add-special" in words) + list(sys.stdin.buffer.read())}}))
    sys.exit(0)
program = value("--backend") if words[0] == "logits" else words[0]
with open(os.environ["FAKE_LOG"], "a") as log:
    log.write(" ".join([program, value("--kv-type"), value("--tokens")]) + chr(10))
first = json.loads(os.environ["FAKE_FIRST"]).get(program, {{}})
if "sentence" in first:
    sys.exit(first["sentence"])
ids = value("--tokens").split(",")[:first.get("rows")]
rows = [(math.log(first.get(id, 0.5)), math.log(1 - first.get(id, 0.5))) for id in ids]
if "nan" in first:
    rows[1] = (math.nan, 0.0)
header = ("{{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 2), }}" % len(rows)).ljust(117) + chr(10)
with open(value("-o"), "wb") as file:
    file.write(bytes([147]) + b"NUMPY" + bytes([1, 0]) + struct.pack("<H", len(header)) + header.encode())
    file.write(b"".join(struct.pack("<2f", *row) for row in rows))
"""


def divergence(p, q):
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


class CompareKl(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = lambda name: os.path.join(folder.name, name)
        with open(self.path("program"), "w") as file:
            file.write(FAKE.format(python=sys.executable))
        os.chmod(self.path("program"), stat.S_IRWXU)
        with open(self.path("text"), "wb") as file:
            file.write(bytes([5, 6, 7, 8, 9]))

    def compare(self, *arguments, first, expect=0):
        open(self.path("log"), "w").close()
        done = subprocess.run([PYTHON, "-B", SCRIPT, "some/model.gguf", self.path("text"), "--mote", self.path("program"), *arguments,
                               "--peer", "other=" + self.path("program") + " peer {model} --kv-type {kv} --tokens {ids} -o {out}"],
                              env=dict(os.environ, FAKE_LOG=self.path("log"), FAKE_FIRST=json.dumps(first)), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        lines = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()]
        return [dict(zip(lines[0], line)) for line in lines[2:]], done.stderr

    def test_means_worst_positions_and_ratios_of_the_same_positions(self):
        first = {"reference": {"6": 0.6}, "cpu": {"5": 0.75, "6": 0.6}, "peer": {"5": 0.9, "6": 0.4}}
        (own, peer), _ = self.compare("-c", "3", "--contexts", "2", first=first)
        with open(self.path("log")) as log:   # each context begins as a text does
            self.assertEqual(log.read().splitlines(), ["reference f32 1,5,6", "cpu f16 1,5,6", "peer f16 1,5,6",
                                                       "reference f32 1,7,8", "cpu f16 1,7,8", "peer f16 1,7,8"])
        mote, other, worst = divergence(0.5, 0.75) / 6, (divergence(0.5, 0.9) + divergence(0.6, 0.4)) / 6, divergence(0.5, 0.9)
        self.assertEqual([own[key] for key in ("logits of", "positions", "mean", "worst", "at", "same first")],
                         ["mote", "6", f"{mote:.3e}", f"{mote * 6:.3e}", "1", "100.00%"])
        self.assertEqual([peer[key] for key in ("logits of", "mean", "worst", "at", "same first")], ["other", f"{other:.3e}", f"{worst:.3e}", "1", "83.33%"])
        self.assertEqual(float(re.match(r"\S+", peer["mote / this"]).group()), round(mote / other, 3))

    def test_the_error_of_a_ratio_is_that_of_pairs(self):
        # Where one is always twice the other, nothing is left to chance, however different the positions are.
        near, far = {"5": 0.75, "7": 0.6}, {"5": 0.75, "7": 0.6}
        (_, peer), _ = self.compare("-c", "5", first={"cpu": near, "peer": far})
        self.assertEqual(peer["mote / this"], "1.000 +- 0.000")
        (_, peer), _ = self.compare("-c", "5", first={"cpu": near, "peer": {"6": 0.75, "7": 0.6}})
        self.assertNotIn("0.000", peer["mote / this"])

    def test_each_kind_of_keys_and_values_has_its_pair(self):
        rows, _ = self.compare("-c", "3", "--kv-type", "f16,f32", first={"cpu": {"5": 0.75}, "peer": {"5": 0.75}})
        self.assertEqual([(row["logits of"], row["KV"]) for row in rows], [(name, kv) for kv in ("f16", "f32") for name in ("mote", "other")])

    def test_what_cannot_be_compared_is_said(self):
        for first, sentence in (({"peer": {"rows": 2}}, "wrote logits of shape (2, 2) for 3 tokens"), ({"peer": {"nan": 1}}, "not finite"),
                                ({"reference": {"nan": 1}}, "not finite"), ({"peer": {"sentence": "no model"}}, "ended with 1: no model")):
            with self.subTest(sentence):
                self.assertIn(sentence, self.compare("-c", "3", first=first, expect=1)[1])
        self.assertIn("has 5 tokens, and 3 contexts want 6", self.compare("-c", "3", "--contexts", "3", first={}, expect=1)[1])
        for wrong in (("-c", "1"), ("--contexts", "0"), ("--kv-type", "q8_0"), ("--peer", "nothing")):
            with self.subTest(wrong):
                self.compare(*wrong, first={}, expect=2)


if __name__ == "__main__":
    unittest.main()
