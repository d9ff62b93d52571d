#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes that fail, each in its turn, on a disk that is full or bad.

Checkpoints, model files, reports and the database of runs: every single change of a checkpoint, a model file or a
report fails once; a disk that stays full is met at every third change of a checkpoint, and the database, which has
hundreds, at every fifth (sanitized programs meet a fifth of all these). Either the failure does not matter and the
result is the same, or the command ends with 1, names the file and the reason, and what was there before
is as it was.
"""
import json
import os
import shutil
import sys
import tempfile

from interference import SPARSE, can_halve, can_interfere, interfere, skip_without_records
from octet_cli import QUICK, check, contains, equal, finish, octet, octet_json

REASONS = {"ENOSPC": "No space left on device", "EIO": "Input/output error", "EDQUOT": "Disk quota exceeded",
           "EROFS": "Read-only file system"}
RUN = ["--data", "synthetic:samples=16,classes=4,size=8", "--model", "resnet20:width=4,blocks=1", "--nodes", "2",
       "--batch", "8", "--threads", "1", "--augment", "none", "--epochs", "2"]


def contents(folder):
    """Every file below the folder, by name."""
    found = {}
    for top, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(top, name), "rb") as file:
                found[os.path.relpath(os.path.join(top, name), folder)] = file.read()
    return found


def each_failure(folder, name, start, command, judge, only="write,fsync,close,open,rename,mkdir,unlink,truncate",
                 orders=("--fail",), errors=("ENOSPC", "EIO"), step=1):
    """Runs the command in a copy of `start` once for every change it makes, which then fails; judge(what,
    outcome, place, error, call) compares."""
    n, n_failed, n_survived = 1, 0, 0
    while True:
        error, order = errors[n % len(errors)], orders[n // 2 % len(orders)]
        place = f"{folder}/{name}-{n}"
        shutil.copytree(start, place)
        arguments = [word.replace("@", place) for word in command]
        done, calls = interfere(place, ["--only", only, order, str(n), error], *arguments)
        if len(calls) < n:
            break
        call = " ".join(calls[n - 1]).replace(place + "/", "")
        what = f"{name}: {order[2:]} {n}, {call}: {error}"
        check(done.code in (0, 1), f"{what}: exit {done.code}", done)
        n_failed += done.code == 1
        n_survived += done.code == 0
        judge(what, done, place, error, call)
        shutil.rmtree(place)
        n += step
    equal(done.code, 0, f"{name}: nothing failed at {n}", done)
    check(n_failed * step > 3, f"{name}: {n_failed} failures stopped it, {n_survived} did not matter")
    shutil.rmtree(place)


def named(what, done, error, *names):
    """The message has the reason and one of the names."""
    said = [line for line in done.err.splitlines() if line.startswith("octet") and "warning" not in line]
    check(len(said) == 1 and REASONS[error] in said[0] and any(name in said[0] for name in names),
          f"{what}: {said}", done)


skip_without_records()
if not can_interfere():
    print("this kernel, or its headers, know no seccomp notification")
    sys.exit(77)

with tempfile.TemporaryDirectory(dir=QUICK) as scratch:
    scratch = os.path.realpath(scratch)
    model = octet_json("train", *RUN, "--db", "none")["model_sha256"]

    # --- a checkpoint ------------------------------------------------------------------------------
    start = f"{scratch}/begun"
    os.mkdir(start)
    octet_json("train", *RUN, "--db", "none", "--checkpoint", f"{start}/kept")
    shutil.rmtree(f"{start}/kept/step-000000000002")
    before = contents(start)

    def judge_checkpoint(what, done, place, error, call):
        if done.code == 0:
            equal(json.loads(done.out)["model_sha256"], model, f"{what}: the same model")
        else:
            named(what, done, error, "kept")
            after = contents(place)
            check(all(after.get(name) == data for name, data in before.items()), f"{what}: the older is as it was")
        again = octet("train", "--resume", f"{place}/kept", "--db", "none", "--json")
        equal((again.code, json.loads(again.out or "{}").get("model_sha256")), (0, model),
              f"{what}: goes on when there is room", again)

    RESUME = ["train", "--resume", "@/kept", "--db", "none", "--json"]
    each_failure(scratch, "checkpoint", start, RESUME, judge_checkpoint, step=SPARSE)
    each_failure(scratch, "full", start, RESUME, judge_checkpoint, only="write,fsync,open,mkdir",
                 orders=("--fail-from",), errors=("ENOSPC", "EDQUOT"), step=3 * SPARSE)

    # A write that takes less than it was given is no failure.
    place = f"{scratch}/short"
    shutil.copytree(start, place)
    _, calls = interfere(place, [], *[word.replace("@", place) for word in RESUME])
    whole = contents(place)
    shutil.rmtree(place)
    n_short, n_halves = 0, 0
    halves = can_halve()
    if not halves:
        print("the kernel does not let writes be cut in half: that part is left out")
    for n, (call, path) in enumerate(calls, 1):
        if not halves or call != "write" or n_short >= 3 * (8 // SPARSE):
            continue
        shutil.copytree(start, place)
        done, cut = interfere(place, ["--short", str(n)], *[word.replace("@", place) for word in RESUME])
        n_short += 1
        n_halves += "half" in [name for name, _ in cut]
        equal(done.code, 0, f"half of write {n}, {path[len(place) + 1:]}: exit", done)
        now = contents(place)
        # The manifest has times of the run; its sums of all other files are right when it can be resumed.
        same = [name for name in whole if "manifest" not in name and now.get(name) == whole[name]]
        equal(len(same), 4, f"half of write {n}: files that are the same")
        equal(octet("train", "--resume", f"{place}/kept", "--db", "none").code, 0, f"half of write {n}: usable")
        shutil.rmtree(place)
    check(n_halves >= 3 or not halves, f"{n_halves} of {n_short} writes were cut in half")

    # --- a model file ------------------------------------------------------------------------------
    start = f"{scratch}/saved"
    os.mkdir(start)
    with open(f"{start}/model.safetensors", "wb") as file:
        file.write(b"the older one")
    with open(f"{start}/model.safetensors.partial", "wb") as file:
        file.write(b"somebody's own")

    def judge_model(what, done, place, error, call):
        now = contents(place)
        if done.code == 1:
            named(what, done, error, "model.safetensors")
            check(now["model.safetensors"] == b"the older one", f"{what}: the older is as it was")
        equal(now["model.safetensors.partial"], b"somebody's own", f"{what}: what was beside it")
        if not call.startswith("unlink"):
            equal(sorted(now), ["model.safetensors", "model.safetensors.partial"], f"{what}: nothing else beside it")

    for form in ("f32", "int8"):
        each_failure(scratch, f"model-{form}", start, ["train", *RUN, "--epochs", "0", "--db", "none", "--save",
                                                       "@/model.safetensors", "--save-form", form], judge_model)

    # --- reports -----------------------------------------------------------------------------------
    db = f"{scratch}/runs.db"
    octet_json("train", *RUN, "--db", db)
    start = f"{scratch}/reports"
    os.mkdir(start)
    names = {kind: f"report.{kind}" for kind in ("html", "md", "csv", "svg")}
    for name in names.values():
        with open(f"{start}/{name}", "w", encoding="ascii") as file:
            file.write("the older one")

    def judge_report(what, done, place, error, call):
        now = contents(place)
        if done.code == 1:
            named(what, done, error, *names.values())
            # Each is old or new as a whole, and the failed one is old.
            failed = next(name for name in names.values() if name in done.err)
            check(now[failed] == b"the older one", f"{what}: {failed} is as it was")
        check(all(data == b"the older one" or len(data) > 500 for data in now.values()), f"{what}: no half file")
        equal(sorted(now), sorted(names.values()), f"{what}: nothing beside them")

    outputs = [word for kind, name in names.items() for word in (f"--{kind}", f"@/{name}")]
    each_failure(scratch, "reports", start, ["report", "1", "--db", db, *outputs], judge_report,
                 only="write,fsync,close,open,rename", orders=("--fail-from",), step=SPARSE)

    # --- the database of runs ----------------------------------------------------------------------
    start = f"{scratch}/recorded"
    os.mkdir(start)
    shutil.copy(db, f"{start}/runs.db")

    def judge_record(what, done, place, error, call):
        if done.code == 1:
            said = [line for line in done.err.splitlines() if line.startswith("octet") and "runs.db" in line]
            check(said, f"{what}: {said}", done)
        runs = octet("runs", "--db", f"{place}/runs.db", "--json")
        equal(runs.code, 0, f"{what}: the database can be used", runs)
        found = json.loads(runs.out or '{"runs": []}')["runs"]
        check(found and found[-1]["outcome"] == "done" and len(found) <= 2, f"{what}: the older run is on record", runs)
        check(done.code == 1 or (len(found) == 2 and found[0]["outcome"] == "done"), f"{what}: so is the new one", runs)

    each_failure(scratch, "record", start, ["train", *RUN, "--db", "@/runs.db", "--json"], judge_record,
                 step=5 * SPARSE)
    # --record try: the run is worth more than its record.
    place = f"{scratch}/try"
    shutil.copytree(start, place)
    done, _ = interfere(place, ["--only", "write", "--fail-from", "1", "ENOSPC"], "train", *RUN, "--db",
                        f"{place}/runs.db", "--record", "try", "--json")
    equal((done.code, json.loads(done.out or "{}").get("model_sha256")), (0, model), "--record try: trains", done)
    contains(done.err, "the run is not recorded", "--record try: says so")

    # --- results on a full device ------------------------------------------------------------------
    for command in (["train", *RUN, "--db", "none"], ["train", *RUN, "--db", "none", "--json"], ["runs", "--db", db],
                    ["runs", "--db", db, "--json"], ["report", "1", "--db", db], ["info"], ["info", "--json"],
                    ["report", "1", "--db", db, "--csv", "-"]):
        with open("/dev/full", "wb") as full:
            done = octet(*command, stdout=full)
        equal(done.code, 1, f"octet {command[0]} … {command[-1]} > /dev/full: exit", done)
        contains(done.err, "No space left on device", f"octet {command[0]} … {command[-1]} > /dev/full")

finish()
