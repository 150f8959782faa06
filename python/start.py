"""Starts a module of the package: python3 python/start.py compare BASE HEAD. `umbench compare` does this.

Unlike `python3 -m`, this finds the package whatever the working directory holds.
"""

import runpy
import sys

if len(sys.argv) < 2:
    sys.exit("usage: start.py MODULE [ARGUMENTS]")
try:
    runpy.run_module(f"umbench.{sys.argv.pop(1)}", run_name="__main__", alter_sys=True)
except ModuleNotFoundError as missing:
    if missing.name.startswith("umbench"):
        raise
    print(f"umbench: {sys.executable} lacks {missing.name}; install it, or let UMBENCH_PYTHON name a Python that has it",
          file=sys.stderr)
    sys.exit(2)
