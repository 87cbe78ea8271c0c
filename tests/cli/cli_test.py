"""The command line's contract with scripts: exit codes, streams, JSON. Run with the name of a class."""
import json
import os
import re
import subprocess

from program import BARE, BERT, MODEL, PROGRAM, SANITIZED, SHORT, T5, Case, main, mote, read_npy, strict_json
from attention_test import Attention, AttentionPage  # noqa: F401
from bench_test import Bench  # noqa: F401
from chat_test import Chat  # noqa: F401 (found by their names)
from encoder_test import Embed  # noqa: F401
from hostile_test import Hostile, Numbers  # noqa: F401
from results_test import Answers, Logits, OutputFiles, Perplexity, Tokens  # noqa: F401
from signals_test import Signals  # noqa: F401
from editor_test import Commands, Editor  # noqa: F401
from terminal_test import Terminal  # noqa: F401


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
            (2, ["run", "-m", MODEL, *SHORT, "--keep", "1"]), (2, ["run", "-m", MODEL, "--keep", "0"]),
            (2, ["run", "-m", MODEL, *SHORT, "--keep", "1", "--on-full", "stop"]),
            (0, ["run", "-m", MODEL, *SHORT, "--keep", "1", "--on-full", "slide"]),
            (2, ["detokenize", "-m", MODEL]), (2, ["detokenize", "-m", MODEL, "x"]),
            (2, ["detokenize", "-m", MODEL, "--", "-1"]), (2, ["detokenize", "-m", MODEL, "384"]),
            (2, ["detokenize", "-m", MODEL, "99999999999"]), (2, ["logits", "-m", MODEL, "--tokens", "1"]),
            (2, ["logits", "-m", MODEL, "--tokens", ",", "-o", "x.npy"]),
            (2, ["logits", "-m", MODEL, "--tokens", "1,384", "-o", self.folder + "/x.npy"]),
            (2, ["bench", "-m", MODEL, "-p", "0", "-n", "0"]), (2, ["bench", "-m", MODEL, "-o", "xml"]),
            (2, ["bench", "-m", MODEL, "-r", "0"]),
            (2, ["run", "-m", MODEL, *SHORT, "-t", "2", "--decode-threads", "3"]), (2, ["run", "-m", MODEL, *SHORT, "--decode-threads", "0"]),
            (0, ["run", "-m", MODEL, *SHORT, "-t", "2", "--decode-threads", "1"]), (0, ["run", "-m", MODEL, *SHORT, "--prefault"]),
            (2, ["embed", "-m", BERT]), (2, ["embed", "-m", BERT, "--tokens", "1", "a text"]),
            (2, ["embed", "-m", BERT, "--tokens", ""]), (2, ["embed", "-m", BERT, "--tokens", "1,x"]),
            (2, ["embed", "-m", BERT, "--tokens", "1,320"]), (2, ["embed", "-m", BERT, "--tokens", "1", "--pool", "max"]),
            (2, ["embed", "-m", BERT, "--tokens", ",".join(["1"] * 81)]),   # 80 positions are learned
            (1, ["embed", "-m", BERT, "--tokens", "1,2,3", "-c", "2"]),
            (2, ["logits", "-m", T5, "--tokens", "1", "-o", self.folder + "/x.npy"]),
            (2, ["logits", "-m", MODEL, "--tokens", "1", "--decoder-tokens", "1", "-o", self.folder + "/x.npy"]),
            # model missing or refused
            (3, ["embed", "-m", MODEL, "--tokens", "1"]), (3, ["embed", "-m", T5, "--tokens", "1"]),   # it does not pool
            (3, ["run", "-m", BERT, *SHORT]), (3, ["bench", "-m", BERT, "-p", "4", "-n", "0"]),
            (3, ["logits", "-m", BERT, "--tokens", "1", "-o", self.folder + "/x.npy"]),
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
        for command in ("run", "info", "tokenize", "detokenize", "logits", "embed", "attention", "perplexity",
                        "bench"):
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

    def test_values_may_look_like_an_option_with_an_empty_value(self):
        run = ("run", "-m", MODEL, "--raw", "-n", "1", "--temp", "0", "--show-prompt")
        for option in ("-p", "--prompt"):
            for prompt in ("--stop=", "--prompt=", "--="):
                self.assertEqual(mote(*run, option, prompt)[1].decode(), prompt + "\n")
        text = self.write("--file=", b"words")
        self.assertEqual(mote(*run, "-f", "--file=", cwd=self.folder)[1], b"words\n", text)
        mote(*run, "-p", "x", "--stop=", expect=2)   # where an option can stand, it is one, with nothing in it
        self.assertIn(b"'--ids='", mote("detokenize", "-m", MODEL, "--", "--ids=", expect=2)[1])

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
            environment = {**BARE, **locale}
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
        for command in (["tokenize"], ["run", "--chat-format", "chatml"], ["run", "--raw", "-f", "-"],
                        ["perplexity", "-f", "-", "-c", "16"]):   # nothing to read is not the same as nothing in it
            notes = mote(command[0], "-m", MODEL, *command[1:], stdin=None, preexec_fn=lambda: os.close(0), expect=1)[1]
            self.assertIn(b"standard input cannot be read", notes)
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

    def test_long_work_shows_no_progress_without_a_terminal(self):
        text = self.write("text", b"word " * 1000)
        for command in (["logits", "--tokens", ",".join(["1"] * 500), "-o", "/dev/null"], ["bench", "-p", "4", "-n", "0"],
                        ["perplexity", "-f", text, "-c", "16"], ["run", "--raw", "-f", text, "-c", "8000", "-n", "1", "--temp", "0"]):
            notes = mote(command[0], "-m", MODEL, *command[1:])[1]
            notes = re.sub(rb"warning: [^\n]*\n", b"", notes)   # bench's, of a machine that is not its own
            self.assertNotRegex(notes, rb"%|\r|\x1b")

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
                 if k not in ("total_bytes", "file_bytes", "device_bytes", "stack_bytes", "library_bytes",
                               "fallback_bytes")]
        self.assertEqual(sum(kinds), info["memory"]["model"]["total_bytes"])
        self.assertTrue(all(step["backend"] for step in info["steps"]))
        self.assertIn("linear", info["support"])
        longer = strict_json(mote("info", "-m", MODEL, "--json", "-c", "2048")[0])
        self.assertEqual([s["context"] for s in longer["memory"]["sessions"]], [2048])

    def test_messages(self):
        bad = [b"", b"{", b"[]", b"{}", b'"text"', b'[{"role": "user"}]', b'[{"role": 1, "content": "x"}]', b"[1]",
               b'[{"role": "user", "content": null}]', b'[{"role": "user\\u0000x", "content": "x"}]']
        for text in bad:
            path = self.write("messages.json", text)
            mote("run", "-m", MODEL, "--chat-format", "chatml", "--messages", path, expect=2)
        path = self.write("messages.json", b'{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]}')
        _, notes = mote("run", "-m", MODEL, "--chat-format", "chatml", "--messages", path, "-n", "0", "--show-prompt",
                        "--temp", "0")
        self.assertIn(b"system\nS", notes)
        self.assertIn(b"user\nU", notes)


if __name__ == "__main__":
    main("__main__")
