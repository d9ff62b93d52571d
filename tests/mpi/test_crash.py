#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of a random rank at a random moment: the others end within 30 s, and what was lost is the work since
the last committed checkpoint. Killed and gone on with again and again, on other numbers of ranks, a run ends with
the model of one that nobody disturbed.

Usage: test_crash.py [OCTET] [--times N] [--seed N]; 5 times without more."""
import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

# octet_cli takes the program from the first argument.
options = argparse.ArgumentParser()
options.add_argument("octet", nargs="?", default=os.environ.get("OCTET", "octet"))
options.add_argument("--times", type=int, default=5)
options.add_argument("--seed", type=int, default=1)
asked = options.parse_args()
sys.argv = [sys.argv[0], asked.octet]

from launch import environment, is_running, outcome, ranks, start  # noqa: E402
from octet_cli import OCTET, check, equal, finish, has_json  # noqa: E402

# Choco over one-peer-exponential has replicas of edges, whose two ends lie with different ranks. A checkpoint is
# written after every epoch, which takes some hundredths of a second.
EPOCHS = 60
RUN = ["--data", "synthetic:samples=96,classes=4,size=8", "--model", "resnet20:width=4,blocks=1", "--batch", "4",
       "--augment", "none", "--topology", "one-peer-exponential", "--compress", "topk:0.9", "--lr", "0.01",
       "--epochs", str(EPOCHS)]
MOST_SECONDS = 30


def checkpoints(folder):
    """Steps of those that are in place."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(int(name[5:]) for name in names if re.fullmatch(r"step-\d{12}", name))


def job(n_ranks, folder):
    begun = ["--resume", folder] if checkpoints(folder) else [*RUN, "--checkpoint", folder]
    return start(n_ranks, OCTET, "train", *begun, "--transport", "mpi", "--threads", "1", "--db", "none", "--quiet",
                 "--json")


def await_ranks(running, n_ranks):
    """All ranks, once they are there."""
    for _ in range(600):
        found = ranks(running)
        if len(found) == n_ranks or running.poll() is not None:
            return found
        time.sleep(0.02)
    return found


def await_end(processes):
    """Those of them that are still there after a while: a process that is killed takes a moment to go."""
    for _ in range(250):
        left = [process for process in processes if is_running(process)]
        if not left:
            break
        time.sleep(0.02)
    return left


if not has_json():
    print("built without JSON")
    sys.exit(77)
alone = subprocess.run([OCTET, "train", *RUN, "--threads", "1", "--db", "none", "--quiet", "--json"],
                       stdout=subprocess.PIPE, env=environment(), check=True, timeout=300)
expected = json.loads(alone.stdout)["model_sha256"]
chance = random.Random(asked.seed)


def finished(done):
    """A run came to its end: it must be that of one that nobody disturbed."""
    equal(done.code, 0, "a run that goes on to the end: exit", done.err)
    got = json.loads(done.out) if done.code == 0 else {}
    equal(got.get("model_sha256"), expected, f"killed {n_killed} times: the model")
    equal(got.get("epochs"), EPOCHS, "epochs")


with tempfile.TemporaryDirectory() as parent:
    longest, n_killed, n_runs = 0.0, 0, 0
    folder = os.path.join(parent, "0")
    while n_killed < asked.times:
        n_ranks = chance.choice((2, 3, 5))
        before = checkpoints(folder)
        running = job(n_ranks, folder)
        found = await_ranks(running, n_ranks)
        time.sleep(chance.random() * 2.0)  # into the start, into steps, into checkpoints
        victim = chance.randrange(n_ranks)
        if running.poll() is not None or not is_running(found[victim]):
            finished(outcome(running))  # it was faster; then another
            n_runs += 1
            folder = os.path.join(parent, str(n_runs))
            continue
        os.kill(found[victim], signal.SIGKILL)
        begun = time.monotonic()
        done = outcome(running)
        seconds = time.monotonic() - begun
        after = checkpoints(folder)
        if done.code == 0:
            finished(done)  # killed when it had done everything
            n_runs += 1
            folder = os.path.join(parent, str(n_runs))
            continue
        n_killed += 1
        longest = max(longest, seconds)
        check(seconds < MOST_SECONDS,
              f"{n_killed}: rank {victim} of {n_ranks} killed: exit {done.code}, all have ended after {seconds:.1f} s; "
              f"checkpoints {before} -> {after}", done.err)
        check(bool((done.err + done.out).strip()), "the user is told")
        check(not before or (after and after[-1] >= before[-1]), "no checkpoint is lost", before, after)
        equal(await_end(found.values()), [], "ranks that are left")
    finished(outcome(job(4, folder)))
    print(f"killed {n_killed} times; the others ended after at most {longest:.1f} s")
finish()
