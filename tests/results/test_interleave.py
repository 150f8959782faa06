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


def test_bad_input(umbench, spec, tmp_path):
    for program, sweep, words in [("nowhere", spec, "nowhere: is no program"), (tmp_path, spec, "is no program"),
                                  (umbench.program, tmp_path / "absent.json", "absent.json"),
                                  ("/bin/true", spec, "does not list the cells")]:
        done = umbench("interleave", sweep, "--base", umbench.program, "--head", program, "--out", "ab")
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
