#!/usr/bin/env python3
"""Writes a record file in the format of another tool.

google-benchmark   JSON of Google Benchmark: its compare.py reads it
github-action      customSmallerIsBetter of github-action-benchmark
bencher            Bencher Metric Format
junit              JUnit XML: a failed cell is a failed test
csv                one row a cell
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from results import arguments, export_formats, load  # noqa: E402


def main():
    wanted = arguments.export(__doc__, list(export_formats.FORMATS))
    environments, records = load.read(wanted.file)
    if not records:
        raise load.TooLittle(f"{wanted.file}: no record, nothing to write")
    text = export_formats.FORMATS[wanted.format](environments, records)
    if not wanted.out:
        sys.stdout.write(text)
        return
    try:
        Path(wanted.out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise load.BadInput(f"--out {wanted.out}: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
