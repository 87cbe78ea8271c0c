"""Models with an encoder: vectors, and what a decoder makes of an input."""
import json
import os
import struct

from program import BERT, MODEL, T5, Case, changed_gguf, lab, mote, read_npy, strict_json


def golden(model):
    """The first cases of a model's reference and a function that reads one of their outputs."""
    with open(model.replace(".gguf", ".ref.json"), encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    with open(model.replace(".gguf", ".ref.bin"), "rb") as file:
        data = file.read()

    def values(output):
        rows, cols = output["rows"], output["cols"]
        flat = struct.unpack_from(f"<{rows * cols}f", data, output["offset"])
        return [list(flat[row * cols:(row + 1) * cols]) for row in range(rows)]
    return cases, values


class Embed(Case):
    def assert_close(self, found, expected, limit):
        self.assertEqual((len(found), len(found[0])), (len(expected), len(expected[0])))
        worst = max(abs(a - b) for got, want in zip(found, expected) for a, b in zip(got, want))
        self.assertLessEqual(worst, limit)

    def test_vectors_and_hidden_states_are_the_reference_s(self):
        cases, values = golden(BERT)
        target = os.path.join(self.folder, "rows.npy")
        for case in cases[:3]:
            tokens, outputs = ",".join(map(str, case["tokens"])), case["outputs"]
            for output, arguments in (("embedding", []), ("pooled", ["--raw"]), ("hidden", ["--pool", "none"])):
                limit = 2e-4 * max(1, outputs[output]["absmax"])
                out, _ = mote("embed", "-m", BERT, "--tokens", tokens, *arguments)
                self.assertEqual(out.count(b"\n"), 1)
                found = strict_json(out)
                self.assert_close(found if output == "hidden" else [found], values(outputs[output]), limit)
                mote("embed", "-m", BERT, "--tokens", tokens, *arguments, "-o", target)
                rows = read_npy(target)
                self.assertEqual([list(row) for row in rows], [[struct.unpack("f", struct.pack("f", x))[0] for x in row]
                                        for row in (found if output == "hidden" else [found])])   # no digit is lost

    def test_pooling_can_be_asked_for(self):
        cases, values = golden(BERT)
        tokens, hidden = ",".join(map(str, cases[1]["tokens"])), values(cases[1]["outputs"]["hidden"])
        for pool, expected in (("cls", hidden[0]), ("last", hidden[-1])):
            out, _ = mote("embed", "-m", BERT, "--tokens", tokens, "--raw", "--pool", pool)
            self.assert_close([strict_json(out)], [expected], 1e-3)

    def test_a_decoder_s_logits_behind_an_input(self):
        cases, values = golden(T5)
        target = os.path.join(self.folder, "rows.npy")
        for case in cases[:2]:
            mote("logits", "-m", T5, "--tokens", ",".join(map(str, case["tokens"])), "--decoder-tokens",
                 ",".join(map(str, case["decoder_tokens"])), "-o", target)
            output = case["outputs"]["logits"]
            self.assert_close(read_npy(target), values(output), 2e-4 * max(1, output["absmax"]))

    def test_an_encoder_s_prompt_is_answered_greedily(self):
        target = os.path.join(self.folder, "rows.npy")
        text = "lorem ipsum dolor"
        answer = strict_json(mote("run", "-m", T5, "-p", text, "--temp", "0", "-n", "5", "--kv-type", "f32", "--json")[0])
        prompt = strict_json(mote("tokenize", "-m", T5, "--json", "--add-special", stdin=text.encode())[0])["ids"]
        self.assertEqual(answer["prompt_ids"], prompt)
        self.assertTrue(answer["ids"])
        start = strict_json(mote("info", "-m", T5, "--json")[0])["model"]["decoder_start_token"]
        fed = [start] + answer["ids"]
        mote("logits", "-m", T5, "--tokens", ",".join(map(str, prompt)), "--decoder-tokens", ",".join(map(str, fed)), "-o", target)
        best = [row.index(max(row)) for row in read_npy(target)]
        self.assertEqual(best[:len(answer["ids"])], answer["ids"])

    def test_a_decoder_without_a_start_token_is_told_before_anything_is_run(self):
        with open(T5, "rb") as file:
            path = self.write("t5.gguf", changed_gguf(file.read(), drop=(b"t5.decoder_start_token_id", b"tokenizer.ggml.bos_token_id")))
        for arguments in (["run", "-p", "lorem ipsum", "--show-prompt"], ["attention", "-p", "lorem ipsum", "-o", self.folder + "/x.npy"]):
            out, notes = mote(*arguments, "-m", path, "-c", "2", expect=1)   # a context too small for the text comes later
            self.assertEqual(out, b"")
            self.assertEqual(notes, b"mote: the model names no token that its decoder begins with (decoder_start_token_id)\n")

    def test_a_model_of_the_other_kind_is_refused_by_the_program_s_own_names(self):
        self.assertIn(b"the model has no encoder: mote run", mote("embed", "-m", MODEL, "x", expect=3)[1])
        notes = mote("logits", "-m", BERT, "--tokens", "1,2", "-o", self.folder + "/x.npy", expect=3)[1]
        self.assertIn(b"the model only encodes: mote embed", notes)

    def test_an_encoder_does_not_chat(self):
        for arguments in (["-p", "x", "--system", "y"], ["-p", "x", "--chat-format", "chatml"], []):
            notes = mote("run", "-m", T5, *arguments, expect=2)[1]
            self.assertIn(b"chat", notes)
        for arguments in (["--raw", "-p", "x"], ["-p", "x"], []):
            self.assertIn(b"mote embed", mote("run", "-m", BERT, *arguments, expect=3)[1])

    def test_a_review_and_a_date_as_texts(self):
        """The models of examples/seed_lab: a classifier's scores, and a text that is read and answered."""
        out, _ = mote("embed", "-m", lab("reviews-mean"), "--raw", "the acting was never dull", "the plot was stale")
        (bad, good), (worse, better) = map(strict_json, out.splitlines())
        self.assertGreater(good, bad)
        self.assertGreater(worse, better)
        words = ("--temp", "0", "-p", "the third of march nineteen ninety nine")
        self.assertEqual(mote("run", "-m", lab("dates"), *words)[0].strip(), b"1999-03-03")
        found = strict_json(mote("run", "-m", lab("dates"), *words, "--json")[0])
        self.assertEqual((found["text"].strip(), found["finish_reason"], len(found["prompt_ids"])),
                         ("1999-03-03", "end_token", 9))

    def test_the_output_does_not_take_the_model_s_place(self):
        with open(BERT, "rb") as file:
            data = file.read()
        model = self.write("model.gguf", data)
        notes = mote("embed", "-m", model, "--tokens", "1", "-o", model, expect=2)[1]
        self.assertIn(b"the model's place", notes)
        with open(model, "rb") as file:
            self.assertEqual(file.read(), data)
        mote("embed", "-m", model, "--tokens", "1", "-o", "", expect=2)

    def test_a_text_that_is_too_long_is_told_before_any_is_embedded(self):
        out, notes = mote("embed", "-m", BERT, "a", "a b c d e f g h", "-c", "5", expect=1)
        self.assertEqual(out, b"")
        self.assertRegex(notes, rb"a text has \d+ tokens, the context 5 positions")
