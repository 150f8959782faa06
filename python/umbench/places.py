"""Folders of machine files, schemas and papers: within the package after `pip install`, else in the checkout."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
TOP = PACKAGE.parents[1]  # the top folder of a checkout, or share/umbench of an install tree
RESULTS = PACKAGE / "results" if (PACKAGE / "results").is_dir() else TOP / "results"
