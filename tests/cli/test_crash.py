#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed: nothing is lost but the work since the last checkpoint, whenever it happens.

First at random moments; then before each single change that a run makes to its files (interfere.c), so
that every state is met in which a checkpoint or the database of runs can be left behind; then with files
that were damaged meanwhile. Whatever happened, the run ends with the model of one that was left alone.

By hand: test_crash.py OCTET [KILLS] [SEED] - so many random kills (50 take a minute), all windows.
"""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

from interference import SPARSE, can_interfere, interfere, skip_without_records
from octet_cli import (OCTET, PATIENCE_S, QUICK, Outcome, check, contains, environment, equal, finish, lacks, octet,
                       octet_json)

KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 6
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
ALL_WINDOWS = len(sys.argv) > 2

# One step an epoch, so that most of the time goes into checkpoints and records.
RUN = ["--data", "synthetic:samples=16,classes=4,size=8", "--model", "resnet20:width=4,blocks=1", "--nodes", "2",
       "--batch", "8", "--threads", "1", "--augment", "none"]


def committed(kept):
    """Steps of the checkpoints under their own names, the newest last."""
    names = os.listdir(kept) if os.path.isdir(kept) else []
    return sorted({int(name[5:17]) for name in names if re.fullmatch(r"step-\d{12}(\.old)?", name)})


def first_epoch(err):
    found = re.search(r"^epoch (\d+)/", err, re.M)
    return int(found[1]) if found else None


def outcomes(db):
    """Of all runs on record, oldest first; None where the database was never made, or not yet to its end."""
    if not os.path.exists(db):
        return None
    if "is empty, and no database of runs yet" in octet("runs", "--db", db).err:
        return None
    return [run["outcome"] for run in reversed(octet_json("runs", "--db", db)["runs"])]


skip_without_records()

# --- at random moments -----------------------------------------------------------------------------

def random_kills(folder):
    chance = random.Random(SEED)
    print(f"random kills: seed {SEED}")
    whole = [*RUN, "--epochs", "40"]
    began = time.monotonic()
    expected = octet_json("train", *whole, "--checkpoint", f"{folder}/alone", "--db", f"{folder}/alone.db")
    check(0 < expected["checkpoint_seconds"] < expected["seconds"],
          f"{expected['checkpoint_seconds']} of {expected['seconds']} s for checkpoints")
    seconds = time.monotonic() - began
    n_kills, n_runs, n_inside = 0, 0, 0
    while n_kills < KILLS:
        kept, db = f"{folder}/kept{n_runs}", f"{folder}/runs{n_runs}.db"
        options = [*whole, "--checkpoint", kept, "--db", db, "--json"]
        at, recorded, n_starts = 0, [], 0
        while True:
            arguments = ["train", "--resume", kept, "--db", db, "--json"] if at else ["train", *options]
            n_starts += 1
            with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
                process = subprocess.Popen([OCTET, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                           env=environment())
                try:
                    process.wait(timeout=seconds * chance.uniform(0.02, 0.5) if n_kills < KILLS else PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                out.seek(0)
                err.seek(0)
                said = Outcome(process.returncode, out.read().decode(), err.read().decode())
            if first_epoch(said.err) is not None:
                equal(first_epoch(said.err), at + 1, f"start {n_starts}: goes on where it was", said)
            if said.code == 0:
                break
            equal(said.code, -9, f"kill {n_kills + 1}", said)
            n_kills += 1
            n_inside += any(name.endswith(".partial") for name in (os.listdir(kept) if os.path.isdir(kept) else []))
            steps = committed(kept)
            epochs = re.findall(r"^epoch (\d+)/", said.err, re.M)
            # An epoch is printed before its checkpoint is written; so of two printed, the first is safe.
            least = max([at] + [int(epoch) for epoch in epochs[:-1]])
            now = steps[-1] if steps else 0
            check(now >= least, f"kill {n_kills}: committed is {now}, at least {least}", said)
            at = now
            recorded = outcomes(db) or []
            # One that was killed while its process ended, is done.
            check(set(recorded) <= ({"lost", "done"} if at == 40 else {"lost"}) and len(recorded) <= n_starts,
                  f"kill {n_kills}: on record are {recorded}")
        n_runs += 1
        value = json.loads(said.out)
        equal(value["model_sha256"], expected["model_sha256"], f"run {n_runs}, after {n_starts} starts: model")
        equal(value["epochs"], 40, f"run {n_runs}: epochs")
        equal(outcomes(db), recorded + ["done"], f"run {n_runs}: on record")
        equal(sorted(os.listdir(kept)), ["step-000000000039", "step-000000000040"], f"run {n_runs}: what is kept")
    print(f"{n_kills} kills of {n_runs} runs, {n_inside} of them while a checkpoint was written")


# --- before every change to a file -----------------------------------------------------------------

def prepare(folder, name):
    """A run of three epochs, killed when its third checkpoint begins: with two to go on from."""
    place = f"{folder}/{name}"
    os.mkdir(place)
    # What is recorded is not what is kept: the first part of the run has a database elsewhere.
    run = [*RUN, "--epochs", "3", "--checkpoint", f"{place}/kept", "--db", f"{folder}/{name}-first.db"]
    done, calls = interfere(place, [], "train", *run)
    equal(done.code, 0, f"{name}: the run", done)
    # The folder itself is on the disk before anything in it counts.
    made = calls.index(("mkdir", f"{place}/kept"))
    check(("fsync", place) in calls[made:calls.index(("rename", f"{place}/kept/step-000000000001.partial"))],
          f"{name}: the new folder is brought to the disk")
    shutil.rmtree(place)
    os.mkdir(place)
    return place, run, [" ".join(call).replace(place + "/kept/", "") for call in calls]


def killed_in_the_third(folder, name):
    place, run, calls = prepare(folder, name)
    third = calls.index("mkdir step-000000000003.partial") + 1
    done, _ = interfere(place, ["--kill", str(third)], "train", *run)
    equal(done.code, 137, f"{name}: killed at change {third}", done)
    equal(committed(f"{place}/kept"), [1, 2], f"{name}: kept then")
    return place


def stopped_in_the_third(folder, name):
    """Stopped behind the last step but before the end of its epoch: when it goes on, the checkpoint at its
    end takes the place of one of the same step."""
    place, run, calls = prepare(folder, name)
    second = calls.index("rename step-000000000002.partial") + 2
    done, _ = interfere(place, ["--term", str(second)], "train", *run)
    equal(done.code, 130, f"{name}: stopped at change {second}", done)
    equal(committed(f"{place}/kept"), [2, 3], f"{name}: kept then")
    return place


def windows(folder, name, start, expected, db=False, step=1):
    """Kills the rest of the run at every (step-th) change, and resumes."""
    safe = committed(f"{start}/kept")[-1]
    n, n_kills, last = 1, 0, ""
    while True:
        place = f"{folder}/{name}-{n}"
        shutil.copytree(start, place)
        kept, record = f"{place}/kept", f"{place}/runs.db" if db else "none"
        rest = ["--resume", kept, "--checkpoint", kept, "--db", record, "--json"]
        done, calls = interfere(place, ["--kill", str(n)], "train", *rest)
        if done.code == 0:
            break
        n_kills += 1
        last = " ".join(calls[-1]).replace(place, "…")
        what = f"{name} {n}, before {last}"
        if done.code != 137:
            equal(done.code, 137, what, done)
        steps = committed(kept)
        on_record = (outcomes(record) or []) if db else []
        again = octet("train", *rest)
        if "warning" in again.err:  # nothing half-written has a finished one's name
            lacks(again.err, "warning", what)
        good = (again.code == 0 and json.loads(again.out)["model_sha256"] == expected and steps[-1] >= safe and
                first_epoch(again.err) in ({3} if steps[-1] == 2 else {3, None} if safe == 3 else {None}))
        left = sorted(os.listdir(kept))
        if first_epoch(again.err):  # the third was written anew, and cleared away what was left lying about
            good = good and left == ["step-000000000002", "step-000000000003"]
        good = good and committed(kept)[-2:] == [2, 3]
        if db:
            good = good and outcomes(record) == on_record + ["done"] and on_record in ([], ["lost"], ["done"])
            what += f", on record {on_record}"
        check(good, f"{what}: kept {steps}, went on to the same model", again, left)
        shutil.rmtree(place)
        n += step
    equal(json.loads(done.out)["model_sha256"], expected, f"{name}: nobody was killed at {n}")
    check(n_kills * step >= 30, f"{name}: {n_kills} kills, the last before {last}")
    return [" ".join(call) for call in calls]


# --- damage ----------------------------------------------------------------------------------------

def damage(folder, expected):
    kept = killed_in_the_third(folder, "damage") + "/kept"
    resume = ["train", "--resume", kept, "--db", "none", "--json", "--checkpoint", f"{folder}/elsewhere"]
    chance = random.Random(SEED)
    for name in sorted(os.listdir(f"{kept}/step-000000000002")):
        path = f"{kept}/step-000000000002/{name}"
        with open(path, "rb") as file:
            good = file.read()
        at = chance.randrange(len(good))
        flipped = good[:at] + bytes([good[at] ^ 1 << chance.randrange(8)]) + good[at + 1:]
        for what, bad in ((f"bit of byte {at}", flipped), ("first byte", b"\xff" + good[1:]),
                          ("torn in the middle", good[:len(good) // 2] + b"\0" * (len(good) - len(good) // 2)),
                          (f"cut at {at}", good[:at])):
            with open(path, "wb") as file:
                file.write(bad)
            shutil.rmtree(f"{folder}/elsewhere", ignore_errors=True)
            done = octet(*resume)
            equal(done.code, 0, f"{name}, {what}: exit", done)
            check(re.search(rf"warning: .*{name}.*going back to step 1", done.err), f"{name}, {what}: said", done)
            equal(first_epoch(done.err), 2, f"{name}, {what}: goes on from the one before")
            equal(json.loads(done.out or "{}").get("model_sha256"), expected, f"{name}, {what}: model")
        if name == "manifest":
            older = f"{kept}/step-000000000001/node-00001.safetensors"
            os.truncate(older, os.path.getsize(older) - 1)
            before = sorted((entry, os.path.getsize(f"{top}/{entry}")) for top, _, entries in os.walk(kept)
                            for entry in entries)
            done = octet(*resume[:5])
            equal(done.code, 1, "both damaged: exit", done)
            contains(done.err, "step-000000000002/manifest", "both damaged: names the file")
            contains(done.err, "no other checkpoint in", "both damaged")
            after = sorted((entry, os.path.getsize(f"{top}/{entry}")) for top, _, entries in os.walk(kept)
                           for entry in entries)
            equal(after, before, "both damaged: nothing was touched")
            os.truncate(older, os.path.getsize(older) + 1)  # still not what it was
            equal(octet(*resume[:5]).code, 1, "both damaged, lengths right: exit")
            break
        with open(path, "wb") as file:
            file.write(good)


with tempfile.TemporaryDirectory(dir=QUICK) as scratch:
    scratch = os.path.realpath(scratch)
    random_kills(scratch)
    if not can_interfere():
        print("the rest is not tested: this kernel, or its headers, know no seccomp notification")
        finish()
    model = octet_json("train", *RUN, "--epochs", "3", "--db", "none")["model_sha256"]
    killed = killed_in_the_third(scratch, "killed")
    windows(scratch, "checkpoint", killed, model, step=1 if ALL_WINDOWS else SPARSE)
    seen = windows(scratch, "replaced", stopped_in_the_third(scratch, "stopped"), model,
                   step=1 if ALL_WINDOWS else 2 * SPARSE)
    check(any(re.fullmatch(r"rename .*/step-000000000003", call) for call in seen), "the last one stepped aside")
    windows(scratch, "record", killed, model, db=True, step=1 if ALL_WINDOWS else 9 * SPARSE)
    damage(scratch, model)

finish()
