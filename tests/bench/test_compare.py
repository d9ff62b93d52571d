#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/compare.py: medians, ratios, targets, tables and chart of known numbers, without PyTorch."""
import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

SOURCE = pathlib.Path(os.environ.get("OCT_SOURCE") or pathlib.Path(__file__).parents[2])
sys.dont_write_bytecode = True
sys.path[:0] = [str(SOURCE / "tests" / "cli"), str(SOURCE / "bench")]
import compare  # noqa: E402
from octet_cli import OCTET, check, contains, environment, equal, finish, has_json, lacks  # noqa: E402

MIB = 2**20
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"

# An octet that fills any pipe with warnings before it prints a number or, if BROKEN is set, gives up.
NOISY = r"""#!%(python)s
import json, os, sys
sys.stderr.write("warning: made up\n" * 2**16)
if os.environ.get("BROKEN"):
    sys.exit("octet: out of order")
row = {"samples_per_s": 1500, "floor_samples_per_s": 2000, "share_of_floor": 0.75, "workspace_bytes": 2**20}
print(json.dumps({"cpu": {"brand": "Made-up", "threads": 2, "level": "ref"}, "nodes": 2, "config": {"batch": 32},
                  "rows": [row]}))
"""


def octet_rows(speeds, floor, workspace, memory):
    return [{"samples_per_s": speed, "floor_samples_per_s": floor, "share_of_floor": speed / floor,
             "workspace_bytes": workspace, "memory_bytes": memory, "nodes": 2, "batch": 32} for speed in speeds]


def peer_rows(speeds, threads, batch, layout, memory, n_parameters):
    return [{"samples_per_s": speed, "threads": threads, "batch": batch, "layout": layout, "memory_bytes": memory + i,
             "n_parameters": n_parameters} for i, speed in enumerate(speeds)]


# int8 1,500 of a floor of 2,000; fp32 600 of 1,000: every ratio below can be seen at a glance.
CANNED = {
    "date": "2001-02-03", "seconds": 1.5, "missing": None, "trials": {},
    "machine": {"cpu": "Made-up <CPU>", "threads": 2, "level": "avx2", "torch": "1.13.0", "onednn": "2.6.3"},
    "parameters": {"batchnorm": 272474, "evonorm-s0": 273258, "range-evonorm": 273258},
    "rows": {
        "octet-fp32": octet_rows([600, 100, 601], 1000, 70 * MIB, 110 * MIB),
        "octet-int8": octet_rows([1500, 1400, 1501, 1499, 1600], 2000, 20 * MIB, 50 * MIB),
        "batchnorm/best": peer_rows([200, 300], 2, 64, "nhwc", 80 * MIB, 272474),
        "evonorm/best": peer_rows([150], 2, 64, "nchw", 80 * MIB, 273258),
        "fake8/best": peer_rows([60, 59, 61], 2, 64, "nchw", 80 * MIB, 273258),
        "fake8-plain/best": peer_rows([60.01], 2, 32, "nchw", 80 * MIB, 273258),
        "batchnorm/installed": peer_rows([251], 1, 32, "nchw", 80 * MIB, 272474),
    },
}


def rows_by_key(summary):
    return {row["key"]: row for row in summary["rows"]}


def changed(**rows):
    found = copy.deepcopy(CANNED)
    found["rows"].update(rows)
    return found


# --- numbers -----------------------------------------------------------------------------------

summary = compare.summarize(copy.deepcopy(CANNED))
rows = rows_by_key(summary)
equal(list(rows), ["octet-int8", "octet-fp32", "batchnorm/best", "evonorm/best", "fake8/best", "fake8-plain/best",
                   "batchnorm/installed"], "rows, in the table's order")
equal({key: row["samples_per_s"] for key, row in rows.items()},
      {"octet-int8": 1500, "octet-fp32": 600, "batchnorm/best": 250, "evonorm/best": 150, "fake8/best": 60,
       "fake8-plain/best": 60.01, "batchnorm/installed": 251}, "medians of an odd and an even number of rounds")
equal({key: round(row["int8_ratio"], 3) for key, row in rows.items()},
      {"octet-int8": 1, "octet-fp32": 2.5, "batchnorm/best": 6, "evonorm/best": 10, "fake8/best": 25,
       "fake8-plain/best": 24.996, "batchnorm/installed": 5.976}, "int8 against each")
equal([rows[key].get("share_of_floor") for key in ("octet-int8", "octet-fp32", "batchnorm/best")], [0.75, 0.6, None],
      "shares of the floor")
equal(rows["fake8/best"]["memory_bytes"], 80 * MIB + 2, "memory: the most of all rounds")
equal(round(rows["octet-fp32"]["spread"], 3), 0.835, "spread between rounds")

targets = {target["name"]: (target["wanted"], round(target["measured"], 3), target["met"])
           for target in summary["targets"]}
equal(targets, {
    "int8 against PyTorch, 8 bits simulated, tuned": (25, 25, True),
    "int8 against PyTorch, 8 bits simulated, plain": (25, 24.996, False),
    "int8 against PyTorch fp32, BatchNorm": (6, 6, True),
    "int8 against PyTorch fp32, BatchNorm, as installed": (6, 5.976, False),
    "int8 against Octet fp32": (2, 2.5, True),
    "Octet int8, share of its products' speed": (0.65, 0.75, True),
    "Octet fp32, share of its products' speed": (0.59, 0.6, True),
    "fp32's workspace against int8's": (3.5, 3.5, True),
}, "targets, met at the border and not below it")

slow = compare.summarize(changed(**{"octet-int8": octet_rows([1199], 2000, 20.1 * MIB, 50 * MIB)}))
equal([target["name"] for target in slow["targets"] if target["met"]], ["Octet fp32, share of its products' speed"],
      "targets met when int8 makes 1,199 samples/s of 2,000 in 20.1 MiB")
equal(len(slow["targets"]), 8, "targets judged then")

alone = compare.summarize({**copy.deepcopy(CANNED), "missing": "PyTorch, …", "parameters": {},
                           "rows": {key: CANNED["rows"][key] for key in ("octet-int8", "octet-fp32")}})
equal(len(alone["rows"]), 2, "rows without PyTorch")
equal(len(alone["targets"]), 4, "targets without PyTorch")
contains(compare.text(alone), "missing: PyTorch, …", "table without PyTorch")
peers = compare.summarize({**copy.deepcopy(CANNED), "rows": {"fake8/best": CANNED["rows"]["fake8/best"]}})
equal([peers["rows"][0]["int8_ratio"], peers["targets"]], [None, []], "a peer alone has nothing to be compared with")
check(compare.chart(peers).endswith("</svg>\n"), "a peer alone has a chart")


def refused(found, piece, what):
    try:
        compare.summarize(found)
    except compare.Failure as error:
        contains(str(error), piece, what)
    else:
        check(False, f"{what}: is refused")


refused(changed(**{"batchnorm/best": peer_rows([250], 2, 64, "nhwc", 0, 272475)}), "272475 parameters",
        "a network with a parameter too many")
refused({**copy.deepcopy(CANNED), "rows": {}}, "nothing was measured", "no rows")

# --- tables ------------------------------------------------------------------------------------

text = compare.text(summary)
contains(text, "Made-up <CPU>, 2 cores, avx2; PyTorch 1.13.0, oneDNN 2.6.3; 2001-02-03", "machine")
for line in (r"Octet int8 +2 nodes × batch 32 +1,500 +1\.0 x +75 % +50 MiB",
             r"PyTorch fp32, BatchNorm +2 threads, batch 64, NHWC +250 +6\.0 x +80 MiB",
             r"PyTorch fp32, BatchNorm +as installed: 1 thread, batch 32, NCHW +251 +6\.0 x +80 MiB",
             r"int8 against PyTorch, 8 bits simulated, tuned +≥ 25 x +25\.00 x +yes",
             r"int8 against PyTorch fp32, BatchNorm, as installed +≥ 6 x +5\.98 x +no",
             r"Octet int8, share of its products' speed +≥ 65 % +75\.0 % +yes"):
    check(re.search(f"^{line}$", text, re.M), f"table: {line}", text)
contains(text, "noise: Octet fp32 differs by 84 % between rounds", "an unquiet machine")
quiet = compare.summarize(changed(**{"octet-fp32": octet_rows([600, 601], 1000, 70 * MIB, 110 * MIB),
                                     "batchnorm/best": peer_rows([250], 2, 64, "nhwc", 0, 272474)}))
lacks(compare.text(quiet), "noise", "a quiet machine")
equal(compare.markdown_table(["a", ">b"], [["1", "2"]]), "| a | b |\n| --- | ---: |\n| 1 | 2 |", "Markdown")

# --- the chart ---------------------------------------------------------------------------------

SVG = "{http://www.w3.org/2000/svg}"
root = xml.etree.ElementTree.fromstring(compare.chart(summary))
equal(root.get("role"), "img", "chart: role")
contains(root.find(SVG + "title").text, "Octet", "chart: title")
contains(root.find(SVG + "desc").text, "1,500", "chart: description")
bars = [(rect.get("class"), float(rect.get("width"))) for rect in root.iter(SVG + "rect")
        if rect.get("class") in ("int8", "fp32", "best", "installed")]
equal([kind for kind, _ in bars], ["int8", "fp32", "best", "best", "best", "best", "installed"], "chart: bars")
for (_, width), row in zip(bars, summary["rows"]):
    expected = bars[0][1] * row["samples_per_s"] / 1500
    check(abs(width - expected) < 0.2, f"chart: {row['key']} is {width} wide, expected {expected:.1f}")
words = [element.text for element in root.iter(SVG + "text")]
check({"1,500", "2.5 ×", "6.0 ×", "10.0 ×", "25.0 ×"} <= set(words), f"chart: {words}")
box = [float(part) for part in root.get("viewBox").split()]
right = max(float(rect.get("x")) + float(rect.get("width")) for rect in root.iter(SVG + "rect"))
check(right <= box[2], f"chart: everything within {box[2]:g} ({right:g})")
for most in (1, 9, 10, 99, 817, 2336, 99999):
    lines = most / compare.nice_step(most, 8)
    check(1 <= lines <= 8, f"grid for {most}: {lines:.1f} lines of {compare.nice_step(most, 8):g}")

# --- the program -------------------------------------------------------------------------------


def run(*arguments, timeout=300, **changes):
    command = [sys.executable, "-B", SOURCE / "bench" / "compare.py", *arguments]
    return subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True,
                          env=environment(**changes), timeout=timeout)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "old.json").write_text(json.dumps({"measurements": CANNED}), encoding="utf-8")
    page = folder / "PERFORMANCE.md"
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n", encoding="utf-8")
    done = run("--from", folder / "old.json", "--docs", folder)
    equal(done.returncode, 0, "--from, --docs: exit", done.stderr)
    contains(done.stdout, text, "--from: the table")
    step = json.loads((folder / "bench" / "step.json").read_text(encoding="utf-8"))
    equal(step["rows"], summary["rows"], "step.json")
    equal((folder / "bench" / "step.svg").read_text(encoding="utf-8"), compare.chart(summary), "step.svg")
    written = page.read_text(encoding="utf-8")
    check(written.startswith("before\n\n" + BEGIN) and written.endswith(END + "\n\nafter\n")
          and "old" not in written, "--docs: only what is between the marks changes", written)
    contains(written, "| Octet int8 | 2 nodes × batch 32 | 1,500 | 1.0 x | 75 % | 50 MiB |", "--docs: the table")
    again = run("--from", folder / "bench" / "step.json", "--docs", folder)
    equal([again.returncode, page.read_text(encoding="utf-8") == written], [0, True], "its own output again")
    page.write_text("no marks\n", encoding="utf-8")
    done = run("--from", folder / "old.json", "--docs", folder)
    equal([done.returncode, page.read_text(encoding="utf-8")], [1, "no marks\n"], "a page without marks stays")
    contains(done.stderr, BEGIN, "a page without marks")

    done = run("--octet", folder / "none", "--out", folder)
    equal(done.returncode, 1, "a program that is not there: exit")
    contains(done.stderr, "none", "a program that is not there")
    equal(len(done.stderr.splitlines()), 1, "a program that is not there: lines")

    for content in ("{", "{}", "[]", "", '{"measurements": 1}', '{"measurements": {"rows": {"octet-int8": [{}]}}}',
                    json.dumps({"measurements": {**CANNED, "machine": {}}}), "\udcff"):
        (folder / "wrong.json").write_text(content, encoding="utf-8", errors="surrogateescape")
        done = run("--from", folder / "wrong.json", "--out", folder / "wrong")
        equal([done.returncode, done.stdout, done.stderr],
              [1, "", f"compare.py: {folder / 'wrong.json'}: not a step.json of bench/compare.py\n"],
              f"--from a file that says {content[:50]!r}")
    check(not (folder / "wrong").exists(), "a wrong file: nothing is written")
    done = run("--from", folder / "absent.json", "--out", folder)
    equal([done.returncode, len(done.stderr.splitlines())], [1, 1], "--from a file that is not there: exit, lines")

    noisy = folder / "noisy"
    noisy.write_text(NOISY % {"python": sys.executable}, encoding="utf-8")
    noisy.chmod(0o755)
    done = run("--octet", noisy, "--only", "octet", "--rounds", 1, "--out", folder, "--json", timeout=60)
    equal(done.returncode, 0, "a MiB on stderr does not stop a program: exit", done.stderr)
    got = json.loads(done.stdout)
    equal([(row["key"], row["samples_per_s"]) for row in got["rows"]], [("octet-int8", 1500), ("octet-fp32", 1500)],
          "a MiB on stderr: rows")
    check(all(MIB < row["memory_bytes"] < 1024 * MIB for row in got["rows"]),
          f"a MiB on stderr: memory {[row['memory_bytes'] for row in got['rows']]}")
    done = run("--octet", noisy, "--only", "octet", "--out", folder, timeout=60, BROKEN="1")
    equal([done.returncode, done.stderr], [1, f"compare.py: {noisy} info --json: octet: out of order\n"],
          "a program that fails after a MiB of warnings: its last line")
    if has_json():
        done = run("--octet", OCTET, "--python", "/bin/false", "--rounds", 3, "--minutes", 0, "--seconds", 0.02,
                   "--out", folder, "--json")
        equal(done.returncode, 0, "without PyTorch: exit", done.stderr)
        got = json.loads(done.stdout)
        equal([row["key"] for row in got["rows"]], ["octet-int8", "octet-fp32"], "without PyTorch: rows")
        equal({row["measurements"] for row in got["rows"]}, {1}, "no time for a second round")
        contains(got["missing"], "scripts/setup golden", "without PyTorch: what to do")
        check(all(row["memory_bytes"] > MIB and 0 < row["share_of_floor"] for row in got["rows"]),
              f"without PyTorch: {[(row['samples_per_s'], row['memory_bytes']) for row in got['rows']]}")

finish()
