#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C: the first stops after the step and reports what was learned (130), the second ends it."""
import json
import os
import signal
import subprocess
import tempfile

from octet_cli import (OCTET, PATIENCE_S, TINY, Terminal, check, contains, environment, equal, finish,
                       has_json)

ENDLESS = ["train", *TINY, "--epochs", "1000000"]


def stop_after_an_epoch(number, *more):
    """Runs, waits for the first epoch's line, sends the signal; returns code, stdout, stderr."""
    process = subprocess.Popen([OCTET, *ENDLESS, *more], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    first = process.stderr.readline().decode()
    contains(first, "epoch 1/1000000", "the run began")
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

# On a terminal: stopped in the first epoch, before any row; the bar is gone.
terminal = Terminal("train", "--data", "synthetic:samples=20000,size=8", "--threads", "1")
check(terminal.wait_for("epoch  1/10"), "the bar appeared", terminal.raw[-500:])
terminal.signal(signal.SIGINT)
equal(terminal.finish(), 130, "SIGINT in the first epoch on a terminal: exit", terminal.raw[-500:])
screen = terminal.screen()
check(not any("━" in line for line in screen), "no bar is left", screen)
check(any("0 epochs, interrupted" in line for line in screen), "0 epochs were finished", screen)

# A second one while the result is being evaluated ends it, as if there were no handler.
terminal = Terminal("train", "--data", "synthetic:samples=12000,size=32", "--threads", "1")
check(terminal.wait_for("epoch  1/10"), "the bar appeared", terminal.raw[-500:])
terminal.signal(signal.SIGINT)
check(terminal.wait_for("stopping after this step"), "the first is answered", terminal.raw[-500:])
terminal.signal(signal.SIGINT)
equal(terminal.finish(), -signal.SIGINT, "a second SIGINT kills: exit", terminal.raw[-500:])

finish()
