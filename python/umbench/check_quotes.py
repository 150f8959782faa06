"""Holds the figures that pages quote to the records that they come from.

    python3 python/start.py check_quotes [--builds] [PAGE.md ...]      without pages: README.md and docs/*.md

A figure is a number with a unit of time, rate or share, a factor (1.2x, 3 times), "5 of 7", or a number with a
decimal point in a table. In README.md and docs/ each needs a comment right behind its paragraph, list item or table,
which a reader of the page does not see:

    <!-- from results/study/best_h200.jsonl
    16.7 ms = median("resnet50 device")
    1.12x, 1.20x = [slowdown(f"resnet50 best x{r:.2f}") for r in (1.25, 3)]
    -->
    <!-- table: umbench plot table FILE.jsonl --markdown --> every row of the table is one that the command prints
    <!-- given: 5 %, 10 us -->                                limits, settings and other people's figures
    <!-- tested: tests/results/test_gate.py -->               a test of that name compares the figures itself

What stands right of `=` is Python with the functions of `Figures` below; times are in ns, shares of 1, rates in units a
second, and the text's unit and decimals say how the value is rounded. Exit code 1: something is wrong, a line each.
"""

import argparse
import functools
import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

from umbench import load, places

ROOT = places.TOP

UNITS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "%": 0.01, "x": 1, "×": 1, "times": 1, "": 1,
         "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "GB": 1e9, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12, "GiB/s": 2**30,
         "TFLOP/s": 1e12}
FACTORS = "(?:x|×| ?(?:ms|us|µs|ns|s|min|%|times|[KMG]i?B/s|TB/s|TFLOP/s|seconds|minutes))"
NUMBER = r"(?<![\w.,/#-])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
UNIT = rf"(?:{FACTORS}(?![\w/])|(?<=\.\d) [KMGT]i?B|(?<=\.\d\d) [KMGT]i?B)"
LISTED = r"(?=(?:(?:,| and| or| to| /) \d[\d.]*)+" + UNIT + ")"  # 1.1, 2 and 3 ms
IN_TEXT = re.compile(rf"{NUMBER}(?:{UNIT}|{LISTED}| of (?:the )?\d+)")
IN_TABLE = re.compile(rf"{NUMBER}{UNIT}|(?<![\w.,/#-])\d+\.\d+(?: [KMGT]i?B)?")
RATIO = re.compile(rf"\b(?:ratio|at) \d+(?:\.\d+)?(?!\.?\d|{UNIT})")  # where, not what
LITERAL = re.compile(r"([+-]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?) ?([^\d\s]\S*)?$")
COMMENT = re.compile(r"<!--(.*?)-->", re.S)

Block = namedtuple("Block", "line text comments")  # comments: [(line, text), ...]


class Wrong(Exception):
    """One line on what does not hold."""


# --- a page -> its blocks ---

def blocks(text):
    """Paragraphs, list items and tables, code left out, each with the comments right behind it."""
    text = re.sub(r"(?ms)^( *)```.*?^\1```$", lambda code: "\n" * code[0].count("\n"), text)
    comments = {}

    def mark(comment):
        line = 1 + text.count("\n", 0, comment.start())
        comments[line] = comment[1].strip()
        return "\x00" + "\n\x01" * comment[0].count("\n")

    marked = COMMENT.sub(mark, text).split("\n")
    found, taking = [], False
    for number, line in enumerate(marked, start=1):
        bare = line.replace("\x00", "").replace("\x01", "")
        if bare.strip():
            fresh = re.match(r" *(?:[-*]|\d+\.) ", bare) or bare.startswith("#")
            table = bare.startswith("|")
            if bare.startswith("    ") and not taking:
                continue  # code
            if not taking or fresh or (table != found[-1].text.startswith("|")) or found[-1].comments:
                found.append(Block(number, "", []))
            found[-1] = found[-1]._replace(text=found[-1].text + bare + "\n")
            taking = not bare.startswith("#")
        elif "\x01" not in line and "\x00" not in line:
            taking = False
        if "\x00" in line:
            if not found:
                raise Wrong(f"{number}: a comment with nothing before it")
            found[-1].comments.append((number, comments[number]))
    return found


def plain(text):
    """Without code, targets of links, emphasis and what only looks like a figure."""
    text = re.sub(r"`[^`]*`|\barXiv \S+", " ", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return text.replace("**", "").replace("\n", " ").replace("*", "").replace("\\", "")


def figures_in(block):
    """The figures that need a comment, as they stand in the text."""
    if block.text.startswith("|"):
        rows = block.text.splitlines()
        return [each[0].strip() for row in rows[2:] for cell in plain(row).split("|")[1:] for each in IN_TABLE.finditer(cell)]
    return [each[0].strip() for each in IN_TEXT.finditer(RATIO.sub(" ", plain(block.text)))]


# --- comments ---

class Figures:
    """What the right side of a line may call: figures of the records of some files. `words` name one cell by its
    strategy (with knobs that vary), network, b64 (batch), x1.50 (ratio), precision, level, mode, backend,
    256MiB (workspace), insize=448 and other knobs."""

    def __init__(self, paths):
        self.paths = paths
        for path in paths:
            if not (ROOT / path).is_file():
                raise Wrong(f"{path}: no such file")

    @functools.cached_property
    def records(self):
        return [(_words(record, label), record) for record, label in zip(*_labelled(tuple(self.paths)))]

    def cells(self, words=""):
        return [record for known, record in self.records if set(words.split()) <= known]

    def cell(self, words):
        found = self.cells(words)
        if len(found) != 1:
            raise Wrong(f"'{words}' names {len(found)} cells of {', '.join(self.paths)}")
        return found[0]

    def median(self, words):
        """Of the iterations after the first, ns."""
        return self._of(load.steady_ns, words)

    def least(self, words):
        return self._of(lambda record: min(record["samples_ns"][1:], default=None), words)

    def first(self, words):
        return self._of(lambda record: (record["samples_ns"] or [None])[0], words)

    def slowdown(self, words):
        """The median over that of `device` for the same work, wherever it fits."""
        record = self.cell(words)
        base = _baseline(tuple(self.paths), load.group_of(record))
        if base is None:
            raise Wrong(f"'{words}' has no cell of device beside it")
        return self.median(words) / base

    def field(self, words, path):
        return _down(self.cell(words), path)

    def at(self, path):
        """Of a JSON document: at("uvm.fault_ns")."""
        return _down(_document(self.paths[0]), path)

    def line(self, path, **wanted):
        """Of the line of a JSON Lines file whose fields are as wanted: line("time_ratio", network="vgg16", batch=64)."""
        found = [entry for entry in _lines(self.paths[0]) if all(entry.get(name) == value for name, value in wanted.items())]
        if len(found) != 1:
            raise Wrong(f"{wanted} names {len(found)} lines of {self.paths[0]}")
        return _down(found[0], path)

    def outcome(self, words):
        return self.cell(words)["outcome"]

    def _of(self, figure, words):
        found = figure(self.cell(words))
        if found is None:
            raise Wrong(f"'{words}' has no time: {self.cell(words)['outcome']}")
        return found


def _down(value, path):
    for step in path.split("."):
        try:
            value = value[int(step) if isinstance(value, list) else step]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise Wrong(f"there is no {path}") from error
    return value


@functools.lru_cache(maxsize=None)
def _labelled(paths):
    records = load.read_all([ROOT / path for path in paths])
    return records, load.strategy_labels(records)


def _words(record, label):
    cap = record.get("workspace_cap_bytes")
    words = {record["network"], record["network"].partition("#")[0], f"b{record['batch']}", record["strategy"], label,
             record.get("precision", "fp32"), record.get("fusion", "none"), record["mode"], record["backend"], record["outcome"],
             record["pass"]}
    words |= {f"{name}={value}" for name, value in (record.get("network_knobs") or {}).items()}
    words |= {f"{name}={value}" for name, value in (record.get("strategy_knobs") or {}).items()}
    words |= {f"{cap >> 20}MiB"} if cap else set()
    return words | ({f"x{record['ratio']:.2f}"} if record["ratio"] is not None else set())


@functools.lru_cache(maxsize=None)
def _baselines(paths):
    return load.baselines(_labelled(paths)[0])


def _baseline(paths, group):
    return load.baseline_of(group, _baselines(paths))


@functools.lru_cache(maxsize=None)
def _document(path):
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=None)
def _lines(path):
    return [json.loads(line) for line in (ROOT / path).read_text(encoding="utf-8").splitlines()]


KNOWN = {name: __builtins__[name] if isinstance(__builtins__, dict) else getattr(__builtins__, name)
         for name in ("len", "sum", "min", "max", "sorted", "abs", "round", "set")}
KNOWN["median_of"] = lambda values: sorted(values)[len(values) // 2]
KNOWN["steady_ns"] = load.steady_ns


@functools.lru_cache(maxsize=None)
def evaluate(expression, paths):
    """The values, a list."""
    figures = Figures(paths)
    names = {name: getattr(figures, name) for name in ("cells", "cell", "median", "least", "first", "slowdown", "field",
                                                       "at", "line", "outcome")}
    try:
        value = eval(expression, {"__builtins__": {}} | KNOWN | names)  # noqa: S307: the project's own pages
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(f"{expression}: {type(error).__name__}: {error}") from error
    return value if isinstance(value, list) else [value]


def check_literal(literal, value):
    """A figure as written, such as "1.12x", against its value; "3 of 7" against (3, 7)."""
    counted = re.fullmatch(r"(\d+) of (?:the )?(\d+)", literal)
    if counted:
        if (int(counted[1]), int(counted[2])) != tuple(value):
            raise Wrong(f"{literal} is {value[0]} of {value[1]}")
        return
    parts = LITERAL.fullmatch(literal)
    if not parts or (parts[2] or "") not in UNITS:
        raise Wrong(f"'{literal}' is no number with a known unit")
    number, scaled = parts[1].replace(",", ""), value / UNITS[parts[2] or ""]
    decimals = len(number.partition("e")[0].partition(".")[2])
    step = 10.0 ** (int(number.partition("e")[2] or 0) - decimals)
    if not math.isfinite(scaled) or abs(float(number) - scaled) > 0.5000001 * step:
        raise Wrong(f"{literal} is {scaled:.6g}{' ' + parts[2] if parts[2] else ''}")


def check_quotes(comment, block):
    """The literals that the comment backs. Throws Wrong."""
    head, *lines = comment.split("\n")
    paths = tuple(head.removeprefix("from ").replace(",", " ").split())
    backed, text = [], " " + plain(block.text) + " "
    for line in filter(str.strip, lines):
        left, equals, right = line.partition(" = ")
        if not equals:
            raise Wrong(f"'{line.strip()}' wants FIGURE, ... = EXPRESSION")
        literals = [literal.strip() for literal in left.split(", ")]
        values = evaluate(right.strip(), paths)
        if len(values) != len(literals):
            raise Wrong(f"{left.strip()}: {len(literals)} figures, {len(values)} values")
        for literal, value in zip(literals, values):
            if not re.search(rf"(?<![\w.]){re.escape(literal)}(?![\w]|\.\d)", text):
                raise Wrong(f"{literal} does not stand in the text")
            check_literal(literal, value)
        backed += literals
    return backed


@functools.lru_cache(maxsize=None)
def rows_of(command):
    """The cells of all table rows that a command of the repository prints."""
    words = shlex.split(command)
    if words[0] == "umbench":
        words[0] = os.environ.get("UMBENCH") or "umbench"
    elif words[0] == "python3":
        words[0] = sys.executable
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Wrong(f"{command}: exit code {done.returncode}: {done.stderr.strip()[:200]}")
    return {_row(line) for line in done.stdout.splitlines() if line.startswith("|")}


def _row(line):
    return tuple(cell.strip().strip("`*") for cell in line.strip().strip("|").split("|"))


def check_table(comment, block):
    """A table may leave out columns and rows of what the command prints."""
    command = comment.removeprefix("table:").strip()
    printed = rows_of(command)
    for line in block.text.splitlines()[2:]:
        row = _row(line)
        if not any(_within(row, known) for known in printed):
            raise Wrong(f"{command}: prints no row {' | '.join(row)}")


def _within(row, known):
    rest = iter(known)
    return all(cell in rest for cell in row)


def check_block(block):
    """What is wrong with it, a text each."""
    wrong, backed = [], []
    for line, comment in block.comments:
        try:
            if comment.startswith("from "):
                backed += check_quotes(comment, block)
            elif comment.startswith("table:"):
                check_table(comment, block)
                backed = figures_in(block)
            elif comment.startswith("given:"):
                backed += [each.strip() for each in comment.removeprefix("given:").replace("\n", " ").split(", ")]
            elif comment.startswith("tested:"):
                test = comment.removeprefix("tested:").strip()
                if not (ROOT / test).is_file():
                    raise Wrong(f"{test} is not there")
                backed = figures_in(block)
            else:
                raise Wrong(f"a comment that begins with none of from, table:, given:, tested: ({comment[:30]})")
        except Wrong as error:
            wrong.append((line, str(error)))
    if wrong:
        return wrong
    left = list(backed)
    for figure in figures_in(block):
        if figure in left:
            left.remove(figure)
        elif figure not in backed:
            wrong.append((block.line, f"nothing backs {figure}"))
    wrong += [(block.line, f"{figure} stands fewer times than it is quoted") for figure in left if backed.count(figure) > 1]
    return wrong


def check_text(text):
    """[(line, what is wrong), ...]"""
    return [each for block in blocks(text) for each in check_block(block)]


def quoted_files(text):
    """The record files that a page's comments name."""
    named = [comment for block in blocks(text) for _, comment in block.comments]
    words = [word for comment in named for word in re.split(r"[\s,]+", comment.split("\n")[0])]
    return sorted({word for word in words if word.endswith((".jsonl", ".json")) and (ROOT / word).is_file()})


def builds_of(path):
    """The builds that made a file."""
    if not path.endswith(".jsonl"):
        return []
    found = [entry.get("umbench") if entry.get("kind") == "environment" else (entry.get("versions") or {}).get("umbench")
             for entry in _lines(path)]
    return sorted({build for build in found if isinstance(build, str)})


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE.md")
    parser.add_argument("--builds", action="store_true", help="which build made what the pages quote")
    wanted = parser.parse_args()
    code = 0
    for page in wanted.pages or pages():
        try:
            text = page.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise load.BadInput(f"{page}: {getattr(error, 'strerror', None) or error}") from error
        if wanted.builds:
            for path in quoted_files(text):
                print(f"{page.name}: {path}: {', '.join(builds_of(path)) or 'names no build'}")
            continue
        for line, complaint in check_text(text):
            print(f"{page}:{line}: {complaint}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(load.report_errors(main))
