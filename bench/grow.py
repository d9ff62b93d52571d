#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the training step grows: samples a second against batch, threads, nodes and compressor, fp32 beside int8.

Runs `octet bench step` for every setting, each time in a process of its own, in several rounds; every other round goes
backwards, so that what disturbs the machine for a while does not meet the same settings. Medians are reported. After
--minutes no further measurement is begun, but every setting is measured once. With --only a panel that was disturbed is
measured again by itself.

Needs Python's standard library alone.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import sys

sys.dont_write_bytecode = True
from common import (OCTET, ROOT, Failure, Progress, Svg, complain, count, machine_of, markdown_table, nice_step,
                    percent, reading, rewrite, run, text_table)

PRECISIONS = ("fp32", "int8")
BATCH = 32  # where it is not what changes
GOSSIP_NODES = 8
KEPT = ("samples_per_s", "floor_samples_per_s", "share_of_floor", "gossip_share", "workspace_bytes", "state_bytes",
        "wire_bytes")

# What a panel changes, and what it holds.
PANELS = {
    "batch": "batch of a node; a node a thread",
    "threads": "threads; as many nodes as there are cores",
    "nodes": "nodes of the process; CHOCO on a directed ring, int8 messages",
    "compressor": f"compressor; {GOSSIP_NODES} nodes, CHOCO on a directed ring",
}


# --- measuring ---------------------------------------------------------------------------------

def doubled(least, most):
    """least, 2 least, … and most itself."""
    values = []
    while least < most:
        values.append(least)
        least *= 2
    return [*values, most]


def settings_of(octet, n_threads, is_quick):
    """(panel, value, options) in the order of the panels; equal options are measured once."""
    compressors = [row["name"] for row in run([octet, "info", "--json"])["compressors"] if row["available"]]
    talk = ["--algorithm", "choco", "--batch", BATCH]
    settings = [("batch", batch, ["--batch", batch]) for batch in ([8, 32, 128] if is_quick else doubled(8, 256))]
    settings += [("threads", threads, ["--nodes", n_threads, "--threads", threads, "--batch", BATCH])
                 for threads in ([n_threads] if is_quick else doubled(1, n_threads))]
    settings += [("nodes", nodes, [*talk, "--nodes", nodes, "--compress", "int8"])
                 for nodes in ([1, 4, 16] if is_quick else doubled(1, 64))]
    settings += [("compressor", name, [*talk, "--nodes", GOSSIP_NODES, "--compress", name]) for name in compressors]
    return [(panel, value, tuple(str(option) for option in options)) for panel, value, options in settings]


def measure(options):
    """Everything that was measured, as it came: what summarize() and --from take."""
    progress = Progress()
    machine = machine_of(options.octet)
    settings = [setting for setting in settings_of(options.octet, machine["threads"], options.quick)
                if setting[0] in options.only]
    commands = list(dict.fromkeys(setting[2] for setting in settings))
    names = {command: f"{panel} {value}" for panel, value, command in reversed(settings)}
    found = {command: [] for command in commands}
    for i in range(options.rounds):
        for command in commands if i % 2 == 0 else reversed(commands):
            if i > 0 and progress.seconds() > 60 * options.minutes:
                continue
            progress.say(f"round {i + 1} of {options.rounds}", names[command])
            value = run([options.octet, "bench", "step", *command, "--precision", ",".join(PRECISIONS), "--seconds",
                         options.seconds, "--json"])
            found[command].append({row["precision"]: {key: row[key] for key in KEPT} for row in value["rows"]})
    progress.clear()
    return {"date": datetime.date.today().isoformat(), "machine": machine, "seconds": options.seconds,
            "is_quick": options.quick, "rounds": max(map(len, found.values())), "took_s": round(progress.seconds(), 1),
            "settings": [{"panel": panel, "value": value, "options": list(command), "measurements": found[command]}
                         for panel, value, command in settings]}


def measure_again(options, path, earlier):
    """The panels of --only measured now, the others as they were in an earlier file from the same machine."""
    if earlier["machine"] != machine_of(options.octet):
        raise Failure(f"{path}: from another machine or version of octet; measure all panels")
    now = measure(options)
    settings = [setting for setting in earlier["settings"] if setting["panel"] not in options.only] + now["settings"]
    return {**now, "date": " and ".join(sorted({*earlier["date"].split(" and "), now["date"]})),
            "is_quick": earlier["is_quick"] or now["is_quick"], "rounds": max(earlier["rounds"], now["rounds"]),
            "took_s": round(earlier["took_s"] + now["took_s"], 1),
            "settings": sorted(settings, key=lambda setting: list(PANELS).index(setting["panel"]))}


# --- what it means -----------------------------------------------------------------------------

def summarize(found):
    """Medians of every setting, by panel."""
    panels = {name: [] for name in PANELS}
    for setting in found["settings"]:
        row = {"value": setting["value"], "options": setting["options"], "measurements": len(setting["measurements"])}
        for precision in PRECISIONS:
            taken = [each[precision] for each in setting["measurements"]]
            row[precision] = {key: statistics.median(each[key] for each in taken) for key in KEPT}
            speeds = [each["samples_per_s"] for each in taken]
            row[precision]["spread"] = (max(speeds) - min(speeds)) / row[precision]["samples_per_s"]
        row["speedup"] = statistics.median(each["int8"]["samples_per_s"] / each["fp32"]["samples_per_s"]
                                           for each in setting["measurements"])
        panels[setting["panel"]].append(row)
    return {"schema": 1, "date": found["date"], "machine": found["machine"], "seconds": found["seconds"],
            "is_quick": found["is_quick"], "rounds": found["rounds"], "took_s": found["took_s"], "panels": panels,
            "found": found}


# --- showing it --------------------------------------------------------------------------------

def mebibytes(x):
    return f"{x / 2**20:,.1f} MiB"


HEADS = ["setting", ">fp32 samples/s", ">int8 samples/s", ">int8 / fp32", ">fp32 of floor", ">int8 of floor",
         ">gossip in int8", ">int8 message", ">fp32 memory", ">int8 memory"]


def cells(panel, row):
    fp32, int8 = row["fp32"], row["int8"]
    is_talking = "--algorithm" in row["options"] and row["value"] != 1
    memory = [mebibytes(each["workspace_bytes"] + each["state_bytes"]) for each in (fp32, int8)]
    return [f"{panel} {row['value']}", count(fp32["samples_per_s"]), count(int8["samples_per_s"]),
            f"{row['speedup']:.2f}", percent(fp32["share_of_floor"]), percent(int8["share_of_floor"]),
            percent(int8["gossip_share"]) if is_talking else "",
            f"{count(int8['wire_bytes'])} B" if is_talking else "", *memory]


def table(summary, form):
    return form(HEADS, [cells(panel, row) for panel, rows in summary["panels"].items() for row in rows])


def machine_line(summary):
    machine = summary["machine"]
    return (f"{machine['cpu']}, {machine['threads']} core{'s' * (machine['threads'] != 1)}, {machine['level']}; octet "
            f"{machine['version']}; {summary['date']}")


def remarks(summary):
    """What a reader should know before believing the numbers."""
    spread, worst = max(((row[precision]["spread"], f"{panel.capitalize()} {row['value']} in {precision}")
                         for panel, rows in summary["panels"].items() for row in rows for precision in PRECISIONS),
                        key=lambda each: each[0])
    said = [f"ResNet-20, batch {BATCH} where nothing else is said; {summary['rounds']} round"
            f"{'s, medians' if summary['rounds'] > 1 else ''}, {summary['took_s']:.0f} s in all"]
    if spread > 0.2:
        said.append(f"{worst} differs by {percent(spread)} between rounds: other programs were running")
    return said


def text(summary):
    return "\n".join([machine_line(summary), table(summary, text_table), "", *remarks(summary)])


def markdown(summary):
    return "\n\n".join(["![Samples a second against batch, threads, nodes and compressor](bench/grow.svg)",
                        table(summary, markdown_table), ". ".join([machine_line(summary), *remarks(summary)]) +
                        ". Made by `bench/grow.py --docs`."])


# --- the drawing -------------------------------------------------------------------------------

WIDTH, PANEL_W, PANEL_H, LEFT, TOP = 940, 340, 210, 70, 110
GAP_X, GAP_Y = 110, 96


def draw_frame(svg, x0, y0, most, step, title):
    svg.text("strong", x0, y0 - 26, title.split("; ")[0])
    svg.text("dim", x0, y0 - 10, "; ".join(title.split("; ")[1:]))
    for i in range(int(most / step) + 1):
        y = y0 + PANEL_H * (1 - i * step / most)
        svg.line("grid" if i else "line", x0, y, x0 + PANEL_W, y)
        svg.text("dim", x0 - 8, y + 4, count(i * step), "end")


def label(svg, x, ys, texts):
    """Names two series at their ends; where those are close, the names are moved apart."""
    push = max(0, 16 - abs(ys[0] - ys[1])) / 2
    for series, said in enumerate(texts):
        is_lower = ys[series] > ys[1 - series] or (ys[0] == ys[1] and series == 0)
        svg.text(f"strong t{series}", x, ys[series] + 4.5 + (push if is_lower else -push), said)


def draw_lines(svg, x0, y0, most, rows):
    """Values along x a factor of two apart, whatever they are; a line for each precision, named at its end."""
    n = len(rows)
    xs = [x0 + PANEL_W * (i + 0.5) / n for i in range(n)]
    ends = []
    for i, row in enumerate(rows):
        svg.text("dim", xs[i], y0 + PANEL_H + 18, str(row["value"]), "middle")
    for series, precision in enumerate(PRECISIONS):
        ys = [y0 + PANEL_H * (1 - row[precision]["samples_per_s"] / most) for row in rows]
        svg.path(f"s{series}", list(zip(xs, ys)))
        for x, y, row in zip(xs, ys, rows):
            svg.circle(f"c{series}", x, y, 3.5, f"{precision}, {row['value']}: {count(row[precision]['samples_per_s'])}")
        ends.append(ys[-1])
    label(svg, xs[-1] + 9, ends, [f"{name} {count(rows[-1][name]['samples_per_s'])}" for name in PRECISIONS])


def draw_bars(svg, x0, y0, most, rows):
    """Kinds have no order: bars, in pairs."""
    slot = PANEL_W / len(rows)
    bar = min(20, 0.36 * slot)
    for i, row in enumerate(rows):
        middle = x0 + slot * (i + 0.5)
        for series, precision in enumerate(PRECISIONS):
            speed = row[precision]["samples_per_s"]
            height = PANEL_H * speed / most
            svg.rect(f"c{series}", middle + (series - 1) * (bar + 1) + 0.5, y0 + PANEL_H - height, bar, height,
                     f"{precision}, {row['value']}: {count(speed)}, gossip {percent(row[precision]['gossip_share'])}")
        svg.text("dim", middle, y0 + PANEL_H + 18, str(row["value"]), "middle")
    tops = [y0 + PANEL_H * (1 - rows[-1][precision]["samples_per_s"] / most) for precision in PRECISIONS]
    label(svg, x0 + PANEL_W + 6, tops, PRECISIONS)


def chart(summary):
    panels = summary["panels"]
    most = 1.05 * max(row[precision]["samples_per_s"] for rows in panels.values() for row in rows
                      for precision in PRECISIONS)
    step = nice_step(most, 6)
    said = "; ".join(f"{name} {row['value']}: fp32 {count(row['fp32']['samples_per_s'])}, int8 "
                     f"{count(row['int8']['samples_per_s'])}" for name, rows in panels.items() for row in rows)
    height = TOP + 2 * PANEL_H + GAP_Y + 44
    title = "ResNet-20 training step: how samples a second grow"
    svg = Svg(WIDTH, height, title, f"{said}. {machine_line(summary)}.")
    svg.text("title", 24, 34, title)
    svg.text("dim", 24, 54, machine_line(summary))
    for i, (name, rows) in enumerate(panels.items()):
        x0 = LEFT + (PANEL_W + GAP_X) * (i % 2)
        y0 = TOP + (PANEL_H + GAP_Y) * (i // 2)
        draw_frame(svg, x0, y0, most, step, PANELS[name])
        (draw_bars if name == "compressor" else draw_lines)(svg, x0, y0, most, rows)
    return svg.finish()


# --- commands ----------------------------------------------------------------------------------

def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--octet", default=OCTET, metavar="PROGRAM", help="the program (build/release/octet)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each setting is timed (3)")
    parser.add_argument("--seconds", type=float, default=0.5, metavar="X", help="for each time and precision (0.5)")
    parser.add_argument("--minutes", type=float, default=6, metavar="X", help="no new measurement after that (6)")
    parser.add_argument("--quick", action="store_true", help="one short round of few settings: to see that it works")
    parser.add_argument("--only", metavar="PANEL[,PANEL]",
                        help=f"measure these ({', '.join(PANELS)}) and keep the others of an earlier grow.json: that of "
                             "--from, or of the folder written to")
    parser.add_argument("--from", dest="source", metavar="FILE", help="show an earlier grow.json instead of measuring")
    parser.add_argument("--out", type=pathlib.Path, metavar="FOLDER", help="where grow.json and grow.svg go (build/bench)")
    parser.add_argument("--docs", nargs="?", type=pathlib.Path, const=ROOT / "docs", metavar="FOLDER",
                        help="write to FOLDER/bench (docs/bench) and put the table into FOLDER/PERFORMANCE.md")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or not options.seconds > 0 or not options.minutes > 0:
        parser.error("--rounds must be at least 1, --seconds and --minutes positive")
    options.is_partial = options.only is not None
    options.only = options.only.split(",") if options.is_partial else list(PANELS)
    if not set(options.only) <= set(PANELS):
        parser.error(f"--only must name panels: {', '.join(PANELS)}")
    if options.quick:
        options.rounds, options.seconds = 1, min(options.seconds, 0.1)
    return options


def results(found):
    """What there is to write of a measurement: the summary, the table and the drawing."""
    summary = summarize(found)
    return summary, text(summary), chart(summary)


def main(arguments):
    options = parse(arguments)
    folder = options.out or (options.docs / "bench" if options.docs else ROOT / "build" / "bench")
    try:
        if options.source or options.is_partial:
            path = pathlib.Path(options.source or folder / "grow.json")
            with reading(path, "grow.json of bench/grow.py"):
                earlier = json.loads(path.read_text(encoding="utf-8"))["found"]
                summary, said, drawing = results(earlier)
        if options.is_partial:
            summary, said, drawing = results(measure_again(options, path, earlier))
        elif not options.source:
            summary, said, drawing = results(measure(options))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "grow.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        (folder / "grow.svg").write_text(drawing, encoding="utf-8")
        if options.docs:
            rewrite(options.docs / "PERFORMANCE.md", "grow", markdown(summary))
    except (Failure, OSError) as error:
        complain("grow.py", error)
        return 1
    except KeyboardInterrupt:
        return 130
    print(json.dumps(summary) if options.json else said)
    if not options.json:
        print(f"\nwrote {folder / 'grow.json'} and {folder / 'grow.svg'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
