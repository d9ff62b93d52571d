#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Option table, help, man page and documents agree.

options.def is read here on its own, so that a mistake in the code that prints it shows too. Every
command line in the help's examples and in the documents must be one that octet would accept.
"""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys

SOURCE = os.environ.get("OCT_SOURCE") or os.path.join(os.path.dirname(__file__), "..", "..")
sys.path.insert(0, os.path.join(SOURCE, "tests", "cli"))
sys.dont_write_bytecode = True
from octet_cli import check, contains, equal, finish, has_json, octet, octet_json  # noqa: E402

JSON = has_json()

# --- the table, as written ---------------------------------------------------------------------

with open(os.path.join(SOURCE, "src/train/options.def"), encoding="utf-8") as file:
    source = file.read()
ROW = re.compile(r'^OCT_OPTION\((\w+), (\w+), "([^"]*)", ([^,]+), ([^,]+), "([^"]*)", "([^"]*)",\s*'
                 r'"([^"]*)"\)', re.M)
table = {}
for field, kind, default, least, most, placeholder, group, summary in ROW.findall(source):
    table[field.replace("_", "-")] = {
        "type": kind.lower(), "default": default, "placeholder": placeholder, "group": group,
        "summary": summary}
equal(len(table), len(re.findall(r"^OCT_OPTION\(", source, re.M)), "rows of options.def understood")

# --- help --------------------------------------------------------------------------------------


def read_help(text):
    """{option: (heading, placeholder, description)}; the names of the common ones."""
    options, heading, name = {}, "", None
    for line in text.splitlines():
        start = re.match(r"  --([a-z-]+)(?: (\S+))?(?: {2,}(.*))?$", line)
        if start and not line.startswith("  --json --"):
            name = start[1]
            options[name] = [heading, start[2] or "", start[3] or ""]
        elif name and re.match(r" {20,}\S", line):
            options[name][2] = (options[name][2] + " " + line.strip()).strip()
        else:
            name = None
            heading = line if line and not line.startswith(" ") else heading
    common = re.findall(r"--([a-z-]+)", next((line for line in text.splitlines()
                                             if line.startswith("  --json --")), ""))
    return options, common


train, common = read_help(octet("train", "--help").out)
for name, row in table.items():
    if name not in train:
        check(False, f"train --help has --{name}")
        continue
    heading, placeholder, text = train[name]
    equal((heading, placeholder), (row["group"], row["placeholder"]), f"train --help --{name}")
    check(text.startswith(row["summary"]), f"train --help --{name} says {row['summary']!r}", text)
    if row["default"]:
        check(text.endswith(f"[{row['default']}]"), f"train --help --{name} ends with its default "
              f"[{row['default']}]", text)
    else:
        check(not text.endswith("]"), f"train --help --{name} shows no default", text)
    if row["type"] == "choice":
        choices = re.search(r"\{(.*)\}", text)
        check(bool(choices) and row["default"].split(":")[0] in choices[1], f"train --help --{name} has choices", text)
equal(sorted(set(train) - set(table)), ["compare", "save", "save-form", "skew", "trace-quant"],
      "options of train beside the table")
equal(common, ["json", "quiet", "verbose", "help"], "common options")

# --- the man page ------------------------------------------------------------------------------

manual = octet("help", "--man")
equal(manual.code, 0, "help --man: exit", manual)
equal(manual.err, "", "help --man: stderr")
page = manual.out.replace("\\-", "-")
sections = dict(re.findall(r"^\.Sh ([A-Z ]+)\n(.*?)(?=^\.Sh |\Z)", page, re.M | re.S))
for name in ("NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "ENVIRONMENT", "EXIT STATUS", "EXAMPLES"):
    check(name in sections, f"the man page has a section {name}", sorted(sections))
commands = dict(re.findall(r"^\.Ss octet ([a-z ]+)\n(.*?)(?=^\.Ss |\Z)", sections["COMMANDS"],
                           re.M | re.S))
overview = octet("help").out
listed = re.findall(r"^  ([a-z]+(?: [a-z]+)?)(?: \[?[A-Z]+(?:\.[a-z]+|\.{3})?\]?)? {2,}\S", overview.split("\nEvery")[0], re.M)
equal(sorted(commands), sorted(listed), "commands of the man page and of the help")


def read_man(text):
    """{option: (placeholder, body)} of the .It lines at the outer level."""
    items = re.findall(r"^\.It Fl Fl ([a-z-]+)(?: Ar (\S+))?\n(.*?)(?=^\.It Fl Fl |\Z)", text,
                       re.M | re.S)
    return {name: (placeholder, body) for name, placeholder, body in items}


everywhere = read_man(sections["DESCRIPTION"])
equal(sorted(everywhere), sorted(common + ["seed", "threads"]), "common options of the man page")
for command, text in commands.items():
    shown, _ = read_help(octet(*command.split(), "--help").out)
    if command == "help":
        shown = {"man": None}
    here = read_man(text)
    equal(sorted(set(here) | set(everywhere)), sorted(set(shown) | set(everywhere)),
          f"options of {command} in man page and help")
written = read_man(commands["train"])
for name, row in table.items():
    placeholder, body = written.get(name, ("", ""))
    equal(placeholder, row["placeholder"], f"man page --{name}: placeholder")
    flat = " ".join(body.split()).lower()
    check(flat.startswith(row["summary"].lower() + "."), f"man page --{name}: summary", flat[:200])
    if row["default"]:
        contains(body, f"Default:\n.Cm {row['default']} .", f"man page --{name}")
    if row["type"] == "choice":
        names = re.findall(r"^\.It Cm (\S+)$", body, re.M)
        text = train.get(name, ["", "", "{}"])[2]
        choices = re.search(r"\{(.*)\}", text)[1]
        shown = [re.sub(r"\[:\.\.\.\]| \(unavailable\)", "", item) for item in choices.split(", ")]
        equal(names, shown, f"man page --{name}: choices")

read = set()
for path in glob.glob(os.path.join(SOURCE, "programs/octet/*.c")):
    with open(path, encoding="utf-8") as file:
        read |= set(re.findall(r'getenv\("(\w+)"\)', file.read()))
check(len(read) >= 5, f"environment variables that are read: {sorted(read)}")
for name in sorted(read - {"TERM"}):
    contains(sections["ENVIRONMENT"], name, "man page ENVIRONMENT")
for code in ("0", "1", "2", "130"):
    contains(sections["EXIT STATUS"], f".It {code}\n", "man page EXIT STATUS")

mandoc = shutil.which("mandoc")
if mandoc:
    lint = subprocess.run([mandoc, "-Tlint", "-Wall"], input=manual.out.encode(),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    equal((lint.returncode, lint.stdout.decode()), (0, ""), "mandoc -Tlint")
else:
    print("note  mandoc is not installed: the man page was not linted")

# --- JSON says the same ------------------------------------------------------------------------

if JSON:
    rows = {row["name"]: row for row in octet_json("help", "train")["commands"][0]["options"]}
    for name, row in table.items():
        equal({key: rows.get(name, {}).get(key) for key in ("type", "default", "placeholder", "summary")},
              {key: row[key] for key in ("type", "default", "placeholder", "summary")},
              f"help train --json: {name}")
    equal(rows["compare"].get("choices"), rows["precision"]["choices"], "choices of --compare")
    info = octet_json("info")
    for option, kind in (("model", "models"), ("norm", "norms"), ("data", "datasets"),
                         ("engine", "engines"), ("schedule", "schedules"),
                         ("precision-recipe", "recipes"), ("partition", "partitions"), ("topology", "topologies"),
                         ("algorithm", "algorithms"), ("compress", "compressors"), ("transport", "transports")):
        equal(rows[option]["choices"], [row["name"] for row in info[kind]], f"choices of --{option}")

# --- every command line that is shown would be accepted ----------------------------------------


def acceptable(line, where):
    words = shlex.split(re.split(r"[|><;&#]", line)[0])
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    if not words or words[0] in ("sudo", "$"):
        words = words[1:]
    if not words or os.path.basename(words[0]) != "octet" or "..." in line or "…" in line:
        return 0
    arguments = [word for word in words[1:] if word != "--json" or JSON]
    done = octet(*arguments, "--help")
    # a smaller build knows what it was built without, and a machine what it has not, and says so
    lacks = re.search(r"which is unavailable: (built without|no NVIDIA GPU was found)", done.err)
    check(done.code == 0 or lacks, f"{where}: octet {' '.join(arguments)}", done.err)
    return 1


n_lines = 0
for command in commands:
    text = octet("help", *command.split()).out
    for line in text.split("\nExamples\n")[1].splitlines() if "\nExamples\n" in text else []:
        if line.startswith("  octet "):
            n_lines += acceptable(line, f"{command} --help")
check(n_lines >= 10, f"{n_lines} examples in the help")
n_lines = 0
for path in sorted(glob.glob(os.path.join(SOURCE, "*.md")) +
                   glob.glob(os.path.join(SOURCE, "docs/**/*.md"), recursive=True)):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for block in re.findall(r"^```[a-z]*\n(.*?)^```", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if re.match(r"\s*(\$ )?([A-Z_]+=\S+ )*(\S*/)?octet [a-z]", line):
                n_lines += acceptable(line.strip(), os.path.relpath(path, SOURCE))
print(f"note  {n_lines} command lines in the documents")

finish()
