#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""8 bits on the command line: int8 runs, two precisions side by side, quantizers, gradients by recipe."""
import os
import re
import tempfile

from octet_cli import SOLO, TINY, check, contains, equal, finish, has_json, lacks, octet, octet_json

JSON = has_json()
ONE = ["train", *SOLO, "--epochs", "1"]

# --- what means nothing in a precision is refused, not ignored -----------------------------------

for precision, option, value, says in (
        ("fp32", "precision-recipe", "paper", "which quantizes nothing"),
        ("fp32", "activation-rounding", "stochastic", "which quantizes nothing"),
        ("int8-sim", "engine", "portable", "computed by the engine 'sim'")):
    done = octet(*ONE, "--precision", precision, f"--{option}", value)
    what = f"--precision {precision} --{option} {value}"
    equal(done.code, 2, f"{what}: exit", done)
    contains(done.err, f"{option} is '{value}', but precision is '{precision}'", what)
    contains(done.err, says, what)
    contains(done.err, "leave one of them out", what)
done = octet(*ONE, "--precision-recipe", "paper", "--engine", "portable", "--epochs", "0", "--compare", "fp32")
equal(done.code, 0, "--precision-recipe with --compare fp32: exit", done)
done = octet("bench", "step", *TINY[:4], "--seconds", "0.1", "--precision-recipe", "paper", "--precision", "int8,fp32")
equal(done.code, 0, "bench step --precision-recipe, fp32 too: exit", done)

# --- text --------------------------------------------------------------------------------------

done = octet(*ONE, "--compare", "fp32", "--trace-quant")
equal(done.code, 0, "--compare --trace-quant: exit", done)
lines = done.err.splitlines()
equal(len(lines), 6, "--compare: lines on stderr", done.err)
equal([lines[0], lines[4]], ["run 1 of 2: int8, range-evonorm", "run 2 of 2: fp32, evonorm-s0"],
      "--compare says which run goes on")
check(re.search(r", clipped \d+\.\d\d % of values, zero \d+\.\d\d % of gradients$", lines[3]),
      f"a traced epoch ends with its clip rates: {lines[3]!r}")
lacks(lines[5], "clipped", "the second run is not traced")
for pattern in (r"^resnet20 on \S+: int8 beside fp32, 1 epoch$",
                r"^result +int8 +fp32 +int8 against fp32$",
                r"^norm +range-evonorm +evonorm-s0$",
                r"^accuracy +\d+\.\d\d % +\d+\.\d\d % +[+-]\d+\.\d\d points$",
                r"^loss +\d+\.\d{4} +\d+\.\d{4}$",
                r"^samples/s +[\d,]+ +[\d,]+ +\d+\.\d\d x$",
                r"^time +\d+:\d\d +\d+:\d\d$",
                r"^workspace +\S+ [KM]iB +\S+ [KM]iB +1/\d\.\d\d$",
                r"^model +[0-9a-f]{12} +[0-9a-f]{12}$",
                r"^quantizer +of its +clipped +zero +scale$",
                r"^stage1\.block0\.conv1 +value +\d+\.\d\d % +\d+\.\d % +\S+$",
                r"^stage1\.block0\.conv1 +gradient +\d+\.\d\d % +\d+\.\d % +\S+$"):
    check(re.search(pattern, done.out, re.M), f"--compare --trace-quant prints {pattern}", done.out)

done = octet("train", *SOLO, "--epochs", "0", "--trace-quant", "--quiet")
equal((done.code, done.err), (0, ""), "--trace-quant without a step", done)
contains(done.out, "no quantizers", "--trace-quant without a step")
done = octet(*ONE, "--norm", "batchnorm", "--compare", "fp32")
check(re.search(r"^norm +batchnorm +batchnorm$", done.out, re.M), "a norm that is named serves both", done)
lacks(done.out, "quantizer", "without --trace-quant")

# A second run that fails: the first is reported all the same. Between a rate at which both precisions learn
# and one at which both overflow there are rates at which one of them fails alone; halving finds one.


def overflows(rate):
    """Which precisions fail at that rate."""
    return [name for name in ("int8", "fp32")
            if octet(*ONE, "--quiet", "--norm", "batchnorm", "--lr", f"{rate:.6g}", "--precision", name).code]


low, high, failing = 0.01, 1e6, []
equal((overflows(low), overflows(high)), ([], ["int8", "fp32"]), f"precisions that fail at {low}, at {high}")
while len(failing) != 1 and high / low > 1.0001:
    rate = (low * high) ** 0.5
    failing = overflows(rate)
    low, high = (low, rate) if failing else (rate, high)
check(len(failing) == 1, f"a rate at which one precision fails alone: {rate:.6g}, {failing}")
second = failing[0]
first = "fp32" if second == "int8" else "int8"
OVERFLOW = [*ONE, "--quiet", "--norm", "batchnorm", "--lr", f"{rate:.6g}", "--precision", first,
            "--compare", second]
done = octet(*OVERFLOW)
equal(done.code, 1, "a second run that fails: exit", done)
contains(done.out, f": batchnorm, {first}, 1 epoch\n", "a second run that fails: the first is reported")
check(done.err.startswith(f"octet train: --compare {second}: ") and done.err.count("\n") == 1,
      f"a second run that fails: a line on stderr: {done.err!r}")

gradients = ["bench", "gradients", *TINY, "--steps", "2", "--batches", "2"]
done = octet(*gradients)
equal((done.code, done.err), (0, ""), "bench gradients: exit", done)
for pattern in (r"^resnet20 on \S+: range-evonorm$",
                r"^int8 against fp32 after 2 steps, 2 batches of 16$",
                r"^gradient of +paper error +cosine +octet error +cosine$",
                r"^stem\.weight( +\d+\.\d % +-?\d\.\d{4}){2}$",
                r"^all together( +\d+\.\d % +-?\d\.\d{4}){2}$",
                r"^paper +\d+ values +\d+\.\d\d % +\d+\.\d % +\d+\.\d\d % +\S+$",
                r"^octet +\d+ gradients +\d+\.\d\d % +\d+\.\d % +\d+\.\d\d %"):
    check(re.search(pattern, done.out, re.M), f"bench gradients prints {pattern}", done.out)
done = octet(*gradients, "--recipes", "octet,octet:range=mean,mask=no,paper")
contains(done.out, "\n  A  octet\n  B  octet:range=mean,mask=no\n  C  paper\n", "a list of recipes")
contains(done.out, "B error", "a list of recipes")

done = octet("bench", "step", *TINY[:4], "--threads", "1", "--seconds", "0.01")
equal(done.code, 0, "bench step: exit", done)
for pattern in (r"^resnet20: batch 16, 1 node$",
                r"^precision +norm +samples/s +speed +products +share +workspace +ratio +state +wire$",
                r"^fp32 +evonorm-s0 .* 1\.00 x .* 1\.00 x ",
                r"^int8 +range-evonorm .* \d\.\d\d x .* 1/\d\.\d\d "):
    check(re.search(pattern, done.out, re.M), f"bench step prints {pattern}", done.out)
done = octet("bench", "step", *TINY[:4], "--threads", "1", "--seconds", "0.01", "--norm", "batchnorm")
contains(done.out, "resnet20, batchnorm: batch 16", "bench step with a norm that serves both")

if not JSON:
    finish()

# --- JSON --------------------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as folder:
    both = octet_json(*ONE, "--compare", "fp32", "--trace-quant", "--quiet", "--save",
                      os.path.join(folder, "both"))
    int8 = octet_json(*ONE, "--quiet", "--save", os.path.join(folder, "int8"))
    saved = []
    for name in ("both", "int8"):
        with open(os.path.join(folder, name), "rb") as file:
            saved.append(file.read())
    check(saved[0] == saved[1], f"--compare saves the first run: {len(saved[0])}, {len(saved[1])} bytes")
fp32 = octet_json(*ONE, "--precision", "fp32", "--quiet")
equal(both["model_sha256"], int8["model_sha256"], "watching and comparing change nothing in the run")
other = both["compare"]
equal((other["precision"], other["norm"], other["epochs"], other["interrupted"]),
      ("fp32", "evonorm-s0", 1, False), "compare")
for key in ("accuracy", "loss", "train_loss", "workspace_bytes", "state_bytes", "model_sha256"):
    equal(other[key], fp32[key], f"compare {key} is that of a run on its own")
check(other["samples_per_s"] > 0 and other["seconds"] > 0, f"compare is timed: {other}")
check(both["workspace_bytes"] < fp32["workspace_bytes"],
      f"workspace of int8 {both['workspace_bytes']}, of fp32 {fp32['workspace_bytes']}")
equal((both["config"]["precision"], both["config"]["norm"]), ("int8", "range-evonorm"), "config: the first")

failed = octet_json(*OVERFLOW, code=1)
equal((failed["epochs"], failed["compare"].get("error", {}).get("status")), (1, "NOT_FINITE"),
      "a second run that fails: the first, and why there is no second")

quantizers = both["quantizers"]
equal({row["kind"] for row in quantizers}, {"value", "gradient"}, "kinds of quantizers")
check(len(quantizers) > 50, f"{len(quantizers)} quantizers")
for row in quantizers:
    good = (set(row) == {"layer", "kind", "clipped", "zero", "scale"} and 0 <= row["clipped"] <= 1 and
            0 <= row["zero"] <= 1 and row["scale"] >= 0)
    if not good:
        check(False, "a quantizer's shares are 0 to 1, its scale not negative", row)
        break
values = [row["layer"] for row in quantizers if row["kind"] == "value"]
check({"input", "stem", "stem_norm", "stage3.block1.sum"} <= set(values), f"layers: {values}")

# Every choice of a recipe reaches the run: none gives the model of another.
models = {"octet": int8["model_sha256"]}
for recipe in ("paper", "octet:range=mean", "octet:range=mean,mask=no", "octet:weights=channel",
               "octet:gradients=sample", "octet:eps=0.0032", "paper:reach=2"):
    models[recipe] = octet_json(*ONE, "--quiet", "--precision-recipe", recipe)["model_sha256"]
models["stochastic"] = octet_json(*ONE, "--quiet", "--activation-rounding", "stochastic")["model_sha256"]
equal(len(set(models.values())), len(models), f"models of {', '.join(models)}", models)

found = octet_json(*gradients, "--recipes", "paper,octet:range=mean,mask=no", "--quiet")
equal((found["steps"], found["batches"]), (2, 2), "bench gradients: steps and batches")
for recipe in ("paper", "octet:range=mean,mask=no"):
    rows = [row for row in found["rows"] if row["recipe"] == recipe]
    names = [row["parameter"] for row in rows]
    check(names[-1] is None and "stem.weight" in names and len(set(names)) == len(names) > 60,
          f"bench gradients {recipe}: {len(names)} rows, the last is all together", names)
    for row in rows:
        if not (set(row) == {"recipe", "parameter", "error", "cosine"} and row["error"] >= 0 and
                -1.000001 <= row["cosine"] <= 1.000001):
            check(False, "an error is not negative, a cosine -1 to 1", row)
            break
    check(0 < rows[-1]["error"] < 2 and rows[-1]["cosine"] > 0.2,
          f"bench gradients {recipe}: gradients are like fp32's, not equal: {rows[-1]}")
    kinds = {row["kind"] for row in found["quantizers"] if row["recipe"] == recipe}
    equal(kinds, {"value", "gradient"}, f"bench gradients {recipe}: quantizers")
again = octet_json(*gradients, "--recipes", "paper,octet:range=mean,mask=no")
check(again["rows"] == found["rows"], "bench gradients finds the same again", found["rows"], again["rows"])

finish()
