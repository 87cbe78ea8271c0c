"""The program on a terminal: Ctrl-C while it is idle, reads a prompt or answers; once and twice."""
import os
import tempfile
import pty
import select
import signal
import termios
import time
import unittest

from program import MODEL, PROGRAM, SANITIZED, Case

ENDLESS = ["-n", "100000000", "--on-full", "slide", "--seed", "1"]


def has_terminals():
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError:
        return False
    return True


class Screen:
    """One program on a terminal of its own. `output`: the file that its standard output goes to instead. `shell`: started by
    a process that waits for it in the same session, so that it can be stopped."""

    def __init__(self, *arguments, output=None, shell=False, **environment):
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
                signal.signal(number, signal.SIG_DFL)
            if output:
                os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 1)
            if shell:
                child = os.fork()
                if child:
                    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xff)
                os.setpgid(0, 0)
                signal.signal(signal.SIGTTOU, signal.SIG_IGN)
                os.tcsetpgrp(0, os.getpid())
                signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.execve(PROGRAM, [PROGRAM, *arguments], os.environ | environment)
        self.settings = termios.tcgetattr(self.terminal)
        self.seen = b""
        self.code = None

    def read_until(self, done, seconds=60):
        """Reads until done(all seen so far) or the end; returns whether it was done."""
        end = time.monotonic() + seconds
        while not done(self.seen):
            if time.monotonic() > end or not select.select([self.terminal], [], [], end - time.monotonic())[0]:
                return False
            try:
                data = os.read(self.terminal, 65536)
            except OSError:   # the program has ended
                data = b""
            if not data:
                return done(self.seen)
            self.seen += data
        return True

    def send(self, data):
        while data:   # the terminal's line takes some kilobytes at a time
            self.read_until(lambda seen: False, 0)
            data = data[os.write(self.terminal, data[:1024]):]

    def interrupt(self):
        self.send(b"\x03")

    def settings_now(self):
        return termios.tcgetattr(self.terminal)

    def exit_code(self, seconds=60):
        end = time.monotonic() + seconds
        while self.code is None and time.monotonic() < end:
            self.read_until(lambda seen: False, 0.05)
            done, status = os.waitpid(self.process, os.WNOHANG)
            if done:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def close(self):
        if self.code is None:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        os.close(self.terminal)


@unittest.skipUnless(has_terminals(), "no pseudo-terminal is to be had here: is /dev/pts mounted?")
class TerminalCase(Case):
    def setUp(self):
        super().setUp()
        state = tempfile.TemporaryDirectory()
        self.addCleanup(state.cleanup)
        self.environment = {"TERM": "xterm", "XDG_STATE_HOME": state.name, "HOME": state.name}
        self.history = os.path.join(state.name, "mote", "history")

    def screen(self, *arguments, **options):
        screen = Screen(*arguments, **self.environment | options)
        self.addCleanup(screen.close)
        return screen

    def chat(self, *arguments, **options):
        screen = self.screen("run", "-m", MODEL, "--chat-format", "chatml", *arguments, **options)
        self.wait_for_prompt(screen, 0)
        return screen

    def wait_for_prompt(self, screen, before):
        """Until there is a new prompt behind the first `before` bytes, whose line is edited by now; returns what came."""
        def there(seen):   # a line that is shown again has a prompt too, but the editor was begun before it
            return seen[before:].endswith(b"> ") and (b"\x1b[?2004h" not in seen or seen[before:].rfind(b"\x1b[?2004h") >= 0)

        self.assertTrue(screen.read_until(there), screen.seen[-300:])
        return screen.seen[before:]

    def ask(self, screen, data):
        before = len(screen.seen)
        screen.send(data)
        return self.wait_for_prompt(screen, before)


class Terminal(TerminalCase):
    def test_interrupting_an_answer_ends_the_run(self):
        screen = self.screen("run", "-m", MODEL, "--raw", "-p", "x", *ENDLESS)
        self.assertTrue(screen.read_until(lambda seen: len(seen) > 200))
        screen.interrupt()
        self.assertEqual(screen.exit_code(), 130)
        screen.seen.decode("utf-8")   # whole characters
        self.assertEqual(screen.settings_now(), screen.settings)
        self.assertTrue(screen.seen.endswith(b"\n"))   # the shell's prompt gets its own line

    def test_interrupting_a_prompt_ends_the_run(self):
        text = self.write("long", b"word " * (3_000 if SANITIZED else 20_000))
        screen = self.screen("run", "-m", MODEL, "--raw", "-f", text, "-c", "100000", "--seed", "1")
        self.assertTrue(screen.read_until(lambda seen: b"prompt " in seen), screen.seen)   # progress, on a terminal
        screen.interrupt()
        self.assertEqual(screen.exit_code(), 130)

    def test_the_first_interrupt_ends_the_turn_the_second_the_chat(self):
        screen = self.chat(*ENDLESS)
        for _ in range(2):   # a new question makes the next interrupt a first one again
            before = len(screen.seen)
            screen.send(b"hello\n")
            self.assertTrue(screen.read_until(lambda seen: len(seen) > before + 100))
            self.ask(screen, b"\x03")
        self.assertIn(b"once more", self.ask(screen, b"\x03"))
        screen.interrupt()
        self.assertEqual(screen.exit_code(), 130)
        self.assertEqual(screen.settings_now(), screen.settings)

    def test_interrupts_in_a_row_end_the_chat(self):
        screen = self.chat(*ENDLESS)
        before = len(screen.seen)
        screen.send(b"hello\n")
        self.assertTrue(screen.read_until(lambda seen: len(seen) > before + 100))
        for _ in range(3):   # the second one may come when the answer has ended
            os.kill(screen.process, signal.SIGINT)
            time.sleep(0.01)
        self.assertEqual(screen.exit_code(), 130)
        self.assertEqual(screen.settings_now(), screen.settings)

    def test_the_end_of_input_ends_a_chat_well(self):
        screen = self.chat("-n", "3")
        self.ask(screen, b"hello\n")
        screen.send(b"\x04")
        self.assertEqual(screen.exit_code(), 0)

    def test_an_interrupted_file_is_not_there(self):
        tokens = ",".join(["1"] * (3_000 if SANITIZED else 20_000))
        screen = self.screen("logits", "-m", MODEL, "--tokens", tokens, "-o", os.path.join(self.folder, "rows.npy"))
        self.assertTrue(screen.read_until(lambda seen: b"logits " in seen), screen.seen)
        screen.interrupt()
        self.assertEqual(screen.exit_code(), 130)
        self.assertEqual(os.listdir(self.folder), [])

    def test_two_interrupts_remove_the_file_too(self):
        tokens = ",".join(["1"] * (3_000 if SANITIZED else 20_000))
        screen = self.screen("logits", "-m", MODEL, "--tokens", tokens, "-o", os.path.join(self.folder, "rows.npy"))
        self.assertTrue(screen.read_until(lambda seen: b"logits " in seen), screen.seen)
        for _ in range(2):
            os.kill(screen.process, signal.SIGINT)
        self.assertEqual(screen.exit_code(), 130)
        self.assertEqual(os.listdir(self.folder), [])

    def test_interrupted_bench_keeps_whole_records(self):
        screen = self.screen("bench", "-m", MODEL, "-p", "16", "-n", "8", "-r", "1000000", "--no-warmup")
        self.assertTrue(screen.read_until(lambda seen: b"pp16" in seen), screen.seen)
        screen.interrupt()
        self.assertEqual(screen.exit_code(), 130)
