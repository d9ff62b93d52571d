#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same bits in one process and over ranks: every algorithm, dense and with top-k, both precisions, on a
graph that stays and one that changes (ranks.c); uneven shares among them; stopped and gone on with elsewhere."""
import os
import subprocess
import tempfile
import time

from launch import environment, launch
from octet_cli import check, contains, equal, finish

RANKS = os.environ["OCT_RANKS"]


def alone(*arguments):
    done = subprocess.run([RANKS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(),
                          timeout=300, check=False)
    print(done.stdout.decode(), end="")
    equal(done.returncode, 0, f"in one process: {' '.join(arguments[:1])}: exit")


def over(n_ranks, *arguments):
    begun = time.monotonic()
    got = launch(n_ranks, RANKS, *arguments)
    print(got.out, end="")
    equal(got.code, 0, f"{n_ranks} ranks: {arguments[0]}: exit, after {time.monotonic() - begun:.1f} s", got.err)
    return got


with tempfile.TemporaryDirectory() as folder:
    lines = os.path.join(folder, "lines")
    alone("write", lines)
    with open(lines, encoding="ascii") as file:
        models = {line.split()[5] for line in file}
    check(len(models) > 30, f"runs differ from each other: {len(models)} models")
    for n in (1, 2, 3, 8):
        contains(over(n, "compare", lines).out, ": 0 differ", f"{n} ranks")

    equal(over(3, "failures").out.count("0 failures are not as expected"), 3, "ranks that fail as they should")
    contains(over(2, "compare-own", lines).out, "8 runs over ranks: 0 differ", "MPI begun by the program")

    # Stopped three times, each time on another number of ranks, and finished on one more.
    stages = [(3, "stop"), (None, "stop"), (8, "stop"), (2, "finish")]
    for order in (stages, [(None, "stop"), (2, "stop"), (5, "stop"), (None, "finish")]):
        with tempfile.TemporaryDirectory() as kept:
            for i, (n, mode) in enumerate(order):
                arguments = (kept, str(17 + i)) if mode == "stop" else (lines, kept)
                if n is None:
                    alone("solo-" + mode, *arguments)
                else:
                    over(n, mode, *arguments)
finish()
