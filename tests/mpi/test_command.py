#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet train over ranks: one voice, one exit code, the result of one process; mistakes that one rank makes;
stopping by a signal and going on in one process."""
import json
import os
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


def refused(n_ranks, piece, what, *command):
    begun = time.monotonic()
    got = launch(n_ranks, OCTET, "train", *command)
    check(got.code not in (0, 124), f"{what}: exit {got.code}", got.err)
    once(got.err, piece, what)
    seconds = time.monotonic() - begun
    check(seconds < 30, f"{what}: all have ended after {seconds:.1f} s")


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

# Whoever makes the mistake, it is said once, with the rank where it is one rank's, and nobody stays behind.
refused(4, "4 ranks for 3 nodes: a rank hosts at least one; start 3 (mpirun -n 3)", "more ranks than nodes", *MPI,
        "--nodes", "3")
refused(2, "--nodez is no option", "a wrong option", *MPI, "--nodez", "3")
refused(1, "rank 1 has other options than rank 0", "two runs in one", *MPI, "--epochs", "1",
        ":", "-n", "1", OCTET, "train", *MPI, "--epochs", "2")
refused(1, "rank 1: ", "data that one host has not", *MPI, "--epochs", "1",
        ":", "-n", "1", OCTET, "train", *MPI, "--epochs", "1", "--data", "folder:/nowhere/at/all")
with tempfile.TemporaryDirectory() as folder:
    here, there = os.path.join(folder, "here"), os.path.join(folder, "there")
    refused(1, f"rank 1: {there} is not the folder that rank 0 sees", "checkpoints on disks of their own", *MPI,
            "--epochs", "1", "--checkpoint", here,
            ":", "-n", "1", OCTET, "train", *MPI, "--epochs", "1", "--checkpoint", there)
    equal(os.listdir(here), [], "nothing is left of the look for it")
refused(3, "lower the learning rate", "an overflow", *MPI, "--epochs", "3", "--lr", "1e6", "--precision", "fp32")
refused(2, "--compare trains two runs in one process", "--compare over ranks", *MPI, "--compare", "fp32")

# A signal to rank 0, or to mpirun, which forwards SIGUSR1: all stop after the same step.
with tempfile.TemporaryDirectory() as folder:
    for number in (signal.SIGTERM, signal.SIGUSR1):
        kept = os.path.join(folder, number.name)
        job = start(3, OCTET, "train", *MPI, "--epochs", "100000", "--checkpoint", kept, "--every", "100000")
        text = ""
        while "epoch 3/" not in text:
            line = job.stderr.readline().decode()
            if not line:
                break
            text += line
        running = ranks(job)
        equal(sorted(running), [0, 1, 2], f"{number.name}: ranks that run", text)
        os.kill(running[0] if number == signal.SIGTERM else launcher(job), number)
        got = outcome(job)
        equal(got.code, 130, f"{number.name}: exit", got.err)
        once(got.err, "checkpoint in", f"{number.name}")
        contains(got.out, ", interrupted", f"{number.name}: the table says so")
        steps = [name for name in os.listdir(kept) if name.startswith("step-")]
        equal(len(steps), 1, f"{number.name}: checkpoints", steps)
        lacks(" ".join(steps), "partial", f"{number.name}: it is whole")
finish()
