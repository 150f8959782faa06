"""Compares pairs of runs, file by file. Pairs of the same code (A/A runs) show how often umbench compare reports a false change."""

from collections import Counter, namedtuple
from pathlib import Path

from umbench import comparison, load
from umbench.comparison import VERDICTS

Pair = namedtuple("Pair", "name verdicts worst_change exit_code")  # worst_change is None if nothing was measured


def compare(options, print_warning):
    """[Pair, ...] of the files that have the same name in the folders BASE and HEAD. Throws load.BadInput."""
    for side in (options.base, options.head):
        if not Path(side).is_dir():
            raise load.BadInput(f"{side}: --pairs wants two folders with a record file a run")
    file_names = sorted({path.name for path in load.files_in(options.base, "*.jsonl")}
                        & {path.name for path in load.files_in(options.head, "*.jsonl")})
    if not file_names:
        raise load.BadInput(f"{options.base} and {options.head} have no *.jsonl of one name in common")
    return [_compare_pair(file_name, options, print_warning) for file_name in file_names]


def _compare_pair(file_name, options, print_warning):
    options_of_pair = dict(vars(options), base=Path(options.base) / file_name, head=Path(options.head) / file_name)
    result = comparison.compare(type(options)(**options_of_pair), print_warning)
    changes = [row.finding.change for row in result.rows if row.finding.change is not None]
    return Pair(file_name.removesuffix(".jsonl"), Counter(row.verdict for row in result.rows),
                max(changes, key=abs) if changes else None, result.exit_code)


COLUMNS = ["pair", "cells", *VERDICTS, "largest change"]


def table_rows(pairs):
    return [[pair.name, str(sum(pair.verdicts.values())), *(str(pair.verdicts[verdict]) for verdict in VERDICTS),
             "" if pair.worst_change is None else f"{pair.worst_change:+.2%}"] for pair in pairs]


def as_text(pairs):
    table = [COLUMNS, *table_rows(pairs)]
    widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]
    lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths)) for row in table]
    return "\n".join([*lines, _summary(pairs)]) + "\n"


def as_markdown(pairs):
    lines = ["| " + " | ".join(row) + " |" for row in [COLUMNS, ["---:"] * len(COLUMNS), *table_rows(pairs)]]
    return "\n".join([*lines, "", _summary(pairs)]) + "\n"


def _summary(pairs):
    regressed_count = sum(pair.exit_code == comparison.EXIT_REGRESSED for pair in pairs)
    return f"{load.count_text(len(pairs), 'pair')}, {regressed_count} of them regressed"
