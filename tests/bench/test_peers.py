#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers.py: PyTorch's networks are Octet's in size, their mathematics holds, and they learn.

Skipped (exit 77) where no interpreter has PyTorch.
"""
import json
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(os.environ.get("OCT_SOURCE") or pathlib.Path(__file__).parents[2])
sys.dont_write_bytecode = True
sys.path[:0] = [str(SOURCE / "tests" / "cli"), str(SOURCE / "bench")]
import compare  # noqa: E402
from octet_cli import OCTET, check, equal, finish, has_json  # noqa: E402

python = compare.find_python(None)
if not python:
    print("no PyTorch; scripts/setup golden installs it")
    sys.exit(77)


def run(*arguments):
    # One thread: on a busy machine PyTorch's threads wait for one another far longer than they work.
    command = [python, "-B", str(SOURCE / "bench" / "peers.py"), "--threads", "1", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=250)


done = run("--check")
print(done.stdout)
equal(done.returncode, 0, "peers.py --check: exit", done.stderr)

for peer, norm in compare.NORMS.items():
    done = run(peer, "--batch", "2,4", "--layout", "nchw,nhwc", "--seconds", "0.01")
    equal(done.returncode, 0, f"{peer}: exit", done.stderr)
    settings = json.loads(done.stdout)["settings"] if done.returncode == 0 else []
    equal([(setting["batch"], setting["layout"]) for setting in settings],
          [(2, "nchw"), (2, "nhwc"), (4, "nchw"), (4, "nhwc")], f"{peer}: settings")
    speeds = [(setting["samples_per_s"], setting["samples_per_s_most"]) for setting in settings]
    check(all(0 < median <= most for median, most in speeds), f"{peer}: samples/s, median and most {speeds}")
    if has_json():
        equal({setting["n_parameters"] for setting in settings}, {compare.count_parameters(OCTET, norm)},
              f"{peer}: parameters, as Octet's {norm} has")

equal(run().returncode, 2, "no peer named: exit")
equal(run("resnet").returncode, 2, "an unknown peer: exit")
finish()
