# SPDX-License-Identifier: Apache-2.0
"""What the benchmark scripts share: running octet, telling how far they are, tables, drawings, marks in documents."""
import contextlib
import html
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OCTET = ROOT / "build" / "release" / "octet"


class Failure(Exception):
    """Something to tell the user in a line."""


class Progress:
    """One line on stderr: redrawn on a terminal, a line for each new phase elsewhere."""

    def __init__(self):
        self.is_terminal, self.started, self.phase = sys.stderr.isatty(), time.monotonic(), None

    def seconds(self):
        return time.monotonic() - self.started

    def say(self, phase, what):
        if self.is_terminal:
            print(f"\r\033[K{phase}: {what}, {self.seconds():.0f} s so far", end="", file=sys.stderr, flush=True)
        elif phase != self.phase:
            print(phase, file=sys.stderr, flush=True)
        self.phase = phase

    def clear(self):
        if self.is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def complain(program, error):
    """Tells the user in a line, over a progress line that may stand there."""
    Progress().clear()
    print(f"{program}: {error}", file=sys.stderr)


def run_measured(command):
    """The JSON object that a program prints, and the most memory it had, in bytes."""
    words = [str(word) for word in command]
    # Stderr goes to a file: a pipe that is not read before stdout ends would fill up and stop the program.
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        except OSError as error:
            raise Failure(f"{words[0]}: {error.strerror}; build it, or name it with --octet") from error
        with process:
            out = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace")
    if process.returncode != 0:
        last = said.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        raise Failure(f"{' '.join(words)}: {last[0]}")
    try:
        return json.loads(out), usage.ru_maxrss * 1024
    except ValueError as error:
        raise Failure(f"{' '.join(words)} printed no JSON: {error}") from error


def run(command):
    """The JSON object that a program prints."""
    return run_measured(command)[0]


@contextlib.contextmanager
def reading(path, what):
    """While an earlier result is used: whatever is missing or odd in it means that it is no such file."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise Failure(f"{path}: not a {what}") from error


def machine_of(octet):
    """What octet knows about the machine it runs on."""
    info = run([octet, "info", "--json"])
    return {"cpu": info["cpu"]["brand"], "threads": info["cpu"]["threads"], "level": info["cpu"]["level"],
            "version": info["version"]}


# --- numbers and tables ------------------------------------------------------------------------

def count(x):
    return f"{x:,.0f}"


def percent(x):
    return "" if x is None else f"{100 * x:.0f} %"


def text_table(heads, rows):
    """Columns that line up; a head that begins with > stands above numbers."""
    right = [head.startswith(">") for head in heads]
    lines = [[head.lstrip(">") for head in heads], *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]

    def join(line):
        cells = (cell.rjust(width) if is_right else cell.ljust(width)
                 for cell, width, is_right in zip(line, widths, right))
        return "  ".join(cells).rstrip()

    return "\n".join([join(lines[0]), "─" * (sum(widths) + 2 * len(widths) - 2), *map(join, lines[1:])])


def markdown_table(heads, rows):
    rule = ["---:" if head.startswith(">") else "---" for head in heads]
    return "\n".join("| " + " | ".join(line) + " |" for line in [[head.lstrip(">") for head in heads], rule, *rows])


def rewrite(path, name, text):
    """Puts `text` between <!-- NAME:begin --> and <!-- NAME:end --> of a document."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    document = path.read_text(encoding="utf-8")
    if document.count(begin) != 1 or document.count(end) != 1 or document.index(begin) > document.index(end):
        raise Failure(f"{path} must have one {begin} and one {end} after it")
    head, tail = document.split(begin)[0], document.split(end)[1]
    path.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")


# --- drawings ----------------------------------------------------------------------------------

# The colours of octet's own drawings, for a light and a dark page.
STYLE = """text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:13px;fill:#1b2530}
.title{font-size:17px;font-weight:600}
.strong{font-weight:600}
.dim{font-size:12px;fill:#5b6876}
.paper{fill:#ffffff}
.line{stroke:#8794a3;fill:none}
.grid{stroke:#d8dee6;fill:none}
.c0{fill:#3b73c4}.c1{fill:#dd7a2c}
.s0{stroke:#3b73c4;stroke-width:2;fill:none}.s1{stroke:#dd7a2c;stroke-width:2;fill:none}
.t0{fill:#2b5fab}.t1{fill:#b35a14}
@media (prefers-color-scheme:dark){
text{fill:#e4eaf1}.dim{fill:#9aa8b7}.paper{fill:#11161d}
.line{stroke:#74818f}.grid{stroke:#2f3945}
.c0{fill:#6b9fe8}.c1{fill:#f0954f}.s0{stroke:#6b9fe8}.s1{stroke:#f0954f}.t0{fill:#8cb6f2}.t1{fill:#f4aa70}
}"""


class Svg:
    """A drawing that grows element by element; coordinates are pixels from the upper left corner."""

    def __init__(self, width, height, title, description, style=STYLE, is_card=False):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'role="img" aria-labelledby="title desc">',
            f'<title id="title">{html.escape(title)}</title>',
            f'<desc id="desc">{html.escape(description)}</desc>',
            f"<style>\n{style}\n</style>"]
        if is_card:
            # Half a pixel within, so that its border is one sharp pixel.
            self.rect("paper", 0.5, 0.5, width - 1, height - 1, radius=8)
        else:
            self.parts.append(f'<rect class="paper" width="{width}" height="{height}"/>')

    def text(self, kind, x, y, content, anchor="start"):
        self.parts.append(f'<text class="{kind}" x="{x:.5g}" y="{y:.5g}" text-anchor="{anchor}">'
                          f"{html.escape(content)}</text>")

    def line(self, kind, x1, y1, x2, y2):
        self.parts.append(f'<line class="{kind}" x1="{x1:.5g}" y1="{y1:.5g}" x2="{x2:.5g}" y2="{y2:.5g}"/>')

    def path(self, kind, points):
        self.parts.append(f'<polyline class="{kind}" points="' + " ".join(f"{x:.5g},{y:.5g}" for x, y in points) + '"/>')

    def circle(self, kind, x, y, radius, what=""):
        self.parts.append(f'<circle class="{kind}" cx="{x:.5g}" cy="{y:.5g}" r="{radius:.3g}">'
                          f"<title>{html.escape(what)}</title></circle>")

    def rect(self, kind, x, y, width, height, what="", radius=0):
        corners = f' rx="{radius:g}"' if radius else ""
        end = f"><title>{html.escape(what)}</title></rect>" if what else "/>"
        self.parts.append(f'<rect class="{kind}" x="{x:.5g}" y="{y:.5g}" width="{width:.5g}" height="{height:.5g}"'
                          f"{corners}{end}")

    def finish(self):
        return "\n".join(self.parts) + "\n</svg>\n"


def nice_step(most, n_lines):
    """The distance of at most so many grid lines: 1, 2 or 5 times a power of ten."""
    power = 1.0
    while True:
        for step in (power, 2 * power, 5 * power):
            if most / step <= n_lines:
                return step
        power *= 10
