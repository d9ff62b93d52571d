#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The record of a run when things go wrong: killed at any moment, a database that is locked, damaged, not ours or on a
full disk, before training and under way."""
import os
import random
import re
import resource
import signal
import sqlite3
import subprocess
import tempfile
import time

from octet_cli import OCTET, PATIENCE_S, SOLO, TINY, check, contains, environment, equal, finish, lacks, octet

EPOCHS = ["--data", "synthetic:samples=1024,classes=4,size=8", "--batch", "16", "--augment", "none", "--threads", "1",
          "--nodes", "4", "--model", "resnet20:width=4,blocks=1"]


def start(*arguments, env, **more):
    return subprocess.Popen([OCTET, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=env, text=True, **more)


def end(process):
    """Exit code, stdout and stderr."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def ask(path, query):
    connection = sqlite3.connect(path, timeout=60)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def wait_for_epochs(path, number, least, process):
    """Until so many epochs of a run are on record; False when the run ended before."""
    for _ in range(PATIENCE_S * 50):
        if os.path.exists(path):
            try:
                if ask(path, f"SELECT count(*) FROM epochs WHERE run = {number}")[0][0] >= least:
                    return True
            except sqlite3.OperationalError:  # its tables are being made
                pass
        if process.poll() is not None:
            return False
        time.sleep(0.02)
    return False


def lock(path):
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    return connection


with tempfile.TemporaryDirectory() as folder:
    if "libsqlite3-dev" in octet("runs", "--db", os.path.join(folder, "x.db")).err:
        check(True, "a build without SQLite records nothing")
        done = octet("train", *SOLO, "--epochs", "0", "--record", "must")
        equal(done.code, 1, "train --record must in a build without SQLite: exit", done)
        contains(done.err, "libsqlite3-dev); --record try trains without a record", "train --record must, without SQLite")
        finish()
    env = environment(XDG_STATE_HOME=folder)
    default = os.path.join(folder, "octet", "runs.db")

    # --- killed at any moment ------------------------------------------------------------------
    seed = random.randrange(1 << 30)
    dice = random.Random(seed)
    print(f"seed {seed}")
    for trial in range(1, 9):
        # tiny epochs: most of the time goes into writing them down
        process = start("train", *(TINY if trial % 2 else EPOCHS), "--nodes", "4", "--epochs", "100000", env=env)
        if trial % 4:  # or else anywhere, before the first epoch too
            check(wait_for_epochs(default, trial, 1, process), f"killed run {trial}: an epoch is on record")
        time.sleep(dice.uniform(0, 0.4))
        process.kill()
        code, _, err = end(process)
        equal(code, -signal.SIGKILL, f"killed run {trial}: killed")
        printed = [int(number) for number in re.findall(r"^epoch (\d+)/", err, re.MULTILINE)]
        if not os.path.exists(default):
            continue
        equal(ask(default, "PRAGMA integrity_check"), [("ok",)], f"killed run {trial}: integrity_check")
        if not ask(default, f"SELECT 1 FROM runs WHERE number = {trial}"):
            octet("train", *SOLO, "--epochs", "1", "--quiet", env=env)  # it did not come to begin: takes its number
            continue
        epochs = [row[0] for row in ask(default, f"SELECT epoch FROM epochs WHERE run = {trial} ORDER BY epoch")]
        equal(epochs, list(range(1, len(epochs) + 1)), f"killed run {trial}: epochs, none missing")
        last = max(printed, default=0)
        check(last - 1 <= len(epochs) <= last + 1, f"killed run {trial}: {len(epochs)} on record, {last} were printed")
        for table in ("node_epochs", "edges"):
            equal(ask(default, f"SELECT count(*) FROM {table} WHERE run = {trial}"), [(4 * len(epochs),)],
                  f"killed run {trial}: rows of {table}, of whole epochs")
        contains(octet("runs", str(trial), env=env).out.splitlines()[0], ": lost", f"killed run {trial}")
    process = start("train", *EPOCHS, "--epochs", "100000", env=env)
    number = ask(default, "SELECT seq FROM sqlite_sequence WHERE name = 'runs'")[0][0] + 1
    check(wait_for_epochs(default, number, 1, process), "one more run, still running")
    contains(octet("runs", str(number), env=env).out.splitlines()[0], ": running", "a run that is running")
    done = octet("runs", "delete", str(number), "--yes", env=env)
    equal(done.code, 1, "deleting a run that is running: exit", done)
    contains(done.err, "is running; stop it first", "deleting a run that is running")
    process.send_signal(signal.SIGTERM)
    equal(end(process)[0], 130, "and stopped: exit")
    contains(octet("runs", str(number), env=env).out.splitlines()[0], ": stopped", "a run that was stopped")
    done = octet("runs", "delete", "--where", "outcome=lost", "--yes", env=env)
    equal(done.code, 0, "deleting all that were lost: exit", done)

    # --- locked from the start -----------------------------------------------------------------
    holder = lock(default)
    begun = time.monotonic()
    must, tries, lists = (start("train", *SOLO, "--epochs", "1", env=env),
                          start("train", *SOLO, "--epochs", "1", "--record", "try", env=env), start("runs", env=env))
    code, out, err = end(must)
    equal(code, 1, "train, locked: exit", err)
    check(time.monotonic() - begun > 9, f"it waited for {time.monotonic() - begun:.1f} s")
    for piece in ("locked", "--db FILE", "--record try"):
        contains(err, piece, "train, locked")
    lacks(err, "test acc", "train, locked: before training")
    code, out, err = end(tries)
    equal(code, 0, "train --record try, locked: exit", err)
    contains(err, "warning", "train --record try, locked")
    contains(err, "the run is not recorded", "train --record try, locked")
    contains(out, "accuracy", "train --record try, locked: a result")
    equal(end(lists)[0], 1, "runs, locked: exit")
    holder.rollback()

    # --- locked under way ----------------------------------------------------------------------
    named = os.path.join(folder, "under-way.db")
    runs = [start("train", *EPOCHS, "--epochs", "30", "--db", named, env=env)]
    check(wait_for_epochs(named, 1, 1, runs[0]), "a run under way")
    runs.append(start("train", *EPOCHS, "--epochs", "30", "--db", named, "--record", "try", env=env))
    check(wait_for_epochs(named, 2, 1, runs[1]), "another")
    holder = lock(named)
    for process, what, expected in zip(runs, ("must", "try"), (1, 0)):
        code, out, err = end(process)
        equal(code, expected, f"locked under way, {what}: exit", err)
        contains(out, "accuracy", f"locked under way, {what}: the result is printed")
        equal(err.count("not on record yet"), 1, f"locked under way, {what}: said once", err)
        contains(err.splitlines()[-1], "is incomplete", f"locked under way, {what}: the last line")
        equal("warning" in err.splitlines()[-1], what == "try", f"locked under way, {what}: a warning")
    holder.rollback()
    for number in (1, 2):
        before = ask(named, f"SELECT count(*) FROM epochs WHERE run = {number}")[0][0]
        check(1 <= before <= 30, f"locked under way: {before} epochs of run {number} are on record")
    process = start("train", *EPOCHS, "--epochs", "60", "--db", named, env=env)
    check(wait_for_epochs(named, 3, 1, process), "a third run under way")
    holder = lock(named)
    err = ""
    while "not on record yet" not in err:
        line = process.stderr.readline()
        err += line
        if not line:
            break
    holder.rollback()
    code, out, rest = end(process)
    equal(code, 0, "locked for a while: exit", err + rest)
    contains(err + rest, "complete again", "locked for a while")
    equal(ask(named, "SELECT count(*), max(epoch) FROM epochs WHERE run = 3"), [(60, 60)], "locked for a while: epochs")
    equal(ask(named, "SELECT count(*) FROM node_epochs WHERE run = 3"), [(240,)], "locked for a while: nodes")
    equal(ask(named, "SELECT outcome FROM runs WHERE number = 3"), [("done",)], "locked for a while: outcome")

    # --- damaged, another program's, newer -----------------------------------------------------
    with open(default, "rb") as file:
        whole = file.read()
    other = os.path.join(folder, "other.db")
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE recipes (title)")
    connection.commit()
    connection.close()
    with open(other, "rb") as file:
        recipes = file.read()
    newer = bytearray(whole)
    newer[60:64] = (99).to_bytes(4, "big")  # PRAGMA user_version
    bad_schema = bytearray(whole)
    bad_schema[100:4096] = bytes(dice.randrange(256) for _ in range(3996))
    for what, content, piece in (("overwritten", os.urandom(len(whole)), "is no database of runs"),
                                 ("with a damaged schema", bytes(bad_schema), "damaged"),
                                 ("cut", whole[:len(whole) // 2 - 100], ""),
                                 ("another program's", recipes, "another program"),
                                 ("newer", bytes(newer), "version 99")):
        with open(default, "wb") as file:
            file.write(content)
        for words in ([], ["--db", default]):
            done = octet("train", *SOLO, "--epochs", "1", *words, env=env)
            how = f"train, database {what}{', named' if words else ''}"
            if what == "cut" and done.code == 0:
                continue  # what is missing need not be wanted
            equal(done.code, 1, f"{how}: exit", done)
            contains(done.err, piece, how)
            for remedy in ("--db FILE", "--record try"):
                contains(done.err, remedy, how)
            lacks(done.err, "test acc", f"{how}: before training")
            with open(default, "rb") as file:
                check(file.read() == content, f"{how}: the file is as it was")
        done = octet("train", *SOLO, "--epochs", "1", "--record", "try", env=env)
        equal(done.code, 0, f"train --record try, database {what}: exit", done)
        if what != "cut":
            contains(done.err, "the run is not recorded", f"train --record try, database {what}")
    with open(default, "wb") as file:
        file.write(whole)

    # --- a full disk ---------------------------------------------------------------------------
    def full_at(limit):
        """What a child runs first: no file of its may grow beyond."""
        def prepare():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return {"preexec_fn": prepare, "restore_signals": False}

    code, out, err = end(start("train", *SOLO, "--epochs", "1", "--db", os.path.join(folder, "full.db"), env=env,
                               **full_at(8192)))
    equal(code, 1, "a full disk from the start: exit", err)
    lacks(err, "test acc", "a full disk from the start: before training")
    size = os.path.getsize(named)
    code, out, err = end(start("train", *TINY, "--nodes", "8", "--epochs", "80", "--db", named, env=env,
                               **full_at(size + 24576)))
    equal(code, 1, "a full disk under way: exit", err)
    contains(out, "accuracy", "a full disk under way: the result is printed")
    contains(err.splitlines()[-1], "the record of run 4 is incomplete", "a full disk under way")
    equal(ask(named, "PRAGMA integrity_check"), [("ok",)], "a full disk under way: integrity_check")
    kept = [row[0] for row in ask(named, "SELECT epoch FROM epochs WHERE run = 4 ORDER BY epoch")]
    equal(kept, list(range(1, len(kept) + 1)), "a full disk under way: epochs")
    check(0 < len(kept) < 80, f"a full disk under way: {len(kept)} epochs are on record")

    # --- no place at all -----------------------------------------------------------------------
    for what, nowhere in (("no home", environment(XDG_STATE_HOME=None, HOME=None)),
                          ("a home that is a file", environment(XDG_STATE_HOME=None, HOME=other)),
                          ("a home that cannot be written", environment(XDG_STATE_HOME="/proc/octet"))):
        done = octet("train", *SOLO, "--epochs", "1", "--quiet", env=nowhere)
        equal(done.code, 0, f"train, {what}: exit", done)
        equal(done.err.count("warning"), 1, f"train, {what}: warnings", done.err)
        contains(done.err, "the run is not recorded", f"train, {what}")
        done = octet("train", *SOLO, "--epochs", "1", "--record", "try", "--quiet", env=nowhere)
        equal((done.code, done.err.count("warning")), (0, 1), f"train --record try, {what}: exit and warnings", done)
        done = octet("train", *SOLO, "--epochs", "1", "--record", "must", env=nowhere)
        equal(done.code, 1, f"train --record must, {what}: exit", done)
        contains(done.err, "--record try trains without a record", f"train --record must, {what}")
        lacks(done.err, "test acc", f"train --record must, {what}: before training")
        done = octet("train", *SOLO, "--epochs", "0", "--record", "must", "--db", "none", env=nowhere)
        equal(done.code, 0, f"train --record must --db none, {what}: exit", done)
    done = octet("train", *SOLO, "--epochs", "1", "--db", "/proc/octet/x.db", env=env)
    equal(done.code, 1, "train --db where nothing can be made: exit", done)
    done = octet("train", *SOLO, "--epochs", "1", "--db", "/proc/octet/x.db", "--record", "try", env=env)
    equal(done.code, 0, "train --record try --db where nothing can be made: exit", done)
    done = octet("train", *SOLO, "--epochs", "1", "--db", "/" + "d" * 5000, env=env)
    equal(done.code, 2, "train --db with a path that is too long: exit", done)
    equal(octet("train", *SOLO, "--record", "perhaps", env=env).code, 2, "train --record perhaps: exit")

finish()
