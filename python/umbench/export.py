"""Writes a record file in the format of another tool, or a PyTorch model (MODULE:FUNCTION) as a graph file.

google-benchmark   JSON of Google Benchmark: its compare.py reads it
github-action      customSmallerIsBetter of github-action-benchmark
bencher            Bencher Metric Format
junit              JUnit XML: a failed cell is a failed test
csv                one row a cell
perfetto           Chrome trace of the records with a timeline, for ui.perfetto.dev; of a trace of umbench trace, all of it
graph              of a trace: a network file, which run, sweep and plan take
"""

import re
import sys
from pathlib import Path

from umbench import arguments, export_formats, load, model_arguments, output
from umbench.trace import exports, files


def main():
    if any(re.fullmatch(r"[^-].*:[A-Za-z_]\w*", word) and not Path(word).exists() for word in sys.argv[1:]):
        options = model_arguments.parse_export(sys.argv[1:])
        model_arguments.require_torch()
        from umbench.torch import export as model_export
        return model_export.main(options)
    options = arguments.parse_export(__doc__, list(dict.fromkeys([*export_formats.FORMATS, *exports.FORMATS])))
    if options.out and Path(options.out).exists() and Path(options.out).samefile(options.file):
        raise load.BadInput(f"--out {options.out}: is the file itself; choose another")
    if files.is_trace(options.file) or options.format not in export_formats.FORMATS:
        if options.format not in exports.FORMATS:
            raise load.BadInput(f"--format {options.format}: is for record files; of a trace there are {', '.join(exports.FORMATS)}")
        output.write(exports.FORMATS[options.format](files.read_trace(options.file)), options.out)
        return None
    environments, records = load.read(options.file)
    if not records:
        raise load.TooLittle(f"{options.file}: no record, nothing to write")
    text = export_formats.FORMATS[options.format](environments, records)
    output.write(text, options.out)
    return None


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench", progress_task="exporting"))
