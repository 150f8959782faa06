import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests"), str(Path(__file__).resolve().parent)]

import forked  # noqa: E402


@pytest.fixture
def script():
    """Runs a module of the package as umbench does."""
    return forked.run


@pytest.fixture
def own_process():
    """Runs a module of the package in an interpreter of its own."""

    def run(module_name, *arguments):
        return forked.without_progress(subprocess.run([sys.executable, str(ROOT / "python/start.py"), module_name, *map(str, arguments)],
                                                      capture_output=True, text=True))

    return run


@pytest.fixture
def umbench():
    return forked.tool()
