"""Runs the built tool, and modules of the package as python/start.py does: these in a forked copy of this process, which has its
imports already."""

import importlib
import os
import re
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pytest

START = Path(__file__).resolve().parents[1] / "python/start.py"


PROGRESS = re.compile(r"(?m)^umbench: [a-z ]+,(?: [^\n]+,)? \d+ s so far\n")  # said where a machine is slow


def without_progress(done):
    done.stderr = PROGRESS.sub("", done.stderr)
    return done


def program():
    """Path of the built tool. A test is skipped where pytest is run without one."""
    if not os.environ.get("UMBENCH"):
        pytest.skip("UMBENCH does not name a binary")
    return os.path.abspath(os.environ["UMBENCH"])


def tool(folder=None):
    """A function that runs the built tool with arguments, and with other variables in its environment, in a folder."""
    path = program()

    def run_tool(*arguments, **changes):
        return without_progress(subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, cwd=folder,
                                               env=os.environ | changes, check=False))

    run_tool.program, run_tool.folder = path, folder
    return run_tool


def run(name, *arguments, cwd=None):
    """A CompletedProcess of `python3 start.py NAME ARGUMENTS`."""
    words = [str(START), name, *map(str, arguments)]
    importlib.import_module(f"umbench.{name}")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(error.fileno(), 2)
            os._exit(_in_child(words, cwd))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for stream in (out, error):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", errors="replace"))
    return without_progress(subprocess.CompletedProcess(words, code, *texts))


def _in_child(words, cwd):
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
    try:
        if cwd:
            os.chdir(cwd)
        sys.argv = words
        sys.modules.pop(f"umbench.{words[1]}")  # it runs as __main__
        try:
            runpy.run_path(words[0], run_name="__main__")
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1 if end.code else 0
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        return code
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        return 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
