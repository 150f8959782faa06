"""Compares two record files cell by cell: ok, improved, ambiguous, regressed, or why it cannot be judged.

BASE and HEAD are record files, or folders of them: then each file in a folder is one run of the same code.
Measured times are judged by a t test on the raw samples and by limits; simulated ones must be equal.
Two traces of umbench trace are compared by what moved, what faulted and how long it took (docs/trace.md).
"""

import sys
from pathlib import Path

from umbench import dependencies, load
from umbench.trace import compare as traces
from umbench.trace import files

if __name__ == "__main__" and any(files.is_trace(word) for word in sys.argv[1:]):  # comparing traces needs no SciPy, so its import follows
    sys.exit(load.report_errors(lambda: traces.main(sys.argv[1:]), "umbench"))

dependencies.require("numpy", "scipy")

from umbench import arguments, compare_pairs, comparison, output, print_comparison  # noqa: E402

EXIT_CODES = [0, load.EXIT_TOO_LITTLE, comparison.EXIT_REGRESSED]  # exit codes, the worst last


def main():
    options = arguments.parse_compare(__doc__)
    if options.out and any(Path(options.out).exists() and Path(side).exists() and Path(options.out).samefile(side)
                          for side in (options.base, options.head)):
        raise load.BadInput(f"--out {options.out}: is what is compared; choose another")
    print_warning = lambda text: output.print_to_stderr(f"umbench: warning: {text}")  # noqa: E731
    if options.pairs:
        pairs = compare_pairs.compare(options, print_warning)
        output.write(compare_pairs.as_markdown(pairs) if options.format == "markdown" else compare_pairs.as_text(pairs), options.out)
        return max((pair.exit_code for pair in pairs), key=EXIT_CODES.index)
    result = comparison.compare(options, print_warning)
    print_comparison.write(result, options)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench", progress_task="comparing"))
