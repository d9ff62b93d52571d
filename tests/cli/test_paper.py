#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet paper: the tables as data, run files that run, a table that is run, taken over, stopped and goes on."""
import csv
import fcntl
import glob
import json
import os
import re
import resource
import shlex
import signal
import sqlite3
import statistics
import struct
import subprocess
import tempfile
import time

from octet_cli import (OCTET, PATIENCE_S, Terminal, check, contains, environment, equal, finish, has_json, lacks,
                       octet, octet_json)

SOURCE = os.environ.get("OCT_SOURCE") or os.path.join(os.path.dirname(__file__), "..", "..")
FOLDER = os.path.join(SOURCE, "experiments")
JSON = has_json()

# Small images instead of CIFAR-10: a cell takes a fraction of a second.
TINY = ["--data", "synthetic:samples=64,classes=4,size=8", "--samples", "64", "--test-samples", "16",
        "--batch", "4", "--threads", "1"]
SHORT = ["--scale", "short", *TINY, "--epochs", "2"]


def read_csv(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- the numbers of the papers -----------------------------------------------------------------

# Sums of the columns as the paper's text has them.
SUMS = {
    "table1.csv": {"fp32": (5, 449.67), "int8": (5, 447.21)},
    "table2.csv": {"deepsqueeze-fp32": (32, 2758.84), "deepsqueeze-int8": (32, 2721.86),
                   "choco-fp32": (32, 2776.04), "choco-int8": (32, 2750.72)},
    "table3.csv": {"choco-qgm-fp32": (8, 704.28), "choco-qgm-int8": (8, 699.79)},
    "table4.csv": {"choco-fp32": (8, 694.54), "choco-int8": (8, 682.69)},
}
for name, columns in SUMS.items():
    rows = read_csv(name)
    equal([int(row["row"]) for row in rows], list(range(1, len(rows) + 1)), f"{name}: rows are numbered")
    for column, (n, total) in columns.items():
        values = [float(row[column]) for row in rows]
        equal((len(values), round(sum(values), 2)), (n, total), f"{name}, {column}: numbers and their sum")

index = read_csv("index.csv")
NAMES = [row["name"] for row in index]
methods = {row["method"] for row in read_csv("methods.csv")}
for row in index:
    if row["kind"] not in ("table", "curves"):
        continue
    for line in read_csv(row["name"] + ".csv"):
        for column in list(line)[6:]:
            check(column in methods, f"{row['name']}, {column}: is in methods.csv")
        for file in (line["file"], line["short"]):
            check(os.path.exists(os.path.join(FOLDER, file)), f"{row['name']} row {line['row']}: {file}")

with tempfile.TemporaryDirectory() as state:
    if "libyaml" in octet("paper", "table2", "--dry-run").err:
        done = octet("paper", "table2")
        equal(done.code, 1, "a build without run files: exit", done)
        contains(done.err, "libyaml-dev", "a build without run files says what is missing")
        finish()
    RECORDS = "libsqlite3-dev" not in octet("runs", "--db", os.path.join(state, "x.db")).err

    # --- every run file runs -------------------------------------------------------------------
    known = octet("info").out
    for path in sorted(glob.glob(os.path.join(FOLDER, "*", "*.yaml"))):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        name = os.path.relpath(path, FOLDER)
        if "data: imagenette" in text and "\n  imagenette " not in known:
            continue
        model = re.search(r"^model: (\w+)", text, re.M)
        small = {"vgg11": ":width=8", "resnet18": ":width=8", "resnet54": ":width=4,blocks=1",
                 "resnet20": ":width=4,blocks=1"}
        more = ["--model", model[1] + small[model[1]]] if model else ["--model", "resnet20:width=4,blocks=1"]
        done = octet("train", path, "--data", "synthetic:samples=64,size=32", "--samples", "64", "--test-samples",
                     "4", "--epochs", "0", "--batch", "1", "--db", "none", "--quiet", "--threads", "1", *more)
        equal(done.code, 0, f"octet train experiments/{name}: exit", done)

    # --- what there is -------------------------------------------------------------------------
    env = environment(XDG_STATE_HOME=state)
    done = octet("paper", env=env)
    equal(done.code, 0, "paper: exit", done)
    for name in NAMES:
        check(re.search(rf"^{re.escape(name)} ", done.out, re.M), f"paper lists {name}", done.out)
    contains(done.out, "not there yet", "paper says what is not there")
    for arguments, pieces in (
            (["tabel2"], ["'tabel2' is no table or figure", "did you mean table2?", "sparse-push"]),
            (["table2", "--rows", "33"], ["table2 has no row 33; it has 1 to 32"]),
            (["table2", "--rows", "0-3"], ["table2 has no row 0"]),
            (["table2", "--rows", "3-1"], ["expected numbers as in 1,5-8"]),
            (["table2", "--rows", "1,"], ["expected numbers as in 1,5-8"]),
            (["table2", "--rows", "one"], ["expected numbers as in 1,5-8"]),
            (["table3", "--columns", "choco-int8"],
             ["table3 has no column 'choco-int8'; it has: choco-qgm-fp32, choco-qgm-int8"]),
            (["table2", "--scale", "tiny"], ["--scale is 'tiny', expected one of: full, short"]),
            (["table2", "--svg", "x.svg"], ["--svg draws figures"]),
            (["table2", "--csv", "-", "--md", "-"], ["--csv - and --md - cannot both go to stdout"]),
            (["table2", "--csv", "x", "--md", "x"], ["--md and --csv both go to x"]),
            *([(["table2", "--csv", "-", "--json"], ["--csv - and --json cannot both go to stdout"])] if JSON else []),
            *((["table2", "--at-once", n], [f"--at-once is '{n}', expected a whole number from 1 to 256"])
              for n in ("0", "257", "-2", "1.5", "two", "")),
            (["table2", "--at-once"], ["--at-once needs a value, a whole number from 1 to 256"]),
            (["--at-once", "4"], ["--at-once needs a table, as in octet paper table2 --at-once 8"]),
            (["--at-once", "1"], ["--at-once needs a table"]),
            (["fig4", "--at-once", "2"], ["--at-once is for tables; fig4 is a figure"]),
            (["fig4", "--rows", "1"], ["--rows is for tables"])):
        done = octet("paper", *arguments, env=env)
        equal(done.code, 2, f"paper {' '.join(arguments)}: exit", done)
        for piece in pieces:
            contains(done.err, piece, f"paper {' '.join(arguments)}")
    done = octet("paper", "table5", env=env)
    equal(done.code, 1, "paper table5: exit", done)
    contains(done.err, "no model of texts", "paper table5: why not")
    done = octet("paper", "table2", "--rows", "1", env=environment(XDG_STATE_HOME=state, OCTET_DATA=state))
    equal(done.code, 1, "paper without the data: exit", done)
    contains(done.err, "octet data get cifar10", "paper without the data")
    equal(len(done.err.splitlines()), 1, "paper without the data: one line", done.err)
    equal(os.listdir(state), [], "nothing was run, nothing recorded")

    # --- options that cannot go together ---------------------------------------------------------
    impossible = ("--global-beta", "0.95", "--momentum", "local")
    done = octet("paper", "table2", "--rows", "9,13", "--columns", "choco-int8", "--dry-run", *impossible, env=env)
    equal(done.code, 1, "a plan of what cannot run: exit code", done)
    equal(done.out.count("cannot run"), 2, "both are in the plan", done)
    contains(done.out, "0 to run", "nothing of it would be")
    contains(done.err, "table2/full/r9/choco-int8: global-beta is 0.95, but momentum is local", "and why")
    done = octet("paper", "table2", "--rows", "9", "--columns", "choco-int8", "--dry-run", "--momentum", "qgm", env=env)
    equal(done.code, 0, "a plan: exit code", done)
    contains(done.out, "to run: octet paper table2 --rows 9 --columns choco-int8 --momentum qgm\n", "how it is run")
    contains(done.err, "global-beta 0.98", "and what is wrong with it")
    done = octet("paper", "table2", "--rows", "9", "--columns", "choco-int8", *impossible, env=env)
    equal(done.code, 1, "what cannot run: exit code", done)
    contains(done.out, "table2/full/r9/choco-int8 failed: global-beta is 0.95", "what cannot run, and why")
    equal(os.listdir(state), [], "nothing was run, nothing recorded")

    # --- settings ------------------------------------------------------------------------------
    if JSON:
        for name, cells in (("table1", 10), ("table2", 128), ("table3", 16), ("table4", 16), ("fig1", 5),
                            ("sparse-push", 48)):
            rows = ["--rows", "1-3"] if name == "table1" else []
            if "\n  imagenette " in known:
                rows = []
            elif name == "table4":
                continue
            for scale in ("full", "short"):
                value = octet_json("paper", name, "--dry-run", "--scale", scale, *rows, env=env)
                equal(len(value["rows"]), 6 if rows else cells, f"{name}, {scale}: cells")
                for cell in value["rows"]:
                    s = cell["settings"]
                    where = f"{name} r{cell['row']} {cell['method']}"
                    if scale == "full" and s["batch"] * s["nodes"] != 256:
                        check(False, f"{where}: 256 samples a step", s)
                    skew = re.search(r"skew ([0-9.]+)", cell["title"])
                    if skew and s["partition"] != "skew:" + skew[1]:
                        check(False, f"{where}: skew", s)
                    share = re.match(r"(\d+) %", cell["title"])
                    if share and s["compress"] != "topk:0." + share[1]:
                        check(False, f"{where}: compression", s)
                    for word in ("fp32", "int8"):
                        if word in cell["method"] and s["precision"] != word:
                            check(False, f"{where}: precision", s)
                    if s["label"] != f"{name}/{scale}/r{cell['row']}/{cell['method']}":
                        check(False, f"{where}: label", s)
        value = octet_json("paper", "table2", "--dry-run", "--rows", "15,31", env=env)
        one, two = value["rows"][3]["settings"], value["rows"][4]["settings"]
        wanted = {"epochs": 200, "lr": 0.1, "weight_decay": 1e-4, "beta": 0.9, "momentum": "local",
                  "final_gossip": 50, "algorithm": "choco", "precision": "int8", "norm": "range-evonorm",
                  "compress": "topk:0.90", "topology": "directed-ring", "nodes": 16, "schedule": "step",
                  "model": "resnet20", "data": "cifar10", "partition": "skew:0.8"}
        equal({key: one[key] for key in wanted}, wanted, "table 2, row 15, choco-int8")
        wanted = {"algorithm": "deepsqueeze", "precision": "fp32", "norm": "evonorm-s0", "schedule": "halving",
                  "compress": "topk:0.99", "topology": "torus:rows=4", "model": "vgg11"}
        equal({key: two[key] for key in wanted}, wanted, "table 2, row 31, deepsqueeze-fp32")

    # --- a row from start to end ---------------------------------------------------------------
    table = ["paper", "table2", "--rows", "1", *SHORT]
    files = [os.path.join(state, "out." + end) for end in ("csv", "md")]
    done = octet(*table, "--csv", files[0], "--md", files[1], env=env)
    equal(done.code, 0, "a row: exit", done)
    for piece in ("ResNet-20, directed ring, 8 nodes", "DeepSq fp32", "CHOCO int8", "90.56", "(short)",
                  "int8 less fp32", "mean of 2", "not comparable"):
        contains(done.out, piece, "a row")
    equal(done.err.count(": cell "), 4, "a row: cells that began", done.err)
    check(re.search(r"^table2/short/r1/choco-int8: [0-9.]+ %, paper 90\.30, [-+][0-9.]+ \(short\), \d+ s$", done.err,
                    re.M), "a row: a line for a cell", done.err)
    with open(files[0], encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    equal([(line["method"], line["paper"], line["state"]) for line in lines],
          [("deepsqueeze-fp32", "90.56", "done"), ("deepsqueeze-int8", "90.57", "done"),
           ("choco-fp32", "90.96", "done"), ("choco-int8", "90.30", "done")], "--csv: a line a cell")
    for line in lines:
        equal(round(float(line["ours"]) - float(line["paper"]), 3), round(float(line["delta"]), 3),
              f"--csv {line['method']}: delta")
    with open(files[1], encoding="utf-8") as file:
        text = file.read()
    contains(text, "| row | | DeepSq fp32 | paper | (short) |", "--md: heads")
    check(re.search(r"^\| 1 \| dense, skew 0 \| [0-9.]+ \| 90\.56 \| [-+][0-9.]+ \|", text, re.M), "--md: a row", text)
    if RECORDS:
        equal(sorted(os.listdir(os.path.join(state, "octet"))), ["paper", "runs.db"], "the state folder")
    equal(os.listdir(os.path.join(state, "octet", "paper")), [], "no checkpoint is left")

    # --- it is taken over ----------------------------------------------------------------------
    if RECORDS and JSON:
        value = octet_json(*table, env=env)
        equal([row["taken_over"] for row in value["rows"]], [True] * 4, "again: taken over")
        equal([row["run"] for row in value["rows"]], [1, 2, 3, 4], "again: numbers of the runs")
        for key in ("paper", "ours", "delta", "accuracy", "accuracy_nodes", "bytes_sent", "label", "settings",
                    "row", "method", "state", "errors"):
            check(all(key in row for row in value["rows"]), f"JSON: rows have {key!r}")
        for row, line in zip(value["rows"], lines):
            check(abs(row["ours"] - float(line["ours"])) < 1e-3 and row["ours"] == row["accuracy_nodes"],
                  f"{row['method']}: ours {row['ours']:.3f} as before, the mean over the nodes")
            check(abs(row["delta"] - (row["ours"] - row["paper"])) < 1e-9, f"{row['method']}: delta {row['delta']:.3f}")
            equal(len([e for e in row["errors"] if e is not None]), 2, f"{row['method']}: errors of the epochs")
        equal((value["name"], value["scale"], value["comparable"], value["failed"], value["left"]),
              ("table2", "short", False, 0, 0), "JSON: the rest")
        done = octet(*table, env=env)
        lacks(done.err, "cell", "all taken over: nothing is run")
        with sqlite3.connect(os.path.join(state, "octet", "runs.db")) as runs:
            rows = runs.execute("SELECT value, is_set FROM options WHERE name = 'gamma'").fetchall()
            equal(rows, [("1", 0)] * 4, "gamma on record: what the rule gave")
            runs.execute("UPDATE options SET value = '0', is_set = 1 WHERE run = 2 AND name = 'gamma'")
            runs.execute("UPDATE options SET value = '0.5' WHERE run = 3 AND name = 'gamma'")
        done = octet(*table, "--dry-run", env=env)
        contains(done.out, "1 to run, 3 on record", "a gamma of an older Octet, and another one")
        with sqlite3.connect(os.path.join(state, "octet", "runs.db")) as runs:
            runs.execute("UPDATE options SET value = '1' WHERE run = 3 AND name = 'gamma'")
            runs.execute("UPDATE options SET name = 'older-' || name WHERE run = 3"
                         " AND name IN ('fault', 'final-statistics')")
        done = octet(*table, "--dry-run", env=env)
        contains(done.out, "1 to run, 3 on record", "an Octet that left nodes their own statistics")
        with sqlite3.connect(os.path.join(state, "octet", "runs.db")) as runs:
            runs.execute("UPDATE options SET name = 'final-statistics' WHERE name = 'older-final-statistics'")
        done = octet(*table, "--dry-run", env=env)
        contains(done.out, "0 to run, 4 on record", "an Octet that knew of no faults had none")
        value = octet_json(*table, "--columns", "choco-int8", "--again", env=env)
        equal([(row["taken_over"], row["run"]) for row in value["rows"]], [(False, 5)], "--again runs it again")
        value = octet_json(*table, "--columns", "choco-int8", "--seed", "2", env=env)
        equal([(row["taken_over"], row["run"]) for row in value["rows"]], [(False, 6)], "another seed is another run")
        equal([row["label"] for row in value["rows"]], ["table2/short/r1/choco-int8-seed2"], "and has a label of its own")
        value = octet_json(*table, "--columns", "choco-int8", env=env)
        equal([(row["taken_over"], row["run"]) for row in value["rows"]], [(True, 5)], "the newest counts")
        done = octet("runs", "5", env=env)
        contains(done.out, "table2/short/r1/choco-int8", "the run has its label")
        done = octet(*table, "--dry-run", env=env)
        contains(done.out, "0 to run, 4 on record", "--dry-run of a table that is done")
        value = octet_json(*table, "--columns", "choco-fp32", "--db", "none", env=env)
        equal([(row["taken_over"], row["run"]) for row in value["rows"]], [(False, None)], "--db none: run, not recorded")

        # --- several seeds ---------------------------------------------------------------------
        with sqlite3.connect(os.path.join(state, "octet", "runs.db")) as runs:
            runs.execute("UPDATE options SET value = 'table2/short/r1/choco-int8' WHERE run = 6 AND name = 'label'")
        several = [*table, "--columns", "choco-int8", "--seeds", "1-3"]
        rows = octet_json(*several, env=env)["rows"]
        equal([(row["seed"], row["taken_over"]) for row in rows], [(1, True), (2, True), (3, False)],
              "--seeds: two are on record, one under the label that older versions gave")
        equal([row["label"][26:] for row in rows], ["", "-seed2", "-seed3"], "--seeds: labels")
        ours = [row["ours"] for row in rows]
        check(len(set(ours)) > 1, f"--seeds: runs differ: {ours}")
        for row in rows:
            check(abs(row["mean"] - statistics.mean(ours)) < 1e-9, f"--seeds: mean {row['mean']:.3f}")
            check(abs(row["deviation"] - statistics.stdev(ours)) < 1e-9, f"--seeds: deviation {row['deviation']:.3f}")
            check(abs(row["delta"] - (row["ours"] - row["paper"])) < 1e-9, f"--seeds: a run's own delta {row['delta']:.3f}")
        done = octet(*several, env=env)
        contains(done.out, "mean of 3 seeds", "--seeds: the title says so")
        shown = re.search(r"^ *1 dense, skew 0 +([\d.]+) +([\d.]+) +90\.30 +(-[\d.]+)$", done.out, re.M)
        check(shown is not None, "--seeds: the row has mean, deviation, paper, difference", done)
        if shown:
            equal([float(x) for x in shown.groups()],
                  [round(x, 2) for x in (statistics.mean(ours), statistics.stdev(ours), statistics.mean(ours) - 90.3)],
                  "--seeds: the row's numbers")
        done = octet(*several, "--md", "-", env=env)
        contains(done.out, f"{statistics.mean(ours):.2f} ± {statistics.stdev(ours):.2f}", "--seeds in Markdown")
        done = octet(*several, "--csv", "-", env=env)
        equal([line["seed"] for line in csv.DictReader(done.out.splitlines())], ["1", "2", "3"], "--seeds in CSV")
        done = octet(*several, "--lr", "1e6", "--db", "none", env=env)
        equal(done.code, 1, "--seeds, runs that fail: exit", done)
        contains(done.out, "fails", "--seeds: a cell of which a run fails has no mean")

        def lock_of(command, label):
            """The file that a process locks while it is at the cell of that label: waits until there is one, and kills it."""
            pattern = os.path.join(state, "octet/paper", label + "-????????.lock")
            process = subprocess.Popen([OCTET, *command, "--db", "none"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
            until = time.monotonic() + PATIENCE_S
            while not glob.glob(pattern) and process.poll() is None and time.monotonic() < until:
                time.sleep(0.0005)
            found = glob.glob(pattern)
            process.kill()
            process.wait()
            equal(len(found), 1, f"{label}: files that are locked")
            os.makedirs(os.path.dirname(found[0]), exist_ok=True)
            return found[0]

        # Seed 5 of int8 is another process's: its mean is of seed 1 alone, and so is what int8 costs.
        with open(lock_of([*several[:-1], "5"], "table2/short/r1/choco-int8-seed5"), "w", encoding="utf-8") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            done = octet(*several[:-1], "5", "--lr", "0.03", env=env)
            equal(done.code, 0, "a cell that another process is at, with other options: exit", done)
            done = octet(*several[:-1], "1,5", "--columns", "choco-fp32,choco-int8", env=env)
            equal(done.code, 1, "--seeds, one of them busy: exit", done)
            contains(done.out, "choco-int8-seed5: another octet paper is at this cell", "--seeds, one of them busy")
            shown = re.search(r"^ *1 dense, skew 0 .* ([\d.]+) +1/2 +90\.30 +-[\d.]+$", done.out, re.M)
            check(shown and float(shown.group(1)) == round(ours[0], 2), "--seeds, one of them busy: a mean of 1/2", done)
            fp32 = octet_json(*several[:-1], "1", "--columns", "choco-fp32", env=env)["rows"][0]["ours"]
            shown = re.search(r"int8 less fp32.*?dense, skew 0 +([+-][\d.]+)", done.out, re.S)
            check(shown and abs(float(shown.group(1)) - (ours[0] - fp32)) < 0.006, "--seeds: what int8 costs is of seeds that both have", done)
            done = octet(*several[:-1], "1,5", "--md", "-", env=env)
            contains(done.out, f"{ours[0]:.2f} (1 of 2)", "--seeds, one of them busy: in Markdown")
        for given, piece in ((["--seeds", "3-1"], "as in 1-3"), (["--seeds", "9223372036854775807"], "from 0 to 9007199254740992"),
                             (["--seeds", "9223372036854775808"], "as in 1-3"), (["--seeds", "1-1000"], "more than 100"),
                             (["--seeds", "1-2", "--seed", "1"], "leave --seed out")):
            done = octet(*table, *given, env=env)
            equal(done.code, 2, f"{given}: exit")
            contains(done.err, piece, f"{given}: what is wrong")
        done = octet("paper", "--seeds", "1-2", env=env)
        equal(done.code, 2, "--seeds without a table: exit")
        contains(done.err, "--seeds needs a table", "--seeds without a table: what is wrong")
        done = octet("paper", "fig4", "--seeds", "1-2", env=env)
        equal(done.code, 2, "fig4 --seeds: exit")
        contains(done.err, "--seeds is for tables", "fig4 --seeds: what is wrong")
        done = octet("paper", "fig1", *SHORT, "--seeds", "1-2", env=env)
        equal(done.code, 2, "fig1 --seeds: exit")
        contains(done.err, "--seeds is for tables", "fig1 --seeds: what is wrong")

    # --- a database that cannot be used --------------------------------------------------------
    if RECORDS:
        bad = os.path.join(state, "bad.db")
        with open(bad, "w", encoding="utf-8") as file:
            file.write("garbage")
        one = ["paper", "table2", "--rows", "1", "--columns", "choco-int8", *SHORT, "--db", bad]
        done = octet(*one, env=env)
        equal(done.code, 1, "a damaged database: exit", done)
        contains(done.err, "is no database of runs", "a damaged database is named")
        lacks(done.err, "cell", "a damaged database: nothing is run")
        done = octet(*one, "--record", "try", env=env)
        equal(done.code, 0, "a damaged database, --record try: exit", done)
        contains(done.err, "the run is not recorded", "a damaged database, --record try")

    # --- Ctrl-C and a kill, and how it goes on --------------------------------------------------
    LONG = ["paper", "table2", "--rows", "1", "--columns", "choco-fp32,choco-int8", *TINY, "--epochs", "8",
            "--every", "1"]

    def checkpoints(folder, column, row=1):
        return glob.glob(os.path.join(folder, f"octet/paper/table2/full/r{row}", column + "-????????", "step-*[0-9]"))

    def interrupt(number, folder):
        """Runs LONG; once its second cell has a checkpoint sends the signal; exit code and texts."""
        process = subprocess.Popen([OCTET, *LONG], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=environment(XDG_STATE_HOME=folder))
        until = time.monotonic() + PATIENCE_S
        while not checkpoints(folder, "choco-int8") and process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out.decode(), err.decode()

    def models(folder):
        """{label: sha256 of the model} of the runs that are done."""
        with sqlite3.connect(os.path.join(folder, "octet", "runs.db")) as runs:
            return dict(runs.execute("SELECT value, model_sha256 FROM runs JOIN options ON run = number "
                                     "WHERE name = 'label' AND outcome = 'done'"))

    if RECORDS and JSON:
        with tempfile.TemporaryDirectory() as folder:
            octet(*LONG, env=environment(XDG_STATE_HOME=folder))
            expected = models(folder)
        equal(sorted(expected), ["table2/full/r1/choco-fp32", "table2/full/r1/choco-int8"], "models of a whole table")
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)):
            name = signal.Signals(number).name
            with tempfile.TemporaryDirectory() as folder:
                got, out, err = interrupt(number, folder)
                equal(got, code, f"{name}: exit", err)
                check(checkpoints(folder, "choco-int8"), f"{name}: a checkpoint is there", err)
                command = ["octet", *LONG]
                if number != signal.SIGKILL:
                    contains(out, "half", f"{name}: the table has a half-done cell")
                    contains(err, "stopped with 1 cell to go; to go on: octet paper table2", f"{name}: what to do")
                    command = shlex.split(err.split("to go on: ")[1])
                done = octet(*command[1:], env=environment(XDG_STATE_HOME=folder))
                equal(done.code, 0, f"{name}, then again: exit", done)
                contains(done.err, "choco-int8: cell 1 of 1, goes on", f"{name}, then again: it goes on")
                equal(models(folder), expected, f"{name}, then again: the same models")
                equal(os.listdir(os.path.join(folder, "octet", "paper")), [], f"{name}: no checkpoint is left")
        with tempfile.TemporaryDirectory() as folder:
            interrupt(signal.SIGKILL, folder)
            done = octet(*LONG, "--lr", "0.05", env=environment(XDG_STATE_HOME=folder))
            equal(done.code, 0, "other options: exit", done)
            lacks(done.err, "goes on", "other options begin anew, whatever lies there")
            equal(done.err.count(": cell "), 2, "other options: nothing is taken over")

    # --- a record or a checkpoint that cannot be written --------------------------------------
    def spoil(folder, change):
        """Runs LONG's last cell and calls `change` once it has a checkpoint; exit code and stderr."""
        process = subprocess.Popen([OCTET, *LONG, "--columns", "choco-int8"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, restore_signals=False,
                                   env=environment(XDG_STATE_HOME=folder),
                                   preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
        until = time.monotonic() + PATIENCE_S
        while not checkpoints(folder, "choco-int8") and process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        change(process)
        _, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, err.decode()

    def forget(folder):
        with sqlite3.connect(os.path.join(folder, "octet", "runs.db"), timeout=60) as runs:
            runs.execute("DELETE FROM runs")

    if RECORDS and JSON:
        for what, change, message in (
                ("its record is gone", lambda process: forget(folder), "the record of run 1 is incomplete"),
                ("the disk is full", lambda process: resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (65536, 65536)),
                 "choco-int8: failed: IO")):
            with tempfile.TemporaryDirectory() as folder:
                code, err = spoil(folder, change)
                equal(code, 1, f"{what}: exit", err)
                contains(err, message, what)
                check(checkpoints(folder, "choco-int8"), f"{what}: the checkpoint stays", err)
                done = octet(*LONG, "--columns", "choco-int8", env=environment(XDG_STATE_HOME=folder))
                equal(done.code, 0, f"{what}, then again: exit", done)
                contains(done.err, "choco-int8: cell 1 of 1, goes on", f"{what}, then again: it goes on")
                equal(models(folder), {label: model for label, model in expected.items() if "int8" in label},
                      f"{what}, then again: the same model")

    # --- two at once ---------------------------------------------------------------------------
    if RECORDS and JSON:
        with tempfile.TemporaryDirectory() as folder:
            first = subprocess.Popen([OCTET, *LONG], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, env=environment(XDG_STATE_HOME=folder))
            until = time.monotonic() + PATIENCE_S
            while not checkpoints(folder, "choco-fp32") and first.poll() is None and time.monotonic() < until:
                time.sleep(0.002)
            first.send_signal(signal.SIGSTOP)
            done = octet(*LONG, env=environment(XDG_STATE_HOME=folder))
            first.send_signal(signal.SIGCONT)
            out, err = (text.decode() for text in first.communicate(timeout=PATIENCE_S))
            equal(done.code, 1, "the second of two: exit", done)
            contains(done.err, "choco-fp32: another octet paper is at this cell", "the second of two")
            contains(done.out, "choco-fp32: another octet paper is at this cell", "the second of two: at the end")
            check(re.search(r"dense, skew 0 +busy +90\.96 ", done.out), "the second of two: its table", done.out)
            contains(done.err, "choco-int8: cell 1 of 1", "the second of two")
            equal(first.returncode, 0, "the first of two: exit", err)
            lacks(err, "choco-int8: cell", "the first of two does not do again what the second has done")
            check(re.search(r"dense, skew 0 +[0-9.]+ +90\.96 .* [0-9.]+ +90\.30 ", out), "the first of two: both", out)
            equal(models(folder), expected, "two at once: the models")
            done = octet("runs", "--where", "outcome=done", env=environment(XDG_STATE_HOME=folder))
            equal(len(done.out.splitlines()), 4, "two at once: each cell once", done.out)

    # --- side by side --------------------------------------------------------------------------
    ROWS = ["paper", "table2", "--rows", "1,5,6", "--columns", "choco-fp32,choco-int8", *SHORT]
    FIGURES = ("accuracy", "accuracy_nodes", "loss", "consensus_distance", "bytes_sent", "bytes_final", "bytes_dense",
               "epochs", "errors", "state")
    if RECORDS and JSON:
        alone = None
        for n in (1, 2, 256):
            with tempfile.TemporaryDirectory() as folder:
                more = ["--at-once", str(n)] if n > 1 else []
                done = octet(*ROWS, *more, "--json", env=environment(XDG_STATE_HOME=folder))
                equal(done.code, 0, f"{n} at once: exit", done)
                rows = json.loads(done.out)["rows"]
                figures = {row["label"]: [row[key] for key in FIGURES] for row in rows}
                alone = alone or (figures, models(folder))
                equal(len(figures), 6, f"{n} at once: cells")
                equal(figures, alone[0], f"{n} at once: every cell's figures are those that it has alone")
                equal(models(folder), alone[1], f"{n} at once: and so are the models")
                equal(sorted(row["run"] for row in rows), list(range(1, 7)), f"{n} at once: each is a run on record")
                with sqlite3.connect(os.path.join(folder, "octet", "runs.db")) as runs:
                    epochs = runs.execute("SELECT run, count(*) FROM epochs GROUP BY run").fetchall()
                equal(epochs, [(run, 2) for run in range(1, 7)], f"{n} at once: and has its own epochs there")
                equal(os.listdir(os.path.join(folder, "octet", "paper")), [], f"{n} at once: no checkpoint is left")
                said = [re.search(r"r(\d)/choco-(\w+): cell (\d) of 6(, one of \d at once)?$", line).groups()
                        for line in done.err.splitlines() if ": cell " in line]
                groups = {1: [(1, "fp32"), (1, "int8"), (5, "fp32"), (5, "int8"), (6, "fp32"), (6, "int8")],
                          2: [(1, "fp32", 2), (5, "fp32", 2), (1, "int8", 2), (5, "int8", 2), (6, "fp32"), (6, "int8")],
                          256: [(row, precision, 3) for precision in ("fp32", "int8") for row in (1, 5, 6)]}[n]
                equal(said, [(str(row), precision, str(i + 1), f", one of {beside[0]} at once" if beside else None)
                             for i, (row, precision, *beside) in enumerate(groups)],
                      f"{n} at once: cells that fit, in the order of the table")

    GROUP = ["paper", "table2", "--rows", "1,5", "--columns", "choco-int8", *TINY, "--epochs", "12", "--every", "1",
             "--at-once", "2"]
    LABELS = ["table2/full/r1/choco-int8", "table2/full/r5/choco-int8"]

    def begin(folder, row, *command):
        """Starts the command, and returns it once the row's cell of choco-int8 has a checkpoint."""
        process = subprocess.Popen([OCTET, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=environment(XDG_STATE_HOME=folder))
        until = time.monotonic() + PATIENCE_S
        while not checkpoints(folder, "choco-int8", row) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        return process

    def end(process):
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out.decode(), err.decode()

    def outcomes(folder):
        with sqlite3.connect(os.path.join(folder, "octet", "runs.db")) as runs:
            return runs.execute("SELECT value, outcome FROM runs JOIN options ON run = number WHERE name = 'label' "
                                "ORDER BY number").fetchall()

    if RECORDS and JSON:
        with tempfile.TemporaryDirectory() as folder:
            done = octet(*GROUP[:-2], env=environment(XDG_STATE_HOME=folder))
            expected_group = models(folder)
            equal(sorted(expected_group), LABELS, "models of the two, one after the other")

        # --- Ctrl-C stops all of them
        with tempfile.TemporaryDirectory() as folder:
            process = begin(folder, 1, *GROUP)
            process.send_signal(signal.SIGINT)
            code, out, err = end(process)
            equal(code, 130, "side by side, SIGINT: exit", err)
            contains(err, "stopped with 2 cells to go; to go on: octet paper table2", "side by side, SIGINT: what to do")
            for row, label in zip((1, 5), LABELS):
                contains(err, f"{label}: stopped\n", "side by side, SIGINT")
                equal(len(checkpoints(folder, "choco-int8", row)) > 0, True, f"side by side, SIGINT: {label} has a checkpoint")
            equal(len(re.findall(r" half +90\.30| half +88\.23", out)), 2, "side by side, SIGINT: the table has two half-done cells", out)
            equal(outcomes(folder), [(label, "stopped") for label in LABELS], "side by side, SIGINT: the records")
            command = shlex.split(err.split("to go on: ")[1])
            equal(command[command.index("--at-once") + 1], "2", "side by side, SIGINT: as many go on")
            done = octet(*command[1:], env=environment(XDG_STATE_HOME=folder))
            equal(done.code, 0, "side by side, then again: exit", done)
            for i, label in enumerate(LABELS):
                contains(done.err, f"{label}: cell {i + 1} of 2, goes on, one of 2 at once\n", "side by side, then again")
            lacks(done.err, "one at a time", "side by side, then again: they stand after the same step")
            equal(models(folder), expected_group, "side by side, then again: the same models")
            equal(os.listdir(os.path.join(folder, "octet", "paper")), [], "side by side, then again: no checkpoint is left")

        # --- one that goes on, and one that begins; then two that stand after different steps
        with tempfile.TemporaryDirectory() as folder:
            process = begin(folder, 1, *GROUP, "--rows", "1")
            process.send_signal(signal.SIGINT)
            equal(end(process)[0], 130, "one of the two is stopped: exit")
            process = begin(folder, 5, *GROUP, "--rows", "5")
            process.send_signal(signal.SIGINT)
            equal(end(process)[0], 130, "and the other: exit")
            process = begin(folder, 6, *GROUP, "--rows", "1,6")
            process.send_signal(signal.SIGKILL)
            code, out, err = end(process)
            contains(err, "r1/choco-int8: cell 1 of 2, goes on\n", "what goes on does so without what begins")
            contains(err, "r6/choco-int8: cell 2 of 2\n", "what begins does so without what goes on")
            done = octet(*GROUP, env=environment(XDG_STATE_HOME=folder))
            equal(done.code, 0, "what goes on from different steps: exit", done)
            equal({label: model for label, model in models(folder).items() if label in LABELS}, expected_group,
                  "what goes on from different steps: the same models")

        # --- one fails while the others go on
        with tempfile.TemporaryDirectory() as folder:
            process = begin(folder, 5, *GROUP)
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            kept = [os.path.dirname(path) for path in checkpoints(folder, "choco-int8", 5)]
            check(kept, "the fifth row's cell has a checkpoint")
            os.rename(kept[0], kept[0] + ".away")
            with open(kept[0], "w", encoding="utf-8"):
                pass # a file, where its next checkpoint would go
            process.send_signal(signal.SIGCONT)
            code, out, err = end(process)
            equal(code, 1, "one of two fails: exit", err)
            contains(err, f"{LABELS[1]}: failed: IO: {kept[0]}: ", "one of two fails: why")
            lacks(err, f"{LABELS[0]}: failed", "one of two fails")
            told = dict(outcomes(folder))
            equal(told[LABELS[0]], "done", "one of two fails: the record of the other")
            contains(told[LABELS[1]], f"IO: {kept[0]}: ", "one of two fails: its record says why")
            equal(models(folder), {LABELS[0]: expected_group[LABELS[0]]}, "one of two fails: the other's model")
            os.unlink(kept[0])
            done = octet(*GROUP, env=environment(XDG_STATE_HOME=folder))
            equal(done.code, 0, "one of two failed, then again: exit", done)
            equal(models(folder), expected_group, "one of two failed, then again: both models")

        # --- one that cannot even begin is found out, and the others are not kept from it
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "octet/paper/table2/full"))
            with open(os.path.join(folder, "octet/paper/table2/full/r1"), "w", encoding="utf-8"):
                pass # where the folder of its checkpoints would be
            done = octet(*GROUP, env=environment(XDG_STATE_HOME=folder))
            equal(done.code, 1, "one of two cannot begin: exit", done)
            equal(len(re.findall(r"^2 cells at once: IO: .*; going on with one at a time$", done.err, re.M)), 1,
                  "one of two cannot begin: said once", done.err)
            contains(done.err, f"{LABELS[0]}: failed: IO: ", "one of two cannot begin: which")
            contains(done.err, f"{LABELS[1]}: cell 2 of 2\n", "one of two cannot begin: the other does")
            equal(models(folder), {LABELS[1]: expected_group[LABELS[1]]}, "one of two cannot begin: the other's model")

        # --- no room for so many (a sanitizer needs more addresses than there are: nothing to see then)
        def narrow():
            resource.setrlimit(resource.RLIMIT_AS, (500 << 20, 500 << 20))

        if subprocess.run([OCTET, "version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          preexec_fn=narrow).returncode == 0:
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([OCTET, "paper", "table2", "--rows", "1-8", "--columns", "choco-int8", *SHORT,
                                       "--epochs", "1", "--seeds", "1-2", "--at-once", "16"], stdin=subprocess.DEVNULL,
                                      capture_output=True, env=environment(XDG_STATE_HOME=folder), preexec_fn=narrow,
                                      timeout=PATIENCE_S)
                err = done.stderr.decode()
                equal(done.returncode, 0, "no room for 16: exit", err)
                equal(len(re.findall("^16 cells at once: NO_MEMORY: .*; going on with half as many$", err, re.M)), 1,
                      "no room for 16: said once", err)
                check(re.search(": cell 8 of 16, one of [248] at once$", err, re.M), "no room for 16: fewer go side by side", err)
                equal([outcome for _, outcome in outcomes(folder)], ["done"] * 16, "no room for 16: all are done, in turn")

        # --- another process has some of them
        with tempfile.TemporaryDirectory() as folder:
            first = begin(folder, 5, *GROUP, "--rows", "5,6")
            first.send_signal(signal.SIGSTOP)
            os.waitpid(first.pid, os.WUNTRACED)
            done = octet(*GROUP, "--rows", "1,5,6", env=environment(XDG_STATE_HOME=folder))
            first.send_signal(signal.SIGCONT)
            code, out, err = end(first)
            equal(done.code, 1, "two at once, each with several: exit of the second", done)
            for row in (5, 6):
                contains(done.err, f"r{row}/choco-int8: another octet paper is at this cell", "two at once, each with several")
            check(re.search(r"r1/choco-int8: cell 1 of \d\n", done.err), "two at once, each with several: what is left to the second", done.err)
            equal(code, 0, "two at once, each with several: exit of the first", err)
            equal(sorted(outcomes(folder)), [(f"table2/full/r{row}/choco-int8", "done") for row in (1, 5, 6)],
                  "two at once, each with several: each cell once")

    # --- the other of two is gone before this one ends -----------------------------------------
    if RECORDS and JSON:
        with tempfile.TemporaryDirectory() as folder:
            pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                     "env": environment(XDG_STATE_HOME=folder)}
            longer = [OCTET, *LONG, "--epochs", "24"]
            first = subprocess.Popen(longer, **pipes)
            until = time.monotonic() + PATIENCE_S
            while not checkpoints(folder, "choco-fp32") and first.poll() is None and time.monotonic() < until:
                time.sleep(0.002)
            first.send_signal(signal.SIGSTOP)
            second = subprocess.Popen(longer, **pipes)
            wanted = b"choco-fp32: another octet paper is at this cell"
            while wanted not in (said := second.stderr.readline()) and said:
                pass
            first.kill() # while the other cell takes seconds
            first.communicate(timeout=PATIENCE_S)
            out, err = (text.decode() for text in second.communicate(timeout=PATIENCE_S))
            contains(said.decode(), wanted.decode(), "the second of two, before the first is gone")
            contains(err, "choco-fp32: cell 2 of 2, goes on", "the second of two goes on with what the first left")
            equal(second.returncode, 0, "the second of two, alone at the end: exit", err)
            check(re.search(r"dense, skew 0 +[0-9.]+ +90\.96 .* [0-9.]+ +90\.30 ", out), "the second of two, at the end: both", out)

    # --- data in a folder with a long name ------------------------------------------------------
    with tempfile.TemporaryDirectory() as folder:
        deep = os.path.join(folder, "d" * 200, "e" * 100)
        os.makedirs(deep)
        for half, n in (("train", 64), ("t10k", 16)):
            with open(f"{deep}/{half}-images-idx3-ubyte", "wb") as file:
                file.write(struct.pack(">4I", 0x803, n, 8, 8) + bytes(i * 37 % 251 for i in range(64 * n)))
            with open(f"{deep}/{half}-labels-idx1-ubyte", "wb") as file:
                file.write(struct.pack(">2I", 0x801, n) + bytes(i % 4 for i in range(n)))
        done = octet("paper", "table2", "--rows", "1", *SHORT, "--data", "idx:" + deep, "--epochs", "1", "--columns",
                     "choco-fp32", env=environment(XDG_STATE_HOME=folder))
        equal(done.code, 0, "data in a folder with a long name: exit", done)

    # --- a cell that fails ---------------------------------------------------------------------
    wild = ["paper", "table2", "--rows", "1", "--columns", "choco-fp32", "--scale", "short", *TINY, "--epochs", "20",
            "--lr", "1e6"]
    done = octet(*wild, env=env)
    equal(done.code, 1, "a cell that overflows: exit", done)
    contains(done.out, "fails", "a cell that overflows: in the table")
    contains(done.out, "table2/short/r1/choco-fp32 failed: NOT_FINITE", "a cell that overflows: why")
    if JSON:
        value = octet_json(*wild, code=1, env=env)
        row = value["rows"][0]
        equal((row["state"], row["ours"], row["delta"], value["failed"]), ("failed", None, None, 1),
              "a cell that overflows: JSON")
        contains(row["reason"], "NOT_FINITE", "a cell that overflows: its reason")
        contains(row["reason"], "lower the learning rate", "a cell that overflows: what to do")

    # --- the others ----------------------------------------------------------------------------
    if JSON:
        value = octet_json("paper", "sparse-push", "--rows", "2", *SHORT, env=env)
        equal([row["method"] for row in value["rows"]], ["sgp", "sparse-push", "rare-push", "sgp-cosine", "slow-push", "sc-sparse-push"],
              "sparse-push: columns")
        equal([row["paper"] for row in value["rows"]], [None] * 6, "sparse-push: nothing is published")
        dense, sparse = value["rows"][:2]
        slow = value["rows"][4]["settings"]
        equal((slow["slow_momentum"], slow["gossip_every"], slow["schedule"]), (0.9, 117, "cosine"), "sparse-push: slow momentum")
        equal(dense["delta"], None, "sparse-push: the dense column is what the others are held against")
        check(abs(sparse["delta"] - (sparse["ours"] - dense["ours"])) < 1e-9, "sparse-push: delta against the dense one")
        check(sparse["sent_of_dense"] < 0.1, f"sparse-push: sends {sparse['sent_of_dense']:.4f} of dense floats")
        value = octet_json("paper", "sparse-push", "--rows", "2", "--columns", "rare-push", *SHORT, "--batch", "1",
                           "--epochs", "15", env=env)
        rare = value["rows"][0] # 120 steps, so one round
        check(1 / 475 < rare["sent_of_dense"] < 1 / 460, f"rare-push: sends 1/{1 / rare['sent_of_dense']:.0f} of dense floats")
        equal((rare["settings"]["compress"], rare["settings"]["gossip_every"]), ("int8", 117), "sparse-push: few whole messages")
        equal(value["against"], "sgp", "sparse-push: against")
        value = octet_json("paper", "fig2", *TINY[:2], "--samples", "64", env=env)
        equal([len(row["histogram"]) for row in value["rows"]], [8] * 4, "fig2: four partitions over 8 nodes")
        equal([sum(map(sum, row["histogram"])) for row in value["rows"]], [64] * 4, "fig2: every sample once")
        value = octet_json("paper", "fig4", env=env)
        equal([(row["nodes"], len(row["edges"])) for row in value["rows"]], [(8, 8), (16, 64)], "fig4: the graphs")
        value = octet_json("paper", "table1", "--rows", "1", *SHORT, env=env)
        equal([(row["method"], row["paper"], row["settings"]["nodes"]) for row in value["rows"]],
              [("fp32", 91.25, 1), ("int8", 91.12, 1)], "table1: one node")
        value = octet_json("paper", "table3", "--rows", "3", *SHORT, "--columns", "choco-qgm-int8", env=env)
        equal([row["settings"]["momentum"] for row in value["rows"]], ["qgm"], "table3: quasi-global momentum")
    drawings = {}
    for name, more in (("fig1", SHORT), ("fig2", TINY[:2]), ("fig4", [])):
        drawings[name] = os.path.join(state, name + ".svg")
        done = octet("paper", name, *more, "--svg", drawings[name], env=env)
        equal(done.code, 0, f"{name} --svg: exit", done)
        with open(drawings[name], encoding="utf-8") as file:
            text = file.read()
        check(text.startswith("<svg") and text.endswith("</svg>\n"), f"{name}: a drawing")
        if name == "fig1":
            equal(text.count("<polyline"), 5, "fig1: five curves")
            contains(done.out, "test error after epoch", "fig1: a table of errors")

    for name, form, begin, end in (("table2", "md", "# table2: ", "not comparable.\n"), ("table2", "csv", "table,", "\n"),
                                   ("fig1", "svg", "<svg", "</svg>\n"), ("fig2", "svg", "<svg", "</svg>\n"),
                                   ("fig4", "svg", "<svg", "</svg>\n")):
        more = {"table2": ["--rows", "1", *SHORT], "fig1": SHORT, "fig2": TINY[:2], "fig4": []}[name]
        done = octet("paper", name, *more, f"--{form}", "-", env=env)
        equal(done.code, 0, f"{name} --{form} -: exit", done)
        check(done.out.startswith(begin) and done.out.endswith(end) and (form != "csv" or done.out.count("\n") == 5),
              f"{name} --{form} -: that alone is on stdout", done.out)
    done = octet("paper", "fig4", "--svg", "/dev/full", env=env)
    equal(done.code, 1, "fig4 --svg /dev/full: exit", done)
    contains(done.err, "/dev/full cannot be written: No space left", "fig4 --svg /dev/full")

    # --- on a terminal -------------------------------------------------------------------------
    for columns in (80, 160):
        with tempfile.TemporaryDirectory() as folder:
            terminal = Terminal("paper", "table2", "--rows", "1,9", *SHORT, columns=columns,
                                env=environment(TERM="xterm", XDG_STATE_HOME=folder))
            equal(terminal.finish(), 0, f"{columns} columns: exit", terminal.raw)
        text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.raw.decode())
        lines = re.split(r"\r\n|\x1b\[K|\r|\x1b\[\d+A|\x1b\[J|\n", text)
        widest = max(len(line) for line in lines)
        check(widest <= columns, f"{columns} columns: the widest line takes {widest}")
        check(re.search(r"\x1b\[\d+A", text), f"{columns} columns: redrawn in place")
        check(re.search(r"r1 choco-int8  (epoch|test) \d", text), f"{columns} columns: the cell that runs")
        contains(text, "table2  cell 8 of 8", f"{columns} columns: the table's line")
        last = text[text.rindex("\x1b[J"):]
        lacks(last, "\x1b[K", f"{columns} columns: the end stays")
        for piece in ("ResNet-20, directed ring, 16 nodes", "CHOCO int8", "int8 less fp32"):
            contains(last, piece, f"{columns} columns: the end")
        equal("paper (short)" in last, columns == 160, f"{columns} columns: the paper's own numbers")
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal("paper", "table2", "--rows", "1,5", "--columns", "choco-int8", *SHORT, "--at-once", "4",
                            env=environment(TERM="xterm", XDG_STATE_HOME=folder))
        equal(terminal.finish(), 0, "side by side: exit", terminal.raw)
    text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.raw.decode())
    contains(text, "table2  cells 1 to 2 of 2 ", "side by side: the table's line")
    check(re.search(r"r1 choco-int8 and 1 more  (epoch|test) \d", text), "side by side: the cells' line")
    frames = [frame for frame in re.split(r"\x1b\[\d+A", text) if "and 1 more" in frame]
    check(frames and all(re.search(r"1 dense, skew 0 +\d+ % .*5 99 %, skew 0 +\d+ % ", frame, re.S) for frame in frames),
          f"side by side: both are marked as running, in {len(frames)} drawings", *frames[:1])
finish()
