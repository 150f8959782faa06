#!/usr/bin/env python3
"""Compares two record files cell by cell: ok, improved, regressed, ambiguous or insufficient.

BASE and HEAD are record files, or folders of them: then each file in a folder is one run of the same code.
Measured times are judged by a rank test on the raw samples and by limits; simulated ones must be equal.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from results import needs  # noqa: E402

needs.require("numpy", "scipy")

from results import arguments, comparison, load, pairs, print_comparison, streams  # noqa: E402

EXIT_CODES = [0, load.EXIT_TOO_LITTLE, comparison.EXIT_REGRESSED]  # the worst last


def main():
    wanted = arguments.compare(__doc__)
    if wanted.out and any(Path(wanted.out).exists() and Path(side).exists() and Path(wanted.out).samefile(side)
                          for side in (wanted.base, wanted.head)):
        raise load.BadInput(f"--out {wanted.out}: is what is compared; choose another")
    warn = lambda text: streams.say(f"umbench: warning: {text}")  # noqa: E731
    if wanted.pairs:
        found = pairs.compare(wanted, warn)
        streams.write(pairs.as_markdown(found) if wanted.format == "markdown" else pairs.as_text(found), wanted.out)
        return max((pair.exit_code for pair in found), key=EXIT_CODES.index)
    found = comparison.compare(wanted, warn)
    print_comparison.write(found, wanted)
    return found.exit_code


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
