"""Numbers, names and bytes that nobody would type by mistake."""
import math
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import unittest

from program import BARE, MODEL, PROGRAM, SANITIZED, SHORT, Case, changed_gguf, mote, read_npy, string_value, strict_json

# What would steer a terminal, a character of each kind.
FOUL = "name\x1b[2Jwith\x07\x7f\x9b31m\u202eevil\u2066\u200f\ufeff\u2028\u061c\ufffa\U000e0041"
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")


class Numbers(Case):
    def test_numbers_are_decimal(self):
        self.assertEqual(len(strict_json(mote("run", "-m", MODEL, *SHORT[:-1], "010", "--json")[0])["ids"]), 10)
        records = strict_json(mote("bench", "-m", MODEL, "-p", "010,09", "-n", "0", "-r", "01", "-b", "0512", "-o", "json")[0])
        self.assertEqual([r["n_prompt"] for r in records], [10, 9])
        answer = strict_json(mote("run", "-m", MODEL, "--raw", "-p", "x", "-n", "2", "--temp", "01", "--seed", "010", "--json")[0])
        self.assertEqual(answer["seed"], 10)
        info = strict_json(mote("info", "-m", MODEL, "-c", "0100", "--json")[0])
        self.assertEqual([s["context"] for s in info["memory"]["sessions"]], [100])
        target = os.path.join(self.folder, "rows.npy")
        mote("logits", "-m", MODEL, "--tokens", "010, 011,12", "-o", target)
        rows = read_npy(target)
        mote("logits", "-m", MODEL, "--tokens", "10,11,12", "-o", target)
        self.assertEqual(read_npy(target), rows)

    def test_other_spellings_are_refused(self):
        run = ["run", "-m", MODEL, "--raw", "-p", "x"]
        whole = [[*run, "-n"], [*run, "-t"], [*run, "-c"], [*run, "--top-k"], [*run, "--keep"], [*run, "--seed"],
                 ["logits", "-m", MODEL, "-o", "/dev/null", "--tokens", "1", "--batch"],
                 ["perplexity", "-m", MODEL, "-f", MODEL, "--chunks"], ["bench", "-m", MODEL, "-r"],
                 ["bench", "-m", MODEL, "-b"], ["bench", "-m", MODEL, "-p"], ["bench", "-m", MODEL, "-n"],
                 ["bench", "-m", MODEL, "-d"], ["logits", "-m", MODEL, "-o", "/dev/null", "--tokens"]]
        every = 3 if SANITIZED else 1   # a sanitized program takes its time to start
        for at, option in enumerate(whole):
            for value in ("0x10", "+4", "1.5", "1e2", "4 x", "0b1", "'4")[at % every::every]:
                with self.subTest(option=option, value=value):
                    mote(*option, value, expect=2)
        for at, option in enumerate(("--temp", "--top-p", "--min-p", "--typical", "--repeat-penalty", "--presence-penalty",
                                     "--frequency-penalty")):
            for value in ("0x1", "nan", "inf", "1,0", "+1", "", "1 ")[at % every::every]:
                with self.subTest(option=option, value=value):
                    mote(*run, option, value, expect=2)
        for temperature in ("0", "1"):   # also where the choice makes no use of it
            self.assertRegex(mote(*run, "--temp", temperature, "--typical", "0", expect=2)[1], rb"--typical.*above 0, up to 1")
        mote(*run, "-n", "1", "--temp", "1", "--typical", "0.001", "--seed", "1")
        for value in ("0x1:1", "1:0x1", "1:", ":1", "+1:1"):
            mote(*run, "--logit-bias", value, expect=2)

    def test_ranges_that_mean_nothing(self):
        for value in ("4-1", "1-", "-4", "1-4+0", "1-4*1", "0-4*2", "1-4*", "1-2-3", "4+1", "4*2", "0-2000", "1-4+99999999999999999999",
                      "1-16777217", "0-16777216"):
            self.assertIn(b"not a list of whole numbers", mote("bench", "-m", MODEL, "-p", value, expect=2)[1])
        for value in ("0", "257", "1-300"):
            mote("bench", "-m", MODEL, "-t", value, expect=2)

    def test_lists_have_no_empty_places(self):
        for value in ("8,,4", ",8", "8,", ",", ""):
            for option in ("-p", "-n", "-d"):
                mote("bench", "-m", MODEL, option, value, expect=2)
            mote("logits", "-m", MODEL, "--tokens", value, "-o", "/dev/null", expect=2)
        for value in ("8,,4", ",8", "8,", ","):
            mote("detokenize", "-m", MODEL, value, expect=2)
        self.assertEqual(mote("detokenize", "-m", MODEL, "")[0], b"")   # what tokenize says of an empty text
        self.assertEqual(mote("detokenize", "-m", MODEL, " 70, 71\n72 ")[0], mote("detokenize", "-m", MODEL, "70,71,72")[0])

    def test_the_decimal_point_is_the_same_everywhere(self):
        environment, comma = {**BARE, "LC_ALL": "de_DE.UTF-8"}, False
        for folder in ("", self.folder):
            if folder:   # the machine has no such locale: made, where its sources are there
                subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", os.path.join(folder, "de_DE.UTF-8")],
                               capture_output=True, check=False)
                environment["LOCPATH"] = folder
            ask = "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.localeconv()['decimal_point'])"
            comma = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, check=False).stdout == b",\n"
            if comma:
                break
        if not comma:
            self.skipTest("a locale with a decimal comma can neither be found nor made (the package locales)")
        arguments = ("run", "-m", MODEL, "--raw", "-p", "x", "-n", "8", "--temp", "0.7", "--seed", "3", "--top-p", "0.5", "--json", "--verbose")
        plain, notes = mote(*arguments)
        foreign, foreign_notes = mote(*arguments, env=environment)
        self.assertEqual(strict_json(foreign)["ids"], strict_json(plain)["ids"])
        self.assertRegex(foreign_notes, rb"loaded in \d+\.\d ms")
        mote("run", "-m", MODEL, "--raw", "-p", "x", "--temp", "0,7", env=environment, expect=2)
        table = mote("bench", "-m", MODEL, "-p", "2", "-n", "0", "-r", "1", env=environment)[0]
        self.assertNotRegex(table, rb"\d,\d")
        text = self.write("text", b"some words and some more words. " * 20)
        for more in ([], ["--json"]):
            arguments = ("perplexity", "-m", MODEL, "-f", text, "-c", "16", *more)
            self.assertEqual(mote(*arguments, env=environment), mote(*arguments))

    def test_empty_values(self):
        chat = ("run", "-m", MODEL, "--chat-format", "chatml", "-n", "1", "--temp", "0")
        for option in ("--file", "--messages"):
            self.assertIn(option.encode() + b": the path is empty", mote(*chat, option, "", expect=2)[1])
        self.assertIn(b"--file", mote("perplexity", "-m", MODEL, "-f", "", expect=2)[1])
        for option in ("--backend", "--kv-type", "--chat-format", "--think", "--on-full", "--instruction-set"):
            self.assertIn(option.encode(), mote("run", "-m", MODEL, "-p", "x", option, "", expect=2)[1])
        mote("run", "-m", MODEL, *SHORT, "--backend", " , ", expect=2)
        for prompt in (["-p", ""], ["--prompt="]):   # an empty question, not a chat
            out, _ = mote(*chat, *prompt, "--json", stdin=b"not a question\n")
            empty = self.write("empty", b"")
            self.assertEqual(strict_json(out)["prompt_ids"], strict_json(mote(*chat, "-f", empty, "--json")[0])["prompt_ids"])

    def test_the_instruction_set_is_chosen(self):
        environment = dict(os.environ, MOTE_CPU_ISA="baseline")
        bench = ("bench", "-m", MODEL, "-p", "2", "-n", "0", "-r", "1", "-o", "json")
        for arguments, env, expected in ((bench, None, "auto"), ((*bench, "--instruction-set", "baseline"), None, "baseline"),
                                         (bench, environment, "baseline"),
                                         ((*bench, "--instruction-set", "auto"), environment, "auto")):
            self.assertEqual(strict_json(mote(*arguments, env=env)[0])[0]["instruction_set"], expected)
        self.assertIn(b"mote: instruction_set is sse9", mote(*bench, env=dict(os.environ, MOTE_CPU_ISA="sse9"), expect=2)[1])
        mote(*bench, "--instruction-set", "auto", env=dict(os.environ, MOTE_CPU_ISA="sse9"))
        # It is the library that refuses a wrong name, which shows that the name reaches it.
        self.assertIn(b"mote: instruction_set is sse9", mote(*bench, "--instruction-set", "sse9", expect=2)[1])
        texts = {mote("run", "-m", MODEL, *SHORT, "--instruction-set", name)[0] for name in ("auto", "baseline")}
        self.assertEqual(len(texts), 1)


class Hostile(Case):
    def model(self, **changes):
        with open(MODEL, "rb") as file:
            return self.write("model.gguf", changed_gguf(file.read(), **changes))

    def test_info_names_the_reason_even_without_a_tokenizer(self):
        path = self.model(drop=b"tokenizer.", put={b"general.architecture": string_value(b"walrus")})
        info = strict_json(mote("info", "-m", path, "--json")[0])
        self.assertIn("walrus", info["refusal"])
        self.assertEqual((info["runs"], len(info["tensors"])), (False, info["model"]["n_tensors"]))
        self.assertNotIn(b"tokenizer", mote("run", "-m", path, "-p", "x", expect=3)[1])

    def test_text_out_of_a_file_does_not_steer_the_terminal(self):
        foul = FOUL.encode()
        for architecture in (b"llama", b"llama" + foul):
            path = self.model(put={b"general.architecture": string_value(architecture),
                                   b"general.name": string_value(foul + b"\n" + foul * 10 + b"\xff\xc2"),
                                   b"foul." + foul: string_value(b"x")})
            for arguments in (["info"], ["info", "--verbose"], ["info", "--json"]):
                out, notes = mote(arguments[0], "-m", path, *arguments[1:])
                self.assertIsNone(HARMFUL.search(out.decode()), out)
                self.assertIsNone(HARMFUL.search(notes.decode()), notes)
                if "--json" in arguments:
                    self.assertEqual(strict_json(out)["metadata"]["foul." + FOUL], "x")
                else:
                    self.assertIn(rb"\u{1b}[2Jwith\u{7}\u{7f}\u{9b}31m\u{202e}evil\u{2066}\u{200f}\u{feff}\u{2028}\u{61c}\u{fffa}\u{e0041}", out)
            if architecture != b"llama":
                for arguments in (["run", *SHORT], ["bench"], ["run", *SHORT, "--json"]):
                    out, notes = mote(arguments[0], "-m", path, *arguments[1:], expect=3)
                    self.assertIsNone(HARMFUL.search((out + notes).decode()), notes)

    def test_names_that_are_not_utf_8_stay_apart(self):
        names = {b"a\xff": r"a\xff", b"a\xfe": r"a\xfe", rb"a\xff": r"a\\xff", b"a\xc3\xbf": "a\xff", b"b\xef\xbf\xbd": "b\ufffd",
                 b"b\xe2\x82": r"b\xe2\x82", b"b\xff": r"b\xff", b"c\xe0\x82\x9b": r"c\xe0\x82\x9b"}   # the last one overlong
        path = self.model(put={name: string_value(b"%d" % i) for i, name in enumerate(names)})
        metadata = strict_json(mote("info", "-m", path, "--json")[0])["metadata"]
        self.assertEqual([metadata[shown] for shown in names.values()], [str(i) for i in range(len(names))])
        self.assertIn(b"\n  a\\xff ", mote("info", "-m", path)[0])

    def test_the_architecture_is_told_in_full(self):
        for name in (b"llama\0x", b"x" * 62 + "\u20ac".encode() + b"y" * 40):
            path = self.model(put={b"general.architecture": string_value(name)})
            info = strict_json(mote("info", "-m", path, "--json")[0])
            self.assertEqual((info["runs"], info["model"]["architecture"]), (False, name.decode()))
            shown = "x" * 62 + "\u20ac" + "y" * 7 + "... (105 bytes)" if len(name) > 72 else r"llama\u{0}x"
            self.assertRegex(mote("info", "-m", path)[0].decode(), r"\n  architecture +" + re.escape(shown) + r"\n")

    def test_info_lists_the_tensors_of_any_model(self):
        for architecture in (b"llama", b"walrus"):
            path = self.model(put={b"general.architecture": string_value(architecture)})
            tensors = strict_json(mote("info", "-m", path, "--json")[0])["tensors"]
            embedding = [t for t in tensors if t["name"] == "token_embd.weight"]
            self.assertEqual((embedding[0]["format"], embedding[0]["dimensions"][1]), ("f32", 384))
            self.assertRegex(mote("info", "-m", path, "--verbose")[0], rb"\nTensors\n(  .*\n)*  token_embd\.weight +f32 \[\d+,384\]")

    def test_a_name_of_a_file_does_not_steer_the_terminal(self):
        name = os.path.join(self.folder, "\x1b[2J\u202e\n.gguf")
        for command in (["info", "-m", name], ["run", "-m", MODEL, "--raw", "-f", name]):
            notes = mote(*command, expect=3 if command[0] == "info" else 1)[1]
            self.assertNotIn(b"\x1b", notes)
            self.assertNotIn("\u202e".encode(), notes)

    def test_a_model_without_a_tokenizer_is_refused_where_it_needs_one(self):
        path = self.model(drop=b"tokenizer.")
        text = self.write("text", b"words " * 100)
        for arguments in (["run", "--raw", "-p", "x"], ["run", "-p", "x"], ["run", "-p", "x", "--chat-format", "chatml"],
                          ["run"], ["tokenize"], ["detokenize", "1"], ["perplexity", "-f", text, "-c", "16"]):
            notes = mote(arguments[0], "-m", path, *arguments[1:], expect=3)[1]
            self.assertIn(b"tokenizer", notes, arguments)
        mote("logits", "-m", path, "--tokens", "1", "-o", "/dev/null")
        mote("bench", "-m", path, "-p", "2", "-n", "1", "-r", "1")

    def test_no_end_token_stands_between_a_text_and_its_continuation(self):
        path = self.model(put={b"tokenizer.ggml.add_eos_token": struct.pack("<IB", 7, 1)})
        end = strict_json(mote("info", "-m", path, "--json")[0])["model"]["eos_token"]
        ids = {model: strict_json(mote("tokenize", "-m", model, "--add-special", "--json", stdin=b"The river")[0])["ids"]
               for model in (MODEL, path)}
        self.assertEqual(ids[path], ids[MODEL] + [end])   # tokenize tells what the model wants around a text
        answers = [strict_json(mote("run", "-m", model, *SHORT, "--json")[0]) for model in (MODEL, path)]
        self.assertEqual(answers[1]["prompt_ids"], ids[MODEL])
        self.assertEqual(answers[1]["ids"], answers[0]["ids"])
        nothing = strict_json(mote("run", "-m", path, "--raw", "-p", "", "-n", "0", "--json")[0])
        self.assertEqual(nothing["prompt_ids"], ids[MODEL][:1])
        # As many tokens as make whole chunks: the end token would make the text begin another one, or change the last.
        text = b"word " * 40
        count = len(strict_json(mote("tokenize", "-m", MODEL, "--add-special", "--json", stdin=text)[0])["ids"])
        file = self.write("text", text)
        mote("perplexity", "-m", path, "-f", file, "-c", str(count))
        mote("perplexity", "-m", path, "-f", file, "-c", str(count + 1), expect=1)

    def nan_model(self, tensor, row):
        """MODEL with NaN in one row of a matrix."""
        with open(MODEL, "rb") as file:
            data = bytearray(file.read())
        info = strict_json(mote("info", "-m", MODEL, "--json")[0])
        table = data.index(struct.pack("<Q", len(tensor)) + tensor.encode()) + 8 + len(tensor)
        dimensions, columns, _, kind, offset = struct.unpack_from("<IQQIQ", data, table)
        self.assertEqual((dimensions, columns, kind), (2, info["model"]["d_model"], 0))
        weights = len(data) - max(sum(t["bytes"] for t in info["tensors"]), info["model"]["weight_bytes"])
        for i in range(columns):
            struct.pack_into("<f", data, weights + offset + (row * columns + i) * 4, math.nan)
        return self.write("nan.gguf", data)

    def test_logits_that_are_not_finite_are_told(self):
        target = os.path.join(self.folder, "rows.npy")
        notes = mote("logits", "-m", self.nan_model("output.weight", 9), "--tokens", "1,2,9,3", "-o", target, expect=1)[1]
        self.assertIn(b"the first are in row 0\n", notes)
        self.assertEqual([math.isnan(row[9]) for row in read_npy(target)], [True] * 4)   # and written as a whole

    def test_a_perplexity_that_is_not_finite_is_none(self):
        text = self.write("text", b"some words and some more words. " * 20)
        out, notes = mote("perplexity", "-m", self.nan_model("output.weight", 9), "-f", text, "-c", "16", expect=1)
        self.assertEqual(out, b"")
        self.assertIn(b"logits that are not finite, after 0 tokens scored", notes)

    def test_keys_that_are_not_a_number_end_the_run(self):
        target = os.path.join(self.folder, "rows.npy")
        notes = mote("logits", "-m", self.nan_model("token_embd.weight", 9), "--tokens", "1,2,9,3", "-o", target, expect=1)[1]
        self.assertIn(b"the keys or values of layer 0 at position 2 hold a NaN", notes)
        self.assertFalse(os.path.exists(target))

    def test_more_tokens_than_positions(self):
        target = os.path.join(self.folder, "rows.npy")
        notes = mote("logits", "-m", MODEL, "--tokens", "1,2,3,4,5", "-c", "4", "-o", target, expect=1)[1]
        self.assertIn(b"there are 5 token ids, the context has 4 positions", notes)
        self.assertEqual(os.listdir(self.folder), [])
        self.assertRegex(mote("run", "-m", MODEL, "--raw", "-p", "more words than that", "-c", "4", expect=1)[1],
                         rb"the prompt has \d+ tokens, the context 4 positions")

    def test_input_without_end_is_refused(self):
        for path in ("/dev/zero", "-"):
            for command in (["run", "--raw", "-f"], ["perplexity", "-c", "16", "-f"], ["run", "--messages"]):
                with open("/dev/zero", "rb") as zeros:
                    notes = mote(command[0], "-m", MODEL, *command[1:], path, expect=1, stdin=None,
                                 **({"preexec_fn": lambda: os.dup2(zeros.fileno(), 0)}))[1]
                self.assertIn(b"more than the 256 MiB", notes)

    def test_long_names(self):
        for length in (250, 255):
            target = os.path.join(self.folder, "x" * length)
            mote("logits", "-m", MODEL, "--tokens", "1", "-o", target)
            self.assertEqual(len(read_npy(target)), 1)
        mote("logits", "-m", MODEL, "--tokens", "1", "-o", os.path.join(self.folder, "x" * 256), expect=1)
        self.assertEqual(len(os.listdir(self.folder)), 2)

    @unittest.skipUnless(os.getuid() == 0, "only root can become somebody else to whom a folder is closed")
    def test_a_file_in_a_closed_folder_is_refused_in_words(self):
        target = self.write("rows.npy", b"before")
        os.chmod(target, 0o666)
        os.chmod(self.folder, 0o755)
        program, model = (shutil.copy(path, self.folder) for path in (PROGRAM, MODEL))   # from where nobody may look
        os.chmod(program, 0o755)
        os.chmod(model, 0o644)
        command = [program, "logits", "-m", model, "--tokens", "1", "-o", target]
        done = subprocess.run(command, capture_output=True, check=False, user=65534, group=65534, extra_groups=[])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"cannot be replaced, since its folder cannot be written", done.stderr)
        with open(target, "rb") as file:
            self.assertEqual(file.read(), b"before")

    def test_other_hard_links_keep_what_they_had(self):
        target, other = self.write("rows.npy", b"before"), os.path.join(self.folder, "other")
        os.link(target, other)
        mote("logits", "-m", MODEL, "--tokens", "1", "-o", target)
        self.assertEqual(len(read_npy(target)), 1)
        with open(other, "rb") as file:
            self.assertEqual(file.read(), b"before")

    @unittest.skipIf(SANITIZED, "a sanitizer wants larger files of its own")
    def test_a_limit_on_file_sizes_is_an_error(self):
        target = os.path.join(self.folder, "rows.npy")
        notes = mote("logits", "-m", MODEL, "--tokens", "1,2,3", "-o", target, expect=1,
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))[1]
        self.assertIn(b"cannot be written", notes)
        self.assertEqual(os.listdir(self.folder), [])

    def test_metadata_that_asks_for_a_huge_context_is_still_told(self):
        path = self.model(put={b"llama.context_length": struct.pack("<II", 4, 1 << 24)})
        info = strict_json(mote("info", "-m", path, "--json")[0])
        self.assertEqual(info["model"]["trained_context"], 1 << 24)
