"""Builds the wheel. umbench.plots and umbench.results (data) are folders beside python/ in the repository."""

import sys
from pathlib import Path

from setuptools import find_packages, setup

if not Path("../plots/common.py").is_file():
    sys.exit("umbench: ../plots is missing; install from a whole checkout: pip install CHECKOUT/python")
setup(packages=[*find_packages(include=["umbench*"]), "umbench.plots", "umbench.results"],
      package_dir={"umbench.plots": "../plots", "umbench.results": "../results"},
      package_data={"umbench.results": ["*.schema.json", "machines/*.json", "papers/*.json"], "umbench.plots": ["*.html"]})
