#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet bench step --profile and --cost: tables that add up, JSON that says the same, a drawing."""
import os
import tempfile
import xml.etree.ElementTree as ElementTree

from octet_cli import (TINY, check, contains, draws_on_stdout, equal, finish, has_json, keeps_older, lacks, octet,
                       octet_json)

QUICK = ["bench", "step", "--seconds", "0.05", "--batch", "4", "--nodes", "1", "--threads", "1", "--data", TINY[1]]


def near(a, b, what, tolerance=1e-6):
    check(abs(a - b) <= tolerance * max(abs(a), abs(b)), f"{what}: {a} is {b}")


# --- text --------------------------------------------------------------------------------------

done = octet(*QUICK, "--profile", "--quiet")
equal(done.code, 0, "bench step --profile: exit", done.err)
for piece in ("forward products", "data-gradient products", "weight-gradient products", "all products",
              "norms, gradient", "quantizers of values", "quantizers of gradients", "parameters to bytes",
              "all element-wise", "around the calls", "stage1", "block0.conv1", "classifier", "update",
              "The largest gap: "):
    contains(done.out, piece, "bench step --profile")
for name in ("fp32", "int8"):
    contains(done.out, f"\n{name}: a step of ", "bench step --profile: the sentence")
lacks(done.out, "quant_count", "bench step --profile: calls that do not run")
lacks(done.out, "sums_quantize", "bench step --profile: calls")
every = octet(*QUICK, "--profile", "--verbose", "--quiet", "--precision", "int8")
contains(every.out, "sums_quantize", "bench step --profile --verbose: calls")
lacks(every.out, "quant_count", "bench step --profile --verbose: calls that do not run")

done = octet(*QUICK, "--cost", "--quiet")
equal(done.code, 0, "bench step --cost: exit", done.err)
for piece in ("u8 x s8", "s8 x s8", "f32 x f32", "activations kept for backward", "workspace", "a message",
              "energy of a step", "fp32/int8", "counted", "measured", "modelled", "Horowitz"):
    contains(done.out, piece, "bench step --cost")
equal([line.split()[-2:] for line in done.out.splitlines() if line.startswith("energy of a forward multiply-add")],
      [["x", "modelled"]], "bench step --cost: energy is modelled")

# --- wrong uses --------------------------------------------------------------------------------

for arguments, piece in ((["--svg", "cost.svg"], "give --cost too"),
                         (["--cost", "--svg"], "--svg needs a value"),
                         (["--profile=calls"], "--profile takes no value"),
                         (["--costs"], "did you mean --cost?")):
    done = octet(*QUICK, *arguments)
    equal(done.code, 2, f"bench step {' '.join(arguments)}: exit")
    contains(done.err, piece, f"bench step {' '.join(arguments)}")
done = octet(*QUICK, "--cost", "--svg", "/no/such/folder/cost.svg")
equal(done.code, 1, "bench step --svg to nowhere: exit")
contains(done.err, "/no/such/folder/cost.svg", "bench step --svg to nowhere")

# --- the drawing -------------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "cost.svg")
    draws_on_stdout("bench step", *QUICK, "--cost", "--quiet")
    keeps_older("bench step --svg", path, *QUICK, "--cost", "--quiet", "--svg")
    done = octet(*QUICK, "--cost", "--svg", path, "--quiet")
    contains(done.out, path, "bench step --svg says where")
    root = ElementTree.parse(path).getroot()
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for piece in ("memory", "compute", "communication", "modelled", "measured", "counted", "fp32, evonorm-s0"):
        check(piece in texts, f"the drawing says {piece!r}", texts)
    bars = [rect for rect in root.iter("{http://www.w3.org/2000/svg}rect") if rect.get("class") in ("c0", "c1")]
    check(len(bars) >= 2 + 2 * 6, f"the drawing has {len(bars)} bars and keys")

# --- JSON --------------------------------------------------------------------------------------

if has_json():
    plain = octet_json(*QUICK)
    equal([plain[key] for key in ("profile", "kinds", "layers", "cost", "svg")], [[], [], [], [], None],
          "bench step without --profile and --cost")
    both = octet_json(*QUICK, "--profile", "--cost")
    for name in ("fp32", "int8"):
        kinds = {row["kind"]: row for row in both["kinds"] if row["precision"] == name}
        layers = [row for row in both["layers"] if row["precision"] == name]
        calls = [row for row in both["profile"] if row["precision"] == name]
        equal({row["kind"] for row in calls} - set(kinds), set(), f"{name}: kinds of the calls")
        check("quant_count" not in {row["op"] for row in calls}, f"{name}: {len(calls)} calls, all run")
        for kind, row in kinds.items():
            if kind in ("gossip", "around", "disturbed"):
                continue
            mine = [call for call in calls if call["kind"] == kind]
            near(row["ms"], sum(call["ms"] for call in mine), f"{name} {kind}: ms of {len(mine)} calls")
            equal(row["calls"], len(mine), f"{name} {kind}: calls")
            equal(row["is_product"], kind in ("forward", "data_gradient", "weight_gradient"), f"{name} {kind}: product")
            if row["is_product"]:
                check(row["floor_ms"] > 0 and row["gmadds_per_s"] > 0, f"{name} {kind}: {row}")
                near(row["share_of_floor"], row["floor_ms"] / row["ms"], f"{name} {kind}: share of floor")
            else:
                equal((row["floor_ms"], row["share_of_floor"], row["gmadds_per_s"]), 3 * (None,), f"{name} {kind}: floor")
        near(sum(row["ms"] for row in layers), sum(row["ms"] for row in calls), f"{name}: layers and calls")
        for row in layers:
            near(row["ms"], sum(row[key] for key in ("forward_ms", "data_gradient_ms", "weight_gradient_ms",
                                                     "element_ms")), f"{name} {row['layer']}: ms")
        equal((layers[0]["layer"], layers[-1]["layer"]), ("input", "update"), f"{name}: first and last layer")
        equal(len(layers), len({row["layer"] for row in layers}), f"{name}: a row for each layer")
    fp32, int8 = both["cost"]
    equal((fp32["precision"], int8["precision"]), ("fp32", "int8"), "cost: precisions")
    for row in (fp32, int8):
        name = row["precision"]
        equal(set(row["how"].values()), {"counted", "measured", "modelled"}, f"cost {name}: how")
        equal(set(row["how"]) | {"precision", "products", "ratios", "how"}, set(row), f"cost {name}: all is labelled")
        near(row["multiply_adds"], sum(each["multiply_adds"] for each in row["products"]), f"cost {name}: products")
        near(row["product_mj"], 1e-9 * sum(each["multiply_adds"] * each["pj"] for each in row["products"]),
             f"cost {name}: energy of products")
        near(row["step_mj"], row["product_mj"] + row["element_mj"], f"cost {name}: energy of a step")
        check(row["work_bytes"] - 128 <= row["work_used_bytes"] <= row["work_bytes"],
              f"cost {name}: planned {row['work_bytes']}, filled {row['work_used_bytes']}")
        check(row["activation_bytes"] < row["work_bytes"] < row["workspace_bytes"],
              f"cost {name}: kept {row['activation_bytes']}, workspace {row['workspace_bytes']}")
        if row["own_rss_bytes"] is not None:
            check(row["asked_bytes"] < row["own_rss_bytes"] <= row["peak_rss_bytes"],
                  f"cost {name}: asked for {row['asked_bytes']}, has {row['own_rss_bytes']}, "
                  f"at most {row['peak_rss_bytes']}")
        for key, ratio in row["ratios"].items():
            if ratio is not None:
                near(ratio, fp32[key] / row[key], f"cost {name}: ratio of {key}")
    equal([(each["a"], each["b"]) for each in fp32["products"]], [("f32", "f32")], "cost fp32: types")
    equal([(each["a"], each["b"]) for each in int8["products"]][::2], [("u8", "s8"), ("s8", "s8")], "cost int8: types")
    near(int8["ratios"]["least_pj"], 20, "cost: a multiply-add of bytes")
    check(int8["ratios"]["wire_bytes"] > 3.9, f"cost: a message {fp32['wire_bytes']}, {int8['wire_bytes']}")

finish()
