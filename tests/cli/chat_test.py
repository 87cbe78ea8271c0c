"""The chat over many turns, and when something does not fit."""
import json
import re

from program import EMULATED, MODEL, SANITIZED, Case, mote

CHAT = ("run", "-m", MODEL, "--chat-format", "chatml", "--temp", "0", "--kv-type", "f32")
FORGOTTEN = re.compile(rb"oldest questions and answers are forgotten, (\d+) of each\n")


class Chat(Case):
    def one_by_one(self, *arguments, stdin):
        """The answers, a letter before each line of which there is one, and what was said on standard error."""
        out, notes = mote(*CHAT, "-n", "1", "--logit-bias", "70:1000", *arguments, stdin=stdin)
        return out, notes

    def test_hundreds_of_turns(self):
        turns = 20 if EMULATED else 130 if SANITIZED else 200
        out, notes = self.one_by_one("-c", "20000", stdin=b"a\n" * turns)
        answer = self.one_by_one("-c", "20000", stdin=b"a\n")[0]
        self.assertEqual(out, answer * turns)
        self.assertEqual(FORGOTTEN.findall(notes), [])   # all of them fit

    def test_a_full_context_loses_the_oldest_turns(self):
        system = ("--system", "The words of the system stay.", "--verbose")
        out, notes = self.one_by_one("-c", "400", *system, stdin=b"How do you do?\n" * 30)
        self.assertEqual(out, self.one_by_one(stdin=b"a\n")[0] * 30)
        dropped = list(map(int, FORGOTTEN.findall(notes)))
        self.assertGreater(len(dropped), 1)
        self.assertGreater(dropped[0], 1)   # not one by one

    def test_an_answer_finds_room(self):
        chat = (*CHAT, "-n", "50", "--logit-bias", "70:1000", "-c", "420")   # where a turn would end within 50 of it
        answer = mote(*chat, stdin=b"How do you do?\n")[0]
        self.assertEqual(len(answer.strip()), 50)
        out, notes = mote(*chat, stdin=b"How do you do?\n" * 8)
        self.assertEqual(out, answer * 8)
        self.assertTrue(FORGOTTEN.findall(notes), notes)

    def test_a_system_that_is_too_long_to_stay_is_no_mistake(self):
        _, notes = self.one_by_one("-c", "40", "--on-full", "slide", "--system", "word " * 60, stdin=b"a\n")
        self.assertIn(b"was not asked", notes)

    def test_a_model_without_a_format_says_so_before_it_is_asked(self):
        self.assertIn(b"chat", mote("run", "-m", MODEL, stdin=b"", expect=3)[1])

    def test_what_is_left_is_the_conversation_without_its_oldest_turns(self):
        # The last answer equals the one to the same conversation, handed in as a whole.
        lines = [f"question {i}".encode() for i in range(12)]
        chat = (*CHAT, "-n", "4", "-c", "400", "--system", "S")
        out, notes = mote(*chat, stdin=b"\n".join(lines))
        dropped = list(map(int, FORGOTTEN.findall(notes)))
        self.assertTrue(dropped, notes)
        answers = [mote(*chat, stdin=b"\n".join(lines[:n]))[0] for n in (11, 12)]
        self.assertEqual(out, answers[1])
        self.assertTrue(answers[1].startswith(answers[0]))

    def test_the_words_of_the_system_outlive_the_oldest_turns(self):
        lines = [f"question {i}".encode() for i in range(12)]
        notes = self.one_by_one("-c", "400", "--system", "Be brief.", "--show-prompt", stdin=b"\n".join(lines))[1]
        self.assertTrue(FORGOTTEN.findall(notes), notes)
        last = notes[notes.rindex(b"system\n"):]
        self.assertTrue(last.startswith(b"system\nBe brief."), last)
        self.assertEqual(notes.count(b"system\nBe brief."), len(lines))
        self.assertNotIn(b"question 0", last)
        self.assertIn(b"question 11", last)
        self.assertLess(last.index(b"user\n"), last.index(b"assistant\n"))

    def test_either_end_of_a_line_is_none_of_the_question(self):
        plain = self.one_by_one("--show-prompt", stdin=b"a b\nc\n")
        self.assertEqual(self.one_by_one("--show-prompt", stdin=b"a b\r\nc\r\n"), plain)
        self.assertNotEqual(self.one_by_one("--show-prompt", stdin=b"a b\rc\n"), plain)   # only at the end

    def test_a_question_that_is_too_long_is_passed_over(self):
        out, notes = self.one_by_one("-c", "200", stdin=b"a\n" + b"word " * 2000 + b"\nb\n")
        answer = self.one_by_one(stdin=b"a\n")[0]
        self.assertEqual(out, answer + b"\n" + answer)
        self.assertRegex(notes, rb"was not asked: it has \d{4,} tokens .* the context 200 positions")
        self.assertEqual(len(FORGOTTEN.findall(notes)), 0)   # and costs no memory of the others

    def test_a_line_without_end_is_passed_over(self):
        long = b"x" * (17 << 20)
        answer = self.one_by_one(stdin=b"a\n")[0]
        for stdin, answers in ((b"a\n" + long + b"\nb\n", 2), (b"a\n" + long, 1), (long + b"\n" + long + b"\nb", 1)):
            out, notes = self.one_by_one(stdin=stdin)
            self.assertEqual(out, answer * answers)
            self.assertEqual(notes.count(b"a line has at most 16 MiB"), stdin.count(long))

    def test_a_system_without_words_stands(self):
        _, notes = mote(*CHAT, "-n", "0", "-p", "x", "--system", "", "--show-prompt")
        self.assertIn(b"system\n", notes)

    def test_thinking_is_switched_off_where_the_format_can(self):
        for chat_format, expected in (("qwen3", {"on": b"", "off": b"<think>\n\n</think>\n\n"}), ("chatml", {"on": b"", "off": b""})):
            run = ("run", "-m", MODEL, "--chat-format", chat_format, "--temp", "0", "-n", "0", "-p", "x", "--show-prompt")
            plain = mote(*run)[1].rstrip(b"\n")
            self.assertIn(b"user\nx", plain)
            for think, more in expected.items():
                self.assertEqual(mote(*run, "--think", think)[1].rstrip(b"\n"), (plain + b"\n" + more).rstrip(b"\n"))

    def test_every_turn_shows_its_prompt(self):
        out, notes = self.one_by_one("--show-prompt", stdin=b"first\nsecond\n")
        letter = out[:1].decode()
        turns = [[("user", "first")], [("user", "first"), ("assistant", letter), ("user", "second")]]
        whole = b""
        for turn in turns:
            messages = json.dumps([{"role": role, "content": content} for role, content in turn]).encode()
            whole += mote(*CHAT, "-n", "1", "--messages", self.write("messages.json", messages), "--show-prompt")[1]
        self.assertIn(b"second", whole)
        self.assertEqual(notes, whole)
