#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C: the first stops after the step and reports what was learned (130), the second ends it."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time

from octet_cli import (OCTET, PATIENCE_S, SOLO, Terminal, check, contains, environment, equal, finish,
                       has_json, lacks, octet)

ENDLESS = ["train", *SOLO, "--epochs", "1000000"]


def read_to(process, piece):
    """What the program says on stderr, up to and with the first line that has `piece`."""
    text = ""
    while piece not in text.rpartition("\n")[0].rpartition("\n")[2]:
        line = process.stderr.readline().decode()
        if not line:
            break
        text += line
    contains(text, piece, "the run began")
    return text


def stop_after_an_epoch(number, *more, begun=None):
    """Runs, waits for the first epoch's line (behind a line `begun`), sends the signal; returns code,
    stdout, stderr."""
    process = subprocess.Popen([OCTET, *ENDLESS, *more], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    first = read_to(process, "epoch 1/1000000")
    if begun:
        contains(first, begun, "the run began")
    process.send_signal(number)
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        check(False, f"ends within {PATIENCE_S} s of {signal.Signals(number).name}")
    return process.returncode, out.decode(), first + err.decode()


for number in (signal.SIGINT, signal.SIGTERM):
    name = signal.Signals(number).name
    code, out, err = stop_after_an_epoch(number)
    equal(code, 130, f"{name}: exit", out, err)
    contains(out, ", interrupted", f"{name}: the table says so")
    check("accuracy" in out and "%" in out, f"{name}: a result is printed", out)
    contains(err, "stopping after this step", f"{name}: said on stderr")
    contains(err, "not kept: with --checkpoint DIR", f"{name}: what would have kept it")

if has_json():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        code, out, err = stop_after_an_epoch(signal.SIGINT, "--json", "--save", path)
        equal(code, 130, "SIGINT with --json: exit", out, err)
        value = json.loads(out)
        equal(value.get("interrupted"), True, "SIGINT with --json: interrupted")
        check(value.get("epochs", 0) >= 1, f"SIGINT with --json: epochs {value.get('epochs')}")
        check(isinstance(value.get("accuracy"), float), f"accuracy {value.get('accuracy')}")
        check(os.path.getsize(path) > 1000, "SIGINT with --save: what was learned is saved")

# A terminal that closes, perhaps told twice, stops it as well; not one that was started with nohup.
with tempfile.TemporaryDirectory() as folder:
    kept = os.path.join(folder, "kept")
    process = subprocess.Popen([OCTET, *ENDLESS, "--checkpoint", kept, "--every", "1000000"], env=environment(),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    read_to(process, "epoch 1/1000000")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.02)  # or both would be one
    process.send_signal(signal.SIGHUP)
    out, err = (text.decode() for text in process.communicate(timeout=PATIENCE_S))
    equal(process.returncode, 130, "SIGHUP: exit", out, err)
    contains(err, f"checkpoint in {kept}", "SIGHUP: what was learned is kept")
    check(any(name.startswith("step-") for name in os.listdir(kept)), "SIGHUP: a checkpoint", os.listdir(kept))
process = subprocess.Popen([OCTET, *ENDLESS], env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
text = read_to(process, "epoch 1/1000000")
process.send_signal(signal.SIGHUP)
for _ in range(50):
    text += process.stderr.readline().decode()
lacks(text, "stopping", "nohup: SIGHUP is ignored")
equal(process.poll(), None, "nohup: it goes on")
process.send_signal(signal.SIGINT)
process.communicate(timeout=PATIENCE_S)
equal(process.returncode, 130, "nohup, then SIGINT: exit")

# Nobody reads along any more: training goes on to its end.
process = subprocess.Popen([OCTET, "train", *SOLO, "--epochs", "40"], env=environment(), stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
read_to(process, "epoch 1/40")
process.stderr.close()
out = process.stdout.read().decode()
equal(process.wait(timeout=PATIENCE_S), 0, "stderr closed: exit", out)
contains(out, "40 epochs", "stderr closed: the result")

# A folder of checkpoints is one process's at a time.
with tempfile.TemporaryDirectory() as folder:
    kept = os.path.join(folder, "kept")
    process = subprocess.Popen([OCTET, *ENDLESS, "--checkpoint", kept], env=environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    read_to(process, "epoch 2/1000000")
    for what, arguments in (("--resume", ["--resume", kept, "--db", "none"]),
                            ("--checkpoint", [*SOLO, "--checkpoint", kept, "--db", "none"])):
        done = octet("train", *arguments)
        equal(done.code, 1, f"{what} of a run that is under way: exit", done)
        contains(done.err, f"kept: process {process.pid} is writing into it; let that end, or use another folder", what)
    process.send_signal(signal.SIGINT)
    out, err = (text.decode() for text in process.communicate(timeout=PATIENCE_S))
    equal(process.returncode, 130, "the other goes on, and ends when told: exit", out, err)
    contains(err, f"to go on: octet train --resume {kept}", "… with a checkpoint")
    check(all(name.startswith("step-") for name in os.listdir(kept)), "the lock goes with it", os.listdir(kept))

# With --compare: stopped in the first run, there is no second; stopped in the second, which is long in
# int8-sim, the first is reported whole, and beside it what the second had learned.
code, out, err = stop_after_an_epoch(signal.SIGINT, "--compare", "fp32", begun="run 1 of 2: int8")
equal(code, 130, "SIGINT in the first of two runs: exit", out, err)
contains(out, ", interrupted", "SIGINT in the first of two runs")
check("run 2 of 2" not in err and "fp32" not in out, "the second run did not begin", out, err)
SECOND = ["train", *SOLO, "--model", "resnet20:width=8,blocks=1", "--epochs", "20", "--compare", "int8-sim"]
for more in ([], ["--json"]) if has_json() else ([],):
    process = subprocess.Popen([OCTET, *SECOND, *more], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    read_to(process, "run 2 of 2: int8-sim")
    process.send_signal(signal.SIGINT)
    out, err = (text.decode() for text in process.communicate(timeout=PATIENCE_S))
    equal(process.returncode, 130, "SIGINT in the second run: exit", out, err)
    contains(err, "stopping after this step", "SIGINT in the second run")
    if more:
        value = json.loads(out)
        equal((value["interrupted"], value["compare"]["interrupted"]), (True, True), "interrupted")
        equal(value["epochs"], 20, "epochs of the first run")
        check(value["compare"]["epochs"] < 20, f"epochs of the second: {value['compare']['epochs']}")
        check(0 <= value["accuracy"] <= 100, f"accuracy of the first run: {value['accuracy']}")
    else:
        contains(out, "int8 beside int8-sim, 20 epochs\n", "SIGINT in the second run: title")
        contains(out, "int8-sim, stopped", "SIGINT in the second run: its column")
        check(re.search(r"^epochs +20 +\d+$", out, re.M), "SIGINT in the second run: epochs", out)
        check(re.search(r"^accuracy +\d+\.\d\d % +\d+\.\d\d %", out, re.M), "two accuracies", out)

# On a terminal: stopped in the first epoch, before any row; the bar is gone.
terminal = Terminal("train", "--nodes", "1", "--data", "synthetic:samples=20000,size=8", "--threads", "1")
check(terminal.wait_for("epoch  1/10"), "the bar appeared", terminal.raw[-500:])
terminal.signal(signal.SIGINT)
equal(terminal.finish(), 130, "SIGINT in the first epoch on a terminal: exit", terminal.raw[-500:])
screen = terminal.screen()
check(not any("━" in line for line in screen), "no bar is left", screen)
check(any("0 epochs, interrupted" in line for line in screen), "0 epochs were finished", screen)

# A second one while the result is being evaluated ends it, as if there were no handler.
terminal = Terminal("train", "--nodes", "1", "--data", "synthetic:samples=12000,size=32", "--threads", "1")
check(terminal.wait_for("epoch  1/10"), "the bar appeared", terminal.raw[-500:])
terminal.signal(signal.SIGINT)
check(terminal.wait_for("stopping after this step"), "the first is answered", terminal.raw[-500:])
terminal.signal(signal.SIGINT)
equal(terminal.finish(), -signal.SIGINT, "a second SIGINT kills: exit", terminal.raw[-500:])

finish()
