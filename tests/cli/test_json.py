#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON contract: one object with "schema": 1, and at least the keys other tools read."""
import math

from octet_cli import (SOLO, TINY, check, contains, environment, equal, finish, octet, octet_json,
                       skip_without_json)

skip_without_json()


def has_keys(value, keys, what):
    missing = [key for key in keys if key not in value]
    check(not missing, f"{what}: has {', '.join(keys)}", f"missing: {missing}", f"in: {value}")
    return not missing


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


# --- version, help, info -----------------------------------------------------------------------

version = octet_json("version")["version"]
equal(octet("version").out.strip(), f"octet {version}", "version in text and JSON")
equal(octet_json("--version").get("version"), version, "--version --json")

info = octet_json("info")
if has_keys(info, ["version", "cpu", "kernels", "engines", "models", "norms", "recipes",
                   "datasets", "schedules", "partitions", "topologies", "algorithms", "compressors",
                   "transports", "build"], "info"):
    has_keys(info["cpu"], ["brand", "level", "machine_level", "threads"], "info cpu")
    has_keys(info["build"], ["compiler", "with", "without"], "info build")
    check("jansson" in info["build"]["with"], "info build names jansson", info["build"])
    for kind in ("engines", "models", "norms", "recipes", "datasets", "schedules", "partitions", "topologies",
                 "algorithms", "compressors", "transports"):
        check(len(info[kind]) > 0, f"info lists {len(info[kind])} {kind}")
        for row in info[kind]:
            has_keys(row, ["name", "summary", "available", "unavailable"], f"info {kind}")
            equal(row["available"], row["unavailable"] is None, f"info {row['name']}: available")
    names = [kernel["name"] for kernel in info["kernels"]]
    check("add_f32" in names and len(set(names)) == len(names), f"info kernels: {names}")
low = octet_json("info", env=environment(OCT_CPU="ref"))
equal(low["cpu"]["level"], "ref", "OCT_CPU=ref info: level")
equal({kernel["variant"] for kernel in low["kernels"]}, {"ref"}, "OCT_CPU=ref info: variants")

everything = octet_json("help")
check(len(everything["commands"]) >= 9, f"help lists {len(everything['commands'])} commands")
only = octet_json("train", "--help")
equal([command["name"] for command in only["commands"]], ["train"], "train --help --json")

# --- train -------------------------------------------------------------------------------------

run = octet_json("train", *SOLO, "--epochs", "1", "--lr", "0.05", "--weight-decay", "5e-4")
keys = ["accuracy", "accuracy_nodes", "accuracy_least", "accuracy_most", "nodes_tested", "loss", "train_loss",
        "consensus_distance", "bytes_sent", "bytes_final", "bytes_dense", "messages", "gossip_share",
        "samples_per_s", "seconds", "checkpoint_seconds", "epochs", "n_parameters", "workspace_bytes", "state_bytes",
        "model_sha256", "interrupted", "saved", "checkpoint", "db", "run", "compare", "quantizers", "config",
        "sent_of_dense"]
if has_keys(run, keys, "train"):
    for key in keys[:20]:
        check(is_number(run[key]), f"train {key} is a number: {run[key]!r}")
    check(0 <= run["accuracy"] <= 100, f"train accuracy in per cent: {run['accuracy']}")
    equal([run[key] for key in keys[1:4]], 3 * [run["accuracy"]], "one node is its own average")
    equal([run[key] for key in ("nodes_tested", "consensus_distance", "bytes_sent", "messages")], [1, 0, 0, 0],
          "one node sends nothing")
    equal(run["epochs"], 1, "train epochs")
    equal(run["checkpoint_seconds"], 0, "train: no checkpoints, no time for them")
    equal(run["interrupted"], False, "train interrupted")
    equal([run[key] for key in ("saved", "checkpoint", "compare", "quantizers", "sent_of_dense")], 5 * [None],
          "train: not asked for, or nothing to compare")
    if "SQLite" in info["build"]["with"]:
        check(run["run"] >= 1 and run["db"].endswith("/octet/runs.db"), f"recorded: {run['run']}, {run['db']}")
    else:
        equal((run["run"], run["db"]), (None, None), "train: no record")
    check(len(run["model_sha256"]) == 64 and set(run["model_sha256"]) <= set("0123456789abcdef"),
          f"train model_sha256: {run['model_sha256']}")
    config = run["config"]
    for key, value in (("model", "resnet20"), ("precision", "int8"), ("norm", "range-evonorm"),
                       ("precision_recipe", "octet"), ("activation_rounding", "nearest"), ("batch", 16), ("epochs", 1), ("lr", 0.05),
                       ("weight_decay", 5e-4), ("seed", 1), ("data", TINY[1])):
        equal(config.get(key), value, f"train config {key}")
    again = octet_json("train", *SOLO, "--epochs", "1", "--lr", "0.05", "--weight-decay", "5e-4",
                       "--quiet")
    equal(again["model_sha256"], run["model_sha256"], "the same run gives the same model")
    other = octet_json("train", *SOLO, "--epochs", "1", "--lr", "0.05", "--weight-decay", "5e-4",
                       "--seed", "2")
    check(other["model_sha256"] != run["model_sha256"], "another seed gives another model")
none = octet_json("train", *SOLO, "--epochs", "0", "--db", "none")
equal((none.get("run"), none.get("db")), (None, None), "train --db none")
equal(none.get("epochs"), 0, "train --epochs 0: epochs")
check(none.get("train_loss", 0) is None or is_number(none["train_loss"]),
      f"train --epochs 0: train_loss is null or a number: {none.get('train_loss', 'missing')}")

# Progress stays on stderr, and --quiet silences it. (All 64 samples make one step of 8 nodes: more would be warned of.)
done = octet("train", *TINY, "--batch", "8", "--epochs", "2", "--json")
equal(done.err.count("epoch "), 2, "train --epochs 2 --json: lines on stderr", done)
done = octet("train", *TINY, "--batch", "8", "--epochs", "1", "--json", "--quiet")
equal(done.err, "", "train --json --quiet: stderr")

# --- bench -------------------------------------------------------------------------------------

bench = octet_json("bench", "step", "--seconds", "0.05", "--batch", "4", "--nodes", "1",
                   "--threads", "1", "--data", TINY[1], "--profile")
equal([(row.get("precision"), row.get("norm")) for row in bench.get("rows", [])],
      [("fp32", "evonorm-s0"), ("int8", "range-evonorm")], "bench step: rows")
for row in bench.get("rows", []):
    has_keys(row, ["precision", "norm", "samples_per_s", "speedup", "floor_samples_per_s",
                   "share_of_floor", "workspace_bytes", "workspace_ratio", "state_bytes",
                   "wire_bytes", "gossip_share"], "bench step row")
    check(0 <= row["gossip_share"] < 0.05, f"nodes do not talk unless asked: gossip_share {row['gossip_share']}")
    first = bench["rows"][0]
    for ratio, key in (("speedup", "samples_per_s"), ("workspace_ratio", "workspace_bytes")):
        check(abs(row[ratio] - row[key] / first[key]) < 1e-9 * row[ratio],
              f"bench step {ratio} {row[ratio]} is {row[key]} / {first[key]}")
    check(row["samples_per_s"] > 0, f"bench step samples_per_s: {row['samples_per_s']}")
    check(row["floor_samples_per_s"] > 0, f"bench step floor: {row['floor_samples_per_s']}")
talking = octet_json("bench", "step", "--seconds", "0.05", "--batch", "4", "--nodes", "4", "--precision", "int8",
                     "--threads", "1", "--data", TINY[1], "--algorithm", "choco", "--compress", "topk:0.99",
                     "--momentum", "qgm")["rows"][0]
check(0 < talking["gossip_share"] < 1, f"bench step --algorithm choco: gossip_share {talking['gossip_share']}")
first = bench["rows"][0]
check(100 < talking["wire_bytes"] < first["wire_bytes"] / 50,
      f"bench step: bytes of a message with topk:0.99 {talking['wire_bytes']}, as floats {first['wire_bytes']}")
equal({row["precision"] for row in bench.get("profile", [])}, {"fp32", "int8"}, "bench step profile")
check(len(bench.get("profile", [])) > 10, f"bench step profile: {len(bench.get('profile', []))} rows")
for row in bench.get("profile", [])[:1]:
    has_keys(row, ["precision", "layer", "op", "ms", "share", "is_product"], "bench step profile")

kernels = octet_json("bench", "kernels", "--seconds", "0.001")
check(len(kernels.get("rows", [])) > 0, f"bench kernels: {len(kernels.get('rows', []))} rows")
for row in kernels.get("rows", []):
    if not has_keys(row, ["name", "variant", "ns", "gb_per_s"], f"bench kernels {row.get('name')}"):
        break
codec = octet_json("bench", "codec", "--seconds", "0.001").get("rows", [])
equal([row["variant"] for row in codec[:4]], ["pack", "fold", "encode", "decode"], "bench codec: variants")
ratios = {row["name"]: row["ratio"] for row in codec}
for row in codec:
    if has_keys(row, ["name", "variant", "ns", "gb_per_s", "bytes", "ratio"], "bench codec row"):
        check(row["ns"] > 0 and row["bytes"] > 42, f"bench codec {row['name']}, {row['variant']}: {row}")
equal(ratios.get("none"), 1, "bench codec none: ratio")
for name, least in (("int8", 3.9), ("topk:0.99,values=int8", 180), ("topk:0.997,values=int8", 466)):
    check(ratios.get(name, 0) >= least, f"bench codec {name}: ratio {ratios.get(name)}, at least {least}")
only = octet_json("bench", "codec", "--only", "topk:0.5", "--seconds", "0.001")
equal({row["name"] for row in only.get("rows", [])}, {"topk:0.5"}, "bench codec --only topk:0.5")

infer = octet_json("bench", "infer", "--seconds", "0.02", "--batch", "1,9", "--threads", "2", "--profile",
                   "--model", "resnet20:width=16,blocks=1", "--data", TINY[1])
equal([(row.get("precision"), row.get("norm"), row.get("batch")) for row in infer.get("rows", [])],
      [("fp32", "evonorm-s0", 1), ("int8", "range-evonorm", 1),
       ("fp32", "evonorm-s0", 9), ("int8", "range-evonorm", 9)], "bench infer: rows")
for at, row in enumerate(infer.get("rows", [])):
    has_keys(row, ["name", "variant", "ns", "precision", "norm", "batch", "runs", "latency_ms", "latency_p99_ms",
                   "samples_per_s", "speedup", "floor_samples_per_s", "share_of_floor", "weight_bytes",
                   "weight_ratio", "workspace_bytes", "workspace_ratio"], "bench infer row")
    first = infer["rows"][at - at % 2]
    equal(row["name"], "resnet20:width=16,blocks=1", "bench infer: name")
    equal(row["variant"], f"{row['precision']}, batch {row['batch']}", "bench infer: variant")
    check(row["runs"] >= 5 and 0 < row["latency_ms"] <= row["latency_p99_ms"], f"bench infer latency: {row}")
    for value, expected in ((row["samples_per_s"], 1e9 * row["batch"] / row["ns"]),
                            (row["latency_ms"], row["ns"] / 1e6), (row["speedup"], first["ns"] / row["ns"]),
                            (row["share_of_floor"], row["samples_per_s"] / row["floor_samples_per_s"]),
                            (row["weight_ratio"], row["weight_bytes"] / first["weight_bytes"]),
                            (row["workspace_ratio"], row["workspace_bytes"] / first["workspace_bytes"])):
        check(abs(value - expected) <= 1e-9 * expected, f"bench infer: {value}, expected {expected}; {row}")
check(infer["rows"][1]["weight_ratio"] < 1 / 2.5, f"bench infer: int8 weights {infer['rows'][1]['weight_ratio']} of fp32's")
equal({(row["precision"], row["batch"]) for row in infer.get("profile", [])},
      {("fp32", 1), ("int8", 1), ("fp32", 9), ("int8", 9)}, "bench infer profile")
operations = {row["op"] for row in infer.get("profile", [])}
check({"conv", "conv_u8"} <= operations and not {"weight_quantize", "vector_quantize"} & operations,
      f"bench infer: batches quantize no weights: {sorted(operations)}")
for row in infer.get("profile", [])[:1]:
    has_keys(row, ["precision", "batch", "op", "calls", "ms", "share", "is_product"], "bench infer profile")

only = octet_json("bench", "kernels", "--only", "add_f32", "--seconds", "0.001")
equal({row["name"] for row in only.get("rows", [])}, {"add_f32"}, "bench kernels --only add_f32")

# --- errors are objects too --------------------------------------------------------------------

for arguments, code, status, piece in (
        (["train", "--batch", "8x"], 2, "INVALID", "'8x'"),
        (["trian"], 2, "INVALID", "'trian'"),
        (["train", *TINY, "--save", "/no/such/folder/model"], 1, "IO", "/no/such/folder"),
        (["data", "get", "imagenet"], 2, "INVALID", "'imagenet'"),
        (["bench", "kernels", "--only", "frobnicate_f64"], 1, "NOT_FOUND", "frobnicate_f64")):
    value = octet_json(*arguments, code=code)
    error = value.get("error", {})
    equal(error.get("status"), status, f"{arguments}: status")
    contains(error.get("message", ""), piece, f"{arguments}: message")

finish()
