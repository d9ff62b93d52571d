#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Output in a pipe and on a terminal: plain lines in one, a bar that fits and cleans up on the other."""
import re

from octet_cli import SOLO, TINY, Terminal, check, contains, environment, equal, finish, lacks, octet

RUN = ["train", *SOLO, "--epochs", "3"]
ROWS = ["accuracy", "loss", "samples/s", "time", "parameters", "workspace", "state", "model"]

# --- a pipe: one plain line an epoch, the table on stdout --------------------------------------

done = octet(*RUN)
equal(done.code, 0, "train in a pipe: exit", done)
lines = done.err.splitlines()
equal(len(lines), 5, "train in a pipe: lines on stderr", done.err)
equal([line.split()[0] for line in lines[:2]], ["data", "model"], "train in a pipe: what is about to happen")
for number, line in enumerate(lines[2:], 1):
    check(re.fullmatch(rf"epoch {number}/3: loss \d+\.\d{{4}}, accuracy \d+\.\d\d %, test loss "
                       rf"\d+\.\d{{4}}, test accuracy \d+\.\d\d %, \d+ samples/s, \d+\.\d s", line),
          f"a plain line: {line!r}")
for row in ROWS:
    check(re.search(rf"^{re.escape(row)} +\S", done.out, re.M), f"the table has a row '{row}'", done.out)
lacks(done.out + done.err, "\x1b", "train in a pipe")
lacks(done.out + done.err, "\r", "train in a pipe")
quiet = octet(*RUN, "--quiet")
equal(quiet.err, "", "train --quiet in a pipe: stderr")
contains(quiet.out, "accuracy", "train --quiet still prints its result")

# --- a terminal --------------------------------------------------------------------------------

for columns in (40, 80, 120):
    terminal = Terminal(*RUN, columns=columns)
    equal(terminal.finish(), 0, f"train on {columns} columns: exit", terminal.raw)
    drawn = terminal.drawings()
    bars = [line for line in drawn if line.startswith("epoch ") and ("━" in line or "─" in line)]
    check(len(bars) >= 1, f"{columns} columns: the bar was drawn {len(bars)} times")
    widest = max(len(line) for line in bars) if bars else 0
    check(widest < columns, f"{columns} columns: the widest bar takes {widest}")
    most = 10 * terminal.seconds + 2 * 3 + 3  # ten a second, and one more at each change of phase
    check(len(bars) <= most, f"{columns} columns: at most {most:.0f} drawings, {len(bars)} made")
    screen = terminal.screen()
    lacks("\n".join(line for line in screen if line.startswith("epoch ")), "━",
          f"{columns} columns: no bar is left")
    heads = [line for line in screen if "test acc" in line]
    equal(len(heads), 1, f"{columns} columns: headings of the epochs", screen)
    rows = [line for line in screen if re.match(r" *\d/3 ", line)]
    equal(len(rows), 3, f"{columns} columns: rows of epochs", screen)
    equal({len(row) for row in rows + heads}, {len(rows[0])} if rows else None,
          f"{columns} columns: rows are aligned")
    check(len(rows[0]) <= columns if rows else False, f"{columns} columns: rows fit")
    for row in ROWS:
        check(any(line.startswith(row + " ") for line in screen), f"{columns} columns: result '{row}'")
    contains(terminal.raw.decode(), "\x1b[32m", f"{columns} columns: in colour")

# Two runs, and quantizers: headings for each run, and everything fits.
for columns in (80, 120):
    terminal = Terminal("train", *SOLO, "--epochs", "2", "--compare", "fp32", "--trace-quant",
                        columns=columns)
    equal(terminal.finish(), 0, f"--compare --trace-quant on {columns} columns: exit", terminal.raw)
    screen = terminal.screen()
    wide = [line for line in screen if len(line) > columns]
    equal(wide, [], f"--compare --trace-quant: lines that do not fit {columns} columns")
    for piece in ("run 1 of 2: int8, range-evonorm", "run 2 of 2: fp32, evonorm-s0"):
        check(piece in screen, f"{columns} columns: a line {piece!r}", screen)
    heads = [line for line in screen if "test acc" in line]
    equal(len(heads), 2, f"{columns} columns: headings of the epochs", screen)
    equal(["clip val" in line and "zero grad" in line for line in heads], [True, False],
          f"{columns} columns: clip rates in the run that is traced")
    rows = [line for line in screen if re.match(r" *\d/2 ", line)]
    equal([len(row) for row in rows], [len(heads[i // 2]) for i in range(4)],
          f"{columns} columns: rows are aligned")
    for row in ("norm ", "samples/s ", "workspace ", "stem ", "classifier "):
        check(any(line.startswith(row) for line in screen), f"{columns} columns: a row {row!r}", screen)

terminal = Terminal(*RUN, env=environment(TERM="xterm", NO_COLOR="1"))
equal(terminal.finish(), 0, "NO_COLOR: exit")
check(not re.search(rb"\x1b\[[0-9;]*m", terminal.raw), "NO_COLOR: no colours", terminal.raw)

terminal = Terminal(*RUN, env=environment(TERM="xterm", LC_ALL="C"))
equal(terminal.finish(), 0, "LC_ALL=C: exit")
check(all(byte < 128 for byte in terminal.raw), "LC_ALL=C: ASCII only", terminal.raw)
contains(terminal.raw.decode("ascii", "replace"), "#", "LC_ALL=C: the bar is made of #")

terminal = Terminal(*RUN, env=environment(TERM="dumb"))
equal(terminal.finish(), 0, "TERM=dumb: exit")
lacks(terminal.raw.decode(), "\x1b", "TERM=dumb")

terminal = Terminal(*RUN, "--quiet")
equal(terminal.finish(), 0, "--quiet: exit")
lacks(terminal.raw.decode(), "epoch 1/3", "--quiet on a terminal")

terminal = Terminal(*RUN, stdout_too=False)
equal(terminal.finish(), 0, "stdout in a pipe, stderr on a terminal: exit")
lacks(terminal.out, "\x1b", "stdout in a pipe")
contains(terminal.out, "accuracy", "stdout in a pipe")

terminal = Terminal("train", *SOLO, "--epochs", "0")
equal(terminal.finish(), 0, "--epochs 0 on a terminal: exit")

terminal = Terminal("train", "--batch", "8x")
equal(terminal.finish(), 2, "wrong usage on a terminal: exit")
equal(len([line for line in terminal.screen() if line]), 2, "wrong usage on a terminal: lines")

GRADIENTS = ["bench", "gradients", *TINY, "--steps", "1", "--batches", "1"]
STEP = ["bench", "step", *TINY[:4], "--threads", "1", "--seconds", "0.01"]
INFER = ["bench", "infer", *TINY[:2], "--threads", "1", "--batch", "1,16", "--seconds", "0.01", "--profile"]
for command in (["data", "list"], ["info"], ["bench", "kernels", "--only", "add_f32"], ["help"],
                STEP, INFER, GRADIENTS, [*GRADIENTS, "--recipes", "octet,octet:range=mean,octet:range=mean,mask=no,paper"]):
    terminal = Terminal(*command, columns=80)
    equal(terminal.finish(), 0, f"{command} on a terminal: exit", terminal.raw)
    # A word longer than the room for it, such as a path, is never cut.
    wide = [line for line in terminal.screen() if len(line) > 80 and len(line.split()[-1]) < 40]
    equal(wide, [], f"{command}: lines that do not fit 80 columns")

finish()
