"""Signals at inconvenient moments, and streams that do not block or that nobody reads. Linux's /proc tells the moments."""
import fcntl
import os
import signal
import struct
import subprocess
import threading
import time

from program import EMULATED, HANG_SECONDS, MODEL, PROGRAM, SANITIZED, Case, strict_json, string_value

CHAT = ["run", "-m", MODEL, "--chat-format", "chatml", "--temp", "0", "--logit-bias", "383:-inf"]
F_SETPIPE_SZ = 1031
LONG = 300 if EMULATED or SANITIZED else 3000   # tokens of an answer that a small pipe does not take at once


def until(done, seconds=60):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


class Signals(Case):
    def start(self, *arguments, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        process = subprocess.Popen([PROGRAM, *arguments], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                                   **options)

        def stop():
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
        self.addCleanup(stop)
        return process

    def state(self, process):
        with open(f"/proc/{process.pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0]

    def sleeps(self, process):
        """Whether the program's main thread has been waiting for some time."""
        return until(lambda: all(self.state(process) == b"S" and not time.sleep(0.01) for _ in range(10)))

    def test_signals_that_end_the_program_leave_no_file(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            process = self.start("logits", "-m", MODEL, "--tokens", ",".join(["1"] * 60_000), "-o",
                                 os.path.join(self.folder, "rows.npy"))
            self.assertTrue(until(lambda: os.listdir(self.folder)), "no unfinished file appeared")
            process.send_signal(number)
            self.assertEqual(process.wait(60), 128 + number)
            self.assertEqual(os.listdir(self.folder), [])

    def test_signals_that_the_parent_ignores_stay_ignored(self):
        for number in (signal.SIGHUP, signal.SIGINT):
            target = os.path.join(self.folder, "rows.npy")
            process = subprocess.Popen([PROGRAM, "logits", "-m", MODEL, "--tokens", ",".join(["1"] * (500 if SANITIZED or EMULATED else 5000)),
                                        "-o", target], stderr=subprocess.DEVNULL,
                                       preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
            until(lambda: os.listdir(self.folder))
            process.send_signal(number)
            self.assertEqual(process.wait(HANG_SECONDS), 0)
            os.remove(target)

    def test_interrupting_the_opening_of_a_model(self):
        path = os.path.join(self.folder, "slow.gguf")
        count = 50_000_000   # empty strings, which take their time and no place on the disk
        with open(path, "wb") as file:
            entries = [(b"general.architecture", string_value(b"llama")),
                       (b"slow", struct.pack("<IIQ", 9, 8, count))]
            file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)))
            for key, value in entries:
                file.write(struct.pack("<Q", len(key)) + key + value)
            file.truncate(file.tell() + 8 * count)
        process = self.start("run", "-m", path, "--raw", "-p", "x")

        def is_mapped():
            with open(f"/proc/{process.pid}/maps", encoding="utf-8") as file:
                return "slow.gguf" in file.read()
        self.assertTrue(until(is_mapped))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        self.assertEqual(process.stderr.read(), b"")

    def full_pipe(self):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, F_SETPIPE_SZ, 4096)
        self.addCleanup(os.close, reader)
        return reader, writer

    def drain(self, reader):
        got = []

        def read():
            while data := os.read(reader, 65536):
                got.append(data)
        thread = threading.Thread(target=read)
        thread.start()
        return thread, got

    def test_the_first_interrupt_ends_a_run_that_nobody_reads(self):
        reader, writer = self.full_pipe()
        for non_blocking in (False, True):
            os.set_blocking(writer, not non_blocking)
            process = self.start("run", "-m", MODEL, "--raw", "-p", "x", "--temp", "0", "--logit-bias", "383:-inf",
                                 "-n", "100000000", "--on-full", "slide", stdout=writer)
            self.assertTrue(self.sleeps(process))
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60), 130)
            self.assertEqual(process.stderr.read(), b"")
        os.close(writer)

    def computes(self, process):
        """Whether the program has opened its session: signals after that end the call, not the program."""
        def cpu_ticks():
            with open(f"/proc/{process.pid}/stat", "rb") as file:
                return sum(map(int, file.read().rsplit(b")", 1)[1].split()[11:13]))
        return until(lambda: cpu_ticks() >= (300 if SANITIZED else 50))   # half a second, many times what opening takes

    def test_the_second_interrupt_does_not_wait_for_what_the_first_one_cancels(self):
        process = self.start(*CHAT, "-c", "100000", stdin=subprocess.PIPE)   # its input goes on after the question
        process.stdin.write(b"word " * 20_000 + b"\n")
        process.stdin.flush()
        self.assertTrue(self.computes(process))

        def is_delivered():
            with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
                pending = dict(line.split(":\t") for line in file if line.startswith(("SigPnd", "ShdPnd")))
            return not any(int(mask, 16) >> (signal.SIGINT - 1) & 1 for mask in pending.values())
        process.send_signal(signal.SIGINT)
        self.assertTrue(until(is_delivered))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)

    def test_an_interrupt_during_the_prompt_still_writes_one_object(self):
        text = self.write("text", b"word " * 20_000)
        process = self.start("run", "-m", MODEL, "--raw", "-f", text, "-c", "200000", "--temp", "0", "--json", "-n", "4")
        self.assertTrue(self.computes(process))
        process.send_signal(signal.SIGINT)
        self.assertTrue(self.sleeps(process))   # more than the pipe holds, so that it waits for the reader
        out, notes = process.communicate(timeout=60)
        answer = strict_json(out)
        self.assertEqual((process.returncode, answer["finish_reason"], answer["text"], answer["ids"]),
                         (130, "interrupted", "", []))
        self.assertLess(answer["timings"]["prompt_tokens"], len(answer["prompt_ids"]))
        self.assertNotIn(b"mote:", notes)
        process = self.start("perplexity", "-m", MODEL, "-f", text, "-c", "16000", "--json")
        self.assertTrue(self.computes(process))
        process.send_signal(signal.SIGINT)
        out, notes = process.communicate(timeout=60)
        self.assertEqual((process.returncode, strict_json(out)), (130, {"error": "interrupted", "exit_code": 130}))
        self.assertNotIn(b"mote:", notes)

    def test_the_first_interrupt_ends_a_file_into_a_pipe_that_nobody_reads(self):
        reader, writer = self.full_pipe()
        process = self.start("logits", "-m", MODEL, "--tokens", ",".join(["1"] * 100), "-o", "-", stdout=writer)
        os.close(writer)
        self.assertTrue(self.sleeps(process))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)

    def test_an_interrupt_between_calls_does_not_drop_the_next_question(self):
        # Nobody reads the first answer, so the signal comes while it is written and no call of the library runs.
        reader, writer = self.full_pipe()
        process = self.start(*CHAT, "-n", str(LONG), "-c", "8000", "--logit-bias", "70:1000", stdin=subprocess.PIPE, stdout=writer)
        os.close(writer)
        process.stdin.write(b"one\ntwo\n")
        process.stdin.close()
        self.assertTrue(self.sleeps(process))
        process.send_signal(signal.SIGINT)
        self.assertTrue(self.sleeps(process))   # until the signal has been seen; the chat goes on
        thread, got = self.drain(reader)
        self.assertEqual(process.wait(HANG_SECONDS), 0)
        thread.join(60)
        answers = b"".join(got).split(b"\n")[:-1]
        self.assertEqual(len(answers), 2, answers)
        self.assertLess(len(answers[0]), LONG * len(answers[1][:1]))
        self.assertEqual(answers[1], answers[1][:1] * LONG)

    def test_streams_that_do_not_block(self):
        # Both ends are slow: nothing is there to read at first, and nobody reads for a while.
        plain = subprocess.run([PROGRAM, "tokenize", "-m", MODEL], input=b"words " * 20_000, capture_output=True, check=True)
        for command in (["tokenize", "-m", MODEL], ["perplexity", "-m", MODEL, "-f", "-", "-c", "16", "--chunks", "2"],
                        [*CHAT, "-n", str(LONG), "-c", "20000", "--logit-bias", "70:1000"]):
            reader, writer = self.full_pipe()
            source, feeder = os.pipe()
            os.set_blocking(writer, False)
            os.set_blocking(source, False)
            process = self.start(*command, stdin=source, stdout=writer)
            os.close(writer)
            os.close(source)
            self.assertTrue(self.sleeps(process))
            text = b"words " * 20_000 if command[0] != "run" else b"one\ntwo\n"
            sent = threading.Thread(target=lambda: (os.write(feeder, text) == len(text), os.close(feeder)))
            sent.start()
            if command[0] != "perplexity":   # its line fits into the pipe
                self.assertTrue(self.sleeps(process))
            thread, got = self.drain(reader)
            self.assertEqual(process.wait(HANG_SECONDS), 0, process.stderr.read())
            thread.join(60)
            sent.join(60)
            if command[0] == "tokenize":
                self.assertEqual(b"".join(got), plain.stdout)
            self.assertNotEqual(b"".join(got), b"")
