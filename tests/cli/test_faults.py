#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--fault on the command line and in run files: what it prints, what is refused, and what is the same."""
import os
import re
import tempfile

from octet_cli import check, contains, equal, finish, has_json, lacks, octet, octet_json

NET = ["--data", "synthetic:samples=128,classes=4,size=6", "--batch", "4", "--augment", "none",
       "--model", "resnet20:width=4,blocks=1", "--precision", "fp32", "--threads", "1", "--epochs", "2"]
RUN = ["train", *NET]  # 8 nodes, 8 steps

# --- text --------------------------------------------------------------------------------------

done = octet(*RUN, "--fault", "drop:p=0.2+duplicate:p=0.1+crash:node=3,step=2,back=5,memory=lost")
equal(done.code, 0, "train --fault: exit", done)
contains(done.err, "; faults drop:p=0.2+duplicate:p=0.1+crash:node=3", "what is about to happen")
check(re.search(r"^lost +\d+ +messages: \d+ dropped, 0 late, 0 overtaken; \d+ double; nodes missed 3 rounds$",
                done.out, re.M), "the table has a line about faults", done.out)
check(re.search(r"^  repairs +\d+ +whole rows, sent anew$", done.out, re.M), "… and one about repairs", done.out)
lacks(octet(*RUN).out, "\nlost ", "without --fault there is no such line")
contains(octet("train", "--help").out, "--fault SPEC", "train --help")

# --- what is refused ---------------------------------------------------------------------------

for fault, pieces in (
        ("lose:p=0.1", ["fault", "'lose'", "drop, delay, duplicate, reorder and crash"]),
        ("drop", ["how often? drop:p=0.01"]),
        ("drop:p=2", ["p is '2'", "from 0 to 1"]),
        ("drop:p=0.1,drop:p=0.2", ["fault", "drop"]),
        ("crash:node=9,step=1", ["node is 9", "nodes 0 to 7"]),
        ("crash:node=1,step=8", ["step is 8", "steps 0 to 7"]),
        ("crash:node=1,step=4,back=3", ["back is 3", "after step 4"]),
        ("+".join(f"crash:node={node},step=2" for node in range(8)), ["nobody would be left"])):
    done = octet(*RUN, "--fault", fault)
    equal(done.code, 2, f"--fault {fault[:40]}: exit", done)
    for piece in pieces:
        contains(done.err, piece, f"--fault {fault[:40]}")
    equal(done.out, "", f"--fault {fault[:40]}: stdout")

# --- the same bits -----------------------------------------------------------------------------

if has_json():
    FAULT = ["--fault", "drop:p=0.1+delay:p=0.1,rounds=2+reorder:p=0.1+crash:node=1,step=3,back=6"]
    one = octet_json(*RUN, *FAULT)
    keys = ["absent", "dropped", "late", "overtaken", "double", "repairs", "repair_bytes"]
    equal(list(one["faults"]), keys, "train --json: faults")
    check(one["faults"]["dropped"] > 0 and one["faults"]["late"] > 0, "messages were lost", one["faults"])
    equal(one["faults"]["absent"], 3, "rounds that node 1 missed")
    equal(one["config"]["fault"], FAULT[1], "train --json: config")
    check("faults" not in octet_json(*RUN), "without --fault there is no such object")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.yaml")
        with open(path, "w", encoding="utf-8") as file:
            for name, value in zip(NET[::2], NET[1::2]):
                file.write(f"{name[2:]}: {value}\n")
            file.write(f"fault: {FAULT[1]}\n")
        for what, arguments in (("a run file", ["train", path]),
                                ("2 threads, bytes", [*RUN, *FAULT, "--threads", "2", "--transport", "loopback"]),
                                ("a checkpoint", [*RUN, *FAULT, "--checkpoint", os.path.join(folder, "kept")])):
            other = octet_json(*arguments)
            equal([other.get(key) for key in ("model_sha256", "bytes_sent", "faults")],
                  [one[key] for key in ("model_sha256", "bytes_sent", "faults")], what)
        kept = os.path.join(folder, "kept")
        other = octet_json("train", "--resume", kept)
        equal((other["model_sha256"], other["faults"]), (one["model_sha256"], one["faults"]),
              "a checkpoint of the end, resumed")
        done = octet("train", "--resume", kept, "--fault", "drop:p=0.5")
        equal(done.code, 2, "resuming with other faults: exit", done)
        contains(done.err, "fault is 'drop:p=0.5'", "resuming with other faults")

finish()
