"""Command lines of the scripts behind umbench: one line for what is wrong, exit code 2."""

import argparse
import re
import sys

from results import load
from results.judge import Limits

UNITS_NS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"umbench: {message}; see {self.prog} --help", file=sys.stderr)
        sys.exit(load.EXIT_BAD_INPUT)


def share(text):
    """0.05 of "5%" or "0.05"."""
    number = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 <= number < 10:
        raise ValueError
    return number


def nanoseconds(text):
    """10000 of "10us"."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ns|us|ms|s)", text)
    if not match:
        raise ValueError
    return float(match[1]) * UNITS_NS[match[2]]


def probability(text):
    number = float(text)
    if not 0 < number < 1:
        raise ValueError
    return number


# argparse names the type in its message: "invalid a share such as 5% value: ..."
share.__name__ = "share (5% or 0.05)"
nanoseconds.__name__ = "time (10us, 1ms)"
probability.__name__ = "probability (above 0, below 1)"


def compare(description):
    standard = Limits()
    parser = Parser("umbench compare", description=description.splitlines()[0],
                    epilog="Exit codes: 0 nothing regressed, 1 a cell regressed, 2 bad usage or bad input, "
                           "3 nothing regressed but some cells have too little data.")
    parser.add_argument("base", metavar="BASE", help="record file, or folder of runs, to compare with")
    parser.add_argument("head", metavar="HEAD", help="record file, or folder of runs, to judge")
    parser.add_argument("--relative", type=share, default=standard.relative, metavar="SHARE",
                        help="change of the median that is tolerated (5%%)")
    parser.add_argument("--absolute", type=nanoseconds, default=standard.absolute_ns, metavar="TIME",
                        help="and in time, for very short cells (10us)")
    parser.add_argument("--alpha", type=probability, default=standard.alpha, metavar="CHANCE",
                        help="chance of a false alarm over all cells, before the limits (0.05)")
    parser.add_argument("--correction", choices=["bh", "holm"], default=standard.correction,
                        help="for many cells: Benjamini-Hochberg or Holm (bh)")
    parser.add_argument("--noise", action="append", default=[], metavar="PATH",
                        help="runs of one and the same code (a folder, or repeated files): cells' limits rise to "
                             "what those show; folders given as BASE and HEAD teach it as well")
    parser.add_argument("--allow-unlike", action="store_true",
                        help="compare although the machines or their settings differ")
    parser.add_argument("--same-gpu", action="store_true",
                        help="refuse to compare two GPUs of one model, which is otherwise only told")
    parser.add_argument("--strict", action="store_true", help="ambiguous cells are too little data as well (exit 3)")
    parser.add_argument("--pairs", action="store_true",
                        help="compare each file of the folder BASE with that of the same name in HEAD, a row each: with "
                             "runs of one code this shows how often the gate is wrong")
    parser.add_argument("--format", choices=["text", "markdown", "json"], default="text")
    parser.add_argument("--all", action="store_true", help="show the cells that are ok as well")
    parser.add_argument("--out", metavar="FILE", help="write there instead of to standard output")
    wanted = parser.parse_args()
    if wanted.pairs and wanted.format == "json":
        parser.error("--pairs prints text or Markdown, not JSON")
    return wanted


def count(text):
    number = int(text)
    if not 1 <= number <= 10_000:
        raise ValueError
    return number


count.__name__ = "count (1 to 10000)"


def interleave(description):
    parser = Parser("umbench interleave", description=description.splitlines()[0])
    parser.add_argument("spec", metavar="SPEC.json", help="sweep file")
    parser.add_argument("--base", required=True, metavar="PROGRAM", help="the umbench to compare with")
    parser.add_argument("--head", required=True, metavar="PROGRAM", help="the umbench to judge")
    parser.add_argument("--rounds", type=count, default=5, help="times that each runs every cell (5)")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for base/ and head/, a file a round")
    parser.add_argument("--machines", metavar="DIR", help="folder with more machine files")
    return parser.parse_args()


def export(description, formats):
    parser = Parser("umbench export", description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE.jsonl", help="record file")
    parser.add_argument("--format", required=True, choices=formats)
    parser.add_argument("--out", metavar="FILE", help="write there instead of to standard output")
    return parser.parse_args()
