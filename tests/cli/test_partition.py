#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet partition: every sample on one node, the table and the JSON agree, the drawing is a drawing."""
import os
import re
import tempfile
import xml.etree.ElementTree

from octet_cli import check, contains, draws_on_stdout, equal, finish, has_json, keeps_older, lacks, octet, octet_json

# 400 tiny images in 10 classes of 40.
DATA = ["--data", "synthetic:samples=400,classes=10,size=4"]


def distance(row, whole):
    """Total variation between a node's mixture of classes and that of all samples."""
    return sum(abs(count / sum(row) - all_of_it / sum(whole)) for count, all_of_it in zip(row, whole)) / 2


def read_table(text, n_classes):
    """{node: [counts of the classes, samples]} of the table of nodes and classes."""
    rows = {}
    for line in text.splitlines():
        cells = line.replace(",", "").split()
        if len(cells) == n_classes + 2 and cells[0].isdigit() and cells != [str(i) for i in range(12)]:
            rows[int(cells[0])] = [0 if cell == "." else int(cell) for cell in cells[1:]]
    return rows


# --- the table ---------------------------------------------------------------------------------

done = octet("partition", *DATA, "--nodes", "4", "--skew", "1")
equal((done.code, done.err), (0, ""), "partition: exit and stderr", done)
contains(done.out, "synthetic by skew:1: 400 samples of 10 classes on 4 nodes", "partition")
table = read_table(done.out, 10)
# 100 samples a node in the order of the classes, which have 40 each.
for node in range(4):
    expected = [max(0, min(40 * c + 40, 100 * node + 100) - max(40 * c, 100 * node)) for c in range(10)]
    equal(table.get(node), expected + [100], f"skew 1, node {node}")
contains(done.out, "distance", "partition: how unlike the nodes are")

# The default is what octet train trains on.
done = octet("partition", "--help")
contains(done.out, "[skew:0.8]", "partition --help: default")
for piece in ("--nodes N", "--partition NAME", "dirichlet[:...]", "--skew S", "--samples N", "--svg FILE"):
    contains(done.out, piece, "partition --help")

# Many nodes or classes: still a screen or two, and no line too wide.
for arguments in (["--nodes", "300", "--samples", "400"],
                  ["--nodes", "8", "--data", "synthetic:samples=1000,classes=100,size=4"],
                  ["--nodes", "600", "--data", "synthetic:samples=1000,classes=100,size=4",
                   "--partition", "dirichlet:0.1"]):
    done = octet("partition", *DATA, *arguments)
    equal(done.code, 0, f"partition {arguments}: exit", done)
    lines = done.out.splitlines()
    check(len(lines) <= 45, f"partition {arguments}: {len(lines)} lines")
    check(max(map(len, lines)) <= 100, f"partition {arguments}: {max(map(len, lines))} columns", done.out)
    gaps = re.findall(r"^ *\.\.\.$", done.out, re.M)
    equal(len(gaps), 0 if "8" in arguments else 1, f"partition {arguments}: gaps in the table")
contains(done.out, "600 nodes", "partition --nodes 600")

# --- mistakes ----------------------------------------------------------------------------------

for arguments, code, pieces in (
        (["--skew", "1.5"], 2, ["--skew is '1.5'", "from 0 to 1"]),
        (["--skew", "0,8"], 2, ["--skew is '0,8'"]),
        (["--skew", "nan"], 2, ["--skew is 'nan'"]),
        (["--partition", "skew:2"], 2, ["skew", "'2'", "from 0 to 1"]),
        (["--partition", "dirichlet:0"], 2, ["dirichlet", "alpha is '0'"]),
        (["--partition", "dirichlet:x"], 2, ["alpha is 'x'"]),
        (["--partition", "dirichlit"], 2, ["did you mean 'dirichlet'?"]),
        (["--nodes", "401"], 2, ["nodes: 401, and only 400 samples", "at most 400 nodes"]),
        (["--nodes", "21", "--samples", "20"], 2, ["nodes: 21, and only 20 samples"]),
        (["--samples", "401"], 2, ["401", "400"]),
        (["--nodes", "0"], 2, ["--nodes is '0'"]),
        (["--svg", ""], 2, ["--svg"]),
        (["--svg", "/no/such/folder/x.svg"], 1, ["/no/such/folder/x.svg"]),
        (["ring"], 2, ["'ring' is unexpected"])):
    done = octet("partition", *DATA, *arguments)
    equal(done.code, code, f"partition {arguments}: exit", done)
    equal(done.out, "", f"partition {arguments}: stdout")
    for piece in pieces:
        contains(done.err, piece, f"partition {arguments}")

# --- JSON --------------------------------------------------------------------------------------

if has_json():
    for name in ("skew:0", "skew:0.3", "skew:0.8", "skew:1", "dirichlet:0.1", "dirichlet:1",
                 "dirichlet:1000"):
        for nodes in (1, 3, 8, 64):
            value = octet_json("partition", *DATA, "--partition", name, "--nodes", str(nodes))
            histogram, sizes = value["histogram"], value["sizes"]
            what = f"{name} on {nodes}"
            equal((len(histogram), {len(row) for row in histogram}), (nodes, {10}), f"{what}: histogram")
            equal([sum(row) for row in histogram], sizes, f"{what}: sizes are the rows' sums")
            whole = [sum(column) for column in zip(*histogram)]
            equal(whole, [40] * 10, f"{what}: every sample on one node")
            check(min(sizes) >= 1, f"{what}: smallest node {min(sizes)}")
            if name.startswith("skew"):
                check(max(sizes) - min(sizes) <= 1, f"{what}: sizes {min(sizes)} to {max(sizes)}")
            far = [distance(row, whole) for row in histogram]
            check(max(abs(a - b) for a, b in zip(far, value["distances"])) < 1e-9,
                  f"{what}: distances {value['distances'][:3]}", far)
            check(abs(value["heterogeneity"] - sum(far) / nodes) < 1e-9,
                  f"{what}: heterogeneity {value['heterogeneity']}")
            equal((value["partition"], value["nodes"], value["samples"], value["classes"], value["svg"]),
                  (name, nodes, 400, 10, None), f"{what}: what was asked for")
    by_skew = [octet_json("partition", *DATA, "--skew", skew)["heterogeneity"]
               for skew in ("0", "0.4", "0.8", "1")]
    equal(by_skew, sorted(by_skew), "more skew, less alike")
    check(by_skew[0] < 0.3 < 0.7 < by_skew[-1], f"heterogeneity from skew 0 to 1: {by_skew}")
    by_alpha = [octet_json("partition", *DATA, "--partition", f"dirichlet:{alpha}")["heterogeneity"]
                for alpha in ("0.01", "0.3", "10")]
    equal(by_alpha, sorted(by_alpha, reverse=True), "larger alpha, more alike")

    one, again, other = (octet_json("partition", *DATA, "--seed", seed) for seed in ("1", "1", "2"))
    equal(one["histogram"], again["histogram"], "the same seed deals the same")
    check(one["histogram"] != other["histogram"], "another seed deals otherwise")
    value = octet_json("partition", *DATA, "--nodes", "2", "--samples", "50")
    equal((sum(value["sizes"]), value["samples"]), (50, 50), "--samples 50")
    equal(octet_json("partition", *DATA, "--skew", "0.25")["histogram"],
          octet_json("partition", *DATA, "--partition", "skew:0.25")["histogram"],
          "--skew is short for --partition skew:")

# --- the drawing -------------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "figure.svg")
    for nodes, arguments in ((8, DATA), (1, DATA), (100, DATA), (256, DATA),
                             (5, ["--data", "synthetic:samples=1000,classes=100,size=4"])):
        done = octet("partition", *arguments, "--nodes", str(nodes), "--svg", path)
        equal(done.code, 0, f"--svg with {nodes} nodes: exit", done)
        root = xml.etree.ElementTree.parse(path).getroot()
        tag = root.tag.split("}")[1]
        equal(tag, "svg", f"--svg with {nodes} nodes: root")
        circles = [item for item in root.iter() if item.tag.endswith("}circle")]
        check(len(circles) > nodes, f"--svg with {nodes} nodes: {len(circles)} circles")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        contains(text, "prefers-color-scheme", "--svg: has colours for dark screens")
        lacks(text, "nan", "--svg")
        os.remove(path)
    draws_on_stdout("partition", "partition", *DATA)
    keeps_older("partition --svg", path, "partition", *DATA, "--svg")
    if has_json():
        value = octet_json("partition", *DATA, "--nodes", "4", "--skew", "1", "--svg", path)
        equal(value["svg"], path, "--svg --json: svg")
        # The area of a circle is its number of samples.
        root = xml.etree.ElementTree.parse(path).getroot()
        area = {}
        SPACE = "{http://www.w3.org/2000/svg}"
        for group in root.iter(SPACE + "g"):
            found = re.match(r"node (\d+), class (\d+): ([\d,]+) samples?$", group.find(SPACE + "title").text)
            if found:
                area[int(found[1]), int(found[2])] = (float(group.find(SPACE + "circle").get("r")) ** 2,
                                                      int(found[3].replace(",", "")))
        expected = {(node, c): count for node, row in enumerate(value["histogram"])
                    for c, count in enumerate(row) if count}
        equal({key: count for key, (_, count) in area.items()}, expected, "--svg: circles and counts")
        ratios = [radius / count for radius, count in area.values()]
        check(max(ratios) < 1.02 * min(ratios), f"--svg: area by samples {min(ratios)} to {max(ratios)}")

finish()
