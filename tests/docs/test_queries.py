#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/howto/runs.md: its queries run and find something, its tables are the database's."""
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

source = os.environ["OCT_SOURCE"]
octet = os.environ["OCTET"]
with open(os.path.join(source, "docs", "howto", "runs.md"), encoding="utf-8") as file:
    text = file.read()
bad = 0


def expect(condition, what):
    global bad
    bad += not condition
    print(("ok    " if condition else "FAIL  ") + what)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "runs.db")
    run = [octet, "train", "--data", "synthetic:samples=64,classes=4,size=8", "--batch", "4", "--augment", "none",
           "--model", "resnet20:width=4,blocks=1", "--epochs", "2", "--nodes", "4", "--threads", "1", "--quiet"]
    for algorithm in ("choco", "sgp"):
        done = subprocess.run([*run, "--algorithm", algorithm, "--db", path], capture_output=True, text=True, check=False)
        if "libsqlite3-dev" in done.stderr:
            print("a build without SQLite")
            sys.exit(77)
        expect(done.returncode == 0, f"train --algorithm {algorithm}: exit {done.returncode} {done.stderr}")
    connection = sqlite3.connect(path)

    queries = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    expect(len(queries) >= 5, f"{len(queries)} queries")
    for query in queries:
        rows = connection.execute(query).fetchall()
        expect(rows and None not in rows[0], f"{len(rows)} rows, the first {rows[:1]}: {' '.join(query.split())}")

    documented = {}
    for name, columns in re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE):
        documented[name] = set(re.findall(r"`(\w+)`", columns)) - {"allreduce"}
    tables = [row[0] for row in connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
    expect(sorted(tables) == sorted(documented), f"tables {sorted(tables)}, documented {sorted(documented)}")
    for table in tables:
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")} - {"has_result"}
        found = documented.get(table, set()) - {"has_result"}
        expect(columns == found, f"{table}: {len(columns)} columns; only there {columns - found}, only here {found - columns}")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    expect(f"`PRAGMA user_version` is {version}," in text, f"version {version}")
    connection.close()

sys.exit(1 if bad else 0)
