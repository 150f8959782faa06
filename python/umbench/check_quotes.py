"""Checks the figures that pages quote against the records that they come from.

    python3 python/start.py check_quotes [PAGE.md ...]      without pages: README.md and docs/**/*.md

A figure is a number with a unit of time, rate or share, a factor (1.2x, 3 times), "5 of 7", or a number with a
decimal point in a table. In README.md and docs/ each figure needs an HTML comment right after its paragraph, list item or table:

    <!-- from results/study/best_h200.jsonl
    16.7 ms = median("resnet50 device")
    1.12x, 1.20x = [slowdown(f"resnet50 best x{r:.2f}") for r in (1.25, 3)]
    -->
    <!-- table: umbench plot table FILE.jsonl --markdown --> every row of the table is one that the command prints
    <!-- given: 5 %, 10 us -->                                limits, settings and other people's figures
    <!-- tested: tests/results/test_gate.py -->               a test of that name compares the figures itself

The right side of `=` is Python with the functions of `Figures` (quoted_figures.py). It gives times in ns, shares of 1, and rates in units a
second; unit and decimals of the text say how the value is rounded. Prints a line for each error; the exit code is then 1.
"""

import argparse
import functools
import math
import os
import re
import shlex
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

from umbench import load, places
from umbench.quoted_figures import WrongFigure, evaluate

ROOT = places.TOP

UNITS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "%": 0.01, "x": 1, "×": 1, "times": 1, "": 1,
         "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "GB": 1e9, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12, "GiB/s": 2**30,
         "TFLOP/s": 1e12}
UNIT_SUFFIX = "(?:x|×| ?(?:ms|us|µs|ns|s|min|%|times|[KMG]i?B/s|TB/s|TFLOP/s|seconds|minutes))"
NUMBER = r"(?<![\w.,/#-])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
UNIT = rf"(?:{UNIT_SUFFIX}(?![\w/])|(?<=\.\d) [KMGT]i?B|(?<=\.\d\d) [KMGT]i?B)"
LISTED = r"(?=(?:(?:,| and| or| to| /) \d[\d.]*)+" + UNIT + ")"  # after a number: further numbers and one unit for all, as in 1.1, 2 and 3 ms
FIGURE_IN_TEXT = re.compile(rf"{NUMBER}(?:{UNIT}|{LISTED}| of (?:the )?\d+)")
FIGURE_IN_TABLE = re.compile(rf"{NUMBER}{UNIT}|(?<![\w.,/#-])\d+\.\d+(?: [KMGT]i?B)?")
RATIO = re.compile(rf"\b(?:ratio|at) \d+(?:\.\d+)?(?!\.?\d|{UNIT})")  # ratios of cells, which are not results
LITERAL = re.compile(r"([+-]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?) ?([^\d\s]\S*)?$")
COMMENT = re.compile(r"<!--(.*?)-->", re.S)

Block = namedtuple("Block", "line text comments")  # comments: [(line, text), ...]


# --- blocks of a page ---

def blocks_of_page(page_text):
    """[Block] of a page: its paragraphs, list items and tables without code, each with the comments right after it."""
    page_text = re.sub(r"(?ms)^( *)```.*?^\1```$", lambda code: "\n" * code[0].count("\n"), page_text)
    comment_by_line = {}

    def replace_by_marks(comment_match):
        line_number = 1 + page_text.count("\n", 0, comment_match.start())
        comment_by_line[line_number] = comment_match[1].strip()
        return "\x00" + "\n\x01" * comment_match[0].count("\n")

    marked_lines = COMMENT.sub(replace_by_marks, page_text).split("\n")
    blocks, in_block = [], False
    for line_number, line in enumerate(marked_lines, start=1):
        bare = line.replace("\x00", "").replace("\x01", "")
        if bare.strip():
            begins_block = re.match(r" *(?:[-*]|\d+\.) ", bare) or bare.startswith("#")
            is_table = bare.startswith("|")
            if bare.startswith("    ") and not in_block:
                continue  # skips lines of code
            if not in_block or begins_block or (is_table != blocks[-1].text.startswith("|")) or blocks[-1].comments:
                blocks.append(Block(line_number, "", []))
            blocks[-1] = blocks[-1]._replace(text=blocks[-1].text + bare + "\n")
            in_block = not bare.startswith("#")
        elif "\x01" not in line and "\x00" not in line:
            in_block = False
        if "\x00" in line:
            if not blocks:
                raise WrongFigure(f"{line_number}: a comment with nothing before it")
            blocks[-1].comments.append((line_number, comment_by_line[line_number]))
    return blocks


def plain_text(text):
    """The text without code, link targets, emphasis, and numbers that are not figures."""
    text = re.sub(r"`[^`]*`|\barXiv \S+", " ", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return text.replace("**", "").replace("\n", " ").replace("*", "").replace("\\", "")


def quoted_numbers(block):
    """The figures that need a comment, as they are written in the text."""
    if block.text.startswith("|"):
        rows = block.text.splitlines()
        return [each[0].strip() for row in rows[2:] for cell in plain_text(row).split("|")[1:] for each in FIGURE_IN_TABLE.finditer(cell)]
    return [each[0].strip() for each in FIGURE_IN_TEXT.finditer(RATIO.sub(" ", plain_text(block.text)))]


# --- comments ---

def check_literal(literal, value):
    """Compares a figure as written, such as "1.12x", with its value, or "3 of 7" with (3, 7). Throws WrongFigure."""
    count_match = re.fullmatch(r"(\d+) of (?:the )?(\d+)", literal)
    if count_match:
        if (int(count_match[1]), int(count_match[2])) != tuple(value):
            raise WrongFigure(f"{literal} is {value[0]} of {value[1]}")
        return
    literal_match = LITERAL.fullmatch(literal)
    if not literal_match or (literal_match[2] or "") not in UNITS:
        raise WrongFigure(f"'{literal}' is no number with a known unit")
    number, scaled = literal_match[1].replace(",", ""), value / UNITS[literal_match[2] or ""]
    decimals = len(number.partition("e")[0].partition(".")[2])
    last_digit = 10.0 ** (int(number.partition("e")[2] or 0) - decimals)
    if not math.isfinite(scaled) or abs(float(number) - scaled) > 0.5000001 * last_digit:
        raise WrongFigure(f"{literal} is {scaled:.6g}{' ' + literal_match[2] if literal_match[2] else ''}")


def require_in_text(literal, text):
    """Throws WrongFigure unless the text has the literal."""
    if not re.search(rf"(?<![\w.]){re.escape(literal)}(?![\w]|\.\d)", text):
        raise WrongFigure(f"{literal} does not stand in the text")


def check_quotes(comment, block):
    """Evaluates a comment that begins with "from". Returns [figure of the text] that it confirms. Throws WrongFigure."""
    first_line, *lines = comment.split("\n")
    paths = tuple(first_line.removeprefix("from ").replace(",", " ").split())
    backed_figures = []
    for line in filter(str.strip, lines):
        left, equals, right = line.partition(" = ")
        if not equals:
            raise WrongFigure(f"'{line.strip()}' wants FIGURE, ... = EXPRESSION")
        literals = [literal.strip() for literal in left.split(", ")]
        values = evaluate(right.strip(), paths)
        if len(values) != len(literals):
            raise WrongFigure(f"{left.strip()}: {len(literals)} figures, {len(values)} values")
        for literal, value in zip(literals, values):
            require_in_text(literal, plain_text(block.text))
            check_literal(literal, value)
        backed_figures += literals
    return backed_figures


@functools.lru_cache(maxsize=None)
def printed_rows(command):
    """{(text of each cell)} of all table rows that a command of the repository prints."""
    command_words = shlex.split(command)
    if command_words[0] == "umbench":
        command_words[0] = os.environ.get("UMBENCH") or "umbench"
    elif command_words[0] == "python3":
        command_words[0] = sys.executable
    finished = subprocess.run(command_words, cwd=ROOT, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise WrongFigure(f"{command}: exit code {finished.returncode}: {finished.stderr.strip()[:200]}")
    return {_cells_of_row(line) for line in finished.stdout.splitlines() if line.startswith("|")}


def _cells_of_row(line):
    return tuple(cell.strip().strip("`*") for cell in line.strip().strip("|").split("|"))


def check_table(comment, block):
    """Compares a table with the output of a command. The table may leave out columns and rows. Throws WrongFigure."""
    command = comment.removeprefix("table:").strip()
    known_rows = printed_rows(command)
    for line in block.text.splitlines()[2:]:
        row = _cells_of_row(line)
        if not any(_is_subsequence(row, known_row) for known_row in known_rows):
            raise WrongFigure(f"{command}: prints no row {' | '.join(row)}")


def _is_subsequence(row, printed_row):
    remaining_cells = iter(printed_row)
    return all(cell in remaining_cells for cell in row)


def check_block(block):
    """Checks the figures of a Block, a paragraph, list item or table of a page, against the comments after it; returns [(line, error), ...]."""
    errors, backed_figures = [], []
    for line_number, comment in block.comments:
        try:
            if comment.startswith("from "):
                backed_figures += check_quotes(comment, block)
            elif comment.startswith("table:"):
                check_table(comment, block)
                backed_figures = quoted_numbers(block)
            elif comment.startswith("given:"):
                given_figures = [each.strip() for each in comment.removeprefix("given:").replace("\n", " ").split(", ")]
                for literal in given_figures:
                    require_in_text(literal, plain_text(block.text))
                backed_figures += given_figures
            elif comment.startswith("tested:"):
                test_file = comment.removeprefix("tested:").strip()
                if not (ROOT / test_file).is_file():
                    raise WrongFigure(f"{test_file} is not there")
                backed_figures = quoted_numbers(block)
            else:
                raise WrongFigure(f"a comment that begins with none of from, table:, given:, tested: ({comment[:30]})")
        except WrongFigure as error:
            errors.append((line_number, str(error)))
    if errors:
        return errors
    figures_left = list(backed_figures)
    for figure in quoted_numbers(block):
        if figure in figures_left:
            figures_left.remove(figure)
        elif figure not in backed_figures:
            errors.append((block.line, f"nothing backs {figure}"))
    errors += [(block.line, f"{figure} stands fewer times than it is quoted") for figure in figures_left if backed_figures.count(figure) > 1]
    return errors


def check_text(page_text):
    """Checks all blocks of a page; returns [(line, error), ...]."""
    return [each for block in blocks_of_page(page_text) for each in check_block(block)]


def default_pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE.md")
    options = parser.parse_args()
    exit_code = 0
    for page in options.pages or default_pages():
        try:
            text = page.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise load.BadInput(f"{page}: {getattr(error, 'strerror', None) or error}") from error
        for line_number, complaint in check_text(text):
            print(f"{page}:{line_number}: {complaint}")
            exit_code = 1
    return exit_code


if __name__ == "__main__":
    sys.exit(load.report_errors(main))
