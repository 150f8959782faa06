"""The package of the checkout, and the program that CTest names."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
if os.environ.get("UMBENCH"):
    os.environ.setdefault("UMBENCH_PROGRAM", os.environ["UMBENCH"])
