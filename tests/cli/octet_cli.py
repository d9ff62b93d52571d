# SPDX-License-Identifier: Apache-2.0
"""What the scripts beside this file share: running octet, in a pipe or on a made-up terminal, and
comparing what came out.

The program is the first argument of a script, or $OCTET. Every comparison prints what it compared.
"""
import fcntl
import json
import os
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

OCTET = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("OCTET", "octet"))

# Long enough for a sanitizer on a busy machine; a run that takes this long hangs.
PATIENCE_S = 120

# A run of a second or less, on any engine: 64 tiny images in 4 classes. Without more it is of 8 nodes.
TINY = ["--data", "synthetic:samples=64,classes=4,size=8", "--batch", "16", "--augment", "none",
        "--threads", "1"]
SOLO = [*TINY, "--nodes", "1", "--momentum", "local"]

# For tests that write hundreds of files: in memory, where nothing waits for a disk. None: as usual.
QUICK = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None

# Where runs are recorded: not in the user's own list.
_state = tempfile.TemporaryDirectory()

_counts = {"ok": 0, "bad": 0}


def check(condition, what, *details):
    """Counts a comparison and prints it; details are shown in full when it fails."""
    _counts["ok" if condition else "bad"] += 1
    print(("ok    " if condition else "FAIL  ") + what)
    if not condition:
        for detail in details:
            print("      " + str(detail).replace("\n", "\n      "))


def equal(got, expected, what, *details):
    check(got == expected, f"{what}: {got!r}" + ("" if got == expected else f", expected {expected!r}"),
          *details)


def contains(text, piece, what):
    check(piece in text, f"{what}: has {piece!r}", f"in: {text!r}")


def lacks(text, piece, what):
    check(piece not in text, f"{what}: lacks {piece!r}", f"in: {text!r}")


def finish():
    print(f"{_counts['ok']} comparisons held, {_counts['bad']} did not ({OCTET})")
    sys.exit(1 if _counts["bad"] or not _counts["ok"] else 0)


def environment(**changes):
    """The caller's environment without what would change results; None removes a variable."""
    env = dict(os.environ)
    for name in ("OCT_CPU", "OCTET_DATA", "XDG_DATA_HOME", "NO_COLOR", "COLUMNS", "TERM"):
        env.pop(name, None)
    env["XDG_STATE_HOME"] = _state.name
    env["LC_ALL"] = "C.UTF-8"
    for name, value in changes.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    return env


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        return f"exit {self.code}\nstdout: {self.out}\nstderr: {self.err}"


def octet(*arguments, env=None, stdout=subprocess.PIPE, room=None, as_nobody=False):
    """Runs octet. `room`: its files end after so many bytes, as on a disk that runs full. `as_nobody`: not as
    root, who may write anywhere."""
    def limit():
        if room is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        if as_nobody and os.geteuid() == 0:
            os.setuid(65534)
    done = subprocess.run([OCTET, *arguments], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, env=env or environment(), timeout=PATIENCE_S,
                          preexec_fn=limit if room is not None or as_nobody else None)
    return Outcome(done.returncode, (done.stdout or b"").decode(), done.stderr.decode())


def draws_on_stdout(what, *arguments):
    """The command with --svg -: the drawing and nothing else, no file of that name, and no JSON beside it."""
    done = octet(*arguments, "--svg", "-")
    equal((done.code, done.out[:4], done.out[-7:], done.out.count("<svg")), (0, "<svg", "</svg>\n", 1),
          f"{what} --svg -: a drawing alone", done)
    check(not os.path.exists("-"), f"{what} --svg -: no file is called -")
    if has_json():
        done = octet(*arguments, "--svg", "-", "--json")
        equal((done.code, "--svg - and --json cannot both go to stdout" in done.out), (2, True),
              f"{what} --svg - --json: refused", done)
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            done = octet(*arguments, "--svg", "-", stdout=full)
        equal(done.code, 1, f"{what} --svg - > /dev/full: exit", done)
        contains(done.err, "stdout cannot be written: No space left on device", f"{what} --svg - > /dev/full")


def keeps_older(what, path, *arguments):
    """The command, which writes `path` as its last argument says, finds no room: the older file stays, alone."""
    with open(path, "w", encoding="ascii") as file:
        file.write("the older one")
    for room in (1024, 2000):  # OpenMP of Clang wants 1024 for itself
        done = octet(*arguments, path, room=room)
        equal(done.code, 1, f"{what}, room for {room} bytes: exit", done)
        contains(done.err, f"{path} cannot be written: File too large", f"{what}, room for {room} bytes")
        with open(path, encoding="utf-8") as file:
            equal(file.read(), "the older one", f"{what}, room for {room} bytes")
    equal(os.listdir(os.path.dirname(path)), [os.path.basename(path)], f"{what}: nothing beside it")
    os.remove(path)


def octet_json(*arguments, code=0, env=None):
    """Runs with --json; exactly one object with "schema": 1 must be on stdout."""
    done = octet(*arguments, "--json", env=env)
    what = "octet " + " ".join(arguments) + " --json"
    equal(done.code, code, what + ": exit", done)
    try:
        value = json.loads(done.out)
    except ValueError as error:
        check(False, f"{what}: one JSON object ({error})", done)
        return {}
    check(isinstance(value, dict) and value.get("schema") == 1, what + ": object with schema 1", done)
    return value


def has_json():
    """False when the program was built without jansson."""
    return octet("version", "--json").code == 0


def skip_without_json():
    if not has_json():
        done = octet("info", "--json")
        equal(done.code, 1, "info --json in a build without JSON: exit", done)
        contains(done.err, "built without JSON (jansson)", "info --json in a build without JSON")
        finish()


class Terminal:
    """octet on a pseudo-terminal of so many columns. `stdout_too`: stdout is the terminal as well;
    otherwise only stderr is, and stdout a pipe. `stdin_too`: so is stdin."""

    def __init__(self, *arguments, columns=80, env=None, stdout_too=True, stdin_too=False):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [OCTET, *arguments], stdin=slave if stdin_too else subprocess.DEVNULL, stderr=slave,
            stdout=slave if stdout_too else subprocess.PIPE,
            env=env or environment(TERM="xterm"))
        os.close(slave)
        self.raw = b""

    def _read(self, timeout):
        ready, _, _ = select.select([self.master], [], [], timeout)
        if not ready:
            return True
        try:
            chunk = os.read(self.master, 65536)
        except OSError:  # the other side is closed
            return False
        self.raw += chunk
        return bool(chunk)

    def wait_for(self, text):
        """Reads until `text` was printed; False when the program ended or took too long before."""
        while text.encode() not in self.raw:
            if time.monotonic() - self.started > PATIENCE_S or not self._read(1):
                return False
        return True

    def type(self, text):
        os.write(self.master, text.encode())

    def signal(self, number):
        self.process.send_signal(number)

    def finish(self):
        """Reads to the end; returns the exit code (negative: the signal that killed it)."""
        while time.monotonic() - self.started < PATIENCE_S and self._read(1):
            pass
        if self.process.stdout:
            self.out = self.process.stdout.read().decode()
        try:
            code = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "hangs"
        os.close(self.master)
        self.seconds = time.monotonic() - self.started
        return code

    def drawings(self):
        """Every line as it was drawn, redrawn ones included, without colours."""
        text = re.sub(r"\x1b\[[0-9;]*m", "", self.raw.decode())
        return [line for line in re.split(r"\r\n|\r\x1b\[K", text)]

    def screen(self):
        """What is left to see: a redrawn line only as it was last."""
        text = re.sub(r"\x1b\[[0-9;]*m", "", self.raw.decode())
        return [re.split(r"\r\x1b\[K", line)[-1] for line in text.split("\r\n")]
