#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet report: which runs, every form it takes, records in which much is missing, and texts that try to get
out of their place."""
import base64
import csv
import hashlib
import html.parser
import io
import json
import os
import re
import shlex
import sqlite3
import subprocess
import tempfile
import xml.dom.minidom

from octet_cli import (OCTET, SOLO, TINY, Terminal, check, contains, environment, equal, finish, has_json, lacks,
                       octet, octet_json)

JSON = has_json()
EVIL = "<script>hit()</script> & \"quotes\" 'n' |pipes|, `ticks`"


class Page(html.parser.HTMLParser):
    """Elements are closed in order; what has a text or an address is collected."""
    VOID = {"meta", "link", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.addresses, self.scripts, self.texts = [], [], [], 0, {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self.scripts += tag == "script"
        for name, value in attrs:
            if name.startswith("on"):
                self.wrong.append(f"{tag} has {name}")
            if name in ("src", "href", "srcset", "xlink:href", "data", "action"):
                self.addresses.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def check_page(text, what):
    """What holds for every page; returns it."""
    page = Page(text)
    equal(page.wrong + page.open, [], f"{what}: elements are closed")
    equal(page.scripts, 1, f"{what}: scripts")
    strange = [address for address in page.addresses if not re.match(r"#run-\d+$|data:,$", address)]
    equal(strange, [], f"{what}: addresses that are elsewhere")
    equal(re.findall(r"https?:|url\(|@import", text), [], f"{what}: nothing to fetch")
    script = re.search(r"<script>(.*?)</script>", text, re.S)[1]
    sum_of = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    contains(text, f"script-src 'sha256-{sum_of}'", f"{what}: the policy knows the script")
    drawings = re.findall(r"<figure.*?(<svg.*?</svg>)", text, re.S)
    untitled = []
    for drawing in drawings:
        root = xml.dom.minidom.parseString(drawing).documentElement
        title = root.getElementsByTagName("title")[0]
        if root.getAttribute("role") != "img" or not title.firstChild or title.parentNode is not root:
            untitled.append(drawing[:200])
        odd = re.search(r'(?:x|y|x1|y1|x2|y2|cx|cy|r|width|height|points|d)="[^"]*(?:nan|inf)[^"]*"', drawing)
        if odd:
            check(False, f"{what}: coordinates are numbers", odd[0])
    equal(untitled, [], f"{what}: {len(drawings)} drawings are well-formed images with a title")
    return page


def headings(page):
    return [text for tag in ("h1", "h2", "h3") for text in page.texts.get(tag, [])]


with tempfile.TemporaryDirectory() as folder:
    db = os.path.join(folder, "runs.db")
    env = environment(XDG_STATE_HOME=folder)
    if octet("runs", "--db", db).err.find("libsqlite3-dev") >= 0:
        done = octet("report", "--db", db)
        equal(done.code, 1, "report in a build without SQLite: exit", done)
        contains(done.err, "libsqlite3-dev", "report in a build without SQLite")
        finish()

    # --- nothing yet ---------------------------------------------------------------------------
    done = octet("report", env=env)
    equal(done.code, 1, "report before any run: exit", done)
    contains(done.err, "octet train makes it", "report before any run")
    equal(os.listdir(folder), [], "report before any run makes no file")

    # --- runs to report on ---------------------------------------------------------------------
    ring = [*TINY, "--nodes", "4", "--epochs", "2", "--test-samples", "16", "--db", db]
    for arguments in ([*ring, "--label", "ring/int8"],
                      [*ring, "--precision", "fp32", "--label", EVIL],
                      [*SOLO, "--epochs", "1", "--db", db],
                      [*ring, "--topology", "one-peer-exponential", "--seed", "3"],
                      [*ring, "--nodes", "9", "--topology", "torus", "--compress", "none"]):
        done = octet("train", *arguments, "--quiet", env=env)
        equal(done.code, 0, "train: exit", done)

    # --- the terminal --------------------------------------------------------------------------
    done = octet("report", "--db", db, env=env)
    equal(done.code, 0, "report: exit", done)
    contains(done.out, "run 5: done", "report: the newest")
    check(re.search(r"test accuracy  [▁▂▃▄▅▆▇█]{2}  \d+\.\d\d % to \d+\.\d\d %", done.out), "report: a curve", done.out)
    plain = octet("report", "1", "--db", db, env=dict(env, LC_ALL="C"))
    check(plain.out.isascii() and re.search(r"test loss +[_.=+*%#-]{2}  ", plain.out), "report: a curve in ASCII", plain.out)
    for columns in (80, 130):
        terminal = Terminal("report", "1", "3", "--db", db, columns=columns, env={**env, "TERM": "xterm"})
        equal(terminal.finish(), 0, f"report in {columns} columns: exit")
        table = terminal.screen()[:4]
        check(all(len(line) <= columns for line in table), f"report in {columns} columns: the table fits", table)

    # --- the page: one run ---------------------------------------------------------------------
    target = os.path.join(folder, "one.html")
    done = octet("report", "1", "--db", db, "--html", target, env=env)
    equal((done.code, done.out), (0, ""), "report 1 --html: exit and stdout", done)
    with open(target, encoding="utf-8") as file:
        text = file.read()
    equal(octet("report", "1", "--db", db, "--html", "-", env=env).out, text, "--html - is the same page")
    page = check_page(text, "report 1")
    for heading in ("ring/int8", "Curves", "Nodes", "Accuracy", "Loss", "Consensus distance", "Accuracy against bytes",
                    "Training accuracy over nodes", "Training loss over nodes", "Nodes' own models", "Graph",
                    "Classes of the nodes", "Repeat it", "Configuration"):
        check(heading in headings(page), f"report 1: has {heading!r}", headings(page))
    command = "".join(page.texts["pre"])
    check(command.startswith("octet train --data synthetic:samples=64,classes=4,size=8 "), "report 1: the command", command)
    lacks(command, "--db", "report 1: the command")
    check(re.search(r"<tr class=\"set\"><th scope=\"row\">nodes</th><td>4</td>", text), "report 1: an option that was set")
    check(re.search(r"<tr><th scope=\"row\">beta</th><td>0.9</td>", text), "report 1: an option that was not")
    equal(len(re.findall(r"<g><title>node \d: 16 samples, sent [^<]*, test accuracy", text)), 4, "report 1: nodes of the graph")
    graph = re.search(r"<h3>Graph</h3>.*?</figure>", text, re.S)[0]
    equal(graph.count('class="edge-head"'), 4, "report 1: edges of the graph")
    contains(graph, "every edge carried", "report 1: edges of the graph")

    # --- texts that want out -------------------------------------------------------------------
    connection = sqlite3.connect(db)
    connection.execute("UPDATE runs SET outcome = ? WHERE number = 4", ("INTERNAL: " + EVIL,))
    connection.commit()
    connection.close()
    for words in (["2"], ["4"], ["1", "2", "4"]):
        text = octet("report", *words, "--db", db, "--html", "-", env=env).out
        page = check_page(text, f"report {' '.join(words)}")
        contains(text, "&lt;script&gt;hit()&lt;/script&gt; &amp; &quot;quotes&quot;", f"report {' '.join(words)}: escaped")
    markdown = octet("report", "2", "4", "--db", db, "--md", "-", env=env).out
    contains(markdown, r"\<script\>hit()\</script\> \& ", "--md: escaped")
    row = next(line for line in markdown.splitlines() if line.startswith("| 4 |"))
    equal(len(re.findall(r"(?<!\\)\|", row)), 14, "--md: pipes stay inside their cell", row)

    # --- the page: several runs ----------------------------------------------------------------
    text = octet("report", "3", "1", "2", "1", "--db", db, "--html", "-", env=env).out
    page = check_page(text, "report 3 1 2 1")
    equal(page.texts["h1"], ["Comparison of 3 runs"], "report 3 1 2 1: title")
    equal(re.findall(r'<tr><th scope="row"><a href="#run-(\d+)">', text), ["1", "2", "3"], "report 3 1 2 1: rows")
    contains(headings(page), "What differs", "report 3 1 2 1")
    contains(headings(page), "Classes of the nodes, runs 1 and 2", "report 3 1 2 1: the same partition, drawn once")
    check(re.search(r'<th scope="row">precision</th><td class="text">int8</td><td class="text">fp32</td>', text),
          "report 3 1 2 1: what differs")

    # --- through a link: what it leads to is replaced as a whole, the link stays ----------------
    led, link = os.path.join(folder, "target.html"), os.path.join(folder, "link.html")
    with open(led, "w", encoding="ascii") as file:
        file.write("the older one")
    os.symlink("target.html", link)
    done = octet("report", "1", "--db", db, "--html", link, env=env, room=1000)
    equal(done.code, 1, "report --html LINK on a full disk: exit", done)
    contains(done.err, f"{link} cannot be written: File too large", "report --html LINK on a full disk")
    with open(led, encoding="utf-8") as file:
        equal(file.read(), "the older one", "report --html LINK on a full disk")
    for name in ("target.html", "new.html"):
        os.remove(link)
        os.symlink(name, link)
        done = octet("report", "1", "--db", db, "--html", link, env=env)
        equal((done.code, os.readlink(link)), (0, name), "report --html LINK leaves the link", done)
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            check_page(file.read(), f"report --html LINK, to {name}")
        os.remove(os.path.join(folder, name))
    os.remove(link)

    # --- Markdown, CSV, JSON, SVG --------------------------------------------------------------
    files = {name: os.path.join(folder, "out." + name) for name in ("md", "csv", "csv-nodes", "svg")}
    done = octet("report", "1", "2", "--db", db, *[word for name in files for word in ("--" + name, files[name])], env=env)
    equal((done.code, done.out, done.err), (0, "", ""), "report to four files", done)
    with open(files["csv"], encoding="utf-8", newline="") as file:
        raw = file.read()
    equal(raw.count("\r\n"), raw.count("\n"), "--csv: lines end as in RFC 4180")
    rows = list(csv.DictReader(io.StringIO(raw, newline="")))
    equal([(row["run"], row["epoch"]) for row in rows], [("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")], "--csv: rows")
    equal({row["label"] for row in rows}, {"ring/int8", EVIL}, "--csv: labels come back")
    connection = sqlite3.connect(db)
    stored = connection.execute("SELECT accuracy, loss, consensus_distance FROM epochs WHERE run < 3 ORDER BY run, epoch").fetchall()
    equal([(float(row["accuracy"]), float(row["loss"]), float(row["consensus_distance"])) for row in rows], stored,
          "--csv: numbers are those on record, to the last bit")
    with open(files["csv-nodes"], encoding="utf-8", newline="") as file:
        nodes = list(csv.DictReader(file))
    equal([(row["run"], row["epoch"], row["node"]) for row in nodes],
          [(str(run), str(epoch), str(node)) for run in (1, 2) for epoch in (1, 2) for node in range(4)], "--csv-nodes: rows")
    for row in rows:
        mine = [float(node["train_loss"]) for node in nodes if (node["run"], node["epoch"]) == (row["run"], row["epoch"])]
        equal((float(row["train_loss_least"]), float(row["train_loss_most"])), (min(mine), max(mine)),
              f"--csv: spread of run {row['run']}, epoch {row['epoch']}")
    equal({row["accuracy"] for row in nodes if row["epoch"] == "1"}, {""}, "--csv-nodes: what is not known is empty")
    xml.dom.minidom.parse(files["svg"])
    with open(files["md"], encoding="utf-8") as file:
        markdown = file.read()
    fences = re.findall(r"^(`{3,})sh\n(.*?)\n\1$", markdown, re.S | re.M)
    equal(len(fences), 2, "--md: commands", markdown)
    equal(shlex.split(fences[0][1])[:2], ["octet", "train"], "--md: a command")
    if JSON:
        value = octet_json("report", "1", "2", "--db", db, env=env)
        equal([run["number"] for run in value["runs"]], [1, 2], "--json: runs")
        first = value["runs"][0]
        equal([row["accuracy"] for row in first["rows"]], [row[0] for row in stored[:2]], "--json: rows")
        equal([(edge["from"], edge["to"]) for edge in first["edges"]], [(0, 1), (1, 2), (2, 3), (3, 0)], "--json: edges")
        equal(sum(sum(node["classes"]) for node in first["nodes"]), 64, "--json: classes")
        alone = octet_json("runs", "1", "--db", db, env=env)
        equal({key: alone[key] for key in first}, first, "--json: a run as octet runs has it")
        equal(first["config"]["nodes"], 4, "--json: configuration")
        equal(value["files"]["html"], None, "--json: files")

    # --- which runs ----------------------------------------------------------------------------
    def numbers(*words):
        done = octet("report", *words, "--db", db, "--csv", "-", env=env)
        equal(done.code, 0, f"report {' '.join(words)}: exit", done)
        return sorted({int(row["run"]) for row in csv.DictReader(io.StringIO(done.out, newline=""))})

    equal(numbers("1-2", "4"), [1, 2, 4], "a range and a number")
    equal(numbers("--where", "nodes=4"), [1, 2, 4], "--where nodes=4")
    equal(numbers("--where", "nodes=4,precision=int8"), [1, 4], "--where with two conditions")
    equal(numbers("--where", "nodes=4", "--where", "precision=fp32"), [2], "--where twice")
    equal(numbers("--where", "label=ring/*"), [1], "--where with a star")
    equal(numbers("--where", "outcome=INTERNAL"), [4], "--where outcome")
    done = octet("report", "--where", "nodes=77", "--db", db, env=env)
    equal(done.code, 1, "--where that nothing is like: exit", done)
    contains(done.err, "nodes=77", "--where that nothing is like")
    if JSON:
        error = octet_json("report", "--where", "nodes=77", "--where", "lr=1", "--db", db, code=1, env=env)["error"]
        contains(error["message"], "fits nodes=77 lr=1; ", "--where twice that nothing is like, --json")
    for words, piece in ((["--where", "nods=4"], "nodes"), (["--where", "nodes"], "KEY=PATTERN"),
                         (["1", "--where", "nodes=4"], "--where"), (["x"], "is no run"), (["0"], "is no run"),
                         (["--html", "-", "--md", "-"], "stdout"), (["--db", "none"], "--db FILE"),
                         (["--csv", "a.x", "--md", "a.x"], "both go to a.x"), (["--html", ""], "needs a value")):
        done = octet("report", *(words if "--db" in words else [*words, "--db", db]), env=env)
        equal(done.code, 2, f"report {' '.join(words)}: exit", done)
        contains(done.err, piece, f"report {' '.join(words)}")
    done = octet("report", "1", "99", "--db", db, "--html", os.path.join(folder, "no.html"), env=env)
    equal(done.code, 1, "report of an unknown run: exit", done)
    contains(done.err, "99", "report of an unknown run")
    contains(done.err, "1 to 5", "report of an unknown run says which there are")
    check(not os.path.exists(os.path.join(folder, "no.html")), "report of an unknown run writes nothing")

    # --- files: whole, or as they were ---------------------------------------------------------
    before = os.stat(target)
    os.chmod(target, 0o640)
    equal(octet("report", "1", "2", "--db", db, "--html", target, env=env).code, 0, "--html over a file: exit")
    after = os.stat(target)
    check(after.st_ino != before.st_ino and after.st_mode & 0o777 == 0o640,
          "--html over a file: another one, with its permissions")
    for path in (os.path.join(folder, "none", "x.html"), folder):
        done = octet("report", "1", "--db", db, "--html", path, env=env)
        equal(done.code, 1, f"--html {path}: exit", done)
        contains(done.err, "cannot be written", f"--html {path}")
    with open("/dev/full", "w", encoding="ascii") as full:
        done = octet("report", "1", "--db", db, "--html", "-", env=env, stdout=full)
        equal(done.code, 1, "--html - into a full disk: exit", done)
    done = octet("report", "1", "--db", db, "--html", "/dev/full", env=env)
    equal(done.code, 1, "--html /dev/full: exit", done)
    check(os.path.exists("/dev/full"), "--html /dev/full: a device is not replaced")
    equal([name for name in os.listdir(folder) if re.search(r"\.\w{6}$", name) and "html." in name], [], "no file stays beside")

    # --- records in which much is missing ------------------------------------------------------
    bare = os.path.join(folder, "bare.db")
    with sqlite3.connect(bare) as copy:
        connection.backup(copy)
        for table in ("nodes", "node_epochs", "edges", "classes"):  # as a record of version 1 comes to be
            copy.execute(f"DELETE FROM {table} WHERE run IN (1, 2)")
        copy.execute("UPDATE runs SET cpu = NULL, system = NULL, n_classes = NULL, gossip_share = NULL WHERE number < 3")
        copy.execute("UPDATE epochs SET clipped = NULL, zero = NULL")
        copy.execute("UPDATE runs SET outcome = 'running', has_result = 0 WHERE number = 4")
        copy.execute("DELETE FROM epochs WHERE run = 5")  # failed before its first epoch had ended
        copy.execute("UPDATE runs SET outcome = 'IO: the disk', has_result = 0 WHERE number = 5")
        copy.execute("UPDATE epochs SET loss = 1e300, accuracy = NULL, consensus_distance = 0 WHERE run = 2 AND epoch = 2")
    copy.close()
    connection.close()
    for words in (["1"], ["2"], ["3"], ["4"], ["5"], ["3", "5"], ["1", "2", "3", "4", "5"]):
        name = "missing data, report " + " ".join(words)
        for form in ("html", "md", "csv", "csv-nodes", "svg"):
            done = octet("report", *words, "--db", bare, "--" + form, "-", env=env)
            equal(done.code, 0, f"{name} --{form}: exit", done)
            if form == "html":
                check_page(done.out, name)
            elif form == "svg":
                xml.dom.minidom.parseString(done.out)
            lacks(done.out.replace("nano", "").replace("information", ""), "nan", f"{name} --{form}")
        equal(octet("report", *words, "--db", bare, env=env).code, 0, f"{name}: exit")
    page = check_page(octet("report", "1", "--db", bare, "--html", "-", env=env).out, "a record without nodes")
    contains(headings(page), "Graph", "a record without nodes: the graph follows from the options")
    contains(headings(page), "Nodes' own models", "a record without nodes: least and most")
    lacks(headings(page), "Classes of the nodes", "a record without nodes")
    text = octet("report", "5", "--db", bare, "--html", "-", env=env).out
    contains(text, "no epoch has ended", "a run that failed at once")

    with sqlite3.connect(bare) as copy:
        copy.execute("UPDATE options SET value = '60000' WHERE run = 1 AND name = 'nodes'")
        copy.execute("UPDATE options SET value = 'complete' WHERE run = 1 AND name = 'topology'")
    copy.close()
    text = octet("report", "1", "--db", bare, "--html", "-", env=env).out
    contains(text, "Not drawn: graphs of more than 1,024 nodes.", "a graph of billions of edges")
    for number in (100000, 2147483647):
        with sqlite3.connect(bare) as copy:
            copy.execute(f"INSERT INTO edges VALUES (4, 2, 0, {number}, 1, 1)")
        copy.close()
        text = octet("report", "4", "--db", bare, "--html", "-", env=env).out
        contains(text, "Not drawn: graphs of more than 1,024 nodes.", f"an edge to node {number}")
    with sqlite3.connect(bare) as copy:
        copy.execute("DELETE FROM edges WHERE receiver > 1024")
    copy.close()

    # --- many runs -----------------------------------------------------------------------------
    with sqlite3.connect(bare) as copy:
        for number in range(6, 26):
            for table, key in (("runs", "number"), ("options", "run"), ("epochs", "run"), ("nodes", "run"),
                               ("node_epochs", "run"), ("edges", "run"), ("classes", "run")):
                names = [row[1] for row in copy.execute(f"PRAGMA table_info({table})")]
                wanted = ", ".join(str(number) if name == key else name for name in names)
                copy.execute(f"INSERT INTO {table} SELECT {wanted} FROM {table} WHERE {key} = {3 if number % 2 else 1}")
    copy.close()
    text = octet("report", *map(str, range(6, 26)), "--db", bare, "--html", "-", env=env).out
    page = check_page(text, "20 runs")
    equal(page.texts["h1"], ["Comparison of 20 runs"], "20 runs: title")
    check(len(text) < 2_000_000, f"20 runs: {len(text)} bytes")
    done = octet("report", "--where", "nodes=*", "--db", bare, env=env)
    equal(done.code, 0, "report of all 25: exit", done)

finish()
