"""A chat on a terminal: its edited lines, what it remembers, and what it leaves behind."""
import fcntl
import os
import signal
import stat
import struct
import termios
import time
import unittest

from program import EMULATED, MODEL, mote, strict_json
from signals_test import until
from terminal_test import ENDLESS, TerminalCase

ONE_LETTER = ("-n", "1", "--temp", "0", "--logit-bias", "70:1000")
SHOWN = (*ONE_LETTER, "--show-prompt")
PASTE, PASTE_END = b"\x1b[200~", b"\x1b[201~"
UP, LEFT = b"\x1b[A", b"\x1b[D"
# The handlers give the terminal back by calls that need an aligned stack.
not_in_qemu = unittest.skipIf(EMULATED, "qemu 7.2 enters the handlers of x86-64 with a stack that is off by 8 bytes")


def edits():
    return b"line editing: libedit" in mote("--version")[0]   # without: "none, built without libedit"


def asked(shown, question):
    """Whether a turn with --show-prompt asked just this."""
    return b"user\r\n" + question.replace(b"\n", b"\r\n") + b"<|im_end|>" in shown


class Editor(TerminalCase):
    def setUp(self):
        super().setUp()
        if not edits():
            self.skipTest("this program was built without libedit")

    def test_a_line_is_edited(self):
        screen = self.chat(*SHOWN)
        self.assertTrue(asked(self.ask(screen, b"ace" + LEFT + b"d" + LEFT + LEFT + b"b\r"), b"abcde"), screen.seen)
        self.assertTrue(asked(self.ask(screen, b"x wrong\x17right\x01\x04\r"), b" right"), screen.seen)
        # Characters, not bytes, whatever the locale.
        screen = self.chat(*SHOWN, LC_ALL="C")
        self.assertTrue(asked(self.ask(screen, "é東x😀".encode() + b"\x7f" + LEFT + b"\x7f\r"), "éx".encode()), screen.seen)
        self.assertTrue(asked(self.ask(screen, b"a\xffb\r"), b"a\xef\xbf\xbdb"), screen.seen)

    def test_a_pasted_text_is_one_question(self):
        screen = self.chat(*SHOWN)
        for pasted, question in ((b"one\rtwo\rthree", b"one\ntwo\nthree"), (b"one\n\r\ntwo\r\n", b"one\n\ntwo\n"),
                                 (b"/reset x\ry", b"/reset x\ny"), ("é東".encode() * 70, "é東".encode() * 70)):
            self.assertTrue(asked(self.ask(screen, PASTE + pasted + PASTE_END + b"\r"), question), screen.seen[-500:])
        self.assertTrue(asked(self.ask(screen, b"<" + PASTE + b"a\rb" + PASTE_END + b">\r"), b"<a\nb>"), screen.seen[-500:])
        self.assertTrue(asked(self.ask(screen, UP + UP + b"!\r"), "é東".encode() * 70 + b"!"), screen.seen[-500:])

    def test_a_pasted_text_that_is_too_long_is_not_taken(self):
        screen = self.chat(*SHOWN)
        screen.send(b"a" + PASTE + b"long " * 210_000 + PASTE_END)
        self.assertTrue(screen.read_until(lambda seen: b"\x07" in seen))
        self.assertTrue(asked(self.ask(screen, b"b\r"), b"ab"), screen.seen[-500:])

    def test_questions_come_back_in_the_next_chat(self):
        screen = self.chat(*SHOWN)
        for question in (b"first", b"second\\n", PASTE + b"two\rlines" + PASTE_END, b"same", b"same"):
            self.ask(screen, question + b"\r")
        with open(self.history, "rb") as file:
            self.assertEqual(file.read(), b"first\nsecond\\\\n\ntwo\\nlines\nsame\n")
        self.assertEqual(stat.S_IMODE(os.stat(self.history).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(self.history)).st_mode), 0o700)
        self.assertEqual(os.listdir(os.path.dirname(self.history)), ["history"])
        screen = self.chat(*SHOWN)
        self.assertTrue(asked(self.ask(screen, UP * 2 + b"\r"), b"two\nlines"), screen.seen)
        self.assertTrue(asked(self.ask(screen, UP * 4 + b"\r"), b"second\\n"), screen.seen)

    def test_the_history_is_the_users_alone_and_as_long_as_it_may_be(self):
        os.mkdir(os.path.dirname(self.history))
        with open(self.history, "wb") as file:
            file.write(b"\n".join(b"question %d" % i for i in range(1500)) + b"\nlast, without an end")
        os.chmod(self.history, 0o644)
        before = os.stat(self.history).st_ino
        self.ask(self.chat(*SHOWN), b"new\r")
        with open(self.history, "rb") as file:
            lines = file.read().split(b"\n")
        self.assertEqual(lines[-3:], [b"last, without an end", b"new", b""])
        self.assertEqual(lines[0], b"question 502")   # a thousand of them
        self.assertEqual(stat.S_IMODE(os.stat(self.history).st_mode), 0o600)
        self.assertNotEqual(os.stat(self.history).st_ino, before)   # another file, renamed
        # Lines that are empty or long, typed or found, are not kept.
        with open(self.history, "wb") as file:
            file.write(b"\n\nold\n" + b"x" * 140_000 + b"\n")
        screen = self.chat(*SHOWN, "-c", "40")
        self.ask(screen, PASTE + b"long " * 14_000 + PASTE_END + b"\r")
        self.ask(screen, b"new\r")
        with open(self.history, "rb") as file:
            self.assertEqual(file.read(), b"old\nnew\n")

    def test_no_history_where_none_is_wanted_or_to_be_had(self):
        screen = self.chat(*SHOWN, "--no-history")
        self.ask(screen, b"secret\r")
        self.assertFalse(os.path.exists(self.history))
        # A history that is no file: said once, and the chat goes on.
        os.makedirs(self.history)
        screen = self.chat(*SHOWN)
        self.assertIn(b"the history is not kept", self.ask(screen, b"first\r"))
        self.assertNotIn(b"the history is not kept", self.ask(screen, b"second\r"))
        os.rmdir(self.history)
        os.symlink("/dev/null", self.history)   # the usual way to have none
        self.assertNotIn(b"the history is not kept", self.ask(self.chat(*SHOWN), b"first\r"))
        self.assertEqual(os.readlink(self.history), "/dev/null")
        # Nor is one that is absurdly large.
        os.remove(self.history)
        with open(self.history, "wb") as file:
            file.truncate(5 << 20)
        screen = self.chat(*SHOWN)
        self.assertIn(b"is too large for a history", screen.seen)
        self.ask(screen, b"first\r")
        self.assertEqual(os.path.getsize(self.history), 5 << 20)
        # A folder that is not named from the root does not count.
        home = os.path.join(self.folder, "home")
        self.ask(self.chat(*SHOWN, XDG_STATE_HOME="relative", HOME=home), b"first\r")
        self.assertTrue(os.path.exists(home + "/.local/state/mote/history"))
        # A folder that the environment does not name is none.
        screen = self.chat(*SHOWN, XDG_STATE_HOME="relative", HOME="")
        self.assertNotIn(b"the history is not kept", self.ask(screen, b"first\r"))

    def test_two_chats_share_the_history(self):
        one, other = self.chat(*SHOWN), self.chat(*SHOWN)
        self.ask(one, b"from one\r")
        self.ask(other, b"from the other\r")
        with open(self.history, "rb") as file:
            self.assertEqual(file.read(), b"from one\nfrom the other\n")

    def test_an_interrupt_drops_the_line_two_at_an_empty_prompt_end_the_chat(self):
        screen = self.chat(*SHOWN)
        screen.send(b"half a que")
        self.assertTrue(screen.read_until(lambda seen: seen.endswith(b"half a que")))   # Ctrl-C drops what was not read yet
        self.assertNotIn(b"once more", self.ask(screen, b"\x03"))
        self.assertTrue(asked(self.ask(screen, b"whole\r"), b"whole"), screen.seen)
        self.assertIn(b"once more", self.ask(screen, b"\x03"))
        self.assertTrue(asked(self.ask(screen, b"more\r"), b"more"), screen.seen)   # the next one is a first one again
        self.assertIn(b"once more", self.ask(screen, b"\x03"))
        screen.interrupt()
        self.assertEqual(screen.exit_code(), 130)
        self.assert_clean(screen)
        self.assertEqual(screen.seen.count(b"half a que"), 1)

    def assert_clean(self, screen):
        self.assertEqual(screen.settings_now(), screen.settings)
        self.assertGreater(screen.seen.rfind(b"\x1b[?2004l"), screen.seen.rfind(b"\x1b[?2004h"))

    @not_in_qemu
    def test_the_terminal_is_clean_however_the_chat_ends(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, -signal.SIGQUIT)):
            screen = self.chat(*SHOWN)
            screen.send(b"typed")
            self.assertTrue(screen.read_until(lambda seen: seen.endswith(b"typed")))
            self.assertNotEqual(screen.settings_now(), screen.settings)   # keys come one by one
            os.kill(screen.process, number)
            self.assertEqual(screen.exit_code(), code)
            self.assert_clean(screen)
        screen = self.chat(*SHOWN)
        screen.send(b"\x04")
        self.assertEqual(screen.exit_code(), 0)
        self.assert_clean(screen)
        screen = self.chat(*ENDLESS)   # while it answers
        before = len(screen.seen)
        screen.send(b"hello\r")
        self.assertTrue(screen.read_until(lambda seen: len(seen) > before + 100))
        os.kill(screen.process, signal.SIGTERM)
        self.assertEqual(screen.exit_code(), 143)
        self.assert_clean(screen)

    @not_in_qemu
    def test_stopping_and_going_on(self):
        screen = self.chat(*SHOWN, shell=True)
        screen.send(b"ab")
        self.assertTrue(screen.read_until(lambda seen: seen.endswith(b"ab")))
        with open(f"/proc/{screen.process}/task/{screen.process}/children", encoding="ascii") as file:
            program = int(file.read())

        def is_stopped():
            with open(f"/proc/{program}/stat", "rb") as file:
                return file.read().rsplit(b")", 1)[1].split()[0] == b"T"
        for number in (signal.SIGTSTP, signal.SIGSTOP):
            os.kill(program, number)
            self.assertTrue(until(is_stopped))
            if number == signal.SIGTSTP:
                self.assertEqual(screen.settings_now(), screen.settings)
            termios.tcsetattr(screen.terminal, termios.TCSANOW, screen.settings)   # as a shell does
            before = len(screen.seen)
            os.kill(program, signal.SIGCONT)
            self.assertTrue(screen.read_until(lambda seen: seen[before:].endswith(b"> ab")), screen.seen[before:])
            self.assertNotEqual(screen.settings_now(), screen.settings)
        self.assertTrue(asked(self.ask(screen, b"c\r"), b"abc"), screen.seen)

    def test_a_window_of_another_size(self):
        screen = self.chat(*SHOWN)
        screen.send(b"word " * 20)
        self.assertTrue(screen.read_until(lambda seen: seen.endswith(b"word ")))
        for columns in (20, 132, 1, 80):
            fcntl.ioctl(screen.terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
            time.sleep(0.02)
        self.assertTrue(asked(self.ask(screen, b"\x7fend\r"), b"word " * 19 + b"wordend"), screen.seen[-500:])


class Commands(TerminalCase):
    """They count on every terminal, with an editor and without one."""

    def setUp(self):
        super().setUp()
        self.environment["TERM"] = "dumb"

    def asks(self, screen, line):
        return self.ask(screen, line + b"\n")

    def test_what_is_a_command(self):
        screen = self.chat(*SHOWN)
        self.assertIn(b"/save FILE", self.asks(screen, b"/help"))
        self.assertIn(b"/nonsense is no command", self.asks(screen, b"/nonsense or other"))
        self.assertIn(b"/save wants a FILE", self.asks(screen, b"/save  "))
        self.assertIn(b"/reset wants nothing", self.asks(screen, b"/reset all"))
        for question in (b"/etc/passwd?", b" /help", b"/", b"/9", b"//help"):
            self.assertTrue(asked(self.asks(screen, question), question), screen.seen[-500:])
        # A pipe's lines are questions.
        notes = mote("run", "-m", MODEL, "--chat-format", "chatml", *SHOWN, stdin=b"/help\n")[1]
        self.assertIn(b"user\n/help<|im_end|>", notes)

    def test_interrupts_without_an_editor(self):
        screen = self.chat(*SHOWN)
        self.assertIn(b"once more", self.ask(screen, b"half\x03"))
        self.assertTrue(asked(self.asks(screen, b"whole"), b"whole"), screen.seen)
        self.assertIn(b"once more", self.ask(screen, b"\x03"))
        screen.interrupt()
        self.assertEqual(screen.exit_code(), 130)

    def answers(self, *lines, options=(), seed="7", context="500"):
        """What a chat that was seeded and samples says to these lines."""
        output = os.path.join(self.folder, "answers")
        screen = self.chat("-n", "12", "--seed", seed, "--temp", "1.5", "-c", context, *options, output=output)
        for line in lines:
            self.asks(screen, line)
        screen.send(b"\x04")
        self.assertEqual(screen.exit_code(), 0)
        with open(output, "rb") as file:
            answers = file.read()
        os.remove(output)
        return answers, screen.seen

    def test_a_saved_chat_goes_on_as_if_it_had_never_ended(self):
        path = os.path.join(self.folder, "chat file").encode()
        whole, _ = self.answers(b"first", b"second", b"third", options=("--system", "S"))
        begun, seen = self.answers(b"first", b"second", b"/save " + path, options=("--system", "S"))
        self.assertIn(b"saved, 2 questions", seen)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertTrue(whole.startswith(begun))
        # In another process, with another seed and other words of the system, whatever was said there before.
        others = {"seed": "1", "context": "400", "options": ("--system", "T", "--show-prompt")}
        rest, seen = self.answers(b"/load " + path, b"third", **others)
        self.assertIn(b"loaded, 2 questions", seen)
        self.assertIn(b"system\r\nS<|im_end|>", seen)
        self.assertNotIn(b"system\r\nT<|im_end|>", seen)
        self.assertEqual(begun + rest, whole)
        self.assertTrue(self.answers(b"other", b"/load " + path, b"third", **others)[0].endswith(rest))

    def test_a_chat_that_is_reset_begins_anew(self):
        once, _ = self.answers(b"first", b"second")
        twice, seen = self.answers(b"first", b"second", b"/reset", b"/stats", b"first", b"second")
        self.assertEqual(twice, once * 2)
        self.assertIn(b"conversation: 0 questions", seen)
        self.assertNotIn(b"last answer", seen)
        self.assertIn(b"context: 0 of 500 positions used, 500 left", seen)

    def test_stats(self):
        _, seen = self.answers(b"/stats", b"first", b"/stats", b"second", b"/stats")
        parts = seen.split(b"memory: ")
        self.assertEqual(len(parts), 4)
        self.assertNotIn(b"last answer", parts[0])
        for part, questions in ((parts[1], b"1 question"), (parts[2], b"2 questions")):
            self.assertRegex(part, rb"last answer: \d+ tokens?, [\d.-]+ t/s; its prompt: \d+ tokens, \d+ of them new, [\d.]+ t/s\r\n"
                             rb"conversation: " + questions + rb"\r\ncontext: (\d+) of 500 positions used, \d+ left\r\n")
        for part in parts[1:]:
            self.assertRegex(part, rb"^engine [\d.]+ \S+, model [\d.]+ \S+, session [\d.]+ \S+, file [\d.]+ \S+; the process now ")

    def test_nothing_else_is_overwritten(self):
        folder = self.folder.encode()
        foreign, own, fifo = folder + b"/foreign", folder + b"/own", folder + b"/fifo"
        for path, data in ((foreign, b"mote char"), (own, b"")):
            with open(path, "wb") as file:
                file.write(data)
        os.chmod(own, 0o640)
        os.mkfifo(fifo)
        screen = self.chat(*SHOWN)
        self.assertIn(b"foreign is there and no chat that /save wrote: it is left as it is", self.asks(screen, b"/save " + foreign))
        with open(foreign, "rb") as file:
            self.assertEqual(file.read(), b"mote char")
        sizes = []
        for _ in range(2):
            self.assertIn(b"own: saved", self.asks(screen, b"/save " + own))
            self.asks(screen, b"more")
            sizes.append(os.path.getsize(own))
        self.assertGreater(sizes[1], sizes[0])
        self.assertEqual(stat.S_IMODE(os.stat(own).st_mode), 0o640)
        for path, why in ((folder, b"is no regular file"), (fifo, b"is no regular file"), (b"/dev/null", b"is no regular file"),
                          (folder + b"/no/such", b"cannot be created"), (b"-", b"is no regular file")):
            self.assertIn(why, self.asks(screen, b"/save " + path))
        self.assertEqual(sorted(os.listdir(folder)), [b"fifo", b"foreign", b"own"])
        self.assertIn(b"home: saved", self.asks(screen, b"/save ~/home"))   # as a shell has it
        self.assertTrue(os.path.exists(os.path.join(self.environment["HOME"], "home")))

    def test_files_that_are_no_chats_are_refused(self):
        path, own = os.path.join(self.folder, "bad").encode(), os.path.join(self.folder, "good").encode()
        self.answers(b"first", b"/save " + own)
        with open(own, "rb") as file:
            good = file.read()
        head, messages = 40, struct.unpack_from("<Q", good, 16)[0]

        def changed(at, data):
            return good[:at] + data + good[at + len(data):]

        def with_messages(*parts, behind=b""):
            """A forged conversation, with the right sums."""
            text, hashed = b"".join(bytes([role]) + struct.pack("<Q", size) + words for role, size, words in parts) + behind, 0xcbf29ce484222325
            for byte in text:
                hashed = (hashed ^ byte) * 0x100000001b3 % 2**64
            return good[:12] + struct.pack("<IQQQ", len(parts), len(text), len(good) - head - messages, hashed) + text + good[head + messages:]

        damaged = b"bad is damaged"
        table = [
            (b"", b"no chat that /save wrote"), (b"mote char", b"no chat that /save wrote"), (good[:11], b"another version"),
            (b"mote chat 2\n" + good[12:], b"another version"), (good[:12], b"ends in its head"), (good[:39], b"ends in its head"), (good[:40], damaged),
            (good[:-1], damaged), (good + b"x", damaged), (changed(12, b"\xff" * 4), damaged), (changed(16, b"\xff" * 8), damaged),
            (changed(24, b"\xff" * 8), damaged), (changed(32, b"\0" * 8), damaged), (changed(head + 10, b"~"), damaged),
            (changed(head + messages, b"x"), b"the bytes are no snapshot"[4:]), (changed(len(good) - 1, bytes([good[-1] ^ 1])), b"the snapshot is damaged"),
            (changed(head + messages + 300, bytes([good[head + messages + 300] ^ 1])), b"the snapshot is damaged"),
            (with_messages((1, 2, b"ab")), damaged), (with_messages((2, 1, b"a")), damaged), (with_messages((3, 0, b"")), damaged),
            (with_messages((1, 1, b"a"), (0, 0, b"")), damaged), (with_messages((1, 1, b"a"), (1, 1, b"b"), (2, 1, b"c")), damaged),
            (with_messages((1, 2**64 - 1, b"a"), (2, 0, b"")), b"message 0 goes beyond"), (with_messages((1, 9, b"a"), (2, 9, b"")), b"message 1 goes beyond"),
            (with_messages((1, 1, b"a"), (2, 1, b"b"), behind=b"\1\0\0"), b"message 2 goes beyond"),
            (changed(16, struct.pack("<QQ", len(good) - head + 5, 2**64 - 5)), damaged),
        ]
        output = os.path.join(self.folder, "said")
        screen = self.chat("-n", "12", "--seed", "7", "--temp", "1.5", "-c", "500", output=output)
        self.asks(screen, b"other")
        for data, why in table:
            with open(path, "wb") as file:
                file.write(data)
            self.assertIn(why, self.asks(screen, b"/load " + path))
        with open(path, "wb") as file:   # a hole of a terabyte, which the head is true to
            file.write(changed(24, struct.pack("<Q", (1 << 40) - head - messages)))
            file.truncate(1 << 40)
        self.assertIn(b"more than this session can hold", self.asks(screen, b"/load " + path))
        with open(path, "wb") as file:   # and one of words
            file.write(changed(16, struct.pack("<Q", (1 << 28) + 1)))
            file.truncate(len(good) - messages + (1 << 28) + 1)
        self.assertIn(b"more than the 256 MiB of text", self.asks(screen, b"/load " + path))
        os.remove(path)
        os.mkfifo(path)
        for name, why in ((path, b"is no regular file"), (self.folder.encode(), b"is no regular file"), (b"/dev/zero", b"is no regular file"),
                          (path + b"/x", b"cannot be opened"), (b"none\x1b[2J", b"cannot be opened")):
            seen = self.asks(screen, b"/load " + name)
            self.assertIn(why, seen)
            self.assertNotIn(b"\x1b[2J", seen.replace(b"/load " + name, b""))
        self.asks(screen, b"second")   # as if nothing had been
        with open(output, "rb") as file:
            said = file.read()
        self.assertEqual(said, self.answers(b"other", b"second")[0])

    def test_a_chat_of_another_session_is_refused(self):
        path = os.path.join(self.folder, "chat").encode()
        self.answers(b"a question of some length", b"/save " + path)
        for options, why in ((("--kv-type", "f32"), b"f16"), (("-c", "16"), b"16"), (("--backend", "reference", "--kv-type", "f16"), b"arithmetic")):
            screen = self.chat("-n", "1", "--seed", "7", *options)
            self.assertRegex(self.asks(screen, b"/load " + path), b"chat: .*" + why)

    def test_a_full_context_slides_in_the_middle_of_an_answer(self):
        output = os.path.join(self.folder, "said")
        screen = self.chat("-c", "96", "--on-full", "slide", "-n", "200", "--seed", "3", "--logit-bias", "383:-inf", "--system", "Be brief.", output=output)
        self.asks(screen, b"first")
        seen = self.asks(screen, b"/stats")
        self.assertIn(b"last answer: 200 tokens", seen)
        # The words of the system are the first tokens still.
        system = strict_json(mote("tokenize", "-m", MODEL, "--parse-special", "--json",
                                  stdin=b"<|im_start|>system\nBe brief.<|im_end|>\n")[0])["ids"]
        path = os.path.join(self.folder, "slid")
        self.asks(screen, b"/save " + path.encode())
        with open(path, "rb") as file:
            self.assertIn(struct.pack(f"<{len(system)}i", *system), file.read())
        seen = self.asks(screen, b"second")
        self.assertIn(b"forgotten", seen)
        self.assertNotIn(b"was not asked", seen)
        self.assertIn(b"last answer: 200 tokens", self.asks(screen, b"/stats"))


