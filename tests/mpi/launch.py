# SPDX-License-Identifier: Apache-2.0
"""What the scripts beside this file share: starting ranks with scripts/mpirun, and finding their processes."""
import os
import subprocess
import sys

SOURCE = os.environ.get("OCT_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(SOURCE, "tests", "cli"))

from octet_cli import Outcome, environment  # noqa: E402

WRAPPER = os.path.join(SOURCE, "scripts", "mpirun")


def start(n_ranks, *command, **changes):
    """A job of so many ranks, in a process group of its own."""
    return subprocess.Popen([WRAPPER, str(n_ranks), *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environment(**changes), start_new_session=True)


def outcome(job):
    """Waits for it; the wrapper has a limit."""
    out, err = job.communicate()
    return Outcome(job.returncode, out.decode(), err.decode())


def launch(n_ranks, *command, **changes):
    return outcome(start(n_ranks, *command, **changes))


def _parents():
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().decode(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                found[int(name)] = int(fields[1])
    return found


def is_running(process):
    return process in _parents()


def launcher(job):
    """The process id of mpirun itself: the wrapper has become `timeout`, whose child it is."""
    return next(process for process, parent in _parents().items() if parent == job.pid)


def ranks(job):
    """{rank: process id} of those that are running."""
    parents, found = _parents(), {}
    for process in parents:
        above = process
        while above in parents and above != job.pid:
            above = parents[above]
        if above != job.pid:
            continue
        try:
            with open(f"/proc/{process}/environ", "rb") as file:
                variables = dict(item.partition(b"=")[::2] for item in file.read().split(b"\0"))
        except OSError:
            continue
        number = variables.get(b"OMPI_COMM_WORLD_RANK", variables.get(b"PMI_RANK"))
        if number is not None:
            found[int(number)] = process
    return found
