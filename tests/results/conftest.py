import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests"), str(ROOT / "tests/plots"), str(Path(__file__).resolve().parent)]

import forked  # noqa: E402

IN_PYTHON = ("compare", "export")  # commands in Python that get umbench's arguments unchanged


@pytest.fixture
def umbench(tmp_path):
    """A function that runs umbench. Commands in Python run in a forked process, which is faster, unless the environment changes."""
    tool = forked.tool(tmp_path)

    def run(*arguments, **environment):
        return forked.run(*arguments, cwd=tmp_path) if arguments[0] in IN_PYTHON and not environment else tool(*arguments, **environment)

    run.program = tool.program
    return run


@pytest.fixture
def write(tmp_path):
    """A function that writes entries to a record file and returns its path."""

    def write_file(name, entries):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
        return path

    return write_file
