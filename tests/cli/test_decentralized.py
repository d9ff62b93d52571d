#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many nodes on the command line: algorithms, graphs and compressors, what is refused, run files, stopping and
going on, messages carried as bytes, and how it looks."""
import json
import os
import re
import signal
import subprocess
import tempfile

from octet_cli import (OCTET, PATIENCE_S, Terminal, check, contains, environment, equal, finish, has_json, lacks,
                       octet, octet_json)

NET = ["--data", "synthetic:samples=256,classes=4,size=8", "--batch", "8", "--augment", "none",
       "--model", "resnet20:width=8,blocks=1", "--threads", "1"]
RUN = ["train", *NET, "--epochs", "1"]  # 8 nodes, 4 steps

# --- text --------------------------------------------------------------------------------------

done = octet(*RUN, "--epochs", "2", "--final-gossip", "3")
equal(done.code, 0, "train on 8 nodes: exit", done)
lines = done.err.splitlines()
equal([line.split()[0] for line in lines], ["network", "gossip", "data", "model", "epoch", "epoch"],
      "train on 8 nodes: lines on stderr", done.err)
for line, piece in zip(lines, (
        "8 nodes, directed-ring: each sends to 1 other",
        "choco after every step, int8 messages, gamma 1, momentum qgm; then 3 rounds without training",
        "256 samples, skew:0.8: 32 a node, three quarters of them in 1 of 4 classes",
        "resnet20:width=8,blocks=1, range-evonorm, int8; 2 epochs, batch 8 a node, learning rate 0.02")):
    contains(line, piece, "what is about to happen")
for line in lines[4:]:
    check(re.search(r", consensus \d\.\d\de[-+]\d\d, [\d.]+ [KM]iB sent, \d+ samples/s", line),
          f"a line of an epoch: {line!r}")
for pattern in (r"^resnet20:\S+ on \S+: 8 nodes, choco, range-evonorm, int8, 2 epochs$",
                r"^accuracy +\d+\.\d\d % +of the average model on the test set$",
                r"^  of nodes +\d+\.\d\d % +mean over 8 nodes, from \d+\.\d\d to \d+\.\d\d %$",
                r"^consensus +\d\.\d\de-\d\d ",
                r"^sent +\S+ [KM]iB +1/3\.\d\d of dense fp32, which would be \S+ [KM]iB$",
                r"^  at the end +\S+ [KM]iB +more, in uncompressed rounds without training$",
                r"^gossip +\d+\.\d % +of the training time$",
                r"^samples/s +[\d,]+ +training, all nodes together$"):
    check(re.search(pattern, done.out, re.M), f"the table has {pattern}", done.out)

done = octet(*RUN, "--nodes", "5", "--topology", "random-regular:degree=2,change=yes", "--algorithm", "quant-sgp",
             "--graph-hold", "2", "--gossip-every", "2", "--partition", "dirichlet:0.5", "--eval-nodes", "2",
             "--compress", "none", "--gamma", "0.5", "--momentum", "local")
equal(done.code, 0, "a changing graph: exit", done)
for piece in ("5 nodes, random-regular:degree=2,change=yes: each sends to 2 others, a new graph each time, each kept "
              "for 2 rounds",
              "quant-sgp after every 2 steps, uncompressed messages, gamma 0.5, momentum local",
              "dirichlet:0.5: "):
    contains(done.err, piece, "a changing graph")
contains(done.out, "mean over the first 2 of 5 nodes", "--eval-nodes 2")
check(re.search(r"^sent +\S+ \S+ +1/2\.00 of dense fp32 after every step, which would be ", done.out, re.M),
      "uncompressed messages after every second step are half of the dense ones", done.out)

done = octet(*RUN, "--batch", "33")
equal(done.code, 0, "a batch of more samples than a node has: exit", done)
contains(done.err, "a step of 8 nodes takes 264 samples (batch 33 each), and there are 256", "a batch too large")
contains(done.err, "batch 32 would do", "a batch too large: what to do")
lacks(octet(*RUN, "--batch", "32").err, "would do", "a batch of all that a node has")

done = octet(*RUN, "--algorithm", "none")
contains(done.err, "gossip    none: ", "--algorithm none says what that is")
lacks(done.err, "directed-ring", "--algorithm none has no graph")
lacks(done.out, "sent ", "--algorithm none sends nothing")
contains(done.out, "\nconsensus ", "--algorithm none: how far the nodes are apart")
done = octet(*RUN, "--nodes", "1")
for word in ("network", "gossip", "consensus", "sent", "nodes"):
    lacks(done.out + done.err, word, "one node")
done = octet(*RUN, "--epochs", "0")
for word in ("train loss", "samples/s"):
    lacks(done.out, word, "nothing was trained")
if has_json():
    one, alone = octet_json(*RUN, "--nodes", "1"), octet_json(*RUN, "--nodes", "1", "--algorithm", "none")
    for key in ("model_sha256", "state_bytes", "messages"):
        equal(one[key], alone[key], f"one node has nobody to talk to: {key}")
    value = octet_json(*RUN, "--epochs", "0")
    equal((value["train_loss"], value["samples_per_s"]), (None, None), "nothing was trained: no figures")
done = octet(*RUN, "--quiet")
equal(done.err, "", "--quiet: stderr")

done = octet(*RUN, "--compare", "fp32")
for pattern in (r"8 nodes, choco, int8 beside fp32, 1 epoch$", r"^  of nodes( +\d+\.\d\d %){2} +[+-]\d+\.\d\d points$",
                r"^sent( +\S+ [KM]iB){2} +1/3\.\d\d of dense fp32$", r"^gossip( +\d+\.\d %){2}$"):
    check(re.search(pattern, done.out, re.M), f"--compare on 8 nodes prints {pattern}", done.out)

# --- what is refused ---------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as folder:
    graph = os.path.join(folder, "graph")
    with open(graph, "w", encoding="ascii") as file:
        file.write("0 1\n1 0\n2 3\n3 2\n")
    for arguments, code, pieces in (
            (["--topology", "star"], 2, ["choco", "quant-sgp", "metropolis", "doubly stochastic"]),
            (["--topology", "star", "--algorithm", "dpsgd"], 2, ["dpsgd", "sgp", "metropolis"]),
            (["--topology", f"file:{graph}", "--nodes", "4"], 2, ["node 0 cannot reach node 2"]),
            (["--topology", "rnig"], 2, ["--topology is 'rnig'", "did you mean 'ring'?"]),
            (["--algorithm", "choko"], 2, ["--algorithm is 'choko'", "did you mean 'choco'?"]),
            (["--compress", "topk:1.5"], 2, ["--compress", "topk", "'1.5'"]),
            (["--nodes", "300"], 2, ["nodes: 300", "256 samples"]),
            (["--nodes", "0"], 2, ["--nodes is '0'", "1 to 65536"]),
            (["--skew", "1.5"], 2, ["--skew is '1.5'", "from 0 to 1"]),
            (["--skew", "0.8abc"], 2, ["--skew is '0.8abc'", "a number from 0 to 1"]),
            (["--skew", "0,8"], 2, ["--skew is '0,8'"]),
            (["--skew", "nan"], 2, ["--skew is 'nan'"]),
            (["--skew", "0.5", "--partition", "dirichlet:1"], 2, ["--skew and --partition both", "keep one"]),
            (["--label", b"bad\xff"], 2, ["--label: byte 0xff is not UTF-8"]),
            (["--skew"], 2, ["--skew needs a value, a number from 0 to 1"]),
            (["--partition", "skew:1.5"], 2, ["--partition", "'1.5'"]),
            (["--compensation-rounds", "3"], 2, ["compensation-rounds", "sc-sparse-push"]),
            (["--resume", os.path.join(folder, "none")], 1, [os.path.join(folder, "none")]),
            (["--resume", ""], 2, ["--resume needs a value, as in --resume DIR"]),
            (["--checkpoint="], 2, ["--checkpoint needs a value"]),
            (["--resume", folder, "--compare", "fp32"], 2, ["--compare", "--resume"]),
            (["--checkpoint", os.path.join(graph, "in")], 1, ["--checkpoint", "graph/in"]),
            (["--checkpoint", graph], 1, ["--checkpoint", "not a folder"]),
            (["--every", "-1"], 2, ["--every is '-1'"])):
        shown = " ".join(os.fsdecode(word) for word in arguments).replace(folder, "DIR")
        done = octet(*RUN, *arguments)
        equal(done.code, code, f"{shown}: exit", done)
        equal(done.out, "", f"{shown}: stdout")
        for piece in pieces:
            contains(done.err, piece, shown)
        lacks(done.err, "epoch", f"{shown}: refused before training")

    # --- a run file ----------------------------------------------------------------------------

    path = os.path.join(folder, "run.yaml")
    with open(path, "w", encoding="ascii") as file:
        file.write("# eight nodes\nnodes: 4\nskew: 0.5\nalgorithm: sgp\ncompress: none\nweight_decay: 0\n")
    done = octet(*RUN, path)
    if "libyaml" in octet("info").out.split("\n  built without")[0]:
        equal(done.code, 0, "a run file: exit", done)
        for piece in ("4 nodes", "skew:0.5", "sgp after every step, uncompressed"):
            contains(done.err, piece, "a run file")
        done = octet("train", path, "--nodes", "2", *NET, "--epochs", "1", "--skew=1")
        for piece in ("2 nodes", "skew:1", "sgp after every step"):
            contains(done.err, piece, "the command line is before its run file")
        for line, mistake, piece in ((2, "nodes: 8x", "'8x'"), (3, "skew: 0.8abc", "'0.8abc'"),
                                     (3, "skew: 0,8", "'0,8'"), (3, "skew: nan", "'nan'"),
                                     (4, "algoritm: sgp", "algoritm")):
            with open(path, encoding="ascii") as file:
                text = file.read().splitlines()
            text[line - 1] = mistake
            bad = os.path.join(folder, "bad.yaml")
            with open(bad, "w", encoding="ascii") as file:
                file.write("\n".join(text) + "\n")
            done = octet(*RUN, bad)
            equal(done.code, 2, f"{mistake!r} in a run file: exit", done)
            contains(done.err, f"bad.yaml:{line}", f"{mistake!r} in a run file")
            contains(done.err, piece, f"{mistake!r} in a run file")
        done = octet(*RUN, os.path.join(folder, "no.yaml"))
        equal(done.code, 1, "a run file that is not there: exit", done)
        contains(done.err, "no.yaml", "a run file that is not there")
    else:
        equal(done.code, 1, "a run file in a build without libyaml: exit", done)
        contains(done.err, "yaml", "a run file in a build without libyaml")

# --- on a terminal -----------------------------------------------------------------------------

for columns in (40, 80, 120):
    terminal = Terminal(*RUN, "--epochs", "3", "--final-gossip", "2", columns=columns)
    equal(terminal.finish(), 0, f"8 nodes on {columns} columns: exit", terminal.raw)
    screen = terminal.screen()
    wide = [line for line in screen if len(line) > columns and len(line.split()[-1]) < 20]
    wide = [line for line in wide if "synthetic:" not in line]  # a word that is never cut
    if columns >= 80:
        equal(wide, [], f"8 nodes: lines that do not fit {columns} columns")
    heads = [line for line in screen if "test acc" in line]
    rows = [line for line in screen if re.match(r" *\d/3 ", line)]
    equal((len(heads), len(rows)), (1, 3), f"{columns} columns: headings and rows of epochs", screen)
    equal({len(row) for row in rows}, {len(heads[0])}, f"{columns} columns: rows are aligned")
    for head in ("consensus", "sent", "samples/s", "train loss") if columns >= 80 else ():
        contains(heads[0], head, f"{columns} columns: headings")
    check(not any("━" in line for line in screen), f"{columns} columns: no bar is left", screen)
    bars = [line for line in terminal.drawings() if "━" in line]
    check(bars and max(len(line) for line in bars) < columns, f"{columns} columns: bars fit", bars)
terminal = Terminal(*RUN, env=environment(TERM="xterm", NO_COLOR="1"))
equal(terminal.finish(), 0, "NO_COLOR: exit")
check(not re.search(rb"\x1b\[[0-9;]*m", terminal.raw), "NO_COLOR: no colours", terminal.raw)

if not has_json():
    finish()

# --- algorithms, graphs, compressors -----------------------------------------------------------


def bytes_a_message(value):
    return (value["bytes_sent"] - value["bytes_final"]) / value["messages"]


for algorithm, topology, compress, more in (
        ("dpsgd", "ring", "none", []),
        ("dpsgd", "star", "none", ["--weights", "metropolis"]),
        ("dpsgd", "base-k", "none:values=bf16", ["--momentum", "local"]),
        ("sgp", "star", "none", []),
        ("deepsqueeze", "torus", "topk:0.9", ["--momentum", "none"]),
        ("sparse-push", "chain", "topk:0.9", []),
        ("choco", "exponential", "topk:0.9,values=bf16", []),
        ("choco", "one-peer-exponential", "topk:0.9,values=int8", []),
        ("choco", "complete", "sign", ["--precision", "fp32"]),
        ("quant-sgp", "star", "qsgd:4", []),
        ("quant-sgp", "erdos-renyi:p=0.7", "int8", ["--partition", "dirichlet:1"]),
        ("sc-sparse-push", "directed-ring", "randk:0.9", ["--compensation-rounds", "2"]),
        ("allreduce", "star", "none", []),
        ("none", "star", "none", [])):
    what = f"{algorithm}, {topology}, {compress}"
    value = octet_json(*RUN, "--quiet", "--algorithm", algorithm, "--topology", topology, "--compress", compress, *more)
    if "error" in value or "accuracy" not in value:
        check(False, f"{what} trains", value)
        continue
    check(0 <= value["accuracy_least"] <= value["accuracy_nodes"] <= value["accuracy_most"] <= 100,
          f"{what}: {value['accuracy_least']} <= {value['accuracy_nodes']} <= {value['accuracy_most']}")
    equal((value["nodes_tested"], value["epochs"], value["bytes_final"]), (8, 1, 0), f"{what}: tested, epochs, final")
    check(value["loss"] > 0 and value["samples_per_s"] > 0 and 0 <= value["gossip_share"] < 1,
          f"{what}: loss {value['loss']}, {value['samples_per_s']} samples/s, gossip {value['gossip_share']}")
    config = value["config"]
    equal((config["algorithm"], config["topology"], config["compress"], config["nodes"]),
          (algorithm, topology, compress, 8), f"{what}: config")
    if algorithm == "none":
        equal((value["bytes_sent"], value["messages"], value["bytes_dense"]), (0, 0, 0), f"{what}: traffic")
        check(value["consensus_distance"] > 1e-6, f"{what}: nodes part, {value['consensus_distance']}")
        continue
    check(value["messages"] > 0 and value["messages"] % 4 == 0, f"{what}: {value['messages']} messages in 4 steps")
    dense = value["bytes_dense"] / value["messages"]
    check(4 * value["n_parameters"] < dense < 4 * value["n_parameters"] + 1024,
          f"{what}: {dense} bytes for {value['n_parameters']} floats")
    if compress == "none":
        equal(value["bytes_sent"], value["bytes_dense"], f"{what}: bytes sent are the dense ones")
    elif algorithm != "sc-sparse-push":
        check(value["bytes_sent"] < 0.6 * value["bytes_dense"],
              f"{what}: {value['bytes_sent']} bytes of {value['bytes_dense']}")
    if algorithm == "allreduce":
        check(value["consensus_distance"] < 1e-12, f"{what}: all agree, {value['consensus_distance']}")

# Bytes of ResNet-20's messages; the documented ratios.
ring = octet_json("train", *NET[:6], "--threads", "1", "--epochs", "1", "--quiet", "--final-gossip", "3")
equal(ring["messages"], 8 * 4, "a directed ring of 8: messages in 4 steps")
own = octet_json("train", *NET[:6], "--threads", "1", "--epochs", "1", "--quiet", "--final-gossip", "3",
                 "--final-statistics", "own")
equal(own["bytes_final"], own["bytes_dense"] * 3 // 4, "3 uncompressed rounds after 4 steps")
check(0 < ring["bytes_final"] - own["bytes_final"] < 0.01 * own["bytes_final"],
      f"ranges of int8 in those rounds: {ring['bytes_final']} bytes, without {own['bytes_final']}")
equal((ring["bytes_sent"] - ring["bytes_final"], ring["messages"], ring["bytes_dense"], ring["model_sha256"]),
      (own["bytes_sent"] - own["bytes_final"], own["messages"], own["bytes_dense"], own["model_sha256"]),
      "--final-statistics own: the same training")
check(ring["bytes_dense"] >= 3.9 * (ring["bytes_sent"] - ring["bytes_final"]),
      f"int8 messages are at most 1/3.9 of dense ones: {bytes_a_message(ring)}")
steady = octet_json("train", *NET[:6], "--threads", "1", "--epochs", "1", "--quiet", "--own-momentum", "0.6")
again = octet_json("train", *NET[:6], "--threads", "2", "--epochs", "1", "--quiet", "--own-momentum", "0.6")
plain = octet_json("train", *NET[:6], "--threads", "1", "--epochs", "1", "--quiet")
equal(again["model_sha256"], steady["model_sha256"], "--own-momentum: two threads, the same model")
check(steady["model_sha256"] != plain["model_sha256"], "--own-momentum 0.6 is another run than 0")
RING16 = ["train", *NET[:6], "--nodes", "16", "--epochs", "1", "--momentum", "qgm"]
STEADY = [*RING16, "--global-beta", "0.98"]
steady = octet_json(*STEADY, "--threads", "1", "--quiet")
equal(octet_json(*STEADY, "--threads", "2", "--quiet")["model_sha256"], steady["model_sha256"],
      "--global-beta: two threads, the same model")
check(octet_json(*RING16, "--quiet")["model_sha256"] != steady["model_sha256"], "--global-beta 0.98 is another run than 0")
done = octet(*RING16)
contains(done.err, "use global-beta 0.98, which is stable, or momentum local", "qgm on a ring of 16: what to do")
done = octet(*STEADY)
lacks(done.err, "unstable", "qgm on a ring of 16 with --global-beta 0.98: no warning")
contains(done.err, "momentum qgm of which a step leaves 0.98", "--global-beta: the opening")
done = octet(*STEADY, "--own-momentum", "0.5")
equal(done.code, 2, "--global-beta with --own-momentum: exit", done)
contains(done.err, "give one", "--global-beta with --own-momentum: what to do")
done = octet(*RING16, "--own-momentum", "0.1")
contains(done.err, "use global-beta 0.98 instead of own-momentum, which", "qgm with a part of its own on a ring of 16: what to do")
done = octet(*RING16[:-2], "--global-beta", "0.95")
equal(done.code, 2, "a --global-beta too far from 1, without --momentum: exit", done)
contains(done.err, "because qgm is not stable with it; global-beta 0.98 alone is", "a --global-beta too far from 1: what to do")
for others, why in ((["--slow-momentum", "0.9"], "because slow-momentum goes with that"), (["--nodes", "1"], "because nodes do not talk"),
                    (["--algorithm", "allreduce"], "because nodes do not talk"), (["--momentum", "local"], "it is of momentum qgm")):
    done = octet("train", *NET[:6], "--global-beta", "0.98", *others)
    equal(done.code, 2, f"--global-beta {others}: exit", done)
    contains(done.err, why, f"--global-beta {others}: why")
done = octet("train", *NET[:6], "--nodes", "16", "--own-momentum", "0.6")
contains(done.err, "because qgm is not stable with it; global-beta 0.98 alone is", "--own-momentum on a ring of 16")
done = octet("train", *NET[:6], "--global-beta", "0.98", "--momentum", "local")
equal(done.code, 2, "--global-beta with local momentum: exit", done)
contains(done.err, "momentum is local here", "--global-beta with local momentum")
equal(octet(*STEADY[:-1], "1").code, 2, "--global-beta 1: exit")
SLOW = ["train", *NET[:6], "--epochs", "2", "--gossip-every", "2", "--slow-momentum", "0.8"]
slow = octet_json(*SLOW, "--threads", "1", "--quiet")
equal(octet_json(*SLOW, "--threads", "2", "--quiet")["model_sha256"], slow["model_sha256"],
      "--slow-momentum: two threads, the same model")
check(octet_json(*SLOW, "--slow-rate", "0.5", "--quiet")["model_sha256"] != slow["model_sha256"], "--slow-rate 0.5 is another run than 0.7")
check(octet_json(*SLOW[:-2], "--momentum", "local", "--quiet")["model_sha256"] != slow["model_sha256"], "--slow-momentum 0.8 is another run than 0")
equal(slow["config"]["momentum"], "local", "--slow-momentum goes with local momentum by itself")
done = octet(*SLOW)
contains(done.err, "momentum local and 0.8 from round to round", "--slow-momentum: the opening")
done = octet(*SLOW, "--momentum", "qgm")
equal(done.code, 2, "--slow-momentum with qgm: exit", done)
contains(done.err, "momentum local or none", "--slow-momentum with qgm: what to do")
equal(octet(*SLOW[:-1], "1").code, 2, "--slow-momentum 1: exit")
done = octet("train", *NET[:6], "--epochs", "1", "--own-momentum", "0.6")
contains(done.err + done.out, "momentum qgm and 0.6 of a node's own", "--own-momentum: the opening")
done = octet("train", *NET[:6], "--own-momentum", "0.6", "--momentum", "local")
equal(done.code, 2, "--own-momentum with local momentum: exit", done)
contains(done.err, "momentum is local here", "--own-momentum with local momentum")
shorter = octet_json("train", *NET[:6], "--threads", "1", "--epochs", "1", "--quiet", "--clip-gradient", "0.5")
again = octet_json("train", *NET[:6], "--threads", "2", "--epochs", "1", "--quiet", "--clip-gradient", "0.5")
equal(again["model_sha256"], shorter["model_sha256"], "--clip-gradient: two threads, the same model")
check(shorter["model_sha256"] != plain["model_sha256"], "--clip-gradient 0.5 is another run than 0")
never = octet_json("train", *NET[:6], "--threads", "1", "--epochs", "1", "--quiet", "--clip-gradient", "1e9")
equal(never["model_sha256"], plain["model_sha256"], "--clip-gradient that nothing reaches: the same model as without")
done = octet("train", *NET[:6], "--epochs", "1", "--clip-gradient", "0.5")
contains(done.err + done.out, "gradients up to 0.5", "--clip-gradient: the opening")
done = octet("train", *NET[:6], "--clip-gradient", "-1")
equal(done.code, 2, "--clip-gradient -1: exit", done)
done = octet("train", *NET[:6], "--epochs", "1", "--clip-gradient", "0.0")
lacks(done.err + done.out, "gradients up to", "--clip-gradient 0.0 is off")
done = octet("train", *NET[:6], "--epochs", "1", "--momentum", "qgm", "--gamma", "1", "--gossip-every", "117")
contains(done.err, "with rounds so rare", "qgm and rare rounds: a warning")
contains(done.err, " times a round; use global-beta 0.9995, which is stable, or momentum local", "qgm and rare rounds: by how much")
top = octet_json("train", *NET[:6], "--threads", "1", "--epochs", "1", "--quiet", "--compress", "topk:0.99,values=int8")
check(top["bytes_dense"] >= 180 * top["bytes_sent"],
      f"topk:0.99,values=int8 is at most 1/180 of dense: {bytes_a_message(top)}")
half = octet_json(*RUN, "--quiet", "--gossip-every", "2")
equal(half["messages"], 8 * 2, "--gossip-every 2: messages in 4 steps")
check(abs(2 * half["bytes_dense"] * half["sent_of_dense"] / half["bytes_sent"] - 1) < 1e-12,
      f"--gossip-every 2: {half['sent_of_dense']} of dense messages after every step")
equal(octet_json(*RUN, "--quiet", "--eval-nodes", "3")["nodes_tested"], 3, "--eval-nodes 3")
equal(octet_json(*RUN, "--quiet", "--skew", "0.25")["config"]["partition"], "skew:0.25", "--skew 0.25: config")

# --- carried as bytes, the same ----------------------------------------------------------------

for more in (["--compress", "topk:0.9,values=int8"], ["--algorithm", "quant-sgp", "--topology", "one-peer-exponential"],
             ["--algorithm", "sparse-push", "--topology", "star", "--compress", "topk:0.9"]):
    two = [octet_json(*RUN, "--quiet", *more, "--transport", transport) for transport in ("inproc", "loopback")]
    equal(two[1]["model_sha256"], two[0]["model_sha256"], f"{more}: model by loopback and inproc")
    equal([two[1][key] for key in ("bytes_sent", "bytes_dense", "messages")],
          [two[0][key] for key in ("bytes_sent", "bytes_dense", "messages")], f"{more}: traffic by both")

# --- stopped and resumed -----------------------------------------------------------------------


def stopped(folder, number, *more):
    """Trains with checkpoints until the second epoch is done, then sends the signal: code, object, stderr."""
    process = subprocess.Popen([OCTET, *LONG, "--json", "--checkpoint", folder, *more], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    seen = ""
    while "epoch 2/" not in seen:
        line = process.stderr.readline().decode()
        if not line:
            break
        seen += line
    process.send_signal(number)
    out, err = (text.decode() for text in process.communicate(timeout=PATIENCE_S))
    return process.returncode, json.loads(out), seen + err


# Long enough that a signal after the second epoch comes before the end.
LONG = ["train", *NET, "--epochs", "40", "--compress", "topk:0.9"]
with tempfile.TemporaryDirectory() as folder:
    whole = octet_json(*LONG, "--quiet")
    for number, changes in ((signal.SIGTERM, []), (signal.SIGINT, ["--threads", "2", "--db", "none"])):
        name, kept = signal.Signals(number).name, os.path.join(folder, signal.Signals(number).name)
        code, value, err = stopped(kept, number, "--every", "7")
        equal(code, 130, f"{name}: exit", err)
        check(value["interrupted"] and 2 <= value["epochs"] < 40, f"{name}: after {value['epochs']} epochs")
        equal(value["checkpoint"], kept, f"{name}: the result says where the checkpoint is")
        contains(err, f"checkpoint in {kept}; to go on: octet train --resume {kept}\n", f"{name}: how to go on")
        check(value["model_sha256"] != whole["model_sha256"], f"{name}: it had not finished")
        again = octet_json("train", "--resume", kept, "--quiet", *changes)
        for key in ("model_sha256", "accuracy", "loss", "bytes_sent", "messages", "train_loss", "epochs"):
            equal(again[key], whole[key], f"{name}, then --resume: {key} is that of a run never stopped")
        equal(again["config"]["resume"], kept, f"{name}, then --resume: config")
    # A loss may be huge and the run still one to go on with.
    there = os.path.join(folder, "huge")
    huge = octet_json("train", "--data", "synthetic:samples=37,classes=3,size=10", "--nodes", "1", "--batch", "1",
                      "--model", "mobilenetv2:percent=25,blocks=1", "--norm", "range-batchnorm", "--lr", "0",
                      "--epochs", "1", "--db", "none", "--seed", "3", "--checkpoint", there, "--quiet")
    check(huge["train_loss"] > 1e20, f"a huge loss: {huge['train_loss']}")
    again = octet_json("train", "--resume", there, "--db", "none", "--quiet")
    equal(again.get("train_loss"), huge["train_loss"], "a huge loss, then --resume")
    done = octet("train", "--resume", kept, "--lr", "0.5")
    equal(done.code, 2, "--resume with another learning rate: exit", done)
    contains(done.err, "lr", "--resume with another learning rate")
    done = octet("train", "--resume", kept)
    contains(done.err, f"going on from {kept}; checkpoints in {kept} after every 7 epochs", "--resume says so")
    # A folder whose name needs quotes.
    odd = os.path.join(folder, "it's kept")
    _, _, err = stopped(odd, signal.SIGTERM)
    contains(err, f"octet train --resume '{folder}/it'\\''s kept'\n", "a command that can be pasted")

finish()
