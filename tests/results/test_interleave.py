"""`umbench interleave` runs base and head in turn."""

import json
import sys

import conftest
import pytest

SPEC = {"schema": 1, "name": "study", "grids": [{"network": "alexnet", "batch": 2, "backend": "sim:h200",
                                                 "strategy": ["device", "managed"], "ratio": [0.5, 1.5]}]}


@pytest.fixture
def sweep_file(tmp_path):
    path = tmp_path / "study.json"
    path.write_text(json.dumps(SPEC), encoding="utf-8")
    return path


@pytest.fixture
def logging_program(umbench, tmp_path):
    """A function that makes a program of a given name, which calls umbench and logs each cell that it runs in tmp_path/log."""

    def make_program(name):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\ncase \"$*\" in *--shard*) echo {name} \"$*\" >>{tmp_path}/log;; esac\n"
                        f"exec {umbench.program} \"$@\"\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return make_program


def records(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if '"kind":"record"' in line]


def test_rounds_alternate_cell_by_cell(umbench, logging_program, sweep_file, tmp_path):
    done = umbench("interleave", sweep_file, "--base", logging_program("old"), "--head", logging_program("new"), "--rounds", "2", "--out", "ab")
    assert done.returncode == 0, done.stderr
    order = [line.split()[0] for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    assert order == ["old", "new"] * 4 + ["new", "old"] * 4
    files = [tmp_path / "ab" / side / f"{number}.jsonl" for side in ("base", "head") for number in (1, 2)]
    assert [len(records(file)) for file in files] == [4] * 4
    done = umbench("compare", "ab/base", "ab/head")
    assert done.returncode == 0 and "4 simulated cells, 4 ok" in done.stdout


def test_an_interrupted_run_resumes(umbench, sweep_file, tmp_path):
    arguments = ("interleave", sweep_file, "--base", umbench.program, "--head", umbench.program, "--rounds", "1", "--out", "ab")
    assert umbench(*arguments).returncode == 0
    path = tmp_path / "ab/head/1.jsonl"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[:whole.rindex("{\"kind\":\"record\"") + 9], encoding="utf-8")
    assert umbench(*arguments).returncode == 0
    assert path.read_text(encoding="utf-8") == whole


def test_a_failed_cell_is_reported(umbench, sweep_file):
    done = umbench("interleave", sweep_file, "--base", umbench.program, "--head", umbench.program, "--rounds", "1", "--out",
                   "ab", UMBENCH_TEST_CELL="abort:managed/x1.50")
    assert done.returncode == 1
    told = [line for line in done.stderr.splitlines() if "managed/x1.50" in line]
    assert [line.split(": ")[1] for line in told] == ["round 1 of base", "round 1 of head"] and "crashed" in told[0]


MEASURED = """#!{python}
# Three cells on a made-up GPU, of which the second is as noisy as `spread` says, and slower in HEAD.
import json, math, random, sys
from pathlib import Path
sys.path.insert(0, {plots!r})
import synthetic
if "--list" in sys.argv:
    sys.exit(print("3 cells"))
out, cell = (sys.argv[sys.argv.index(name) + 1] for name in ("--out", "--shard"))
cell, noise = int(cell.split("/")[0]), random.Random(out + cell)
level = {level!r} * math.exp({spread!r} * noise.gauss(0, 1)) if cell == 2 else 1.0
times = [int(1e8 * level * math.exp(0.002 * noise.gauss(0, 1))) for _ in range(5)]
entry = synthetic.record(backend="cuda:0", device="made up", ratio=cell / 2, samples_ns=times)
kept = Path(out).read_text(encoding="utf-8") if Path(out).exists() else ""
first = [] if kept else [synthetic.environment() | {{"gpu": synthetic.gpu()}}]
with open(out, "w", encoding="utf-8") as file:
    file.write(kept)
    file.writelines(json.dumps(line, separators=(",", ":")) + "\\n" for line in [*first, entry] if entry["key"] not in kept)
"""


def test_ambiguous_cells_run_more_rounds(umbench, sweep_file, tmp_path):
    """The cells are chosen once, after the rounds of all cells. A second start of the command adds nothing."""
    level, folder = {"old": 1.0, "new": 1.1}, str(conftest.ROOT / "tests/plots")
    old, new = (write_script(tmp_path / name, MEASURED.format(python=sys.executable, plots=folder, level=slower, spread=0.05))
                for name, slower in level.items())
    arguments = ("interleave", sweep_file, "--base", old, "--head", new, "--rounds", "4", "--more", "12", "--out", "ab")
    assert umbench(*arguments[:-4], "--out", "ab").returncode == 0
    done = umbench("compare", "ab/base", "ab/head", "--all")
    assert done.returncode == 0 and "1 ambiguous" in done.stdout and "within 4 rounds" in done.stdout
    done = umbench(*arguments)
    assert done.returncode == 0 and "1 cell of 3 left open: 12 rounds more of them" in done.stderr, done.stderr
    files = {number: [len(records(tmp_path / f"ab/{side}/{number}.jsonl")) for side in ("base", "head")] for number in (4, 5, 16)}
    assert files == {4: [3, 3], 5: [1, 1], 16: [1, 1]}
    assert {record["ratio"] for record in records(tmp_path / "ab/base/9.jsonl")} == {1.0}
    done = umbench("compare", "ab/base", "ab/head", "--all")
    assert done.returncode == 1 and "1 regressed" in done.stdout and "within 4 to 16 rounds" in done.stdout, done.stdout
    kept = {path: path.read_bytes() for path in (tmp_path / "ab").rglob("*.jsonl")}
    assert umbench(*arguments).returncode == 0
    assert {path: path.read_bytes() for path in (tmp_path / "ab").rglob("*.jsonl")} == kept


def write_script(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def test_programs_that_do_not_work_are_errors(umbench, sweep_file, tmp_path):
    """A program for another architecture, one that lists cells but writes nothing, one that prints no UTF-8, one that is killed."""
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(57))
    foreign.chmod(0o755)
    silent = write_script(tmp_path / "silent", "#!/bin/sh\ncase \"$*\" in *--list*) echo 4 cells;; esac\n")
    full = write_script(tmp_path / "full", "#!/bin/sh\ncase \"$*\" in *--list*) echo 4 cells;; *) echo no space left >&2; exit 1;; esac\n")
    odd = write_script(tmp_path / "odd", "#!/bin/sh\nprintf '\\377\\n' >&2; exit 2\n")
    killed = write_script(tmp_path / "killed", "#!/bin/sh\ncase \"$*\" in *--list*) echo 4 cells;; *) kill -9 $$;; esac\n")
    for program, words in ((foreign, "cannot be run"), (silent, "wrote no record of cell 1"), (full, "no space left"),
                           (odd, "\\xff"), (killed, "was killed by signal 9")):
        done = umbench("interleave", sweep_file, "--base", umbench.program, "--head", program, "--out", f"out_{program.name}")
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_bad_input(umbench, sweep_file, tmp_path):
    for program, sweep, words in [("nowhere", sweep_file, "nowhere: is no program"), (tmp_path, sweep_file, "is no program"),
                                  (umbench.program, tmp_path / "absent.json", "absent.json"),
                                  ("/bin/true", sweep_file, "does not list the cells")]:
        done = umbench("interleave", sweep, "--base", umbench.program, "--head", program, "--out", "ab")
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
