"""Writes one self-contained HTML page of record files, and beside it every figure as PNG, SVG and PDF with its values as CSV."""

import argparse
import csv
import sys
from pathlib import Path

from umbench.plots.common import load, read_with_environments, save, use_style

from umbench.plots import report_figures
from umbench.plots import report_page
from umbench import output
from umbench.arguments import Parser
from umbench.trace import files

KINDS = ("png", "svg", "pdf")


def main():
    parser = Parser("umbench report", description=" ".join(__doc__.split()),
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.jsonl")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for index.html and the figures")
    parser.add_argument("--title", default="Memory management under oversubscription", help="of the page")
    options = parser.parse_args()
    load.refuse_empty_path(options.out)
    if any(files.is_trace(path) for path in options.files):
        from umbench.trace import report
        return report.write_page(options.files, options.out)
    environments, records = read_with_environments(options.files)
    if not any(load.steady_ns(record) for record in records):
        raise load.TooLittle(f"{', '.join(options.files)}: no cell finished well, nothing to report")
    use_style()
    out = Path(options.out)
    sections = [write_section(out, section) for section in report_figures.make_sections(records)]
    write_page(out / "index.html", report_page.page_html(options.title, options.files, environments, records, sections))
    print(out / "index.html")


def write_section(folder, section):
    """Writes the files of a section; returns it with the PNG's bytes in place of the figure."""
    if section.figure is None:
        return section
    save(section.figure, folder, section.name, KINDS)
    text = [section.columns, *section.rows]
    try:
        with open(folder / f"{section.name}.csv", "w", encoding="utf-8", newline="", errors="backslashreplace") as file:
            csv.writer(file, lineterminator="\n").writerows(text)
        return section._replace(figure=(folder / f"{section.name}.png").read_bytes())
    except OSError as error:
        raise load.BadInput(f"{error.filename or folder}: {error.strerror}") from error


def write_page(path, text):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise load.BadInput(f"--out {path.parent}: {error.strerror}") from error
    output.write_file(path, text)


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench", progress_task="drawing"))
