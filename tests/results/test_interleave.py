"""Base and head in turn, by one command."""

import json

import pytest

SPEC = {"schema": 1, "name": "study", "grids": [{"network": "alexnet", "batch": 2, "backend": "sim:h200",
                                                 "strategy": ["device", "managed"], "ratio": [0.5, 1.5]}]}


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "study.json"
    path.write_text(json.dumps(SPEC), encoding="utf-8")
    return path


@pytest.fixture
def logged(umbench, tmp_path):
    """A program that is umbench and notes each cell that it runs in tmp_path/log under its own name."""

    def make(name):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\ncase \"$*\" in *--shard*) echo {name} \"$*\" >>{tmp_path}/log;; esac\n"
                        f"exec {umbench.program} \"$@\"\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return make


def records(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if '"kind":"record"' in line]


def test_rounds_alternate_cell_by_cell(umbench, logged, spec, tmp_path):
    done = umbench("interleave", spec, "--base", logged("old"), "--head", logged("new"), "--rounds", "2", "--out", "ab")
    assert done.returncode == 0, done.stderr
    order = [line.split()[0] for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    assert order == ["old", "new"] * 4 + ["new", "old"] * 4
    files = [tmp_path / "ab" / side / f"{number}.jsonl" for side in ("base", "head") for number in (1, 2)]
    assert [len(records(file)) for file in files] == [4] * 4
    done = umbench("compare", "ab/base", "ab/head")
    assert done.returncode == 0 and "4 simulated cells, 4 ok" in done.stdout


def test_it_goes_on_where_it_was(umbench, spec, tmp_path):
    arguments = ("interleave", spec, "--base", umbench.program, "--head", umbench.program, "--rounds", "1", "--out", "ab")
    assert umbench(*arguments).returncode == 0
    path = tmp_path / "ab/head/1.jsonl"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[:whole.rindex("{\"kind\":\"record\"") + 9], encoding="utf-8")
    assert umbench(*arguments).returncode == 0
    assert path.read_text(encoding="utf-8") == whole


def test_a_failed_cell_is_told(umbench, spec):
    done = umbench("interleave", spec, "--base", umbench.program, "--head", umbench.program, "--rounds", "1", "--out",
                   "ab", UMBENCH_TEST_CELL="abort:managed/x1.50")
    assert done.returncode == 1
    told = [line for line in done.stderr.splitlines() if "managed/x1.50" in line]
    assert [line.split(": ")[1] for line in told] == ["round 1 of base", "round 1 of head"] and "crashed" in told[0]


def script(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def test_programs_that_are_none(umbench, spec, tmp_path):
    """Of another architecture; one that lists cells but writes nothing; one that speaks no UTF-8; one that is killed."""
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(57))
    foreign.chmod(0o755)
    silent = script(tmp_path / "silent", "#!/bin/sh\ncase \"$*\" in *--list*) echo 4 cells;; esac\n")
    full = script(tmp_path / "full", "#!/bin/sh\ncase \"$*\" in *--list*) echo 4 cells;; *) echo no space left >&2; exit 1;; esac\n")
    odd = script(tmp_path / "odd", "#!/bin/sh\nprintf '\\377\\n' >&2; exit 2\n")
    killed = script(tmp_path / "killed", "#!/bin/sh\ncase \"$*\" in *--list*) echo 4 cells;; *) kill -9 $$;; esac\n")
    for program, words in ((foreign, "cannot be run"), (silent, "wrote no record of cell 1"), (full, "no space left"),
                           (odd, "\\xff"), (killed, "was killed by signal 9")):
        done = umbench("interleave", spec, "--base", umbench.program, "--head", program, "--out", f"out_{program.name}")
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_bad_input(umbench, spec, tmp_path):
    for program, sweep, words in [("nowhere", spec, "nowhere: is no program"), (tmp_path, spec, "is no program"),
                                  (umbench.program, tmp_path / "absent.json", "absent.json"),
                                  ("/bin/true", spec, "does not list the cells")]:
        done = umbench("interleave", sweep, "--base", umbench.program, "--head", program, "--out", "ab")
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
