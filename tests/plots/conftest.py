import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).resolve().parent)]


@pytest.fixture
def script():
    """Runs a module of the package as umbench does."""

    def run(name, *arguments):
        return subprocess.run([sys.executable, str(ROOT / "python/start.py"), name, *map(str, arguments)],
                              capture_output=True, text=True)

    return run


@pytest.fixture
def umbench():
    """Runs the built tool; these tests are skipped where pytest is run without one."""
    binary = os.environ.get("UMBENCH")
    if not binary:
        pytest.skip("UMBENCH does not name a binary")

    def run(*arguments):
        return subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)

    return run
