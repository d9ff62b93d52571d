#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet train over ranks: one voice, one exit code, the result of one process; mistakes that one rank makes;
stopping by a signal and going on in one process."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time

from launch import environment, launch, launcher, outcome, ranks, start
from octet_cli import OCTET, TINY, check, contains, equal, finish, has_json, lacks

MPI = [*TINY, "--transport", "mpi", "--db", "none"]
# What two runs have in common, whoever hosts their nodes.
SAME = ["accuracy", "accuracy_nodes", "accuracy_least", "accuracy_most", "nodes_tested", "loss", "train_loss",
        "consensus_distance", "bytes_sent", "bytes_final", "bytes_dense", "messages", "epochs", "n_parameters",
        "model_sha256"]


def alone(*arguments):
    done = subprocess.run([OCTET, "train", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(), timeout=120, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def same(out, expected, what):
    got, wanted = json.loads(out), json.loads(expected)
    for key in SAME:
        equal(got[key], wanted[key], f"{what}: {key}")


def once(text, piece, what):
    equal(text.count(piece), 1, f"{what}: times that it says {piece!r}", text)


def refused(n_ranks, code, piece, what, *command):
    begun = time.monotonic()
    got = launch(n_ranks, OCTET, "train", *command)
    equal(got.code, code, f"{what}: exit", got.err)
    once(got.err, piece, what)
    seconds = time.monotonic() - begun
    check(seconds < 30, f"{what}: all have ended after {seconds:.1f} s")


def array(path, kind, shape, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(values))


def arrays(folder, n, n_classes, first=0):
    """A dataset of n pictures, as --data npy: takes it; labels begin with `first`."""
    os.mkdir(folder)
    for name in ("train", "test"):
        array(os.path.join(folder, f"{name}_images.npy"), "|u1", (n, 8, 8), [i * 37 % 256 for i in range(n * 64)])
        array(os.path.join(folder, f"{name}_labels.npy"), "|u1", (n,), [(i + first) % n_classes for i in range(n)])


if has_json():
    RUN = ["--epochs", "2", "--algorithm", "sgp", "--topology", "exponential", "--json"]
    code, expected, err = alone(*TINY, *RUN, "--db", "none")
    equal(code, 0, "in one process: exit", err)
    code, out, err = alone(*MPI, *RUN)
    equal(code, 0, "transport mpi without mpirun: exit", err)
    same(out, expected, "transport mpi without mpirun")
    with tempfile.TemporaryDirectory() as folder:
        model, database = os.path.join(folder, "model.safetensors"), os.path.join(folder, "runs.db")
        got = launch(3, OCTET, "train", *TINY, "--transport", "mpi", *RUN, "--save", model, "--db", database)
        equal(got.code, 0, "3 ranks: exit", got.err)
        same(got.out, expected, "3 ranks")
        once(got.err, "epoch 2/2", "3 ranks")
        contains(got.err, "8 nodes on 3 ranks", "3 ranks: the opening")
        check(os.path.getsize(model) > 0, "3 ranks: the model is saved")
        listed = subprocess.run([OCTET, "runs", "--db", database, "--json"], stdout=subprocess.PIPE,
                                env=environment(), check=True)
        equal(len(json.loads(listed.stdout)["runs"]), 1, "3 ranks: runs on record")

# A rank holds the samples of its own nodes: all ranks together hold each sample once, and none holds much more than its
# share. The model is that of one process that holds them all, also where the data's mean is measured.
HOLDS = re.compile(r"rank (\d+) holds (\d+) of (\d+) training samples")
KEEP = ["sh", "-c", 'exec "$@" 2>"$0-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"']
with tempfile.TemporaryDirectory() as folder:
    own = os.path.join(folder, "own")
    arrays(own, 96, 4)
    for n_ranks, n_used, most, options in (
            (2, 64, 32, []), (4, 64, 16, []), (3, 64, 24, ["--partition", "skew:0"]), (4, 40, 10, ["--samples", "40"]),
            (2, 64, 63, ["--partition", "dirichlet:0.1"]), (4, 96, 24, ["--data", f"npy:{own},pad=2"])):
        what = f"{n_ranks} ranks {' '.join(options).replace(own, 'OWN')}"
        said = os.path.join(folder, f"said-{n_ranks}")
        arguments = [*TINY, "--db", "none", "--epochs", "1", *options, "--json"]
        got = launch(n_ranks, *KEEP, said, OCTET, "train", *arguments, "--transport", "mpi", "--verbose")
        equal(got.code, 0, f"{what}: exit", got.err)
        held = []
        for rank in range(n_ranks):
            with open(f"{said}-{rank}", encoding="utf-8") as file:
                found = HOLDS.findall(file.read())
            equal([line[0] for line in found], [str(rank)], f"{what}: rank {rank} says what it holds, once")
            held += [int(line[1]) for line in found]
        equal(sum(held), n_used, f"{what}: samples of all ranks together", held)
        check(held and max(held) <= most, f"{what}: a rank holds {max(held, default=0)}, at most {most} expected")
        if has_json():
            code, expected, err = alone(*arguments)
            equal(code, 0, f"{what}: in one process: exit", err)
            same(got.out, expected, what)

# Without the transport mpirun starts so many runs, which is rarely what was meant.
got = launch(2, OCTET, "train", *TINY, "--epochs", "1", "--db", "none")
equal(got.code, 0, "mpirun without transport mpi: exit", got.err)
once(got.err, "octet train: started 2 times, each a run of its own; for one run over all of them: --transport mpi",
     "mpirun without transport mpi")
lacks(launch(1, OCTET, "train", *TINY, "--epochs", "1", "--db", "none").err, "started", "one process of mpirun")

# Whoever makes the mistake, it is said once, with the rank where it is one rank's, and nobody stays behind.
refused(4, 2, "4 ranks for 3 nodes: a rank hosts at least one; start 3 (mpirun -n 3)", "more ranks than nodes", *MPI,
        "--nodes", "3")
refused(2, 2, "--nodez is no option", "a wrong option", *MPI, "--nodez", "3")
refused(1, 2, "rank 1 has other options than rank 0", "two runs in one", *MPI, "--epochs", "1",
        ":", "-n", "1", OCTET, "train", *MPI, "--epochs", "2")
refused(1, 1, "rank 1: ", "data that one host has not", *MPI, "--epochs", "1",
        ":", "-n", "1", OCTET, "train", *MPI, "--epochs", "1", "--data", "folder:/nowhere/at/all")
with tempfile.TemporaryDirectory() as folder:
    here, there = os.path.join(folder, "here"), os.path.join(folder, "there")
    refused(1, 2, f"rank 1: {there} is not the folder that rank 0 sees", "checkpoints on disks of their own", *MPI,
            "--epochs", "1", "--checkpoint", here,
            ":", "-n", "1", OCTET, "train", *MPI, "--epochs", "1", "--checkpoint", there)
    equal(os.listdir(here), [], "nothing is left of the look for it")

    # Options and data that a run's number does not tell apart. "npy:." is another folder for each rank.
    def pair(first, second):
        return (*MPI, "--epochs", "1", *first, ":", "-n", "1", OCTET, "train", *MPI, "--epochs", "1", *second)

    refused(1, 2, "rank 1 has every 3 and rank 0 1", "checkpoints at other times",
            *pair(["--checkpoint", here], ["--checkpoint", here, "--every", "3"]))
    refused(1, 2, "rank 1 is to write none and rank 0 some", "a rank without checkpoints",
            *pair(["--checkpoint", here], []))
    refused(1, 2, "rank 1 has eval-nodes 2 and rank 0 0", "other nodes to test", *pair([], ["--eval-nodes", "2"]))
    refused(1, 2, "rank 1 has test-every 2 and rank 0 1", "other epochs to test", *pair([], ["--test-every", "2"]))
    # Left to themselves, ranks agree on when; so short a run has a checkpoint of its end alone.
    seldom = os.path.join(folder, "seldom")
    got = launch(3, OCTET, "train", *MPI, "--epochs", "3", "--test-every", "2", "--checkpoint", seldom, "--every", "0")
    equal(got.code, 0, "--every 0 on 3 ranks: exit", got.err)
    equal(len([name for name in os.listdir(seldom) if name.startswith("step-")]), 1, "--every 0: checkpoints of 3 epochs", got.err)
    contains(got.err, "in a fiftieth of the time", "--every 0: the opening")
    own_data = [*MPI, "--data", "npy:.", "--epochs", "1"]
    arrays(os.path.join(folder, "a"), 64, 4)
    arrays(os.path.join(folder, "b"), 48, 4)
    arrays(os.path.join(folder, "c"), 64, 3)
    arrays(os.path.join(folder, "d"), 64, 4, first=1)
    for name, piece in (("a", None), ("b", "rank 1 has training samples: 48 and rank 0 64"),
                        ("c", "rank 1 has classes: 3 and rank 0 4"), ("d", "rank 1 has as many samples as rank 0")):
        enter = ["sh", "-c", 'cd "$0" && exec "$@"']
        got = launch(1, *enter, os.path.join(folder, "a"), OCTET, "train", *own_data,
                     ":", "-n", "1", *enter, os.path.join(folder, name), OCTET, "train", *own_data)
        equal(got.code, 2 if piece else 0, f"data of rank 1 in {name}: exit", got.err)
        if piece:
            once(got.err, piece, f"data of rank 1 in {name}")
refused(3, 1, "lower the learning rate", "an overflow", *MPI, "--epochs", "3", "--lr", "1e6", "--precision", "fp32")
refused(2, 2, "--compare trains two runs in one process", "--compare over ranks", *MPI, "--compare", "fp32")

# A signal to rank 0, or to mpirun, which forwards SIGUSR1: all stop after the same step.
with tempfile.TemporaryDirectory() as folder:
    for n_ranks, number in ((3, signal.SIGTERM), (3, signal.SIGUSR1), (1, signal.SIGUSR1)):
        kept = os.path.join(folder, f"{number.name}-{n_ranks}")
        job = start(n_ranks, OCTET, "train", *MPI, "--epochs", "100000", "--checkpoint", kept, "--every", "100000")
        text = ""
        while "epoch 3/" not in text:
            line = job.stderr.readline().decode()
            if not line:
                break
            text += line
        running = ranks(job)
        equal(sorted(running), list(range(n_ranks)), f"{number.name}: ranks that run", text)
        os.kill(running[0] if number == signal.SIGTERM else launcher(job), number)
        got = outcome(job)
        # MPICH's launcher forwards a signal and now and then says 0 whatever its ranks say.
        is_forgetful = number == signal.SIGUSR1 and "mpich" in os.environ.get("MPIRUN", "")
        equal(got.code, 0 if is_forgetful and got.code == 0 else 130, f"{number.name}: exit", got.err)
        once(got.err, "checkpoint in", f"{number.name}")
        contains(got.out, ", interrupted", f"{number.name}: the table says so")
        steps = [name for name in os.listdir(kept) if name.startswith("step-")]
        equal(len(steps), 1, f"{number.name}: checkpoints", steps)
        lacks(" ".join(steps), "partial", f"{number.name}: it is whole")
finish()
