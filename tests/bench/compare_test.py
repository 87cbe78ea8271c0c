"""compare_llama.sh with two scripts in place of the programs: what it runs, in which order, and what it makes of the answers."""
import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compare_llama.sh")

# Both programs: FAKE_SPEEDS has the speeds of each setting, one for each of its runs; FAKE_CHANGES what is wrong in the
# peer's record.
FAKE = """#!{python}
import json, os, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("{name} 1.2.3")
    sys.exit(0)
is_mote = words[0] == "bench"
value = lambda flag: words[words.index(flag) + 1]
setting = "mote" if is_mote else value("-fa")
with open(os.environ["FAKE_LOG"], "a+") as log:
    log.seek(0)
    before = [line.split()[0] for line in log]
    log.write(setting + " " + " ".join(words) + chr(10))
speeds = json.loads(os.environ["FAKE_SPEEDS"])[setting]
speed = speeds[before.count(setting) % len(speeds)]
record = {{"n_prompt": int(value("-p")), "n_gen": int(value("-n")), "n_depth": int(value("-d")), "n_threads": int(value("-t")),
          "type_k": "f16", "type_v": "f16", "samples_ts": [speed, speed * 3, speed / 5]}}
if is_mote:
    record.update(compute_share=0.5, bandwidth_share=0.25, cpu_ns_per_token=2e6, warnings=["the machine is noisy"])
else:
    record.update(json.loads(os.environ.get("FAKE_CHANGES", "{{}}")))
    if "sentence" in record:
        sys.exit(record["sentence"])
    if "text" in record:
        print(record["text"])
        sys.exit(0)
print(json.dumps([record]))
"""


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in ("mote", "llama-bench"):
            path = os.path.join(self.folder, name)
            with open(path, "w") as file:
                file.write(FAKE.format(python=sys.executable, name=name))
            os.chmod(path, stat.S_IRWXU)

    def compare(self, *arguments, speeds=None, changes=None, expect=0):
        self.log = os.path.join(self.folder, "log")
        open(self.log, "w").close()
        environment = dict(os.environ, FAKE_LOG=self.log, FAKE_SPEEDS=json.dumps(speeds or {"mote": [2], "off": [1], "on": [1]}),
                           FAKE_CHANGES=json.dumps(changes or {}))
        done = subprocess.run([SCRIPT, "--mote", os.path.join(self.folder, "mote"), *arguments, os.path.join(self.folder, "llama-bench"),
                               "some/model.gguf"], env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stdout, done.stderr

    def lines_run(self):
        with open(self.log) as log:
            return log.read().splitlines()

    def table(self, text):
        lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
        return [dict(zip(lines[0], line)) for line in lines[2:]]

    def test_all_take_turns_and_the_better_setting_of_the_peer_is_the_peer(self):
        # The middle of [s, 3 s, s / 5] is s. Ratios of the rounds: 30/10, 40/16, 10/8; of the medians it would be 3.
        speeds = {"mote": [30, 40, 10], "off": [5, 6, 7], "on": [10, 16, 8]}
        out, said = self.compare("--rounds", "3", "-r", "4", "-t", "2", "-n", "0", speeds=speeds)
        self.assertEqual([line.split()[0] for line in self.lines_run()], ["mote", "off", "on"] * 3)
        (row,) = self.table(out)
        self.assertEqual({key: row[key] for key in ("model", "test", "threads", "mote t/s", "peer t/s", "peer's flash attention", "mote / peer",
                                                    "rounds", "mote of the limit")},
                         {"model": "model.gguf", "test": "pp512", "threads": "2", "mote t/s": "30.00", "peer t/s": "10.00",
                          "peer's flash attention": "on", "mote / peer": "2.500", "rounds": "1.250 to 3.000", "mote of the limit": "50.0%"})
        self.assertIn("mote 1.2.3", out)
        self.assertIn("llama-bench 1.2.3", out)
        self.assertIn("keys and values: f16", out)
        self.assertIn("-p 512 -n 0 -d 0 -t 2 -r 4 -o json -fa on -ctk f16 -ctv f16", out)
        self.assertIn("the machine is noisy", said)

    def test_every_test_and_number_of_threads_is_a_row(self):
        out, _ = self.compare("--rounds", "1", "-r", "2", "-t", "1,3", "-p", "7", "-n", "5", "-d", "40")
        self.assertEqual([(row["test"], row["threads"]) for row in self.table(out)],
                         [(test, threads) for threads in "13" for test in ("pp7", "tg5", "tg5 @ d40")])
        self.assertEqual(sum("-d 40" in line for line in self.lines_run()), 6)

    def test_cpu_time_is_that_of_a_token(self):
        raw = os.path.join(self.folder, "raw.json")
        out, _ = self.compare("--rounds", "1", "-p", "0", "-n", "5", "-t", "1", "--json", raw)
        (row,) = self.table(out)
        self.assertEqual(row["mote CPU ms/token"], "2.00")
        self.assertRegex(row["peer CPU ms/token"], r"^\d+\.\d\d$")
        self.assertEqual(sum("-n 1 " in line for line in self.lines_run()), 1)   # what the rest of the process takes
        with open(raw) as file:
            (record,) = json.load(file)
        self.assertEqual(record["ratio"], 2)
        self.assertEqual(len(record["runs"]["mote"]), 1)
        self.assertIn("-n 5", record["runs"]["peer, flash attention on"][0]["command"])

    def test_what_cannot_be_compared_is_said(self):
        for changes, sentence in (({"n_threads": 4}, "its n_threads is 4, not 1"), ({"type_k": "q8_0"}, "its type_k is q8_0, not f16"),
                                  ({"text": "no model"}, "wrote no JSON but 'no model"), ({"text": "[]"}, "wrote 0 of records, not one"),
                                  ({"sentence": "failed to load"}, "ended with 1: failed to load")):
            with self.subTest(sentence):
                _, said = self.compare("--rounds", "1", "-t", "1", changes=changes, expect=1)
                self.assertIn(sentence, said)
                self.assertNotIn("Traceback", said)
        os.unlink(os.path.join(self.folder, "llama-bench"))
        self.assertIn("cannot be run", self.compare("-t", "1", expect=1)[1])

    def test_wrong_usage(self):
        for arguments in (("-t", "0"), ("-t", "one"), ("-p", "0", "-n", "0"), ("--rounds", "0"), ("--kv-type", "q8_0")):
            with self.subTest(arguments):
                self.compare(*arguments, expect=2)
                self.assertEqual(self.lines_run(), [])


if __name__ == "__main__":
    unittest.main()
