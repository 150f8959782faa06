import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests"), str(Path(__file__).resolve().parent)]

import forked  # noqa: E402


@pytest.fixture
def umbench(tmp_path):
    """Runs the built tool in a folder of its own; these tests are skipped where pytest is run without one."""
    binary = os.environ.get("UMBENCH")
    if not binary:
        pytest.skip("UMBENCH does not name a binary")

    def run(*arguments, **changes):
        return forked.without_progress(subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, cwd=tmp_path,
                                                      env=os.environ | changes, check=False))

    run.program = binary
    run.folder = tmp_path
    return run
