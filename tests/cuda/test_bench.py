#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet bench step --profile on the engine cuda, emulated: two floors, the time and the gap, which agree with one
another, in text and in JSON."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from octet_cli import check, contains, equal, finish, has_json, lacks, octet, octet_json  # noqa: E402

NODES, BATCH, SIDE, WIDTH = 2, 1, 8, 4
QUICK = ["bench", "step", "--engine", "cuda", "--profile", "--seconds", "0.01", "--nodes", str(NODES), "--batch",
         str(BATCH), "--threads", "1", "--data", f"synthetic:samples=64,classes=4,size={SIDE}", "--model",
         f"resnet20:width={WIDTH},blocks=1"]
AROUND = ("gossip", "around", "disturbed")


def near(a, b, what):
    check(abs(a - b) <= 1e-6 * max(abs(a), abs(b)), f"{what}: {a} is {b}")


# --- text --------------------------------------------------------------------------------------

done = octet(*QUICK, "--precision", "int8", "--verbose", "--quiet")
equal(done.code, 0, "bench step --profile: exit", done.err)
lines = done.out.splitlines()
contains(done.out, "ceilings, measured: memory ", "the line above the tables")
equal([line.split() for line in lines if line.startswith(("work ", "layer "))],
      [["work"] + "ms share MB bytes ms Gop ops ms floor ms gap".split(),
       ["layer"] + "ms share MB bytes ms Gop ops ms floor ms gap".split(),
       ["layer", "operation"] + "us MB bytes us Gop ops us floor us gap".split()], "heads")
words = " ".join(done.out.split())  # where lines are broken depends on the numbers
for piece in ("all products", "all element-wise", "all calls", "around the calls", "conv_u8_wgrad", "stage1",
              "int8: a step of ", "their floors add up to "):
    contains(words, piece, "bench step --profile")
lacks(done.out, "of floor", "bench step --profile: floors are not measured ones")
lacks(done.out, "quant_count", "bench step --profile: calls that do not run")

# --- JSON --------------------------------------------------------------------------------------

if has_json():
    found = octet_json(*QUICK)
    equal([row["precision"] for row in found["ceilings"]], ["fp32", "int8"], "ceilings")
    for ceilings in found["ceilings"]:
        name = ceilings["precision"]
        check(all(value > 0 for key, value in ceilings.items() if key != "precision"), f"{name}: {ceilings}")
        calls = [row for row in found["profile"] if row["precision"] == name]
        for row in calls:
            what = f"{name} {row['layer']} {row['op']}"
            unit = "bf16" if row["op"] == "conv_u8_wgrad" else "f32" if name == "fp32" else "s8"
            check(row["ms"] > 0 and row["bytes"] > 0, f"{what}: {row['ms']} ms, {row['bytes']} bytes")
            equal(row["operations"], 2 * row["multiply_adds"], f"{what}: operations")
            near(row["bytes_ms"], 1e3 * row["bytes"] / ceilings["bytes_per_s"], f"{what}: bytes")
            near(row["operations_ms"], 1e3 * row["operations"] / ceilings[f"{unit}_operations_per_s"],
                 f"{what}: operations")
            equal(row["floor_ms"], max(row["bytes_ms"], row["operations_ms"]), f"{what}: floor")
            near(row["gap"], row["ms"] / row["floor_ms"], f"{what}: gap")
        kinds = [row for row in found["kinds"] if row["precision"] == name]
        layers = [row for row in found["layers"] if row["precision"] == name]
        for rows, key in (([row for row in kinds if row["kind"] not in AROUND], "kind"), (layers, "layer")):
            for row in rows:
                mine = [call for call in calls if call[key] == row[key]]
                for number in ("ms", "bytes", "operations", "bytes_ms", "operations_ms", "floor_ms"):
                    near(row[number], sum(call[number] for call in mine), f"{name} {row[key]}: {number}")
                near(row["gap"], row["ms"] / row["floor_ms"], f"{name} {row[key]}: gap")
        for row in kinds:
            if row["kind"] in AROUND:
                equal((row["floor_ms"], row["gap"]), (None, None), f"{name} {row['kind']}: no floor")

    # The stem by hand: 3 channels in, 3x3 taps. In fp32 floats are read and written, in int8 bytes, a grid of four
    # floats and s32.
    image, value, weights = SIDE * SIDE * 3, SIDE * SIDE * WIDTH, WIDTH * 3 * 9
    for name, op, expected in (("fp32", "conv", 4 * (BATCH * (image + value) + weights)),
                               ("int8", "conv_u8", BATCH * (image + 4 * value) + 16 + weights)):
        stem = [row for row in found["profile"] if (row["precision"], row["layer"], row["op"]) == (name, "stem", op)]
        equal([row["bytes"] for row in stem], [NODES * expected], f"{name}: bytes of the stem")
        equal([row["operations"] for row in stem], [NODES * BATCH * 2 * SIDE * SIDE * weights],
              f"{name}: operations of the stem")

finish()
