# SPDX-License-Identifier: Apache-2.0
"""octet under tests/interfere/interfere.c: killed, stopped or let down at its n-th change to a file."""
import os
import subprocess
import sys
import tempfile

from octet_cli import OCTET, PATIENCE_S, Outcome, environment, octet, skip_without_json

INTERFERE = os.path.join(os.environ.get("OCT_BUILD", os.path.dirname(OCTET)), "tests", "interfere")

# Sanitized programs are slow: they meet fewer of the windows.
SPARSE = 5 if "ASAN_OPTIONS" in os.environ else 1


def interfere(place, orders, *command, program=OCTET, patience_s=PATIENCE_S):
    """Runs octet with `orders` about everything below `place`; the outcome, and all its changes until then as
    pairs of call and path; behind a write that was cut in half, "half" and its path."""
    listing = place + ".calls"
    done = subprocess.run([INTERFERE, "--under", place, "--list", listing, *orders, "--", program, *command],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(), timeout=patience_s)
    calls = []
    if os.path.exists(listing):
        with open(listing, encoding="utf-8") as file:
            calls = [tuple(line.split(" ", 2)[1:]) for line in file.read().splitlines()]
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode()), calls


def can_interfere():
    """Whether the kernel lets it see what a command does. One that cannot be told to go on with a call leaves the
    command waiting."""
    if not os.path.exists(INTERFERE):
        return False
    with tempfile.TemporaryDirectory() as above:
        place = os.path.join(os.path.realpath(above), "place")
        os.mkdir(place)
        try:
            done, calls = interfere(place, [], f"{place}/below", program="mkdir", patience_s=10)
        except subprocess.TimeoutExpired:
            return False
        return done.code == 0 and calls == [("mkdir", f"{place}/below")]


def can_halve():
    """Whether the kernel lets it write half of what a command wanted to write."""
    with tempfile.TemporaryDirectory() as above:
        place = os.path.join(os.path.realpath(above), "place")
        os.mkdir(place)
        _, calls = interfere(place, ["--only", "write", "--short", "1"], "-c", f"echo halves > {place}/file",
                             program="sh")
        return ("half", f"{place}/file") in calls


def skip_without_records():
    """These tests read results as JSON, and runs from their record."""
    skip_without_json()
    with tempfile.TemporaryDirectory() as folder:
        if "libsqlite3-dev" in octet("runs", "--db", os.path.join(folder, "runs.db")).err:
            print("this build has no SQLite, and the runs here are recorded")
            sys.exit(77)
