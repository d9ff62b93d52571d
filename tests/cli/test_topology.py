#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet topology: the summary, the JSON contract, drawings, and wrong usage."""
import math
import os
import re
import tempfile
import xml.dom.minidom

from octet_cli import check, contains, draws_on_stdout, equal, finish, has_json, keeps_older, lacks, octet, octet_json

NAMES = ["directed-ring", "ring", "torus", "complete", "star", "chain", "exponential",
         "one-peer-exponential", "random-regular", "erdos-renyi", "base-k", "file"]

# --- text ----------------------------------------------------------------------------------------

listed = octet("topology")
equal(listed.code, 0, "topology: exit", listed)
equal(re.findall(r"^([a-z]+(?:-[a-z]+)*) {2,}", listed.out, re.M)[1:], NAMES, "topology: the list")
contains(listed.out, "degree=N, change=no|yes", "topology: options")

ring = octet("topology", "directed-ring")
equal((ring.code, ring.err), (0, ""), "directed-ring: exit and stderr", ring)
for piece in ("directed-ring, 8 nodes", "1, always the same", "8, one way", "1 a node and round",
              "out-degree", "doubly stochastic   yes", "strongly connected  yes"):
    contains(ring.out, piece, "directed-ring")
equal(re.findall(r"^ +(\d) +0\.5  (\d) \(0\.5\)$", ring.out, re.M),
      [(str(i), str((i + 1) % 8)) for i in range(8)], "directed-ring: the table of nodes")
has_gap = "spectral gap        not known" not in ring.out
if has_gap:
    rounds = math.ceil(math.log(100) / -math.log(math.cos(math.pi / 8)))
    contains(ring.out, f"0.0761205: disagreement shrinks 100 times in {rounds} rounds", "directed-ring")
    contains(octet("topology", "base-k", "--nodes", "5").out,
             "all nodes have the exact average after 5 rounds", "base-k of 5")
    contains(octet("topology", "one-peer-exponential", "--nodes", "8", "--hold", "4").out,
             "3 in turn; each stays for 4 rounds", "--hold")
else:
    contains(ring.out, "liblapacke-dev", "directed-ring without LAPACK")
contains(octet("topology", "star", "--nodes", "6").out, "or --weights metropolis", "star")
lacks(octet("topology", "star", "--nodes", "6", "--weights=metropolis").out, "push-sum", "star, metropolis")
changing = octet("topology", "erdos-renyi:p=0.4,change=yes", "--nodes", "5")
contains(changing.out, "a new one every round", "erdos-renyi, change=yes")
contains(changing.out, "never repeats", "erdos-renyi, change=yes")
large = octet("topology", "exponential", "--nodes", "100")
contains(large.out, "--json lists all edges", "exponential of 100: no table")
check(large.out.count("\n") < 15, f"exponential of 100: {large.out.count(chr(10))} lines")
contains(octet("topology", "ring", "--nodes", "1").out, "ring, 1 node\n", "one node")

help_text = octet("topology", "--help")
equal(help_text.out, octet("help", "topology").out, "help topology is topology --help")
for piece in ("octet topology [NAME]", "--nodes N", "--weights NAME", "{out-degree,", "--hold N", "--svg FILE",
              "--seed N"):
    contains(help_text.out, piece, "topology --help")

# --- JSON ----------------------------------------------------------------------------------------

KEYS = ["column_stochastic", "strongly_connected", "doubly_stochastic", "spectral_gap", "period", "edges",
        "weights", "self_weights", "topology", "nodes", "hold", "n_edges"]


def graphs(value):
    """The graphs of an answer, as [(edges, weights, self weights)]."""
    if value["period"] == 1:
        return [(value["edges"], value["weights"], value["self_weights"])]
    return list(zip(value["edges"], value["weights"], value["self_weights"]))


def check_answer(value, what):
    missing = [key for key in KEYS if key not in value]
    check(not missing, f"{what}: has {', '.join(KEYS)}", f"missing: {missing}")
    if missing:
        return
    nodes, worst, rows_worst = value["nodes"], 0, 0
    if value["period"] > 1:
        equal(len(value["edges"]), value["period"], f"{what}: a list for each graph")
    distinct, edge_forms = set(), True
    for edges, weights, self_weights in graphs(value):
        equal((len(weights), len(self_weights)), (len(edges), nodes), f"{what}: weights beside edges")
        columns, rows = list(self_weights), list(self_weights)
        for (start, end), weight in zip(edges, weights):
            edge_forms &= start != end and 0 <= start < nodes and 0 <= end < nodes
            columns[start] += weight
            rows[end] += weight
            distinct.add((start, end))
        worst = max([worst] + [abs(column - 1) for column in columns])
        rows_worst = max([rows_worst] + [abs(row - 1) for row in rows])
    check(edge_forms, f"{what}: edges are [from, to]")
    check(worst < 1e-12, f"{what}: columns sum to 1 ({worst:.1e})")
    equal(value["column_stochastic"], True, f"{what}: column_stochastic")
    equal(value["strongly_connected"], True, f"{what}: strongly_connected")
    if value["period"]:
        equal(value["doubly_stochastic"], rows_worst < 1e-12, f"{what}: doubly_stochastic")
        equal(value["n_edges"], len(distinct), f"{what}: n_edges")
    gap = value["spectral_gap"]
    if value["period"] == 0 or not has_gap:
        equal(gap, None, f"{what}: spectral_gap")
        check(len(value["spectral_gap_unknown"]) > 20, f"{what}: {value['spectral_gap_unknown']}")
    else:
        check(0 <= gap <= 1, f"{what}: spectral_gap {gap}")
        equal(value["spectral_gap_unknown"], None, f"{what}: spectral_gap_unknown")


with tempfile.TemporaryDirectory() as scratch:
    edge_list = os.path.join(scratch, "a graph, long enough that no option's value could hold its name=64.txt")
    with open(edge_list, "w", encoding="ascii") as file:
        file.write("# a triangle and back\n0 1 0.5\n1 2 0.25\n2 0 0.75\n1 0 0.25\n")

    if has_json():
        for name in NAMES[:-1]:
            check_answer(octet_json("topology", name, "--nodes", "12"), f"{name} of 12")
        for name in ("erdos-renyi:p=0.3,change=yes", "random-regular:degree=4,change=yes", "base-k:3"):
            check_answer(octet_json("topology", name, "--nodes", "10", "--seed", "4"), f"{name} of 10")
        value = octet_json("topology", f"file:{edge_list}", "--nodes", "3")
        check_answer(value, "file")
        equal(sorted(map(tuple, value["edges"])), [(0, 1), (1, 0), (1, 2), (2, 0)], "file: edges")
        equal(value["rule"], "its own", "file: rule")
        equal(value["self_weights"], [0.5, 0.5, 0.25], "file: self_weights")
        value = octet_json("topology", "directed-ring", "--nodes", "5")
        equal(value["edges"], [[4, 0], [0, 1], [1, 2], [2, 3], [3, 4]], "directed-ring: edges")
        equal(value["weights"], [0.5] * 5, "directed-ring: weights")
        if has_gap:
            check(abs(value["spectral_gap"] - (1 - math.cos(math.pi / 5))) < 1e-9,
                  f"directed-ring of 5: spectral_gap {value['spectral_gap']}")
        one, same, other = (octet_json("topology", "random-regular", "--nodes", "20", "--seed", seed)
                            for seed in ("7", "7", "8"))
        equal(one["edges"], same["edges"], "random-regular: the same seed")
        check(one["edges"] != other["edges"], "random-regular: another seed, another graph")
        rows = octet_json("topology")["topologies"]
        equal([row["name"] for row in rows], NAMES, "topology --json: topologies")
        error = octet_json("topology", "torus", "--nodes", "7", code=2).get("error", {})
        contains(error.get("message", ""), "7 nodes make no grid", "torus of 7 --json")

    # --- drawings --------------------------------------------------------------------------------

    for name, nodes, panels, circles in (("directed-ring", 8, 1, 8), ("torus", 12, 1, 12),
                                         ("base-k", 5, 5, 25), ("complete", 70, 1, 70),
                                         ("erdos-renyi:change=yes", 6, 8, 48), ("ring", 1, 1, 1),
                                         (f"file:{edge_list}", 3, 1, 3)):
        path = os.path.join(scratch, "drawing.svg")
        done = octet("topology", name, "--nodes", str(nodes), "--svg", path)
        equal((done.code, done.err), (0, ""), f"--svg of {name}: exit and stderr", done)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        drawing = xml.dom.minidom.parseString(text).documentElement
        classes = [element.getAttribute("class") for element in drawing.getElementsByTagName("*")]
        equal((drawing.tagName, classes.count("panel"), classes.count("node")), ("svg", panels, circles),
              f"--svg of {name}: panels and nodes")
        contains(text, "prefers-color-scheme:dark", f"--svg of {name}")
        check(drawing.getAttribute("viewBox").startswith("0 0 "), f"--svg of {name}: viewBox")
        n_arrows = classes.count("edge") + classes.count("faint")
        if name == "directed-ring":
            equal((n_arrows, classes.count("edge-head")), (8, 8), "--svg of directed-ring: arrows")
        if name == "complete":
            equal((n_arrows, classes.count("faint-head")), (70 * 69 // 2, 0), "--svg of complete: lines")
        numbers = re.findall(r' (?:cx|cy|x|y)="([^"]*)"', text)
        inside = all(0 <= float(number) <= 2000 for number in numbers)
        check(inside and numbers, f"--svg of {name}: {len(numbers)} coordinates are inside")
    done = octet("topology", "ring", "--svg", os.path.join(scratch, "no", "such.svg"))
    equal((done.code, done.out), (1, ""), "--svg into a folder that is not there: exit", done)
    contains(done.err, "such.svg cannot be written", "--svg into a folder that is not there")
    if os.path.exists("/dev/full"):
        done = octet("topology", "ring", "--svg", "/dev/full")
        equal(done.code, 1, "--svg on a full disk: exit", done)
        contains(done.err, "/dev/full cannot be written", "--svg on a full disk")
    draws_on_stdout("topology", "topology", "ring")
    os.mkdir(os.path.join(scratch, "full"))
    keeps_older("topology --svg", os.path.join(scratch, "full", "drawing.svg"), "topology", "ring", "--svg")

    # --- wrong usage -----------------------------------------------------------------------------

    bad_list = os.path.join(scratch, "bad.txt")
    with open(bad_list, "w", encoding="ascii") as file:
        file.write("0 1\n1 0\n1 2x\n")
    for arguments, code, pieces in (
            (["rinng"], 2, ["'rinng'", "did you mean 'ring'?"]),
            (["ring:rows=2"], 2, ["ring", "takes no options"]),
            (["torus:rows=5", "--nodes", "8"], 2, ["8 nodes make no grid of 5 rows", "rows=2 would do"]),
            (["torus", "--nodes", "11"], 2, ["11 nodes", "use ring"]),
            (["random-regular:degree=3", "--nodes", "9"], 2, ["9*3 is odd"]),
            (["random-regular:3,change=maybe"], 2, ["change is 'maybe'", "no, yes"]),
            (["erdos-renyi:p=0.01", "--nodes", "50"], 2, ["p=0.01", "connected"]),
            (["directed-ring", "--weights", "metropolis"], 2, ["directed", "out-degree"]),
            (["base-k", "--weights", "out-degree"], 2, ["weights of its own"]),
            (["ring", "--weights", "equal"], 2, ["--weights is 'equal'", "out-degree, metropolis"]),
            (["ring", "--nodes", "0"], 2, ["--nodes is '0'"]),
            (["ring", "--hold", "0"], 2, ["--hold is '0'", "1 to"]),
            (["ring", "star"], 2, ["'star' is one word too many"]),
            (["--svg", "x.svg"], 2, ["--svg needs a topology"]),
            (["file"], 2, ["file:PATH"]),
            ([f"file:{bad_list}", "--nodes", "3"], 2, ["bad.txt:3: to is '2x'"]),
            ([f"file:{edge_list}", "--nodes", "4"], 2, ["node 0 cannot reach node 3"]),
            (["file:/no/such/list"], 1, ["there is no /no/such/list"])):
        done = octet("topology", *arguments)
        shown = " ".join(os.path.basename(word) for word in arguments)
        equal((done.code, done.out), (code, ""), f"topology {shown}: exit and stdout", done)
        for piece in pieces:
            contains(done.err, piece, f"topology {shown}")
        check(done.err.count("\n") <= 2, f"topology {shown}: a line or two", done.err)

finish()
