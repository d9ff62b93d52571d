#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet runs: what octet train records, how it is listed, and databases that cannot be used."""
import os
import re
import shlex
import sqlite3
import tempfile

from octet_cli import (SOLO, Terminal, check, contains, environment, equal, finish, has_json, lacks, octet,
                       octet_json)

JSON = has_json()
RUN = [*SOLO, "--epochs", "2"]

with tempfile.TemporaryDirectory() as folder:
    if octet("runs", "--db", os.path.join(folder, "x.db")).err.find("libsqlite3-dev") >= 0:
        done = octet("train", *RUN, "--quiet")
        equal(done.code, 0, "train in a build without SQLite: exit", done)
        lacks(done.err, "warning", "train in a build without SQLite says nothing")
        done = octet("train", *RUN, "--quiet", "--db", os.path.join(folder, "x.db"))
        equal(done.code, 1, "train --db in a build without SQLite: exit", done)
        contains(done.err, "libsqlite3-dev", "train --db in a build without SQLite")
        finish()

    # --- nothing yet ---------------------------------------------------------------------------
    env = environment(XDG_STATE_HOME=folder)
    default = os.path.join(folder, "octet", "runs.db")
    done = octet("runs", env=env)
    equal(done.code, 0, "runs before any: exit", done)
    contains(done.out, f"octet train puts one into {default}", "runs before any")
    equal(os.listdir(folder), [], "runs before any makes no file")
    done = octet("runs", "1", env=env)
    equal(done.code, 1, "runs 1 before any: exit", done)
    contains(done.err, "octet train makes it", "runs 1 before any")
    named = os.path.join(folder, "named", "a b.db")
    done = octet("runs", "--db", named, env=env)
    equal(done.code, 1, "runs of a database that is not there: exit", done)
    contains(done.err, named, "runs of a database that is not there")
    if JSON:
        value = octet_json("runs", env=env)
        equal((value.get("db"), value.get("runs")), (default, []), "runs --json before any")
    for home, expected in (("/h", "/h/.local/state/octet/runs.db"), (None, None)):
        done = octet("runs", env=environment(XDG_STATE_HOME=None, HOME=home))
        equal(done.code, 0 if expected else 2, f"runs with HOME {home}: exit", done)
        contains(done.out + done.err, expected or "--db FILE", f"runs with HOME {home}")

    # --- runs are recorded ---------------------------------------------------------------------
    done = octet("train", *RUN, "--seed", "7", env=env)
    equal(done.code, 0, "train: exit", done)
    done = octet("train", *RUN, "--seed", "8", "--db", named, env=env)
    equal(done.code, 0, "train --db: exit", done)
    done = octet("train", *RUN, "--seed", "9", "--db", "none", env=env)
    equal(done.code, 0, "train --db none: exit", done)
    bad = octet("train", *RUN, "--lr", "1e6", "--precision", "fp32", env=env)
    equal(bad.code, 1, "train that overflows: exit", bad)
    for path, seeds in ((default, ["7", "1"]), (named, ["8"])):
        rows = sqlite3.connect(path).execute(
            "SELECT value FROM options JOIN runs ON run = number WHERE name = 'seed' ORDER BY number").fetchall()
        equal([row[0] for row in rows], seeds, f"seeds in {os.path.basename(path)}")

    done = octet("runs", env=env)
    equal(done.code, 0, "runs: exit", done)
    lines = done.out.splitlines()
    equal(len(lines), 4, "runs: headings, a rule and two runs", done.out)
    check(re.match(r" *2 +\d{4}-\d\d-\d\d \d\d:\d\d +NOT_FINITE ", lines[2]), "runs: the newest first", lines)
    check(re.match(r" *1 +\S+ \S+ +done +2/2 +\d+\.\d\d % ", lines[3]), "runs: the first", lines)
    contains(lines[3], "--seed 7", "runs: options")
    equal(len(octet("runs", "--limit", "1", env=env).out.splitlines()), 3, "runs --limit 1: lines")

    # --- one run -------------------------------------------------------------------------------
    one = octet("runs", "1", env=env)
    equal(one.code, 0, "runs 1: exit", one)
    for piece in ("run 1 of ", ": done", "train loss", "\nepoch ", "\n    2 ", "weight-decay", "again: octet train --"):
        contains(one.out, piece, "runs 1")
    again = shlex.split(one.out.split("again: octet ")[1])
    lacks(again, "--db", "the command that repeats a run")
    two = octet("runs", "2", env=env)
    contains(two.out, "NOT_FINITE: ", "runs 2: what went wrong")
    if JSON:
        record = octet_json("runs", "1", env=env)
        repeated = octet_json(*again, env=environment(XDG_STATE_HOME=os.path.join(folder, "other")))
        equal(repeated.get("model_sha256"), record.get("model_sha256"), "the run again: the same model")
        equal(repeated.get("accuracy"), record.get("accuracy"), "the run again: accuracy")
        equal([row["epoch"] for row in record.get("rows", [])], [1, 2], "runs 1 --json: epochs")
        equal(record["rows"][1]["accuracy"], record["accuracy"], "the last epoch's accuracy is the result's")
        equal(record["config"]["seed"], 7, "runs 1 --json: a number is a number")
        equal(record["config"], repeated["config"] | {"seed": 7}, "runs 1 --json: the configuration")
        listed = octet_json("runs", env=env)["runs"]
        equal([run["number"] for run in listed], [2, 1], "runs --json: numbers")
        equal({key: record[key] for key in listed[1]}, listed[1], "a run in the list and alone")
        equal(listed[0]["accuracy"], None, "runs --json: what is not known is null")
        check(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", listed[0]["started"]), "runs --json: started")
    done = octet("runs", "3", env=env)
    equal(done.code, 1, "runs 3: exit", done)
    contains(done.err, "there are runs 1 to 2", "runs 3")

    # --- a terminal: one line a run ------------------------------------------------------------
    for columns in (80, 120, 150):
        terminal = Terminal("runs", columns=columns, env={**env, "TERM": "xterm"})
        equal(terminal.finish(), 0, f"runs in {columns} columns: exit")
        screen = [line for line in terminal.screen() if line]
        equal(len(screen), 4, f"runs in {columns} columns: lines", screen)
        check(all(len(line) <= columns for line in screen), f"runs in {columns} columns: none is longer", screen)
        contains(screen[3], "...", f"runs in {columns} columns: options are cut")

    # --- wrong usage ---------------------------------------------------------------------------
    for words in (["x"], ["0"], ["-1"], ["1.5"], ["1x"], ["99999999999999999999"], ["1", "2"], ["--limit", "0"]):
        equal(octet("runs", *words, env=env).code, 2, f"runs {' '.join(words)}: exit")
    equal(octet("runs", "--db", "none", env=env).code, 2, "runs --db none: exit")

    # --- databases that cannot be used ---------------------------------------------------------
    letter = os.path.join(folder, "letter")
    with open(letter, "w", encoding="utf-8") as file:
        file.write("Dear database,\n" * 100)
    for arguments in (["runs"], ["train", *RUN]):
        done = octet(*arguments, "--db", letter, env=env)
        equal(done.code, 1, f"{arguments[0]} --db of a letter: exit", done)
        contains(done.err, "is no database of runs", f"{arguments[0]} --db of a letter")
        lacks(done.err, "epoch", f"{arguments[0]} --db of a letter fails before training")
    with open(letter, encoding="utf-8") as file:
        equal(file.read(), "Dear database,\n" * 100, "the letter is as it was")
    blocked = environment(XDG_STATE_HOME=letter)
    done = octet("train", *RUN, "--quiet", env=blocked)
    equal(done.code, 0, "train without a place for its record: exit", done)
    equal(done.err.count("warning"), 1, "train without a place for its record: warnings", done.err)
    contains(done.err, "the run is not recorded", "train without a place for its record")
    connection = sqlite3.connect(default)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    done = octet("runs", env=env)
    equal(done.code, 1, "runs of a newer version: exit", done)
    contains(done.err, "version 99", "runs of a newer version")

finish()
