"""What the commands compute and write."""
import json
import math
import os
import shutil
import stat
import struct
import threading

from program import MODEL, SHORT, Case, changed_gguf, mote, read_npy, split_gguf, strict_json


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

    def test_a_file_without_weights_has_a_tokenizer(self):
        with open(MODEL, "rb") as file:
            path = self.write("vocabulary.gguf", changed_gguf(file.read(), tensors=False))
        self.assertEqual(mote("tokenize", "-m", path, stdin=b"hello")[0], mote("tokenize", "-m", MODEL, stdin=b"hello")[0])
        self.assertEqual(mote("detokenize", "-m", path, "70")[0], mote("detokenize", "-m", MODEL, "70")[0])
        info = strict_json(mote("info", "-m", path, "--json")[0])
        self.assertEqual((info["runs"], info["memory"], info["model"]["n_tensors"]), (False, None, 0))
        for name in ("d_model", "n_layers", "n_heads", "n_kv_heads", "head_dim", "d_ff", "trained_context", "encodes", "decodes"):
            self.assertIsNone(info["model"][name], name)   # not read: 0 would be a number
            self.assertNotIn(f"  {name} ".encode(), mote("info", "-m", path)[0])
        self.assertIn("refusal", mote("info", "-m", path, "--json")[0].decode())
        mote("run", "-m", path, *SHORT, expect=3)

    def test_an_architecture_that_is_not_built_in_still_has_metadata(self):
        with open(MODEL, "rb") as file:
            data = file.read()
        at = data.index(b"general.architecture") + 32   # key, type, length
        path = self.write("other.gguf", data[:at] + b"llamb" + data[at + 5:])
        info = strict_json(mote("info", "-m", path, "--json")[0])
        self.assertEqual((info["runs"], info["metadata"]["general.architecture"]), (False, "llamb"))
        self.assertIn("llamb", info["refusal"])
        self.assertRegex(mote("info", "-m", path)[0].decode(), r"\n  runs +no: .*llamb")
        self.assertNotIn(b"  d_model ", mote("info", "-m", path)[0])
        notes = mote("run", "-m", path, *SHORT, expect=3)[1]
        self.assertIn(b"llamb", notes)


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
        result = strict_json(mote("perplexity", "-m", MODEL, "-f", path, "-c", str(context), "--backend", "cpu,reference",
                                  "--json")[0])
        self.assertEqual(result["backends"], ["cpu"])   # which ran all of it
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
        thread = threading.Thread(target=read, daemon=True)
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

    def test_a_redirected_file_keeps_what_is_in_it_under_any_name(self):
        path, link = os.path.join(self.folder, "f"), os.path.join(self.folder, "s")
        os.symlink("/dev/stdout", link)
        rows = self.logits("-", tokens="1,2")
        for name in ("-", "/dev/stdout", "//dev/stdout", "/dev/./stdout", "/proc/thread-self/fd/1", link, path):
            with open(path, "wb", buffering=0) as file:
                file.write(b"HEADER")
                mote("logits", "-m", MODEL, "--tokens", "1,2", "-o", name, stdout=file)
                file.write(b"TRAILER")
            with open(path, "rb") as file:
                self.assertEqual(file.read(), b"HEADER" + rows + b"TRAILER", name)
        for name, descriptor in (("/dev/./stderr", 2), ("/proc/thread-self/fd/77", 77)):
            with open(path, "wb", buffering=0) as file:
                file.write(b"HEADER")
                mote("logits", "-m", MODEL, "--tokens", "1,2", "-o", name, close_fds=False,
                     preexec_fn=lambda: os.dup2(file.fileno(), descriptor))
                file.write(b"TRAILER")
            with open(path, "rb") as file:
                self.assertEqual(file.read(), b"HEADER" + rows + b"TRAILER", name)
        with open(path, "rb") as file:   # open for reading alone: replaced as ever
            mote("logits", "-m", MODEL, "--tokens", "1,2", "-o", path, stdin=None, preexec_fn=lambda: os.dup2(file.fileno(), 0))
        self.assertEqual(len(read_npy(path)), 2)
        self.assertEqual(sorted(os.listdir(self.folder)), ["f", "s"])

    def test_the_model_is_not_its_own_output(self):
        with open(MODEL, "rb") as file:
            data = file.read()
        model = self.write("model.gguf", data)
        os.symlink("model.gguf", os.path.join(self.folder, "soft"))
        os.link(model, os.path.join(self.folder, "hard"))
        for name in ("model.gguf", "soft", "hard", "./model.gguf"):
            notes = mote("logits", "-m", model, "--tokens", "1", "-o", os.path.join(self.folder, name), expect=2)[1]
            self.assertIn(b"the model's place", notes)
        with open(model, "rb") as file:
            self.assertEqual(file.read(), data)

    def test_a_file_that_may_not_be_written_stays(self):
        target = self.write("rows.npy", b"before")
        os.chmod(target, 0o444)   # root may write it all the same; the program takes it at its word
        self.logits(target, expect=1)
        with open(target, "rb") as file:
            self.assertEqual(file.read(), b"before")
        self.assertEqual(os.listdir(self.folder), ["rows.npy"])

    def test_a_loop_of_links_is_refused(self):
        for name, to in (("a", "b"), ("b", "a"), ("self", "self")):
            os.symlink(to, os.path.join(self.folder, name))
        for name in ("a", "self"):
            self.logits(os.path.join(self.folder, name), expect=1)
        self.assertEqual(sorted(os.readlink(os.path.join(self.folder, name)) for name in os.listdir(self.folder)), ["a", "b", "self"])

    def test_folders_are_refused(self):
        self.logits(self.folder, expect=1)


class Answers(Case):
    def test_a_split_model_is_one(self):
        with open(MODEL, "rb") as file:
            whole = file.read()
        expected = mote("run", "-m", MODEL, *SHORT)[0]
        names = [self.write(f"m-0000{i}-of-00003.gguf", part) for i, part in enumerate(split_gguf(whole, 3), 1)]
        notes = mote("logits", "-m", names[0], "--tokens", "1", "-o", names[1], expect=2)[1]
        self.assertIn(b"the model's place", notes)
        self.assertEqual(mote("run", "-m", names[0], *SHORT)[0], expected)
        self.assertEqual(mote("run", "-m", os.path.basename(names[0]), *SHORT, cwd=self.folder)[0], expected)
        info = strict_json(mote("info", "-m", names[0], "--json")[0])
        self.assertEqual(info["memory"]["model"]["file_bytes"], sum(map(os.path.getsize, names)))
        for name in ("w-00001-of-00001.gguf", "w-00001-of-00000.gguf"):
            self.assertEqual(mote("run", "-m", self.write(name, whole), *SHORT)[0], expected)
        os.remove(names[2])
        self.assertIn(b"part 3 of 3: file " + names[2].encode(), mote("run", "-m", names[0], *SHORT, expect=3)[1])
        shutil.copy(names[1], names[2])
        self.assertIn(b"part 3 of 3: it says that it is part 2", mote("run", "-m", names[0], *SHORT, expect=3)[1])
        self.assertIn(os.path.basename(names[0]).encode(), mote("run", "-m", names[1], *SHORT, expect=3)[1])
        os.rename(names[0], self.folder + "/other.gguf")
        self.assertIn(b"part 1 of 3 of a split model", mote("run", "-m", self.folder + "/other.gguf", *SHORT, expect=3)[1])

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
