#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/grow.py: earlier results shown, refused or partly measured again. What it measures: docs/test_grow.py."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("OCT_SOURCE") or pathlib.Path(__file__).parents[2])
sys.dont_write_bytecode = True
sys.path[:0] = [str(SOURCE / "tests" / "cli"), str(SOURCE / "bench")]
import grow  # noqa: E402
from octet_cli import check, contains, environment, equal, finish, lacks  # noqa: E402

# Every setting makes 7 samples a second, in either precision.
MADE_UP = r"""#!%(python)s
import json, sys
words = sys.argv[1:]
row = {"samples_per_s": 7.0, "floor_samples_per_s": 14.0, "share_of_floor": 0.5, "gossip_share": 0.25,
       "workspace_bytes": 2**20, "state_bytes": 2**20, "wire_bytes": 9}
if words[0] == "info":
    print(json.dumps({"version": "9.9", "cpu": {"brand": "Made-up", "threads": 2, "level": "ref"},
                      "compressors": [{"name": "int8", "available": True}]}))
else:
    print(json.dumps({"rows": [{"precision": name, **row} for name in ("fp32", "int8")]}))
"""


def setting(panel, value, *int8_speeds):
    rest = {key: 1 for key in grow.KEPT}
    return {"panel": panel, "value": value, "options": [], "measurements": [
        {"fp32": {**rest, "samples_per_s": 100}, "int8": {**rest, "samples_per_s": speed}} for speed in int8_speeds]}


CANNED = {"date": "2001-02-03", "machine": {"cpu": "Made-up", "threads": 2, "level": "ref", "version": "9.9"},
          "seconds": 0.5, "is_quick": False, "rounds": 3, "took_s": 10,
          "settings": [setting("batch", 8, 200, 240, 200), setting("threads", 2, 200, 200, 200),
                       setting("nodes", 1, 200, 300, 200), setting("compressor", "int8", 200, 210, 200)]}

# --- remarks -----------------------------------------------------------------------------------

summary = grow.summarize(copy.deepcopy(CANNED))
worst = "Nodes 1 in int8 differs by 50 % between rounds: other programs were running"
equal(grow.remarks(summary)[1:], [worst], "the setting that differs most is named")
contains(grow.markdown(summary), f"10 s in all. {worst}. Made by", "sentences of the page")
quiet = copy.deepcopy(CANNED)
quiet["settings"][2] = setting("nodes", 1, 200, 200, 200)
lacks(grow.text(grow.summarize(quiet)), "differs", "20 % are no reason for a remark")

# --- the program -------------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    octet, old, wrong, out = folder / "octet", folder / "old.json", folder / "wrong.json", folder / "out"
    octet.write_text(MADE_UP % {"python": sys.executable}, encoding="utf-8")
    octet.chmod(0o755)
    old.write_text(json.dumps({"found": CANNED}), encoding="utf-8")

    def run(*arguments):
        command = [sys.executable, "-B", SOURCE / "bench" / "grow.py", "--octet", octet, "--out", out, *arguments]
        return subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True,
                              env=environment(), timeout=60)

    for content in ("{", "{}", "[]", "", '{"found": {"settings": []}}',
                    json.dumps({"found": {**CANNED, "settings": CANNED["settings"][1:]}}),
                    json.dumps({"found": {**CANNED, "machine": {}}})):
        wrong.write_text(content, encoding="utf-8")
        for more in ([], ["--only", "nodes"]):
            done = run("--from", wrong, *more)
            equal([done.returncode, done.stdout, done.stderr],
                  [1, "", f"grow.py: {wrong}: not a grow.json of bench/grow.py\n"],
                  f"--from a file that says {content[:50]!r} {more}")
    check(not out.exists(), "a wrong file: nothing is written")

    done = run("--only", "nodes")
    equal([done.returncode, len(done.stderr.splitlines())], [1, 1], "--only without an earlier file: exit, lines")
    done = run("--only", "nodes,speed")
    equal(done.returncode, 2, "--only with an unknown panel: exit")
    contains(done.stderr, "batch, threads, nodes, compressor", "--only with an unknown panel")

    def again(*arguments):
        done = run("--rounds", 2, "--json", *arguments)
        equal(done.returncode, 0, f"{arguments[:2]}: exit", done.stderr)
        return json.loads(done.stdout)

    got = again("--only", "nodes", "--from", old)
    equal(list(got["panels"]), list(grow.PANELS), "--only nodes: panels")
    equal([row["value"] for row in got["panels"]["nodes"]], [1, 2, 4, 8, 16, 32, 64], "--only nodes: measured")
    equal({row["int8"]["samples_per_s"] for row in got["panels"]["nodes"]}, {7}, "--only nodes: its speeds")
    for panel in ("batch", "threads", "compressor"):
        equal(got["panels"][panel], summary["panels"][panel], f"--only nodes: {panel} stays")
    contains(got["date"], "2001-02-03 and 20", "--only nodes: both days")
    equal(got["rounds"], 3, "--only nodes: the most rounds of either")
    last = again("--only", "batch,compressor")
    equal([len(last["panels"][panel]) for panel in grow.PANELS], [6, 1, 7, 1], "--only goes on from its own output")
    equal(last["panels"]["nodes"], got["panels"]["nodes"], "--only batch,compressor: nodes stay")
    equal(last["date"], got["date"], "--only twice in a day: the days")

    old.write_text(json.dumps({"found": {**CANNED, "machine": {**CANNED["machine"], "threads": 3}}}), encoding="utf-8")
    done = run("--only", "nodes", "--from", old)
    equal(done.returncode, 1, "--only on another machine: exit")
    contains(done.stderr, "another machine", "--only on another machine")

finish()
