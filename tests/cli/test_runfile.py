#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet train RUN.yaml: the file's options, the command line above them, each mistake at its line."""
import os
import tempfile

from octet_cli import check, contains, environment, equal, finish, has_json, lacks, octet, octet_json

with tempfile.TemporaryDirectory() as folder:
    ENV = environment(XDG_STATE_HOME=folder)  # the database of runs

    def write(text, name="run.yaml"):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    good = write("# a comment\ndata: synthetic:samples=64,classes=4,size=8\nbatch: 16\nnodes: 1\n"
                 "augment: none\nthreads: 1\nepochs: 1\nlr: 0.05\nweight_decay: 5e-4\nskew: 0.5\n",
                 "good.yaml")

    probe = octet("train", write("nodes: 8x\n"), env=ENV)
    if probe.code == 1 and "libyaml" in probe.err:
        contains(probe.err, "libyaml-dev", "a build without libyaml names the package")
        finish()

    # --- what is taken -------------------------------------------------------------------------

    if has_json():
        config = octet_json("train", good, env=ENV)["config"]
        for key, value in (("batch", 16), ("nodes", 1), ("epochs", 1), ("lr", 0.05), ("augment", "none"),
                           ("weight_decay", 5e-4), ("partition", "skew:0.5"),
                           ("data", "synthetic:samples=64,classes=4,size=8")):
            equal(config.get(key), value, f"train good.yaml: {key}")
        for arguments in ([good, "--batch", "8", "--skew", "0.25"], ["--batch", "8", "--skew", "0.25", good]):
            config = octet_json("train", *arguments, env=ENV)["config"]
            equal((config["batch"], config["partition"], config["epochs"]), (8, "skew:0.25", 1),
                  f"train {' '.join(map(os.path.basename, arguments))}: the command line wins")
        one = octet_json("train", good, env=ENV)
        other = octet_json("train", *"--batch 16 --nodes 1 --augment none --threads 1 --epochs 1 --lr 0.05 "
                           "--weight-decay 5e-4 --skew 0.5 --data synthetic:samples=64,classes=4,size=8".split(),
                           env=ENV)
        equal(one["model_sha256"], other["model_sha256"], "the file and the command line give one model")
    else:
        equal(octet("train", good, env=ENV).code, 0, "train good.yaml: exit")

    # --- a file of 8 bits, run in floats -------------------------------------------------------

    bytes_alone = write("data: synthetic:samples=64,classes=4,size=8\nbatch: 16\nnodes: 1\nepochs: 1\n"
                        "precision: int8\nprecision-recipe: paper\nactivation-rounding: stochastic\n", "int8.yaml")
    equal(octet("train", bytes_alone, env=ENV).code, 0, "train int8.yaml: exit")
    done = octet("train", bytes_alone, "--precision", "fp32", env=ENV)
    equal(done.code, 0, "train int8.yaml --precision fp32: exit", done)
    if has_json():
        config = octet_json("train", bytes_alone, "--precision", "fp32", env=ENV)["config"]
        equal((config["precision"], config["precision_recipe"], config["activation_rounding"], config["batch"]),
              ("fp32", "octet", "nearest", 16), "train int8.yaml --precision fp32: what is about bytes is dropped")
    done = octet("train", bytes_alone, "--precision", "fp32", "--precision-recipe", "paper", env=ENV)
    equal(done.code, 2, "train int8.yaml --precision fp32 --precision-recipe paper: exit", done)
    contains(done.err, "quantizes nothing", "both on the command line")
    done = octet("train", bytes_alone, "--precision", "fp32", "--activation-rounding", "stochastic", env=ENV)
    equal(done.code, 2, "train int8.yaml --precision fp32 --activation-rounding stochastic: exit", done)
    elsewhere = write("data: synthetic:samples=64,classes=4,size=8\nnodes: 1\nepochs: 1\nengine: portable\n", "engine.yaml")
    equal(octet("train", elsewhere, "--precision", "int8-sim", env=ENV).code, 0, "train engine.yaml --precision int8-sim: exit")
    done = octet("train", elsewhere, "--precision", "int8-sim", "--engine", "portable", env=ENV)
    equal(done.code, 2, "train engine.yaml --precision int8-sim --engine portable: exit", done)

    # --- mistakes, each at its own line --------------------------------------------------------

    for text, line, pieces in (
            ("lr: 0.1\nnodes: 8x\n", 2, ["nodes is '8x'", "a whole number from 1 to 65536"]),
            ("lr: 0.1\n\nskew: 0.8abc\n", 3, ["skew is '0.8abc'", "a number from 0 to 1"]),
            ("skew: 0,8\nlr: 0.1\n", 1, ["skew is '0,8'", "a number from 0 to 1"]),
            ("# one\n# two\n\nskew: nan\n", 4, ["skew is 'nan'"]),
            ("lr: 0.1\nbatsh: 8\n", 2, ["'batsh' is no option", "did you mean 'batch'?"]),
            ("lr: 0.1\nlr: 0.1\n", 2, ["lr is given twice, first in line 1"]),
            ("skew: 1\npartition: skew:1\n", 2, ["partition sets the same as skew in line 1"]),
            ("nodes: [8]\n", 1, ["nodes is a list"]),
            ("train:\n  nodes: 8\n", 1, ["'train' is no option"]),
            ("nodes: 8\nlr:\n", 2, ["lr has no value"]),
            ("nodes: &n 8\nepochs: *n\n", 1, ["no anchors"]),
            ("nodes: 8\n---\nnodes: 9\n", 2, ["a second document"]),
            ("just words\n", 1, ["expected"]),
            (b"nodes: 8\ndb: \xff\n", 2, ["not UTF-8"]),
            (b"nodes: 8\n\0", 2, ["U+0000"])):
        path = write(text)
        done = octet("train", path, env=ENV)
        equal((done.code, done.out), (2, ""), f"train with {text!r}: exit, stdout", done)
        contains(done.err, f"{path}:{line}: ", f"train with {text!r}")
        for piece in pieces:
            contains(done.err, piece, f"train with {text!r}")
        lacks(done.err, "\0", f"train with {text!r}")
    # What cannot go together is found later, and still told with a line: that of the option which the message
    # names first, of those that the file set.
    tiny = "data: synthetic:samples=64,size=8\nepochs: 1\n"
    for text, arguments, line, piece in (
            ("precision: fp32\nprecision-recipe: paper\n", (), 2, "quantizes nothing"),
            ("precision-recipe: paper\nprecision: fp32\n", (), 1, "quantizes nothing"),
            ("nodes: 8\ntopology: star\nalgorithm: choco\n", (), 3, "needs a doubly stochastic W"),
            ("nodes: 8\ntopology: star\n", (), 2, "needs a doubly stochastic W"),
            ("topology: star\n", ("--algorithm", "dpsgd"), 1, "needs a doubly stochastic W"),
            ("nodes: 7\ntopology: torus:rows=4\n", (), 2, "7 nodes make no grid"),
            ("topology: torus:rows=4\n", ("--nodes", "7"), 1, "7 nodes make no grid"),
            ("momentum: qgm\nslow_momentum: 0.5\n", (), 2, "slow-momentum goes with"),
            ("own-momentum: 0.5\nmomentum: local\n", (), 1, "momentum is local here"),
            ("compensation-rounds: 4\n", (), 1, "algorithm choco has none"),
            ("lr: 0.1\nmodel: resnet20:blcks=2\n", (), 2, "no option 'blcks'"),
            ("lr: 0.1\ndata: synthetic:smples=64\n#", (), 2, "no option 'smples'"),
            ("lr: 0.1\nnodes: 65\n", (), 2, "and only 64 samples"),
            ("samples: 100\n", (), 1, "the training set has 64"),
            ("skew: 0.5\nsamples: 100\n", (), 2, "the training set has 64")):
        path = write(text + tiny)
        done = octet("train", path, *arguments, env=ENV)
        equal((done.code, done.out), (2, ""), f"train with {text!r} {arguments}: exit, stdout", done)
        contains(done.err, f"{path}:{line}: ", f"train with {text!r} {arguments}")
        contains(done.err, piece, f"train with {text!r} {arguments}")
        equal(done.err.count(f"{path}:"), 1, f"train with {text!r} {arguments}: one place")
    # Nothing of the file is to blame: the command line says it all, or has the last word.
    for text, arguments in (("lr: 0.1\n", ("--momentum", "qgm", "--slow-momentum", "0.5")),
                            ("nodes: 8\nevery: 2\nbatch: 8\n", ("--momentum", "local", "--own-momentum", "0.5")),
                            ("momentum: local\nslow-momentum: 0.1\n", ("--momentum", "qgm", "--slow-momentum", "0.5"))):
        path = write(text + tiny)
        done = octet("train", path, *arguments, env=ENV)
        equal(done.code, 2, f"train with {text!r} {arguments}: exit", done)
        lacks(done.err, path, f"train with {text!r} {arguments}")
    # A path is no name of an option, nor a run that goes on another's.
    graph = write("0 1\n1 1\n", "data/ring.txt")
    path = write(f"data: synthetic:samples=64,size=8\nnodes: 2\ntopology: file:{graph}\n")
    done = octet("train", path, env=ENV)
    contains(done.err, "an edge from 1 to itself", "a bad edge in a file called data/…")
    lacks(done.err, f"{path}:1: ", "a bad edge in a file called data/…: not the line of data")
    kept = os.path.join(folder, "kept")
    octet("train", "--data", "synthetic:samples=64,size=8", "--nodes", "2", "--epochs", "1", "--checkpoint", kept, env=ENV)
    done = octet("train", write("nodes: 2\nlr: 0.05\n"), "--resume", kept, env=ENV)
    equal(done.code, 2, "another rate than the run that goes on: exit", done)
    contains(done.err, "run.yaml:2: lr is '0.05', but the run in", "another rate than the run that goes on")
    for arguments in (("--trace-quant",), ("--save", os.path.join(folder, "m"), "--save-form", "int8")):
        done = octet("train", write("precision: fp32\n" + tiny), *arguments, env=ENV)
        equal(done.code, 2, f"train in fp32 {arguments}: exit", done)
        contains(done.err, "precision is 'fp32'", f"train in fp32 {arguments}")
        lacks(done.err, "--precision", f"train in fp32 {arguments}: nobody said --precision")
    # What is there but cannot be read is no mistake of the file's.
    done = octet("train", write("lr: 0.1\ndata: folder:/nowhere/to/be/found\n"), env=ENV)
    check(done.code != 0, f"a folder that is not there: exit {done.code}", done)
    lacks(done.err, "run.yaml:", "a folder that is not there")
    # A value that the command line overrides is checked all the same.
    done = octet("train", write("nodes: 8x\n"), "--nodes", "4", env=ENV)
    equal(done.code, 2, "a wrong value under a right option: exit", done)
    if has_json():
        value = octet_json("train", write("lr: 0.1\nnodes: 8x\n"), code=2, env=ENV)
        equal(value["error"]["status"], "INVALID", "a mistake in the file as JSON")
        contains(value["error"]["message"], "run.yaml:2: ", "a mistake in the file as JSON")

    missing = os.path.join(folder, "missing.yaml")
    done = octet("train", missing, env=ENV)
    check(done.code in (1, 2), f"train missing.yaml: exit {done.code}", done)
    contains(done.err, missing, "train missing.yaml")
    done = octet("train", good, good, env=ENV)
    equal(done.code, 2, "two run files: exit", done)

    # The example is as good as it looks.
    example = os.path.join(os.environ.get("OCT_SOURCE", "."), "examples", "run.yaml")
    done = octet("train", example, "--data", "synthetic:samples=64,size=8", "--samples", "0", "--nodes", "1",
                 "--epochs", "0", env=ENV)
    equal(done.code, 0, "examples/run.yaml: exit", done)

finish()
