import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests"), str(ROOT / "tests/plots"), str(Path(__file__).resolve().parent)]

import forked  # noqa: E402

IN_PYTHON = ("compare", "export")  # commands that umbench hands on with nothing more than it was given


@pytest.fixture
def umbench(tmp_path):
    """Runs the built tool, but commands of Python in a forked process where that is the same."""
    tool = forked.tool(tmp_path)

    def run(*arguments, **changes):
        return forked.run(*arguments, cwd=tmp_path) if arguments[0] in IN_PYTHON and not changes else tool(*arguments, **changes)

    run.program = tool.program
    return run


@pytest.fixture
def write(tmp_path):
    """Writes entries as a record file and returns its path."""

    def write_file(name, entries):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
        return path

    return write_file
