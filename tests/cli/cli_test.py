"""The command line's contract: exit codes, streams, JSON, files, interrupts. Run with the name of a class."""
import csv
import io
import json
import math
import os
import re
import resource
import stat
import struct
import subprocess
import threading
import unittest

from program import MODEL, PROGRAM, SANITIZED, SHORT, Case, main, mote, read_npy, strict_json
from terminal_test import Terminal  # noqa: F401 (found by its name)


class Arguments(Case):
    def test_exit_codes(self):
        text = self.write("text", b"some words and some more words. " * 20)
        html = self.write("page.gguf", b"<!DOCTYPE html><html></html>")
        empty = self.write("empty.gguf", b"")
        with open(MODEL, "rb") as file:
            cut = self.write("cut.gguf", file.read()[:-1])
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        table = [
            # done
            (0, ["--version"]), (0, ["--help"]), (0, ["run", "--help"]), (0, ["run", "-m", MODEL, *SHORT]),
            (0, ["info", "-m", MODEL]), (0, ["tokenize", "-m", MODEL]), (0, ["detokenize", "-m", MODEL, "1", "2,3"]),
            (0, ["perplexity", "-m", MODEL, "-f", text, "-c", "16", "--chunks", "2"]),
            (0, ["run", "-m", MODEL, "--chat-format", "chatml"]),   # a chat whose input has ended
            # failed at run time
            (1, ["perplexity", "-m", MODEL, "-f", text, "-c", "100000"]),
            (1, ["perplexity", "-m", MODEL, "-f", self.folder + "/none", "-c", "16"]),
            (1, ["logits", "-m", MODEL, "--tokens", "1", "-o", self.folder + "/no/such/folder.npy"]),
            (1, ["run", "-m", MODEL, "--raw", "-f", self.folder + "/none"]),
            (1, ["run", "-m", MODEL, "-c", "4", "--raw", "-p", "a text that is longer than four tokens"]),
            # wrong usage
            (2, []), (2, ["run"]), (2, ["walk"]), (2, ["run", "-m", MODEL, "--wrong"]), (2, ["info", "--version"]),
            (2, ["run", "-m", MODEL, "-n"]), (2, ["run", "-m", MODEL, *SHORT, "-n", "-1"]),
            (2, ["run", "-m", MODEL, *SHORT, "-n", "12x"]), (2, ["run", "-m", MODEL, *SHORT, "--temp", "nan"]),
            (2, ["run", "-m", MODEL, *SHORT, "--temp", "-1"]), (2, ["run", "-m", MODEL, *SHORT, "--temp", "0,5"]),
            (2, ["run", "-m", MODEL, *SHORT, "--top-p", "1.5"]), (2, ["run", "-m", MODEL, *SHORT, "-t", "0"]),
            (2, ["run", "-m", MODEL, *SHORT, "-t", "-1"]), (2, ["run", "-m", MODEL, *SHORT, "-t", "100000"]),
            (2, ["run", "-m", MODEL, *SHORT, "-c", "99999999999999999999"]), (2, ["run", "-m", MODEL, *SHORT, "--stop", ""]),
            (2, ["run", "-m", MODEL, *SHORT, "--backend", "none"]), (2, ["run", "-m", MODEL, *SHORT, "--kv-type", "q4"]),
            (2, ["run", "-m", MODEL, *SHORT, "--on-full", "spill"]), (2, ["run", "-m", MODEL, *SHORT, "--logit-bias", "x"]),
            (2, ["run", "-m", MODEL, *SHORT, "--logit-bias", "1:nan"]), (2, ["run", "-m", MODEL, *SHORT, "-f", text]),
            (2, ["run", "-m", MODEL, *SHORT, "--logit-bias", "384:1"]), (2, ["run", "-m", MODEL, *SHORT, "--seed", "-1"]),
            (2, ["run", "-m", MODEL, "--raw"]), (2, ["run", "-m", MODEL, "--json"]),
            (2, ["run", "-m", MODEL, *SHORT, "--system", "x"]), (2, ["run", "-m", MODEL, *SHORT, "--think", "on"]),
            (2, ["run", "-m", MODEL, "-p", "x", "--chat-format", "none"]),
            (2, ["detokenize", "-m", MODEL]), (2, ["detokenize", "-m", MODEL, "x"]),
            (2, ["detokenize", "-m", MODEL, "--", "-1"]), (2, ["detokenize", "-m", MODEL, "384"]),
            (2, ["detokenize", "-m", MODEL, "99999999999"]), (2, ["logits", "-m", MODEL, "--tokens", "1"]),
            (2, ["logits", "-m", MODEL, "--tokens", ",", "-o", "x.npy"]),
            (2, ["logits", "-m", MODEL, "--tokens", "1,384", "-o", self.folder + "/x.npy"]),
            (2, ["bench", "-m", MODEL, "-p", "0", "-n", "0"]), (2, ["bench", "-m", MODEL, "-o", "xml"]),
            (2, ["bench", "-m", MODEL, "-r", "0"]),
            # model missing or refused
            (3, ["run", "-m", self.folder + "/none", *SHORT]), (3, ["run", "-m", self.folder, *SHORT]),
            (3, ["run", "-m", "", *SHORT]), (3, ["run", "-m", fifo, *SHORT]), (3, ["run", "-m", "/dev/zero", *SHORT]),
            (3, ["info", "-m", html]), (3, ["info", "-m", empty]), (3, ["info", "-m", cut]), (3, ["tokenize", "-m", html]),
            (3, ["bench", "-m", cut]), (3, ["run", "-m", MODEL, "-p", "this model has no chat format"]),
        ]
        for code, arguments in table:
            with self.subTest(arguments=arguments):
                out, notes = mote(*arguments, expect=code)
                if code != 0:
                    self.assertTrue(out == b"" or "--json" in arguments, out)
                    self.assertNotEqual(notes.strip(), b"")   # one sentence that says why
                    self.assertNotIn(b"terminate called", notes)
                elif arguments[0] not in ("tokenize", "run"):
                    self.assertNotEqual(out, b"")

    def test_every_command_has_help(self):
        for command in ("run", "info", "tokenize", "detokenize", "logits", "perplexity", "bench"):
            out, notes = mote(command, "--help")
            self.assertIn(b"--model", out)
            self.assertEqual(notes, b"")

    def test_every_class_is_run(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "CMakeLists.txt"), encoding="utf-8") as file:
            listed = re.search(r"foreach\(case ([^)]*)\)", file.read()).group(1).split()
        classes = [name for name, value in globals().items() if isinstance(value, type) and issubclass(value, Case)]
        self.assertEqual(sorted(listed), sorted(set(classes) - {"Case"}))

    def test_values_may_begin_with_a_dash_or_a_bracket(self):
        for prompt in ("-5 + 3", "--help", "[a,b]", "a;b", "%%"):
            _, notes = mote("run", "-m", MODEL, "--raw", "--show-prompt", "-n", "1", "--temp", "0", f"--prompt={prompt}")
            self.assertEqual(notes.decode(), prompt + "\n")
        out, _ = mote("run", "-m", MODEL, *SHORT, "--json", "--stop", "[x]", "--stop", "y")
        strict_json(out)

    def test_a_context_beyond_the_trained_one_is_a_warning(self):
        _, notes = mote("run", "-m", MODEL, *SHORT, "-c", "1000")
        self.assertIn(b"more than the 512 positions", notes)
        _, notes = mote("run", "-m", MODEL, *SHORT, "-c", "512")
        self.assertEqual(notes, b"")


class Streams(Case):
    def test_standard_input_is_read_only_when_asked_for(self):
        reader, writer = os.pipe()   # never written to, never closed
        self.addCleanup(os.close, writer)
        self.addCleanup(os.close, reader)
        done = subprocess.run([PROGRAM, "run", "-m", MODEL, *SHORT], stdin=reader, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0)

    def test_bytes_pass_in_any_locale(self):
        expected = None
        texts = [b"plain", b"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", b"a\r\nb\r\n", b"nul \x00 inside", b"\xff\xfe\xc0\xaf broken",
                 b"", b"\n"]
        for locale in ({"LANG": "C"}, {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "de_DE.UTF-8"}, {}):
            environment = {"PATH": os.environ["PATH"], **locale}
            outs = [mote("tokenize", "-m", MODEL, stdin=text, env=environment)[0] for text in texts]
            outs.append(mote("run", "-m", MODEL, "--raw", "-p", "x", "-n", "8", "--temp", "0.5", "--seed", "3", env=environment)[0])
            expected = expected or outs
            self.assertEqual(outs, expected)

    def test_text_survives_the_way_to_ids_and_back(self):
        for text in (b"The quick brown fox.\n", b"a\r\n\tb\x00c", "naïve 東京 😀".encode()):
            ids = mote("tokenize", "-m", MODEL, stdin=text)[0].split()
            self.assertEqual(mote("detokenize", "-m", MODEL, *[i.decode() for i in ids])[0], text)

    def test_large_input(self):
        out, _ = mote("tokenize", "-m", MODEL, stdin=b"many words in a row, " * (20_000 if SANITIZED else 200_000))
        self.assertGreater(len(out.split()), 100_000)

    def test_closed_and_full_outputs(self):
        with open("/dev/full", "wb") as full:
            notes = mote("run", "-m", MODEL, *SHORT, stdout=full, expect=1)[1]
            self.assertIn(b"standard output cannot be written", notes)
            for command in (["info", "-m", MODEL], ["bench", "-m", MODEL, "-p", "2", "-n", "0", "-o", "json"], ["--help"]):
                mote(*command, stdout=full, expect=1)
        notes = mote("run", "-m", MODEL, *SHORT, stdout=None, preexec_fn=lambda: os.close(1), expect=1)[1]
        self.assertIn(b"standard output cannot be written", notes)

    def test_a_reader_that_leaves_ends_the_program_quietly(self):
        command = [PROGRAM, "run", "-m", MODEL, "--raw", "-p", "x", "-n", "100000000", "--on-full", "slide", "--seed", "1"]
        for ignored in (False, True):   # whether the parent ignored SIGPIPE changes nothing
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       restore_signals=not ignored)
            process.stdout.read(20)
            process.stdout.close()
            notes = process.stderr.read()
            self.assertEqual((process.wait(60), notes), (1, b""))
            process.stderr.close()

    def test_closed_standard_input_and_error(self):
        mote("run", "-m", MODEL, *SHORT, stdin=None, preexec_fn=lambda: os.close(0))
        mote("run", "-m", MODEL, "--chat-format", "chatml", stdin=None, preexec_fn=lambda: os.close(0))   # an ended chat
        target = os.path.join(self.folder, "rows.npy")   # must not become descriptor 1 or 2
        mote("logits", "-m", MODEL, "--tokens", "1,2", "-o", target, "-c", "4096", stdin=None, stderr=None,
             preexec_fn=lambda: (os.close(0), os.close(1), os.close(2)))
        self.assertEqual(len(read_npy(target)), 2)

    def test_no_marks_or_progress_without_a_terminal(self):
        out, notes = mote("run", "-m", MODEL, "--chat-format", "chatml", "-n", "4", "--seed", "5",
                          stdin=b"first\n\nsecond\r\nlast without an end")
        self.assertEqual(notes, b"")
        self.assertEqual(out.count(b"\n") >= 3, True)
        self.assertNotIn(b"\x1b", out)

    def test_prompt_from_standard_input_is_unchanged(self):
        for text in (b"no end", b"with end\n", b"\xff\x00\r\n"):
            out, _ = mote("run", "-m", MODEL, "--raw", "-f", "-", "-n", "0", "--json", stdin=text)
            ids, _ = mote("tokenize", "-m", MODEL, "--json", "--add-special", stdin=text)
            self.assertEqual(strict_json(out)["prompt_ids"], strict_json(ids)["ids"])


class Json(Case):
    def test_run(self):
        out, notes = mote("run", "-m", MODEL, *SHORT, "--json")
        self.assertEqual(notes, b"")
        answer = strict_json(out)
        self.assertEqual(list(answer)[:7], ["text", "ids", "prompt_ids", "finish_reason", "seed", "timings", "memory"])
        self.assertEqual((answer["finish_reason"], answer["seed"], len(answer["ids"])), ("length", None, 8))
        for name in ("load_ms", "prompt_ms", "decode_ms", "first_token_ms"):
            self.assertGreaterEqual(answer["timings"][name], 0)
        for name in ("engine_bytes", "model_bytes", "session_bytes", "file_bytes", "anonymous_bytes"):
            self.assertGreater(answer["memory"][name], 0)

    def test_numbers_that_are_not_defined_are_null(self):
        out, _ = mote("run", "-m", MODEL, "--raw", "-p", "x", "-n", "0", "--json")
        answer = strict_json(out)
        self.assertEqual((answer["text"], answer["ids"], answer["timings"]["first_token_ms"]), ("", [], None))
        self.assertIsNone(answer["timings"]["decode_tokens_per_second"])

    def test_a_failure_is_a_record(self):
        for arguments, code in ((["run", "-m", "/none", *SHORT], 3), (["tokenize", "-m", "/none"], 3), (["info", "-m", "/"], 3),
                                (["run", "-m", MODEL, *SHORT, "-c", "1"], 1)):
            out, notes = mote(*arguments, "--json", expect=code)
            record = strict_json(out)
            self.assertEqual(record["exit_code"], code)
            self.assertIn(record["error"].encode(), notes)

    def test_odd_names_are_escaped(self):
        odd = os.path.join(os.fsencode(self.folder), b'q"uote\n\xff.gguf')
        os.symlink(MODEL, odd)
        for arguments in (["info", "--json"], ["bench", "-p", "2", "-n", "2", "-r", "1", "-o", "json"]):
            done = subprocess.run([PROGRAM, arguments[0], "-m", odd, *arguments[1:]], capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            strict_json(done.stdout)
        done = subprocess.run([PROGRAM, "info", "-m", odd + b"x", "--json"], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 3)
        strict_json(done.stdout)

    def test_info(self):
        info = strict_json(mote("info", "-m", MODEL, "--json")[0])
        self.assertEqual((info["model"]["architecture"], info["model"]["n_vocab"], info["runs"]), ("llama", 384, True))
        self.assertEqual(info["metadata"]["llama.context_length"], 512)
        self.assertEqual(info["metadata"]["tokenizer.ggml.tokens"], {"array_of": "string", "count": 384})
        self.assertEqual([s["context"] for s in info["memory"]["sessions"]], [512])
        kinds = [v for k, v in info["memory"]["model"].items()
                 if k not in ("total_bytes", "file_bytes", "device_bytes", "stack_bytes", "library_bytes")]
        self.assertEqual(sum(kinds), info["memory"]["model"]["total_bytes"])
        self.assertTrue(all(step["backend"] for step in info["steps"]))
        self.assertIn("linear", info["support"])
        longer = strict_json(mote("info", "-m", MODEL, "--json", "-c", "2048")[0])
        self.assertEqual([s["context"] for s in longer["memory"]["sessions"]], [2048])

    def test_messages(self):
        bad = [b"", b"{", b"[]", b"{}", b'"text"', b'[{"role": "user"}]', b'[{"role": 1, "content": "x"}]', b"[1]",
               b'[{"role": "user", "content": null}]']
        for text in bad:
            path = self.write("messages.json", text)
            mote("run", "-m", MODEL, "--chat-format", "chatml", "--messages", path, expect=2)
        path = self.write("messages.json", b'{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]}')
        _, notes = mote("run", "-m", MODEL, "--chat-format", "chatml", "--messages", path, "-n", "0", "--show-prompt",
                        "--temp", "0")
        self.assertIn(b"system\nS", notes)
        self.assertIn(b"user\nU", notes)


class Tokens(Case):
    def test_ids_are_the_ones_of_the_goldens(self):
        with open(MODEL.replace(".gguf", ".ref.json"), encoding="utf-8") as file:
            self.assertTrue(file.read(1))   # the model comes with its reference
        plain = strict_json(mote("tokenize", "-m", MODEL, "--json", stdin=b"hello")[0])["ids"]
        special = strict_json(mote("tokenize", "-m", MODEL, "--json", "--add-special", stdin=b"hello")[0])["ids"]
        self.assertEqual(special, [382] + plain)

    def test_control_tokens_are_recognised_only_when_asked_for(self):
        shown = mote("detokenize", "-m", MODEL, "382")[0]
        plain = strict_json(mote("tokenize", "-m", MODEL, "--json", stdin=shown)[0])["ids"]
        parsed = strict_json(mote("tokenize", "-m", MODEL, "--json", "--parse-special", stdin=shown)[0])["ids"]
        self.assertEqual(parsed, [382])
        self.assertNotIn(382, plain)
        self.assertEqual(mote("detokenize", "-m", MODEL, *map(str, plain))[0], shown)

    def test_both_spellings_of_lists(self):
        self.assertEqual(mote("detokenize", "-m", MODEL, "70,71", "72")[0], mote("detokenize", "-m", MODEL, "70", "71", "72")[0])


class Logits(Case):
    def rows(self, *arguments):
        target = os.path.join(self.folder, "rows.npy")
        mote("logits", "-m", MODEL, "-o", target, *arguments)
        return read_npy(target)

    def test_equal_to_the_reference(self):
        with open(MODEL.replace(".gguf", ".ref.json"), encoding="utf-8") as file:
            case = json.load(file)["cases"][0]
        with open(MODEL.replace(".gguf", ".ref.bin"), "rb") as file:
            data = file.read()
        logits = case["outputs"]["logits"] if "outputs" in case else case["logits"]
        count = logits["rows"] * logits["cols"]
        expected = struct.unpack_from(f"<{count}f", data, logits["offset"])
        for backend in ("reference", "cpu"):
            rows = self.rows("--tokens", ",".join(map(str, case["tokens"])), "--backend", backend)
            got = [value for row in rows for value in row]
            self.assertEqual(len(got), len(expected))
            worst = max(abs(a - b) for a, b in zip(got, expected))
            self.assertLessEqual(worst, 2e-4 * max(1, logits["absmax"]), backend)

    def test_the_same_bits_for_any_batch_and_threads(self):
        tokens = ",".join(str((i * 7919) % 384) for i in range(70))
        expected = self.rows("--tokens", tokens)
        self.assertEqual(len(expected), 70)
        for arguments in (["--batch", "1"], ["--batch", "7"], ["--batch", "64", "-t", "1"], ["-t", "3"], ["-c", "512"]):
            self.assertEqual(self.rows("--tokens", tokens, *arguments), expected, arguments)


class Perplexity(Case):
    TEXT = b"It was a bright cold day in April, and the clocks were striking thirteen. " * 8

    def test_equal_to_the_definition(self):
        path = self.write("text", self.TEXT)
        context = 32
        result = strict_json(mote("perplexity", "-m", MODEL, "-f", path, "-c", str(context), "--json")[0])
        ids = strict_json(mote("tokenize", "-m", MODEL, "--json", "--add-special", stdin=self.TEXT)[0])["ids"]
        chunks = len(ids) // context
        self.assertEqual(result["chunks"], chunks)
        values = []
        for chunk in range(chunks):
            part = [382] + ids[chunk * context + 1:(chunk + 1) * context]
            target = os.path.join(self.folder, "rows.npy")
            mote("logits", "-m", MODEL, "--tokens", ",".join(map(str, part)), "-o", target)
            rows = read_npy(target)
            for at in range(context // 2, context - 1):
                largest = max(rows[at])
                total = math.fsum(math.exp(v - largest) for v in rows[at])
                values.append(largest + math.log(total) - rows[at][part[at + 1]])
        mean = math.fsum(values) / len(values)
        spread = math.fsum(v * v for v in values) / len(values) - mean * mean
        self.assertEqual(result["tokens_scored"], len(values))
        self.assertAlmostEqual(result["perplexity"], math.exp(mean), delta=1e-6 * math.exp(mean))
        error = math.exp(mean) * math.sqrt(spread / (len(values) - 1))
        self.assertAlmostEqual(result["standard_error"], error, delta=1e-4 * error)

    def test_as_text(self):
        path = self.write("text", self.TEXT)
        out, _ = mote("perplexity", "-m", MODEL, "-f", path, "-c", "16", "--chunks", "1")
        self.assertRegex(out.decode(), r"^perplexity \d+\.\d{4} \+/- \d+\.\d{5} \(7 tokens scored in 1 chunks of 16\)\n$")
        piped, _ = mote("perplexity", "-m", MODEL, "-f", "-", "-c", "16", "--chunks", "1", stdin=self.TEXT)
        self.assertEqual(piped, out)


class Bench(Case):
    SMALL = ("bench", "-m", MODEL, "-p", "8,16", "-n", "4", "-d", "0,5", "-r", "2")
    FIELDS = ("cpu_info", "backends", "model_filename", "model_type", "model_size", "model_n_params", "n_batch", "n_threads",
              "type_k", "type_v", "n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts",
              "samples_ns", "samples_ts", "load_ms", "first_token_ms", "anonymous_bytes", "file_backed_bytes")

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
        rows = list(csv.DictReader(io.StringIO(mote(*self.SMALL, "-o", "csv")[0].decode()), strict=True))
        self.assertEqual(len(rows), 6)
        self.assertEqual(rows[0]["n_prompt"], "8")
        table = mote(*self.SMALL)[0].decode().splitlines()
        self.assertEqual(len(table), 8)
        self.assertEqual({line.count("|") for line in table}, {12})
        self.assertIn("pp16 @ d5", table[6])

    @unittest.skipIf(SANITIZED, "a limit on address space does not go with sanitizers")
    def test_a_failing_run_in_the_middle(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
        arguments = ("bench", "-m", MODEL, "-p", "4,4000000,8", "-n", "0", "-r", "1", "-t", "1")
        records = strict_json(mote(*arguments, "-o", "json", preexec_fn=limit, expect=1)[0])
        self.assertEqual([r["error"] is None for r in records], [True, False, True])
        self.assertIsNone(records[1]["avg_ts"])
        rows = list(csv.DictReader(io.StringIO(mote(*arguments, "-o", "csv", preexec_fn=limit, expect=1)[0].decode())))
        self.assertEqual(len(rows), 3)


class OutputFiles(Case):
    def logits(self, target, expect=0, tokens="1,2,3"):
        return mote("logits", "-m", MODEL, "--tokens", tokens, "-o", target, expect=expect)[0]

    def test_a_failure_leaves_what_was_there(self):
        target = self.write("rows.npy", b"before")
        self.logits(target, expect=2, tokens="1,2,384")
        with open(target, "rb") as file:
            self.assertEqual(file.read(), b"before")
        self.assertEqual(os.listdir(self.folder), ["rows.npy"])   # no temporary file is left

    def test_a_link_keeps_its_target(self):
        target = self.write("target.npy", b"before")
        os.chmod(target, 0o640)
        link = os.path.join(self.folder, "link.npy")
        os.symlink("target.npy", link)
        self.logits(link)
        self.assertTrue(os.path.islink(link))
        self.assertEqual(len(read_npy(target)), 3)
        self.assertEqual(stat.S_IMODE(os.stat(target).st_mode), 0o640)
        dangling = os.path.join(self.folder, "dangling.npy")
        os.symlink("new.npy", dangling)
        self.logits(dangling)
        self.assertTrue(os.path.islink(dangling))
        self.assertEqual(len(read_npy(os.path.join(self.folder, "new.npy"))), 3)

    def test_devices_and_pipes_are_written_directly(self):
        plain = os.path.join(self.folder, "rows.npy")
        self.logits(plain)
        with open(plain, "rb") as file:
            expected = file.read()
        for name in ("/dev/stdout", "-", "/dev/fd/1", "/proc/self/fd/1"):
            self.assertEqual(self.logits(name), expected, name)
        self.logits("/dev/null")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        self.logits("/dev/full", expect=1)
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        got = []

        def read():
            with open(fifo, "rb") as pipe:
                got.append(pipe.read())
        thread = threading.Thread(target=read)
        thread.start()
        self.logits(fifo)
        thread.join(60)
        self.assertEqual(got, [expected])
        self.assertTrue(stat.S_ISFIFO(os.stat(fifo).st_mode))

    def test_appending_to_a_redirected_output(self):
        path = self.write("log", b"before:")
        with open(path, "ab") as log:
            mote("logits", "-m", MODEL, "--tokens", "1", "-o", "/dev/stdout", stdout=log)
        with open(path, "rb") as file:
            self.assertTrue(file.read().startswith(b"before:\x93NUMPY"))

    def test_folders_are_refused(self):
        self.logits(self.folder, expect=1)


class Answers(Case):
    def answer(self, *arguments):
        return strict_json(mote("run", "-m", MODEL, "--raw", "-p", "Once upon a time", "--json", *arguments)[0])

    def test_a_seed_repeats_the_text(self):
        first = self.answer("-n", "20", "--seed", "7")
        self.assertEqual(self.answer("-n", "20", "--seed", "7", "-t", "3")["ids"], first["ids"])
        self.assertEqual(first["seed"], 7)
        self.assertNotEqual(self.answer("-n", "20", "--seed", "8")["ids"], first["ids"])

    def test_a_random_seed_is_told_and_repeats(self):
        out, notes = mote("run", "-m", MODEL, "--raw", "-p", "x", "-n", "12")
        self.assertRegex(notes.decode(), r"^seed \d+\n$")
        again, _ = mote("run", "-m", MODEL, "--raw", "-p", "x", "-n", "12", "--seed", notes.split()[1].decode())
        self.assertEqual(again, out)

    def test_greedy_takes_the_largest_logit(self):
        answer = self.answer("-n", "6", "--temp", "0", "--kv-type", "f32")
        target = os.path.join(self.folder, "rows.npy")
        ids = answer["prompt_ids"] + answer["ids"]
        mote("logits", "-m", MODEL, "--tokens", ",".join(map(str, ids)), "-o", target)
        rows = read_npy(target)
        best = [row.index(max(row)) for row in rows[len(answer["prompt_ids"]) - 1:-1]]
        self.assertEqual(answer["ids"], best)

    def test_bias_forbids_and_forces(self):
        first = self.answer("-n", "1", "--temp", "0")["ids"][0]
        self.assertNotEqual(self.answer("-n", "1", "--temp", "0", "--logit-bias", f"{first}:-inf")["ids"], [first])
        self.assertEqual(self.answer("-n", "3", "--seed", "1", "--logit-bias", "70:1000")["ids"], [70, 70, 70])

    def test_stop_texts_are_not_shown(self):
        bias = ("--temp", "0", "--logit-bias", "70:1000", "-n", "20")
        letter = self.answer(*bias)["text"][0]
        answer = self.answer(*bias, "--stop", letter * 3)
        self.assertEqual((answer["text"], answer["finish_reason"]), ("", "stop_string"))

    def test_the_end_token_ends_and_is_not_shown(self):
        answer = self.answer("--temp", "0", "--logit-bias", "383:1000")
        self.assertEqual((answer["text"], answer["ids"], answer["finish_reason"]), ("", [], "end_token"))

    def test_a_full_context_stops_or_slides(self):
        forever = ("--temp", "0", "--logit-bias", "383:-inf", "-c", "16", "-n", "40")
        full = self.answer(*forever)
        self.assertEqual(full["finish_reason"], "context_full")
        self.assertEqual(len(full["prompt_ids"]) + len(full["ids"]), 16)
        slid = self.answer(*forever, "--on-full", "slide", "--keep", "1")
        self.assertEqual((slid["finish_reason"], len(slid["ids"])), ("length", 40))

    def test_output_ends_with_one_newline(self):
        out, _ = mote("run", "-m", MODEL, *SHORT)
        self.assertEqual(out, self.text_of(SHORT) + b"\n")

    def text_of(self, arguments):
        return strict_json(mote("run", "-m", MODEL, *arguments, "--json")[0])["text"].encode()

    def test_a_chat_remembers(self):
        chat = ("run", "-m", MODEL, "--chat-format", "chatml", "-n", "5", "--temp", "0", "--kv-type", "f32")
        both, _ = mote(*chat, stdin=b"one\ntwo\n")
        first, _ = mote(*chat, "-p", "one")
        self.assertTrue(both.startswith(first))
        messages = json.dumps([{"role": "user", "content": "one"},
                                             {"role": "assistant", "content": first.decode()[:-1]},
                                             {"role": "user", "content": "two"}])
        second, _ = mote(*chat, "--messages", self.write("messages.json", messages.encode()))
        self.assertEqual(both, first + second)


if __name__ == "__main__":
    main("__main__")
