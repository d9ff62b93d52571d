#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Octet's training step against PyTorch's: one run, one machine, one table.

Runs `octet bench step` and the peers (peers.py) by turns for several rounds, each measurement in a process of its
own, so that what disturbs the machine for a while disturbs all of them; medians are reported. A peer first tries
batch sizes and memory layouts for a moment; the best two of this trial are timed, and the better one is reported.

Needs Python's standard library alone; the peers need PyTorch, in this interpreter, in /usr/bin/python3 or in
the one named with --python. Without it Octet is shown alone.
"""
import argparse
import datetime
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
from common import (OCTET, ROOT, Failure, Progress, Svg, complain, count, markdown_table, nice_step, percent, reading,
                    rewrite, run, run_measured, text_table)

TRIAL_S = 0.4  # for each setting that a peer may choose from, twice

# Rows of the table, in its order. A peer runs at its best, or as it is installed: no option set.
NAMES = {"octet-int8": "Octet int8", "octet-fp32": "Octet fp32", "batchnorm": "PyTorch fp32, BatchNorm",
         "evonorm": "PyTorch fp32, EvoNorm-S0", "fake8": "PyTorch, 8 bits simulated, tuned",
         "fake8-plain": "PyTorch, 8 bits simulated, plain"}
PEERS = [("batchnorm", "best"), ("evonorm", "best"), ("fake8", "best"), ("fake8-plain", "best"),
         ("batchnorm", "installed"), ("evonorm", "installed"), ("fake8-plain", "installed")]
NORMS = {"batchnorm": "batchnorm", "evonorm": "evonorm-s0", "fake8": "range-evonorm", "fake8-plain": "range-evonorm"}

# What Octet wants to reach: int8's speed over that of a row.
WANTED = [("fake8/best", 25), ("fake8-plain/best", 25), ("fake8-plain/installed", 25), ("batchnorm/best", 6),
          ("batchnorm/installed", 6), ("octet-fp32", 2)]
WANTED_SHARE = [("octet-int8", 0.65), ("octet-fp32", 0.59)]
WANTED_WORKSPACE = 3.5  # fp32's over int8's


# --- measuring ---------------------------------------------------------------------------------

def time_octet(octet, precision, seconds):
    value, memory = run_measured([octet, "bench", "step", "--precision", precision, "--seconds", seconds, "--json"])
    return {**value["rows"][0], "memory_bytes": memory, "nodes": value["nodes"], "batch": value["config"]["batch"]}


def count_parameters(octet, norm):
    value = run([octet, "train", "--norm", norm, "--nodes", 1, "--momentum", "local", "--epochs", 1, "--batch", 32,
                 "--data", "synthetic:samples=32", "--db", "none", "--json"])
    return value["n_parameters"]


def time_peer(python, peer, setting, seconds):
    return run([python, "-B", ROOT / "bench" / "peers.py", peer, "--batch", setting["batch"], "--layout",
                setting["layout"], "--threads", setting["threads"], "--seconds", seconds])


def find_python(named):
    """An interpreter with PyTorch, or None."""
    for python in [named] if named else dict.fromkeys([sys.executable, "/usr/bin/python3", shutil.which("python3")]):
        try:
            if python and subprocess.run([python, "-c", "import torch"], check=False, timeout=60,
                                         capture_output=True).returncode == 0:
                return python
        except (OSError, subprocess.TimeoutExpired):
            pass
    return None


def choose_settings(python, n_threads, progress, found):
    """The settings of each peer row that are worth timing; what was tried goes to found["trials"]."""
    settings = {}
    for peer, kind in PEERS:
        if kind == "installed":
            settings[peer, kind] = [{"batch": 32, "layout": "nchw", "threads": 0}]
            continue
        progress.say("trying settings", NAMES[peer])
        # Twice, one after the other, so that a moment's disturbance does not decide.
        batches = ",".join(str(batch) for batch in 2 * sorted({32, 64, 32 * n_threads}))
        tried = time_peer(python, peer, {"batch": batches, "layout": "nchw,nhwc", "threads": n_threads}, TRIAL_S)
        found["trials"][peer] = tried["settings"]
        found["machine"].update(torch=tried["torch"], onednn=tried["onednn"])
        # A trial is too short to tell the best two apart: both are timed, and the better one is the peer.
        settings[peer, kind] = []
        for row in sorted(tried["settings"], key=lambda row: -row["samples_per_s"]):
            setting = {key: row[key] for key in ("batch", "layout", "threads")}
            if setting not in settings[peer, kind] and len(settings[peer, kind]) < 2:
                settings[peer, kind].append(setting)
    return settings


def measure(options):
    """Everything that was measured, as it came: what summarize() and --from take."""
    progress = Progress()
    found = {"date": datetime.date.today().isoformat(), "seconds": options.seconds, "machine": {}, "missing": None,
             "trials": {}, "parameters": {}, "rows": {}}
    octet = options.octet
    cpu = run([octet, "info", "--json"])["cpu"]
    found["machine"].update(cpu=cpu["brand"], threads=cpu["threads"], level=cpu["level"], torch=None, onednn=None)
    python = find_python(options.python) if options.only != "octet" else None
    settings = {}
    if python:
        settings = choose_settings(python, cpu["threads"], progress, found)
        for norm in dict.fromkeys(NORMS.values()):
            found["parameters"][norm] = count_parameters(octet, norm)
    elif options.only != "octet":
        found["missing"] = ("PyTorch, so Octet is alone; 'scripts/setup golden' installs it (Debian: "
                            "python3-torch), or name a Python that has it with --python")

    def octet_row(precision):
        if options.only != "peers":
            progress.say(phase, NAMES[f"octet-{precision}"])
            row = time_octet(octet, precision, options.seconds)
            found["rows"].setdefault(f"octet-{precision}", []).append(row)

    timed = {}
    began = slowest = 0.0
    for i in range(options.rounds):
        slowest = max(slowest, progress.seconds() - began) if i else 0.0
        began = progress.seconds()
        if began + slowest > 60 * options.minutes and i:
            break
        phase = f"round {i + 1} of {options.rounds}"
        octet_row("fp32")
        octet_row("int8")
        for j, ((peer, kind), worth_timing) in enumerate(settings.items()):
            progress.say(phase, NAMES[peer])
            for k, setting in enumerate(worth_timing):
                row = time_peer(python, peer, setting, options.seconds)["settings"][0]
                timed.setdefault(f"{peer}/{kind}", {}).setdefault(k, []).append(row)
            if j % 3 == 2:
                octet_row("int8")
    for key, by_setting in timed.items():
        found["rows"][key] = max(by_setting.values(), key=lambda rows: statistics.median(
            row["samples_per_s"] for row in rows))
    progress.clear()
    return found


# --- what it means -----------------------------------------------------------------------------

def describe(key, first):
    if key.startswith("octet-"):
        return f"{first['nodes']} node{'s' * (first['nodes'] != 1)} × batch {first['batch']}"
    threads = f"{first['threads']} thread{'s' * (first['threads'] != 1)}"
    setting = f"{threads}, batch {first['batch']}, {first['layout'].upper()}"
    return "as installed: " + setting if key.endswith("/installed") else setting


def summarize(found):
    """Medians, ratios and targets of what was measured."""
    rows = {}
    for key in ["octet-int8", "octet-fp32", *("/".join(peer) for peer in PEERS)]:
        taken = found["rows"].get(key)
        if not taken:
            continue
        speeds = [row["samples_per_s"] for row in taken]
        speed = statistics.median(speeds)
        rows[key] = {
            "key": key,
            "name": NAMES[key.split("/")[0]],
            "setting": describe(key, taken[0]),
            "samples_per_s": speed,
            "spread": (max(speeds) - min(speeds)) / speed,
            "measurements": len(speeds),
            "memory_bytes": max(row["memory_bytes"] for row in taken),
        }
        for field in ("share_of_floor", "floor_samples_per_s", "workspace_bytes"):
            if field in taken[0]:
                rows[key][field] = statistics.median(row[field] for row in taken)
        norm = NORMS.get(key.split("/", maxsplit=1)[0])
        expected = found["parameters"].get(norm)
        if norm and taken[0]["n_parameters"] != expected:
            raise Failure(f"{rows[key]['name']} has {taken[0]['n_parameters']} parameters, Octet's {norm} "
                          f"{expected}: they are not the same network")
    if not rows:
        raise Failure(f"nothing was measured; missing: {found['missing']}")
    int8 = rows.get("octet-int8")
    for row in rows.values():
        row["int8_ratio"] = int8["samples_per_s"] / row["samples_per_s"] if int8 else None
    return {"schema": 1, "date": found["date"], "machine": found["machine"], "missing": found["missing"],
            "rows": list(rows.values()), "targets": judge(rows), "measurements": found}


def judge(rows):
    """Every target whose rows are there: what was wanted, what it is, whether it is met."""
    targets = []

    def add(name, least, measured, unit):
        targets.append({"name": name, "wanted": least, "measured": measured, "unit": unit, "met": measured >= least})

    int8, fp32 = rows.get("octet-int8"), rows.get("octet-fp32")
    for key, least in WANTED:
        if int8 and key in rows:
            kind = ", as installed" if key.endswith("/installed") else ""
            add(f"int8 against {rows[key]['name']}{kind}", least, rows[key]["int8_ratio"], "x")
    for key, least in WANTED_SHARE:
        if key in rows:
            add(f"{rows[key]['name']}, share of its products' speed", least, rows[key]["share_of_floor"], "%")
    if int8 and fp32:
        add("fp32's workspace against int8's", WANTED_WORKSPACE,
            fp32["workspace_bytes"] / int8["workspace_bytes"], "x")
    return targets


# --- showing it --------------------------------------------------------------------------------

def times(x):
    return "" if x is None else f"{x:.1f} x" if x < 99.95 else f"{x:.0f} x"


def mebibytes(x):
    return f"{x / 2**20:,.0f} MiB"


def wanted(target):
    return f"≥ {target['wanted']:g} x" if target["unit"] == "x" else "≥ " + percent(target["wanted"])


def reached(target):
    return f"{target['measured']:.2f} x" if target["unit"] == "x" else f"{100 * target['measured']:.1f} %"


HEADS = ["ResNet-20, training step", "setting", ">samples/s", ">int8 against it", ">of its floor", ">memory"]
TARGET_HEADS = ["target", ">wanted", ">measured", "met"]


def row_cells(summary):
    return [[row["name"], row["setting"], count(row["samples_per_s"]), times(row["int8_ratio"]),
             percent(row.get("share_of_floor")), mebibytes(row["memory_bytes"])] for row in summary["rows"]]


def target_cells(summary):
    return [[target["name"], wanted(target), reached(target), "yes" if target["met"] else "no"]
            for target in summary["targets"]]


def machine_line(summary):
    machine = summary["machine"]
    cores = f"{machine['threads']} core{'s' * (machine['threads'] != 1)}"
    line = f"{machine['cpu']}, {cores}, {machine['level']}"
    if machine["torch"]:
        line += f"; PyTorch {machine['torch']}" + (f", oneDNN {machine['onednn']}" if machine["onednn"] else "")
    return f"{line}; {summary['date']}"


def noise_line(summary):
    """None on a quiet machine."""
    worst = max(summary["rows"], key=lambda row: row["spread"], default=None)
    if not worst or worst["spread"] < 0.2:
        return None
    return f"{worst['name']} differs by {percent(worst['spread'])} between rounds: other programs were running"


def text(summary):
    parts = [machine_line(summary), text_table(HEADS, row_cells(summary))]
    if summary["targets"]:
        parts += ["", text_table(TARGET_HEADS, target_cells(summary))]
    parts += ["", "missing: " + summary["missing"]] if summary["missing"] else []
    noise = noise_line(summary)
    return "\n".join(parts + (["", "noise: " + noise] if noise else [])) + "\n"


def markdown(summary):
    parts = ["![Bar chart of the training step's speed](bench/step.svg)",
             markdown_table(HEADS, row_cells(summary)),
             markdown_table(TARGET_HEADS, target_cells(summary)),
             f"{machine_line(summary)}; `make bench ARGS=--docs`."]
    noise = noise_line(summary)
    return "\n\n".join(parts + ([f"{noise}."] if noise else []))


# --- the chart ---------------------------------------------------------------------------------

STYLE = """text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
text{font-size:13px;fill:#1b2530}
.title{font-size:17px;font-weight:600}
.dim{font-size:12px;fill:#5b6876}
.strong{font-weight:600}
.ratio{font-weight:600;fill:#2f66b0}
.inside{font-weight:600;fill:#ffffff}
.paper{fill:#ffffff;stroke:#d8dee6}
.blank{fill:#ffffff}
.grid{stroke:#e6eaf0}
.axis{stroke:#8794a3}
.int8{fill:#2f66b0}
.fp32{fill:#5c8fce}
.best{fill:#8794a3}
.installed{fill:#c3cbd5}
.floor{fill:none;stroke-dasharray:3 3;stroke:#2f66b0}"""


def group(key):
    """Under which heading of the chart a row stands."""
    return "octet" if key.startswith("octet-") else key.split("/")[1]


GROUPS = {"octet": "", "best": "PyTorch at its best: every core, the fastest of several batch sizes and layouts",
          "installed": "PyTorch as installed: no option set"}


def chart(summary):
    rows = summary["rows"]
    left, right, top, pitch, bar, heading = 252, 96, 92, 38, 20, 34
    n_headings = len({group(row["key"]) for row in rows} - {"octet"})
    bottom = top + pitch * len(rows) + heading * n_headings
    width, height = 900, bottom + 64
    most = max(max(row["samples_per_s"], row.get("floor_samples_per_s", 0)) for row in rows)
    step = nice_step(most, 8)

    def x(speed):
        return round(left + (width - left - right) * speed / most, 1)

    said = "; ".join(f"{row['name']} ({row['setting']}) {count(row['samples_per_s'])}" for row in rows)
    svg = Svg(width, height, "ResNet-20 training step: Octet against PyTorch, samples a second",
              f"{said}. {machine_line(summary)}.", STYLE, is_card=True)
    svg.text("title", 24, 36, "ResNet-20 training step, samples a second")
    svg.text("dim", 24, 57, machine_line(summary))
    if rows[0]["int8_ratio"]:
        svg.text("dim", width - 24, top - 8, "int8 against it", "end")
    for i in range(int(most / step) + 1):
        at = x(i * step)
        svg.line("grid" if i else "axis", at, top, at, bottom)
        svg.text("dim", at, bottom + 17, count(i * step), "middle")
    y, last = top + 6, "octet"
    for row in rows:
        kind = group(row["key"])
        if kind != last:
            # Paper behind the heading, so that the grid does not cross its words.
            svg.rect("blank", left + 1, y, width - left - 25, heading - 6)
            svg.text("dim", left + 8, y + 20, GROUPS[kind])
            y, last = y + heading, kind
        is_octet = kind == "octet"
        svg.text("strong" if is_octet else "", left - 12, y + 11, row["name"], "end")
        svg.text("dim", left - 12, y + 26, row["setting"].removeprefix("as installed: "), "end")
        speed, end = row["samples_per_s"], x(row["samples_per_s"])
        fill = row["key"].split("-")[1] if is_octet else kind
        svg.rect(fill, left, y + 4, end - left, bar, radius=2)
        floor = row.get("floor_samples_per_s", 0)
        if floor > speed:
            svg.rect("floor", end, y + 4.5, x(floor) - end, bar - 1)
        if is_octet and end - left > 60:
            svg.text("inside", end - 8, y + 18.5, count(speed), "end")
        else:
            svg.text("", end + 8, y + 18.5, count(speed))
        if row["int8_ratio"] and row["key"] != "octet-int8":
            svg.text("ratio", width - 24, y + 18.5, f"{row['int8_ratio']:.1f} ×", "end")
        y += pitch
    svg.text("dim", 24, height - 18,
        "Medians of alternating rounds. Dashed: the speed of the step's products alone, in the same run.")
    return svg.finish()


# --- commands ----------------------------------------------------------------------------------

def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--octet", default=OCTET, metavar="PROGRAM", help="the program (build/release/octet)")
    parser.add_argument("--python", metavar="PROGRAM", help="an interpreter with PyTorch")
    parser.add_argument("--rounds", type=int, default=4, metavar="N", help="how often each is timed at most (4)")
    parser.add_argument("--seconds", type=float, default=1.5, metavar="X", help="for each time (1.5)")
    parser.add_argument("--only", choices=["octet", "peers"], help="one side alone")
    parser.add_argument("--minutes", type=float, default=3, metavar="X",
                        help="no new round that would end later (3); one is always made")
    parser.add_argument("--from", dest="source", metavar="FILE",
                        help="show an earlier step.json instead of measuring")
    parser.add_argument("--out", type=pathlib.Path, metavar="FOLDER",
                        help="where step.json and step.svg go (build/bench)")
    parser.add_argument("--docs", nargs="?", type=pathlib.Path, const=ROOT / "docs", metavar="FOLDER",
                        help="write to FOLDER/bench (docs/bench) and put the tables into FOLDER/PERFORMANCE.md")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the tables")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or not options.seconds > 0:
        parser.error("--rounds must be at least 1 and --seconds positive")
    return options


def results(found):
    """What there is to write of a measurement: the summary, the table and the drawing."""
    summary = summarize(found)
    return summary, text(summary), chart(summary)


def main(arguments):
    options = parse(arguments)
    try:
        if options.source:
            with reading(options.source, "step.json of bench/compare.py"):
                earlier = json.loads(pathlib.Path(options.source).read_text(encoding="utf-8"))
                summary, table, drawing = results(earlier["measurements"])
        else:
            summary, table, drawing = results(measure(options))
        folder = options.out or (options.docs / "bench" if options.docs else ROOT / "build" / "bench")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "step.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        (folder / "step.svg").write_text(drawing, encoding="utf-8")
        if options.docs:
            rewrite(options.docs / "PERFORMANCE.md", "bench", markdown(summary))
    except (Failure, OSError) as error:
        complain("compare.py", error)
        return 1
    except KeyboardInterrupt:
        return 130
    print(json.dumps(summary) if options.json else table, end="\n" if options.json else "")
    if not options.json:
        print(f"\nwrote {folder / 'step.json'} and {folder / 'step.svg'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
