import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests"), str(Path(__file__).resolve().parent)]

import forked  # noqa: E402


@pytest.fixture
def umbench(tmp_path):
    return forked.tool(tmp_path)
