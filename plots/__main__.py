"""umbench plot KIND FILE...: a figure of record files as PNG and SVG, or PDF. Each kind says more with --help.

  overview   six strategies at most, named at their lines, with the bound: the message in one picture
  slowdown   slowdown by oversubscription ratio, the budget shrinking
  growth     slowdown by oversubscription ratio, batch or image growing
  timeline   what each lane did, what moved beside that, and the memory in use
  bounds     slowdown beside lower bounds for plans that swap, compute again, or do both
  peers      steps of umbench beside those of another framework (results/peers)
  table      the slowdowns as text
"""

import importlib
import sys

from umbench.plots.common import load
from umbench import output

KINDS = {"overview": "overview", "slowdown": "slowdown", "growth": "growth", "timeline": "timeline", "bounds": "bounds_figure",
         "peers": "peers_figure", "table": "table"}


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if len(sys.argv) > 1 else load.EXIT_BAD_INPUT
    kind = sys.argv.pop(1)
    if kind not in KINDS:
        raise output.Refusal(f"plot: no kind {kind}; there are {', '.join(KINDS)}")
    return importlib.import_module(f"umbench.plots.{KINDS[kind]}").main()


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench", progress_task="drawing"))
