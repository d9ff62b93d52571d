#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet runs: what octet train records, how it is listed, and databases that cannot be used."""
import os
import re
import shlex
import sqlite3
import subprocess
import tempfile

from octet_cli import (SOLO, TINY, Terminal, check, contains, environment, equal, finish, has_json, lacks, octet,
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

    # --- rare messages -------------------------------------------------------------------------
    rare = os.path.join(folder, "rare.db")
    sent = octet("train", *TINY, "--nodes", "2", "--epochs", "1", "--compress", "none", "--gossip-every", "2", "--db", rare)
    equal(sent.code, 0, "rare messages: exit", sent)
    done = octet("runs", "1", "--db", rare)
    contains(done.out, "1/2.00 of plain floats after every step", "runs 1: rare messages")
    of_dense = octet_json("runs", "1", "--db", rare)["sent_of_dense"]
    check(abs(of_dense - 0.5) < 0.01, f"runs 1 --json: rare messages are {of_dense} of dense ones")
    contains(octet("report", "1", "--db", rare, "--html", "-").out, "1/2.00 of plain floats after every step", "report: rare messages")
    os.remove(rare)

    # --- rounds without training ---------------------------------------------------------------
    final = os.path.join(folder, "final.db")
    train = ["train", *TINY, "--nodes", "4", "--epochs", "1", "--db", final]
    first, second = octet(*train, "--final-gossip", "3"), octet(*train, "--compress", "none")
    sent = [re.search(r"^sent +(\S+ \S+) ", done.out, re.M)[1] for done in (first, second)]
    end = re.search(r"^  at the end +(\S+ \S+) ", first.out, re.M)[1]
    note = "more, in uncompressed rounds without training"
    for words, patterns in (([], [rf"\n +1 .* {sent[0]} ", rf"\n +2 .* {sent[1]} "]),
                            (["--sort", "sent"], [r"\n +1 .*\n +2 "]),
                            (["1"], [rf"\nsent +{sent[0]} +over all edges; 1/3\.\d\d of plain floats\n  at the end +{end} +{note}\n"]),
                            (["1", "2"], [rf"\nsent +{sent[0]} +{sent[1]}\n  at the end +{end} *\n"])):
        done = octet("runs", *words, "--db", final)
        for pattern in patterns:
            check(re.search(pattern, done.out), f"runs {' '.join(words)}, rounds without training: {pattern!r}", done)
    lacks(octet("runs", "2", "--db", final).out, "at the end", "runs 2: a run without such rounds")
    for words, patterns in ((["1"], [rf"\n +1 .* {sent[0]} +1/3\.\d\d ", rf"\n  sent at the end  {end} {note}\n"]),
                            (["1", "--md", "-"], [rf"\| {sent[0]} \| 1/3\.\d\d \|", rf"\n- sent at the end: {end} {note}\n"]),
                            (["1", "--html", "-"], [rf"<dt>Sent</dt><dd>{sent[0]}<small>1/3\.\d\d of plain floats<",
                                                    rf"<dt>At the end</dt><dd>{end}<small>{note}<"]),
                            (["1", "2", "--html", "-"], [rf">{sent[0]}</td><td class=\"number\">1/3\.\d\d<"])):
        done = octet("report", *words, "--db", final)
        for pattern in patterns:
            check(re.search(pattern, done.out), f"report {' '.join(words)}, rounds without training: {pattern!r}", done)
    if JSON:
        record = octet_json("runs", "1", "--db", final)
        check(record["bytes_sent"] > record["bytes_final"] > 0, "runs 1 --json: bytes_sent has those of bytes_final, too", record)
        equal(sum(edge["bytes"] for edge in record["edges"]), record["bytes_sent"], "bytes of the edges, with those rounds")
    os.remove(final)

    # --- epochs without a test -----------------------------------------------------------------
    some = os.path.join(folder, "some.db")
    run = ["train", *TINY, "--nodes", "2", "--epochs", "7", "--test-every", "3", "--db", some]
    done = octet(*run)
    equal(done.code, 0, "--test-every: exit", done)
    contains(done.err, "tested every 3 epochs", "--test-every: the opening")
    lines = [line for line in done.err.splitlines() if line.startswith("epoch ")]
    equal([("test accuracy" in line, "consensus" in line) for line in lines], [(n in (3, 6, 7),) * 2 for n in range(1, 8)],
          "--test-every 3: lines that have a test", done.err)
    lacks(done.err + done.out, "nan", "--test-every: what is not known is not printed")
    rows = sqlite3.connect(some).execute("SELECT accuracy IS NULL, loss IS NULL, consensus_distance IS NULL, train_loss IS NULL "
                                         "FROM epochs ORDER BY epoch").fetchall()
    equal(rows, [(1, 1, 1, 0), (1, 1, 1, 0), (0, 0, 0, 0)] * 2 + [(0, 0, 0, 0)], "--test-every 3: on record")
    if JSON:
        models = {octet_json(*run, *more)["model_sha256"] for more in ([], ["--test-every", "1"])}
        equal(len(models), 1, "--test-every: the same model")
        curve = octet_json("runs", "1", "--db", some)["rows"]
        equal([epoch["accuracy"] is None for epoch in curve], [n not in (3, 6, 7) for n in range(1, 8)], "runs 1 --json: epochs")
    lacks(octet("runs", "1", "--db", some).out, "nan", "runs 1: what is not known is not printed")
    svg = octet("report", "1", "--db", some, "--svg", "-").out
    equal(svg.count('<polyline class="curve s0"'), 4, "report --svg: four curves of tests, each a line without gaps")
    # While it is under way: what its newest test said, not that its last epoch had none.
    with sqlite3.connect(some) as database:
        newest = database.execute("SELECT accuracy FROM epochs WHERE run = 1 AND epoch = 3").fetchone()[0]
        database.execute("DELETE FROM epochs WHERE run = 1 AND epoch > 5")
        database.execute("UPDATE runs SET has_result = 0, outcome = 'running', ended = NULL WHERE number = 1")
    if JSON:
        half = octet_json("runs", "1", "--db", some)
        equal((half["epochs"], half["accuracy"]), (5, newest), "runs 1 --json: under way")
    os.remove(some)
    done = octet("train", *TINY, "--test-every", "0")
    equal(done.code, 2, "--test-every 0: exit", done)
    contains(done.err, "--test-every is '0', expected a whole number from 1", "--test-every 0")

    # --- --where: a plug-in's options that are called like the run's own -----------------------
    commas = os.path.join(folder, "commas.db")
    for words in (["--data", "synthetic:size=8,samples=64,classes=4", "--samples", "32", "--precision-recipe",
                   "octet:range=mean,weights=channel"],
                  ["--data", "synthetic:size=8,samples=64,classes=4", "--precision-recipe", "octet:range=mean"],
                  ["--data", "synthetic:size=8,samples=96,classes=4", "--schedule", "halving:every=0.2"]):
        done = octet("train", *SOLO, "--epochs", "0", *words, "--quiet", "--db", commas)
        equal(done.code, 0, f"train {' '.join(words)}: exit", done)

    def found(command, *words):
        """The runs that octet runs or octet report finds."""
        done = octet(command, *words, "--db", commas, *(["--md", "-"] if command == "report" else []))
        equal(done.code, 0, f"{command} {' '.join(words)}: exit", done)
        return [int(number) for number in re.findall(r"^[| ]*(\d+) ", done.out, re.M)]

    for words, expected in ((["data=synthetic:size=8,samples=64,classes=4"], [2, 1]),
                            (["data=synthetic:size=8,samples=64*"], [2, 1]),
                            (["data!=synthetic:size=8,samples=64,classes=4"], [3]),
                            (["data=synthetic:size=8,samples=64,classes=4,samples=32"], []),  # all of it is the data's
                            (["data=synthetic:size=8,samples=64,classes=4", "samples=32"], [1]),
                            (["data=synthetic:size=8,samples=64,classes=4,samples!=32"], [2]),
                            (["samples=32,data=synthetic:size=8,samples=64,classes=4"], [1]),
                            (["data=syn*:size=8,samples=96*,epochs=0"], [3]),
                            (["data=syn*,samples=32"], [1]),  # without a colon it is no plug-in's option
                            (["precision-recipe=octet:range=mean,weights=channel"], [1]),
                            (["precision_recipe!=octet:range=mean,weights=channel,epochs=0"], [3, 2]),
                            (["schedule=halving:every=0.2"], [3]),
                            (["label=a:b,samples=32"], []),
                            (["label=,samples=32"], [1])):
        where = [word for one in words for word in ("--where", one)]
        equal(found("runs", *where), expected, f"runs {' '.join(where)}")
        if expected:
            equal(found("report", *where), sorted(expected), f"report {' '.join(where)}")
    equal(octet("runs", "--where", "compress=topk:0.9", "--where", "values=int8", "--db", commas).code, 2,
          "runs --where: another --where is another test")
    done = octet("runs", "delete", "--yes", "--where", "data=synthetic:size=8,samples=96,classes=4", "--db", commas)
    equal(done.code, 0, "runs delete --where data=...,samples=96: exit", done)
    equal(found("runs"), [2, 1], "runs delete --where data=...,samples=96")
    os.remove(commas)

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
        value = octet_json("runs", "delete", "--where", "outcome=lost", "--yes", env=env)
        equal((value.get("db"), value.get("deleted")), (default, []), "runs delete --json before any")
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

    # --- which runs ----------------------------------------------------------------------------
    def listed_by(*words):
        """Run numbers in the order of the list."""
        done = octet("runs", *words, env=env)
        equal(done.code, 0, f"runs {' '.join(words)}: exit", done)
        return [int(line.split()[0]) for line in done.out.splitlines()[2:]]

    done = octet("train", *TINY, "--nodes", "4", "--seed", "5", "--epochs", "1", "--label", "table/r1/a b",
                 "--compress", "topk:0.9,values=int8", "--lr", "0.1", env=env)
    equal(done.code, 0, "train --label: exit", done)
    contains(done.err, ", gamma 0.125, momentum ", "what the run is about to do: the gamma that the rule gives")
    for words, expected in ((["--where", "seed=7"], [1]),
                            (["--where", "outcome=done"], [3, 1]),
                            (["--where", "outcome!=done"], [2]),
                            (["--where", "outcome=NOT_FINITE"], [2]),
                            (["--where", "label=table/*"], [3]),
                            (["--where", "label="], [2, 1]),
                            (["--where", "lr=1e-1"], [3]),
                            (["--where", "lr=1000000"], [2]),
                            (["--where", "compress=topk:0.9,values=int8"], [3]),
                            (["--where", "compress=topk:0.9,values=int8,nodes=4"], [3]),
                            (["--where", "compress=topk*,nodes=1"], []),
                            (["--where", "nodes=1,outcome=done"], [1]),
                            (["--where", "nodes=1", "--where", "outcome=done"], [1]),
                            (["--where", "weight_decay=1e-4,version=?*"], [3, 2, 1]),
                            (["--where", "machine=*thread*"], [3, 2, 1]),
                            (["--where", "gamma=0.125"], [3]),
                            (["--where", "skew=0.80"], [3, 2, 1]),
                            (["--where", "skew!=0.8"], []),
                            (["--where", "skew=?.8,nodes=4"], [3]),
                            (["--where", "nodes=1", "--limit", "1"], [2])):
        equal(listed_by(*words), expected, f"runs {' '.join(words)}")
    contains(octet("runs", "--where", "nodes=99", env=env).out, "fits", "no run that fits")
    contains(octet("runs", "--where", "node=1", env=env).err, "did you mean nodes", "a key that is none")
    contains(octet("runs", env=env).out.splitlines()[0], " label ", "runs with a label have a column for it")
    lacks(octet("runs", "--where", "nodes=1", env=env).out, "label", "runs without have none")
    accuracies = {number: octet_json("runs", str(number), env=env).get("accuracy") for number in (1, 2, 3)} if JSON else {}
    if JSON:
        order = sorted(accuracies, key=lambda number: (-(accuracies[number] or -1), -number))
        equal(listed_by("--sort", "accuracy"), order, f"runs --sort accuracy of {accuracies}")
        equal(listed_by("--sort", "accuracy", "--limit", "1"), order[:1], "runs --sort accuracy --limit 1")
    equal(listed_by("--sort", "sent")[-1], 2, "what is not known comes last")

    # --- nodes and edges -----------------------------------------------------------------------
    three = octet("runs", "3", env=env)
    for piece in ("table/r1/a b\n", "on ", "own test acc", "4 edges carried 4 messages", " set\n"):
        contains(three.out, piece, "runs 3")
    lacks(one.out, "own test acc", "one node is the run itself")
    lacks(three.out.split("again:")[1], "label", "the command that repeats a run")
    if JSON:
        record = octet_json("runs", "3", env=env)
        equal(record["label"], "table/r1/a b", "runs 3 --json: label")
        equal(record["config"]["gamma"], 0.125, "runs 3 --json: gamma, by the rule")
        check(re.search(r"\d+ cores?, 1 thread, ", record["machine"]), f"machine: {record['machine']}")
        equal([node["node"] for node in record["nodes"]], [0, 1, 2, 3], "runs 3 --json: nodes")
        equal([(edge["from"], edge["to"]) for edge in record["edges"]], [(0, 1), (1, 2), (2, 3), (3, 0)],
              "runs 3 --json: edges of a directed ring")
        equal(sum(edge["bytes"] for edge in record["edges"]), record["bytes_sent"], "bytes of the edges")
        equal(sum(node["bytes_sent"] for node in record["nodes"]), record["bytes_sent"], "bytes of the nodes")
        equal(sum(sum(node["classes"]) for node in record["nodes"]), 64, "samples by node and class")
        equal([len(node["classes"]) for node in record["nodes"]], [4] * 4, "classes of each node")
        mean = sum(node["accuracy"] for node in record["nodes"]) / 4
        check(abs(mean - record["accuracy_nodes"]) < 1e-9, f"accuracies of the nodes: mean {mean}")
        mean = sum(node["train_loss"] for node in record["nodes"]) / 4
        check(abs(mean - record["train_loss"]) < 1e-9, f"losses of the nodes: mean {mean}")
        check(0 <= record["rows"][0]["clipped"] < 1 and 0 < record["rows"][0]["zero"] < 1,
              f"clip rates: {record['rows'][0]['clipped']}, {record['rows'][0]['zero']}")
        equal(octet_json("runs", "2", env=env)["rows"], [], "a run that failed in its first epoch has none")
        alone = octet_json("train", *TINY, "--nodes", "4", "--seed", "5", "--epochs", "1", "--compress",
                           "topk:0.9,values=int8", "--lr", "0.1", "--db", "none")
        equal(alone["model_sha256"], record["model_sha256"], "a run is the same without a record")
        equal(alone["config"]["gamma"], 0.125, "train --json: gamma, by the rule")
    lacks(octet("train", *RUN, "--db", "none").err, "clip", "clip rates are shown with --trace-quant alone")

    # --- side by side --------------------------------------------------------------------------
    both = octet("runs", "1", "3", env=env)
    equal(both.code, 0, "runs 1 3: exit", both)
    for pattern in (r"result +run 1 +run 3\n", r"\noutcome +done +done\n", r"\nnodes +1 +4\n", r"\nseed +7 +5\n",
                    r"\ncompress +int8 +topk:0\.9,values=int8\n", r"\nlabel +table/r1/a b\n"):
        check(re.search(pattern, both.out), f"runs 1 3: {pattern}", both.out)
    lacks(both.out, "batch", "options that are the same")
    equal(octet("runs", "1-3", env=env).out.split("\n")[0].split(), ["result", "run", "1", "run", "2", "run", "3"],
          "runs 1-3: headings")
    contains(octet("runs", "1", "1", env=env).out, "no options differ", "runs 1 1")
    done = octet("runs", "1", "77", env=env)
    equal(done.code, 1, "runs 1 77: exit", done)
    contains(done.err, "there is no run 77; there are runs 1 to 3", "runs 1 77")
    if JSON:
        value = octet_json("runs", "1", "3", env=env)
        equal([run["number"] for run in value["runs"]], [1, 3], "runs 1 3 --json")
        equal(value["differs"]["nodes"], ["1", "4"], "runs 1 3 --json: nodes")
    for columns in (80, 160):
        terminal = Terminal("runs", "1", "2", "3", columns=columns, env={**env, "TERM": "xterm"})
        equal(terminal.finish(), 0, f"runs 1 2 3 in {columns} columns: exit")
        screen = terminal.screen()
        check(all(len(line) <= columns for line in screen), f"runs 1 2 3 in {columns} columns: none is longer", screen)

    # --- deleting ------------------------------------------------------------------------------
    done = octet("runs", "delete", "3", env=env)
    equal(done.code, 2, "runs delete with nobody to ask: exit", done)
    contains(done.err, "--yes", "runs delete with nobody to ask")
    for words in ([], ["3", "--where", "seed=5"], ["x"]):
        equal(octet("runs", "delete", *words, "--yes", env=env).code, 2, f"runs delete {' '.join(words)}: exit")
    done = octet("runs", "delete", "3", "9", "--yes", env=env)
    equal(done.code, 1, "runs delete 3 9: exit", done)
    contains(done.err, "there is no run 9; there are runs 1 to 3", "runs delete 3 9")
    equal(listed_by(), [3, 2, 1], "nothing is deleted when one of them is not there")
    terminal = Terminal("runs", "delete", "3", env={**env, "TERM": "xterm"}, stdin_too=True)
    check(terminal.wait_for("[y/N]"), "runs delete asks", terminal.raw)
    terminal.type("n\n")
    equal(terminal.finish(), 1, "runs delete, answered no: exit")
    equal(listed_by(), [3, 2, 1], "runs delete, answered no")
    terminal = Terminal("runs", "delete", "3", env={**env, "TERM": "xterm"}, stdin_too=True)
    check(terminal.wait_for("[y/N]"), "runs delete asks", terminal.raw)
    terminal.type("y\n")
    equal(terminal.finish(), 0, "runs delete, answered yes: exit")
    equal(listed_by(), [2, 1], "runs delete, answered yes")
    if JSON:
        octet("train", *RUN, "--seed", "12", "--quiet", env=env)
        equal(octet_json("runs", "delete", "--where", "seed=12", "--yes", env=env).get("deleted"), [4],
              "runs delete --where --json")
        equal(octet_json("runs", "delete", "--where", "seed=12", "--yes", env=env).get("deleted"), [],
              "runs delete of none")
    contains(octet("runs", "3", env=env).err, "there is no run 3; there are runs 1 to 2", "a deleted run is gone")

    # --- what others wrote ---------------------------------------------------------------------
    # Control characters, one of them in two bytes, and an escape that would turn a terminal red.
    label = "a\x1b[31m\tb\nc\x7f\u009b"
    far = ["/" + 300 * "x" + name for name in "ab"]
    for path in far:
        octet("train", *RUN, "--data-dir", path, "--label", label, "--db", named, env=env)
    for words in ([], ["2"], ["2", "3"]):
        text = octet("runs", *words, "--db", named, env=env).out
        check(not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), f"runs {' '.join(words)}: no control characters",
              repr(text))
        contains(text, "a [31m b c ", f"runs {' '.join(words)}: the label in one line")
    lacks(octet("report", "2", "--db", named, env=env).out, "\x1b", "report: no escape")
    if JSON:
        value = octet_json("runs", "2", "3", "--db", named, env=env)
        equal(value["differs"], {"data-dir": far}, "values that differ far from their beginning")
        equal(value["runs"][0]["label"], label, "runs --json: the label as it is")
        equal(octet_json("runs", "delete", "3", "2-3", "3", "--yes", "--db", named, env=env).get("deleted"), [3, 2],
              "runs delete of some that are named twice")

    # --- more than are listed ------------------------------------------------------------------
    contains(octet("runs", "--limit", "1", env=env).err, "there are more; --limit N lists them", "runs --limit 1")
    for words in (["--limit", "2"], ["--limit", "1", "--quiet"], ["--limit", "1", "--where", "seed=7"]):
        equal(octet("runs", *words, env=env).err, "", f"runs {' '.join(words)}: stderr")

    # --- a terminal: one line a run ------------------------------------------------------------
    for columns in (80, 120, 150):
        terminal = Terminal("runs", columns=columns, env={**env, "TERM": "xterm"})
        equal(terminal.finish(), 0, f"runs in {columns} columns: exit")
        screen = [line for line in terminal.screen() if line]
        equal(len(screen), 4, f"runs in {columns} columns: lines", screen)
        check(all(len(line) <= columns for line in screen), f"runs in {columns} columns: none is longer", screen)
        contains(screen[3], "...", f"runs in {columns} columns: options are cut")

    # --- wrong usage ---------------------------------------------------------------------------
    for words in (["x"], ["0"], ["-1"], ["1.5"], ["1x"], ["99999999999999999999"], ["2-1"], ["1-"], ["1-2-3"],
                  ["1", "x"], ["--limit", "0"], ["--sort", "colour"], ["--where", "colour=red"], ["--where", "lr"],
                  ["--where", "nodes=1,colour=red"], ["1", "--where", "lr=1"], [str(n + 1) for n in range(65)]):
        equal(octet("runs", *words, env=env).code, 2, f"runs {' '.join(words)}: exit")
    equal(octet("runs", "--db", "none", env=env).code, 2, "runs --db none: exit")

    # --- who only reads makes nothing ----------------------------------------------------------
    empty = os.path.join(folder, "empty", "octet", "runs.db")
    os.makedirs(os.path.dirname(empty))
    with open(empty, "w", encoding="utf-8"):
        pass
    for words in (["runs"], ["runs", "1"], ["runs", "1", "2"], ["report"], ["report", "1", "--html", "-"],
                  ["runs", "delete", "1", "--yes"]):
        done = octet(*words, "--db", empty)
        equal((done.code, done.out), (1, ""), f"{' '.join(words)} of an empty file: exit and stdout", done)
        contains(done.err, f"{empty}: is empty, and no database of runs yet; octet train --db {empty} makes it",
                 f"{' '.join(words)} of an empty file")
        equal(os.path.getsize(empty), 0, f"{' '.join(words)} of an empty file: its size")
    done = octet("paper", "table2", "--rows", "1", "--scale", "short", "--dry-run", "--db", empty)
    equal(done.code, 0, "paper --dry-run with an empty file: exit", done)
    done = octet("runs", env=environment(XDG_STATE_HOME=os.path.join(folder, "empty")))
    equal(done.code, 0, "runs, the usual file is empty: exit", done)
    contains(done.out, "no runs are on record yet", "runs, the usual file is empty")
    equal((os.path.getsize(empty), os.listdir(os.path.dirname(empty))), (0, ["runs.db"]), "the empty file is as it was")
    done = octet("train", *RUN, "--quiet", "--db", empty)
    equal(done.code, 0, "train --db with an empty file: exit", done)
    contains(octet("runs", "--db", empty).out, "\n  1  ", "train --db with an empty file: a run")
    with open(empty, "rb") as file:
        content = file.read()
    for words in (["runs"], ["report", "1", "--html", "-"], ["runs", "delete", "9", "--yes"]):
        octet(*words, "--db", empty)
        with open(empty, "rb") as file:
            check(file.read() == content, f"{' '.join(words)}: the database is as it was")

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
    # Somebody else's database: nothing in it reaches the terminal's controls, and the command that
    # repeats a run is the same words for a shell.
    connection = sqlite3.connect(default)
    odd = "a\x1b[2J'b\n\x7f\u009bc$(date)"
    number = connection.execute("SELECT max(number) FROM runs").fetchone()[0]
    connection.execute("UPDATE runs SET outcome = ?, version = ?, cpu = ?", (odd, odd, odd))
    connection.execute("UPDATE options SET value = ?, is_set = 1 WHERE name IN ('model', 'label')", (odd,))
    connection.commit()
    connection.close()
    for words in (["runs"], ["runs", str(number)], ["report", str(number)], ["report", str(number), "--md", "-"]):
        done = octet(*words, env=env)
        equal(done.code, 0, f"{' '.join(words)} of an odd database: exit", done)
        check(not re.search("[\x00-\x09\x0b-\x1f\x7f\u0080-\u009f]", done.out),
              f"{' '.join(words)} of an odd database: no control characters", repr(done.out))
    done = octet("runs", str(number), env=env)
    line = next(line for line in done.out.splitlines() if line.startswith("again: "))
    said = subprocess.run(["bash", "-c", "printf '%s\\0' " + line[len("again: "):]], stdout=subprocess.PIPE,
                          check=True).stdout.decode().split("\0")
    equal(said[said.index("--model") + 1], odd, "the command that repeats a run, for a shell")

    connection = sqlite3.connect(default)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    done = octet("runs", env=env)
    equal(done.code, 1, "runs of a newer version: exit", done)
    contains(done.err, "version 99", "runs of a newer version")

finish()
