"""mote attention: the numbers, the page, and what a browser makes of the page."""
import base64
import html.parser
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest
import zlib

from program import BERT, HANG_SECONDS, MODEL, T5, Case, changed_gguf, lab, mote, read_npy_array, string_value, strict_json

TEXT = "The river is long and the road is longer."


def browser():
    names = [os.environ.get("MOTE_BROWSER", ""), "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
    return next((path for path in map(shutil.which, filter(None, names)) if path), None)


class Weights:
    """An array [layers, heads, rows, positions] of a file."""
    def __init__(self, path):
        self.shape, self.values = read_npy_array(path)

    def row(self, layer, head, row):
        layers, heads, rows, positions = self.shape
        at = ((layer * heads + head) * rows + row) * positions
        return self.values[at:at + positions]


class Page:
    """What a page of ours holds; its scripts are not run."""
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        scripts, tags = {}, []

        class Parser(html.parser.HTMLParser):
            def handle_starttag(self, tag, attributes):
                tags.append((tag, dict(attributes)))

            def handle_data(self, data):
                if self.cdata_elem == "script":
                    name = tags[-1][1].get("id", "code")
                    scripts[name] = scripts.get(name, "") + data

        parser = Parser()
        parser.feed(self.text)
        parser.close()
        self.tags, self.code = tags, scripts["code"]
        self.data = strict_json(scripts["data"].encode())
        weights = base64.b64decode(scripts["weights"], validate=True)
        self.codes = struct.unpack(f"<{len(weights) // 2}H", weights)


class Attention(Case):
    def weights(self, *arguments):
        target = os.path.join(self.folder, "weights.npy")
        mote("attention", *arguments, "-o", target)
        return Weights(target)

    def page(self, *arguments):
        target = os.path.join(self.folder, "page.html")
        out, notes = mote("attention", *arguments, "-o", target)
        self.assertEqual((out, notes), (b"", b""))
        return Page(target)

    def assert_rows(self, weights, sees):
        layers, heads, rows, positions = weights.shape
        for layer in range(layers):
            for head in range(heads):
                for row in range(rows):
                    values = weights.row(layer, head, row)
                    self.assertAlmostEqual(sum(values), 1, delta=1e-6)
                    self.assertTrue(all((value > 0) == sees(row, i) for i, value in enumerate(values)), (layer, head, row))

    def test_a_classifier_that_pools_by_attention_shows_it(self):
        found = self.weights("-m", lab("reviews-attention"), "-p", "the music was dull but the ending was superb")
        self.assertEqual(found.shape[:2], (1, 1))
        self.assertEqual(found.shape[2], found.shape[3])
        self.assertGreater(found.shape[2], 8)
        self.assert_rows(found, lambda row, i: True)

    def test_the_alignment_of_dates_is_pytorch_s_and_the_picture_that_is_committed(self):
        folder = os.path.dirname(os.path.dirname(lab("dates")))
        with open(os.path.join(folder, "models", "alignment.json"), encoding="utf-8") as file:
            recorded = json.load(file)
        array, drawn = os.path.join(self.folder, "dates.npy"), os.path.join(self.folder, "drawn.svg")
        mote("attention", "-m", lab("dates"), "-p", " ".join(recorded["input"][1:-1]), "-o", array)
        weights = Weights(array)
        _, heads, rows, columns = weights.shape
        self.assertEqual((rows, columns), (len(recorded["output"]) + 1, len(recorded["input"])))   # the last row ended the date
        for row, expected in enumerate(recorded["weights"]):
            found = [sum(values) / heads for values in zip(*(weights.row(0, head, row) for head in range(heads)))]
            self.assertLess(max(abs(a - b) for a, b in zip(found, expected)), 1e-4, row)   # they are rounded to 4 digits
        subprocess.run([sys.executable, "-B", os.path.join(folder, "alignment.py"), array, drawn], check=True, timeout=HANG_SECONDS)
        with open(drawn, encoding="utf-8") as ours, open(os.path.join(folder, "alignment.svg"), encoding="utf-8") as committed:
            self.assertEqual(ours.read(), committed.read())

    def test_rows_add_up_to_1_and_see_no_later_token(self):
        info = strict_json(mote("info", "-m", MODEL, "--json")[0])["model"]
        tokens = ",".join(str(i * 7919 % 384) for i in range(150))
        whole = self.weights("-m", MODEL, "--tokens", tokens)
        self.assertEqual(whole.shape, (info["n_layers"], info["n_heads"], 150, 150))
        self.assert_rows(whole, lambda row, i: i <= row)
        for more in (["--batch", "7"], ["--batch", "1", "-t", "1"], ["--batch", "500", "-c", "200"]):
            self.assertEqual(self.weights("-m", MODEL, "--tokens", tokens, *more).values, whole.values, more)
        reference = self.weights("-m", MODEL, "--tokens", tokens, "--backend", "reference")
        self.assertLess(max(abs(a - b) for a, b in zip(reference.values, whole.values)), 1e-4)
        one = self.weights("-m", MODEL, "--tokens", tokens, "--layer", "1", "--head", "2")
        self.assertEqual((one.shape, one.row(0, 0, 149)), ((1, 1, 150, 150), whole.row(1, 2, 149)))
        self.assertEqual(self.weights("-m", MODEL, "--tokens", "5").values, (1.0,) * (info["n_layers"] * info["n_heads"]))

    def test_encoders_see_all_and_a_decoder_aligns_with_its_input(self):
        for model, arguments, kind, shape in (
                (BERT, ["--tokens", "1,2,3,4,5"], "encoder", (5, 5)),
                (T5, ["--tokens", "3,4,5,6,1", "--attention", "encoder"], "encoder", (5, 5)),
                (T5, ["--tokens", "3,4,5,6,1", "--decoder-tokens", "0,7,8"], "cross", (3, 5))):
            weights = self.weights("-m", model, *arguments)
            self.assertEqual(weights.shape[2:], shape)
            self.assert_rows(weights, lambda row, i: True)
            data = self.page("-m", model, *arguments).data
            self.assertEqual((data["attention"], data["causal"], len(data["rows"]), len(data["columns"])), (kind, False, *shape))
        own = self.weights("-m", T5, "--tokens", "3,4,5,6,1", "--decoder-tokens", "0,7,8", "--attention", "decoder")
        self.assert_rows(own, lambda row, i: i <= row)
        # An input is one batch, whatever --batch: this encoder has 80 positions.
        self.assertEqual(self.weights("-m", BERT, "--tokens", "1,2", "--batch", "90", "-c", "90").shape[2:], (2, 2))
        # Without tokens for it the decoder says what it will, and the same every time.
        said = self.page("-m", T5, "-p", "hello", "-n", "4").data["rows"]
        self.assertTrue(1 <= len(said) <= 5, said)
        self.assertEqual(self.page("-m", T5, "-p", "hello", "-n", "4").data["rows"], said)

    def test_the_page_holds_the_weights_of_the_array(self):
        path = self.write("text", TEXT.encode())
        page, weights = self.page("-m", MODEL, "-f", path), self.weights("-m", MODEL, "-p", TEXT)
        layers, heads, n, _ = weights.shape
        self.assertEqual((page.data["layers"], page.data["heads"]), (list(range(layers)), list(range(heads))))
        self.assertEqual(page.data["model"], os.path.basename(MODEL))
        expected = [round(value * 65535) for layer in range(layers) for head in range(heads) for row in range(n)
                    for value in weights.row(layer, head, row)[:row + 1]]
        self.assertEqual(len(page.codes), len(expected))
        self.assertLessEqual(max(abs(a - b) for a, b in zip(page.codes, expected)), 1)
        self.assertEqual(page.data["rows"], page.data["columns"])
        self.assertIn(TEXT, "".join(page.data["rows"]))   # behind the start token
        # Nothing but the page: no address, no file, no tag that would fetch one.
        self.assertNotRegex(page.text, r"(?i)https?:|url\(|@import|fetch\(|<link|<img|<iframe")
        self.assertTrue(all("src" not in attributes and "href" not in attributes for _, attributes in page.tags))
        one = self.page("-m", MODEL, "-p", TEXT, "--layer", "1", "--head", "2").data
        self.assertEqual((one["layers"], one["heads"]), ([1], [2]))

    def test_tokens_of_a_hostile_vocabulary_stay_text(self):
        names = [b"</script><script>alert(1)</script>", b"<!--", b"\x00\x1b[2J", b"\xff\xfe", "\u202eabc".encode(), b'"&amp;\'',
                 b"\n", b"\\u0041", b"%weights%"]
        with open(MODEL, "rb") as file:
            data = file.read()
        pieces = [b"t%d" % i for i in range(384)]
        pieces[:len(names)] = names
        path = self.write("hostile<b>.gguf", changed_gguf(data, put={
            b"tokenizer.ggml.model": string_value(b"llama"),
            b"tokenizer.ggml.tokens": array_value(8, [struct.pack("<Q", len(piece)) + piece for piece in pieces]),
            b"tokenizer.ggml.scores": array_value(6, [struct.pack("<f", -i) for i in range(384)]),
            b"tokenizer.ggml.token_type": array_value(5, [struct.pack("<i", 2 if i == 300 else 1) for i in range(384)])}))
        page = self.page("-m", path, "--tokens", ",".join(map(str, range(len(names)))), "--layer", "0")
        self.assertEqual(page.data["model"], "hostile<b>.gguf")
        self.assertEqual(page.data["rows"][0], names[0].decode())
        self.assertEqual(page.data["rows"][2:5], ["\\u{0}\\u{1b}[2J", "\ufffd\ufffd", "\\u{202e}abc"])
        self.assertEqual(page.data["rows"][6:], ["\\n", "\\u0041", "%weights%"])
        self.assertEqual([tag for tag, _ in page.tags].count("script"), 3)
        self.assertNotIn("alert", page.code)
        self.assertNotRegex(page.text, "[\x00-\x08\x0b-\x1f\u202e]")

    def test_a_model_without_a_tokenizer_has_numbers_for_names(self):
        with open(MODEL, "rb") as file:
            path = self.write("plain.gguf", changed_gguf(file.read(), drop=b"tokenizer."))
        self.assertEqual(self.page("-m", path, "--tokens", "5,6,7").data["rows"], ["5", "6", "7"])

    def test_refusals(self):
        def sentence(code, *arguments, output="x.html"):
            out, notes = mote("attention", *arguments, "-o", os.path.join(self.folder, output), expect=code)
            self.assertEqual(out, b"")
            self.assertEqual(os.listdir(self.folder), [])
            return notes.decode()

        tokens = ("--tokens", "1,2,3")
        for arguments, part in ((["-m", MODEL], "One of -p, -f and --tokens"), (["-m", MODEL, "-p", "x", *tokens], "One of"),
                                (["-m", MODEL, *tokens, "--head", "1"], "--layer"), (["-m", BERT, "--tokens", ""], "without tokens"),
                                (["-m", MODEL, *tokens, "--layer", "9"], "--layer is 9; the model has no such attention there"),
                                (["-m", MODEL, *tokens, "--layer", "0", "--head", "99"], "--head is 99; layer 0 has"),
                                (["-m", MODEL, *tokens, "--attention", "cross"], "no such attention (--attention cross)"),
                                (["-m", T5, *tokens, "--decoder-tokens", " "], "--decoder-tokens: there are no token ids"),
                                (["-m", BERT, "--tokens", ",".join(["1"] * 90)], "inputs of 90 tokens are asked for"),
                                (["-m", MODEL, *tokens, "--backend", "walrus", "--layer", "9"], "walrus"),
                                (["-m", MODEL, *tokens, "--decoder-tokens", "1"], "an encoder and a decoder"),
                                (["-m", MODEL, "--tokens", "1,384"], "384")):
            self.assertIn(part, sentence(2, *arguments), arguments)
        self.assertIn(".html or .npy", sentence(2, "-m", MODEL, *tokens, output="x.png"))
        self.assertIn("there are 3 token ids, the context has 2 positions (--context)", sentence(1, "-m", MODEL, *tokens, "-c", "2"))
        self.assertIn("start token and up to 60 more (-n), the context has 30", sentence(1, "-m", T5, *tokens, "-n", "60", "-c", "30"))
        long = ",".join(["1"] * 1500)
        self.assertRegex(sentence(1, "-m", MODEL, "--tokens", long), r"a page holds 8388608 weights.*choose a --layer")
        sentence(3, "-m", self.folder + "/none", *tokens)

    def test_the_output_never_takes_the_model_s_place(self):
        path = os.path.join(self.folder, "model.npy")
        shutil.copyfile(MODEL, path)
        mote("attention", "-m", path, "--tokens", "1", "-o", path, expect=2)
        self.assertEqual(os.path.getsize(path), os.path.getsize(MODEL))


def array_value(kind, items):
    """A GGUF metadata value: an array of that type."""
    return struct.pack("<IIQ", 9, kind, len(items)) + b"".join(items)


class Picture:
    """The pixels of a PNG of 8-bit RGB or RGBA (RFC 2083), which is what browsers write."""
    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        at, packed = 8, b""
        while at < len(data):
            length, kind = struct.unpack_from(">I4s", data, at)
            if kind == b"IHDR":
                self.width, self.height, depth, colour, _, _, interlace = struct.unpack_from(">IIBBBBB", data, at + 8)
                assert depth == 8 and colour in (2, 6) and interlace == 0
            if kind == b"IDAT":
                packed += data[at + 8:at + 8 + length]
            at += 12 + length
        self.channels = 3 if colour == 2 else 4
        self.lines = self.unfiltered(zlib.decompress(packed))

    def unfiltered(self, raw):
        stride, n, lines, above = self.width * self.channels, self.channels, [], bytes(self.width * self.channels)
        for y in range(self.height):
            kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
            for i in range(stride):
                left, corner = (line[i - n], above[i - n]) if i >= n else (0, 0)
                if kind == 1:
                    line[i] = (line[i] + left) & 255
                elif kind == 2:
                    line[i] = (line[i] + above[i]) & 255
                elif kind == 3:
                    line[i] = (line[i] + (left + above[i]) // 2) & 255
                elif kind == 4:
                    guess = left + above[i] - corner
                    near = min((abs(guess - left), 0, left), (abs(guess - above[i]), 1, above[i]), (abs(guess - corner), 2, corner))
                    line[i] = (line[i] + near[2]) & 255
            lines.append(bytes(line))
            above = line
        return lines

    def at(self, x, y):
        return tuple(self.lines[y][x * self.channels:x * self.channels + 3])

    def find(self, colour):
        """(left, top, right, bottom) of all pixels of that colour, the ends outside."""
        found = [(x, y) for y in range(self.height) for x in range(self.width) if self.at(x, y) == colour]
        assert found, colour
        xs, ys = [x for x, _ in found], [y for _, y in found]
        return min(xs), min(ys), max(xs) + 1, max(ys) + 1


def light(colour):
    return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]


@unittest.skipUnless(browser(), "there is no chromium: tools/dependencies.sh has it as the group browser")
class AttentionPage(Case):
    """Layer 1, head 2 alone of a page, looked at through a browser."""
    def setUp(self):
        super().setUp()
        self.target = os.path.join(self.folder, "page.html")
        arguments = ("attention", "-m", MODEL, "-p", TEXT[:20], "--layer", "1", "--head", "2")
        mote(*arguments, "-o", self.target)
        mote(*arguments, "-o", os.path.join(self.folder, "weights.npy"))
        self.weights = Weights(os.path.join(self.folder, "weights.npy"))
        self.n = self.weights.shape[2]
        self.page = Page(self.target)

    def browse(self, *arguments, page=None, fragment=""):
        command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,800",
                   "--force-device-scale-factor=1", "--virtual-time-budget=5000", "--no-first-run",
                   "--user-data-dir=" + os.path.join(self.folder, "profile"), *arguments, "file://" + (page or self.target) + fragment]
        done = subprocess.run(command, capture_output=True, timeout=HANG_SECONDS, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout.decode("utf-8")

    def screenshot(self, page=None):
        path = os.path.join(self.folder, "picture.png")
        self.browse("--screenshot=" + path, page=page)
        return Picture(path)

    def with_weights(self, weight):
        """The same page with other weights: weight(row, column), column <= row."""
        codes = [round(weight(row, column) * 65535) for row in range(self.n) for column in range(row + 1)]
        text = base64.b64encode(struct.pack(f"<{len(codes)}H", *codes)).decode()
        return self.write("other.html", re.sub(r'(id="weights">)[^<]*', lambda found: found[1] + text, self.page.text).encode()), codes

    def test_cells_are_where_and_as_dark_as_their_weights(self):
        self.assertGreaterEqual(self.n, 6)
        # Known weights: each token looks at itself alone. The darkest colour is then the diagonal, which says where the map is.
        path, _ = self.with_weights(lambda row, column: row == column)
        picture = self.screenshot(path)
        paper = picture.at(2, 2)
        self.assertGreater(light(paper), 250)
        darkest = (7, 35, 74)
        left, top, right, bottom = picture.find(darkest)
        cell = (right - left + 1) / self.n
        self.assertEqual(cell, round(cell))
        self.assertEqual(right - left, bottom - top)

        def centre(picture, row, column):
            return picture.at(int(left + (column + .5) * cell), int(top + (row + .5) * cell))

        for row in range(self.n):
            for column in range(self.n):
                colour = centre(picture, row, column)
                if column > row:
                    self.assertEqual(colour, paper, (row, column))   # not seen
                elif column == row:
                    self.assertEqual(colour, darkest, (row, column))
                else:
                    self.assertTrue(220 < light(colour) < light(paper), (row, column, colour))   # seen, weight 0
        # The model's own: each cell has the colour of its weight's square root.
        picture = self.screenshot()
        stops = [bytes.fromhex(stop) for stop in re.findall("#([0-9a-f]{6})", re.search(r"light: (\[.*?\])", self.page.code)[1])]
        self.assertEqual((tuple(stops[-1]), len(stops)), (darkest, 5))
        for row in range(self.n):
            for column in range(row + 1):
                at = 4 * math.sqrt(self.weights.row(0, 0, row)[column])
                low = min(int(at), 3)
                expected = [a + (at - low) * (b - a) for a, b in zip(stops[low], stops[low + 1])]
                for found, wanted in zip(centre(picture, row, column), expected):
                    self.assertAlmostEqual(found, wanted, delta=2, msg=(row, column))

    def test_pointing_at_a_cell_tells_both_tokens_and_the_weight(self):
        row, values = self.n - 1, self.weights.row(0, 0, self.n - 1)
        column = max(range(self.n - 1), key=values.__getitem__)
        self.assertGreater(values[column], 0.02)
        dom = self.browse("--dump-dom", fragment=f"#1.2.{row}.{column}")
        tip = html.unescape(re.search(r'<div id="tip"[^>]*>(.*?)</div>', dom, re.S)[1])
        rows, columns = self.page.data["rows"], self.page.data["columns"]
        expected = f"{json.dumps(rows[row])} ({row}) \u2192 {json.dumps(columns[column])} ({column})\n"
        self.assertTrue(tip.startswith(expected), (tip, expected))
        self.assertAlmostEqual(float(tip[len(expected):]), values[column], delta=1e-4)
        self.assertIn("Layer 1, head 2", dom)
        later = self.browse("--dump-dom", fragment="#1.2.0.3")
        self.assertIn("not seen", re.search(r'<div id="tip"[^>]*>(.*?)</div>', later, re.S)[1])

    def test_the_grid_has_a_small_map_for_each_head(self):
        mote("attention", "-m", MODEL, "-p", TEXT[:20], "-o", self.target)
        data = Page(self.target).data
        dom = self.browse("--dump-dom", fragment="#1.2")
        self.assertEqual(dom.count("<button"), len(data["layers"]) * len(data["heads"]))
        self.assertEqual(re.findall(r'<button title="([^"]*)"[^>]*aria-pressed="true"', dom), ["layer 1, head 2"])
