#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/grow.py against a made-up octet: what it asks for, medians, the table in a document, the drawing.

The made-up program takes no time and its speeds follow from its options, so that every number can be told beforehand.
"""
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

SOURCE = os.environ.get("OCT_SOURCE") or os.path.join(os.path.dirname(__file__), "..", "..")
sys.path.insert(0, os.path.join(SOURCE, "tests", "cli"))
sys.dont_write_bytecode = True
from octet_cli import check, contains, equal, finish  # noqa: E402

# Calls are counted in a file: the third time everything is slower, as on a machine that is busy for a while.
MADE_UP = r"""#!%(python)s
import json, os, sys
words = sys.argv[1:]
if words[0] == "info":
    rows = [{"name": "none", "available": True}, {"name": "int8", "available": True}, {"name": "x", "available": False}]
    print(json.dumps({"version": "9.9", "cpu": {"brand": "Made-up & Co", "threads": 3, "level": "ref"}, "compressors": rows}))
    sys.exit()
if os.environ.get("BROKEN"):
    sys.exit("octet: out of order")
option = dict(zip(words[2:-1:2], words[3::2]))
key = "_".join(words[2:]).replace("/", "-")
with open(os.path.join(os.environ["COUNTS"], key), "a+") as file:
    file.write(".")
    file.seek(0)
    times = len(file.read())
speed = (50.0 if times == 3 else 100.0) * int(option.get("--nodes", 3))
row = {"floor_samples_per_s": 2 * speed, "share_of_floor": 0.5, "gossip_share": 0.25, "workspace_bytes": 2**20,
       "state_bytes": 2**21, "wire_bytes": 1234}
print(json.dumps({"rows": [{"precision": name, "samples_per_s": speed * (1 + i), **row}
                           for i, name in enumerate(option["--precision"].split(","))]}))
"""

with tempfile.TemporaryDirectory() as folder:
    octet = os.path.join(folder, "octet")
    counts, docs = os.path.join(folder, "counts"), os.path.join(folder, "docs")
    os.makedirs(counts)
    os.makedirs(docs)
    with open(octet, "w", encoding="utf-8") as file:
        file.write(MADE_UP % {"python": sys.executable})
    os.chmod(octet, 0o755)
    document = os.path.join(docs, "PERFORMANCE.md")

    def grow(*arguments, **environment):
        return subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "bench", "grow.py"), "--octet", octet, *arguments],
                              env={**os.environ, "COUNTS": counts, **environment}, capture_output=True, text=True,
                              check=False)

    def write(text):
        with open(document, "w", encoding="utf-8") as out:
            out.write(text)

    write("before\n<!-- grow:begin -->\nold\n<!-- grow:end -->\nafter\n")
    done = grow("--docs", docs)
    equal(done.returncode, 0, f"grow.py --docs: exit ({done.stderr.strip()!r})")
    with open(os.path.join(docs, "bench", "grow.json"), encoding="utf-8") as file:
        summary = json.load(file)
    panels = summary["panels"]
    equal([row["value"] for row in panels["batch"]], [8, 16, 32, 64, 128, 256], "batches")
    equal([row["value"] for row in panels["threads"]], [1, 2, 3], "threads of 3 cores")
    equal([row["value"] for row in panels["nodes"]], [1, 2, 4, 8, 16, 32, 64], "nodes")
    equal([row["value"] for row in panels["compressor"]], ["none", "int8"], "compressors that are available")
    equal([row["fp32"]["samples_per_s"] for row in panels["nodes"]], [100.0 * n for n in (1, 2, 4, 8, 16, 32, 64)],
          "medians of three rounds, one of them slow")
    equal({row["speedup"] for rows in panels.values() for row in rows}, {2.0}, "int8 over fp32")
    equal({row["fp32"]["spread"] for rows in panels.values() for row in rows}, {0.5}, "spread between rounds")
    asked = sorted(os.listdir(counts))
    equal(len(asked), 6 + 3 + 7 + 2 - 1, "8 nodes with int8 messages are measured once for both panels")
    check(all("--algorithm_choco" in key for key in asked if "--compress" in key), "compressed messages are gossip's")
    equal({os.path.getsize(os.path.join(counts, key)) for key in asked}, {3}, "rounds of each setting")
    with open(document, encoding="utf-8") as file:
        text = file.read()
    check(text.startswith("before\n<!-- grow:begin -->\n") and text.endswith("\n<!-- grow:end -->\nafter\n"),
          "the document around the marks stays", text)
    contains(text, "| nodes 64 | 6,400 | 12,800 | 2.00 | 50 % | 50 % | 25 % | 1,234 B | 3.0 MiB | 3.0 MiB |", "the table")
    contains(text, "differs by 50 % between rounds", "a busy machine is told")
    check("old" not in text, "the old table is gone")
    tree = ElementTree.parse(os.path.join(docs, "bench", "grow.svg")).getroot()
    space = "{http://www.w3.org/2000/svg}"
    texts = ["".join(each.itertext()) for each in tree.iter(space + "text")]
    for piece in ("int8 12,800", "fp32 6,400", "256", "compressor", "nodes of the process"):
        check(piece in texts, f"the drawing says {piece!r}", texts)
    check(any("Made-up & Co, 3 cores" in said for said in texts), "the drawing names the machine", texts)
    equal(len(list(tree.iter(space + "polyline"))), 6, "two lines in each of three panels")
    equal(len(list(tree.iter(space + "rect"))), 1 + 4, "and bars in the fourth")

    again = grow("--from", os.path.join(docs, "bench", "grow.json"), "--out", os.path.join(folder, "again"), "--json")
    equal(json.loads(again.stdout)["panels"], panels, "--from shows the same")
    short = json.loads(grow("--quick", "--out", os.path.join(folder, "quick"), "--json").stdout)
    equal((short["rounds"], [row["value"] for row in short["panels"]["nodes"]]), (1, [1, 4, 16]), "--quick")
    late = json.loads(grow("--minutes", "1e-9", "--out", os.path.join(folder, "late"), "--json").stdout)
    equal((late["rounds"], len(late["panels"]["batch"])), (1, 6), "out of time: every setting once")

    for arguments, environment, piece, code in (
            (["--docs", docs], {"BROKEN": "1"}, "out of order", 1), (["--rounds", "0"], {}, "at least 1", 2),
            (["--octet", "/no/such/octet"], {}, "/no/such/octet", 1)):
        done = grow(*arguments, **environment)
        equal(done.returncode, code, f"grow.py {arguments} {environment}: exit")
        contains(done.stderr, piece, f"grow.py {arguments}")
    write("no marks\n")
    done = grow("--docs", docs, "--quick")
    equal(done.returncode, 1, "a document without marks: exit")
    contains(done.stderr, "grow:begin", "a document without marks")

finish()
