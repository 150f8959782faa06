"""The scripts end with one line and an exit code for any input, encoding, streams and packages."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml

import conftest
import forked
import pytest
import synthetic
from umbench import load

MODULES = {"compare": "compare", "export": "export", "interleave": "interleave", "report": "plots.report",
           "slowdown": "plots.slowdown", "table": "plots.table"}


@pytest.fixture
def run(tmp_path):
    """A function that starts a script as umbench does, with its output as bytes. `python_command`, `redirection` or an environment need a new process."""

    def start(name, *arguments, python_command=(), redirection="", **environment):
        if not (python_command or redirection or environment):
            done = forked.run(MODULES[name], *map(os.fsdecode, arguments), cwd=tmp_path)
            return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.encode(), done.stderr.encode())
        command = [*(python_command or (sys.executable,)), str(conftest.ROOT / "python/start.py"), MODULES[name], *map(os.fsdecode, arguments)]
        if redirection:
            command = ["bash", "-c", f'"$@" {redirection}', "bash", *command]
        return subprocess.run(command, capture_output=True, cwd=tmp_path, check=False,
                              env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment)

    return start


@pytest.fixture
def study(write):
    return write("study.jsonl", [synthetic.environment(), synthetic.record(), synthetic.record(strategy="device", ratio=0.5)])


def assert_fails_in_one_line(done, exit_code=2):
    assert done.returncode == exit_code, done.stderr
    assert done.stderr.count(b"\n") == 1 and b"Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("redirection, code", [(">/dev/full", 2), (">&-", 2), ("| true; exit ${PIPESTATUS[0]}", None)])
def test_streams_that_take_nothing(run, study, redirection, code):
    for arguments in (("export", study, "--format", "csv"), ("compare", study, study), ("table", study)):
        done = run(*arguments, redirection=redirection)
        if code is None:
            assert done.returncode in (0, 141) and done.stderr == b""
        elif arguments[0] == "table" and redirection == ">&-":
            assert b"Traceback" not in done.stderr  # print() to nowhere is no error
        else:
            assert_fails_in_one_line(done, code)


def test_a_closed_standard_error_changes_no_other_output(run, study):
    assert run("export", study, "--format", "csv", redirection="2>&-").returncode == 0
    assert run("export", "absent", "--format", "csv", redirection="2>&-").returncode == 2
    assert run("export", "absent", "--format", "csv", redirection="2>/dev/full").returncode == 2


def test_encodings(run, write, study, tmp_path):
    assert_fails_in_one_line(run("export", b"\xff.jsonl", "--format", "csv", python_command=(sys.executable,)))
    done = run("compare", study, study, "--format", "markdown", "--all", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0 and "✅".encode() in done.stdout
    done = run("compare", study, study, LC_ALL="C", PYTHONUTF8="0")
    assert done.returncode == 0
    odd = write("odd.jsonl", [synthetic.environment(), synthetic.record(device="a\u2028b $\\bad$ größer")])
    odd.write_text("".join(json.dumps(json.loads(line), ensure_ascii=False) + "\n" for line in
                           odd.read_text(encoding="utf-8").splitlines()), encoding="utf-8")
    assert run("export", odd, "--format", "csv").returncode == 0
    done = run("slowdown", odd, "--out", "drawn")
    assert done.returncode == 0, done.stderr
    done = run("report", odd, "--out", "page", "--title", b"\xff", python_command=(sys.executable,))
    assert done.returncode == 0 and (tmp_path / "page/index.html").exists(), done.stderr


def test_long_values_in_errors_are_shortened(run, study):
    done = run("compare", study, study, "--rounds", "x" * 5000)
    assert_fails_in_one_line(done)
    assert len(done.stderr) < 2000 and done.stderr.endswith(b"see umbench compare --help\n")


def test_empty_paths(run, study, tmp_path):
    for arguments in (("compare", "", study), ("export", "", "--format", "csv"), ("report", study, "--out", ""),
                      ("slowdown", study, "--out", ""), ("export", study, "--format", "csv", "--out", ""),
                      ("interleave", study, "--base", "/bin/true", "--head", "/bin/true", "--out", "")):
        assert_fails_in_one_line(run(*arguments))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.jsonl"]


def test_an_unreadable_folder_is_an_error(monkeypatch, tmp_path):
    def raise_permission_error(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(load.Path, "iterdir", raise_permission_error)
    with pytest.raises(load.BadInput, match="Permission denied"):
        load.files_in(tmp_path, "*.jsonl")


def test_output_does_not_overwrite_the_input_or_remain_after_an_error(run, study, tmp_path):
    before = study.read_bytes()
    assert_fails_in_one_line(run("export", study, "--format", "csv", "--out", study))
    assert_fails_in_one_line(run("compare", study, study, "--out", study))
    assert study.read_bytes() == before
    assert_fails_in_one_line(run("export", study, "--format", "csv", "--out", "nowhere/x.csv"))
    assert run("export", study, "--format", "csv", "--out", "/dev/null").returncode == 0
    assert run("export", study, "--format", "csv", "--out", "x.csv").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.jsonl", "x.csv"]


def test_missing_packages_are_named_in_one_line(run, study):
    bare = (sys.executable, "-E", "-S")  # sees no packages but Python's own
    for arguments in (("compare", study, study), ("report", study, "--out", "x"), ("slowdown", study, "--out", "x"),
                      ("export", study, "--format", "csv"), ("table", study)):
        assert_fails_in_one_line(run(*arguments, python_command=bare))
    assert_fails_in_one_line(run("interleave", study, "--base", "/bin/true", "--head", "/bin/true", "--out", "x", python_command=bare))


def test_cells_with_extreme_values(run, write, tmp_path):
    """Cells with a time of 0 and with a timeline without length are read."""
    still = synthetic.timeline()
    for span in still["spans"]:
        span["begin_ns"] = span["end_ns"] = 0
    cells = [synthetic.record(backend=backend, strategy=strategy, samples_ns=[0, 0, 0], timeline=still, compute_ns=0)
             for backend in ("sim:h200", "cuda:0") for strategy in ("device", "managed")]
    path = write("edge.jsonl", [synthetic.environment(), *cells, synthetic.record(ratio=2.0)])
    for arguments in (("compare", path, path), ("report", path, "--out", "page"), ("slowdown", path, "--out", "drawn")):
        done = run(*arguments)
        assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr


def test_junit_escapes_characters_that_xml_forbids(run, write):
    path = write("odd.jsonl", [synthetic.environment(), synthetic.record(outcome="crashed", reason="a\x01b\x1b[0m\ufffe")])
    done = run("export", path, "--format", "junit")
    assert done.returncode == 0
    assert xml.fromstring(done.stdout)[0][0].get("message") == "a\\u0001b\\u001b[0m\\ufffe"


def test_a_cell_of_several_files_counts_once(run, write, tmp_path):
    path = write("a.jsonl", [synthetic.environment(), synthetic.record(), synthetic.record(ratio=3.0, outcome="crashed")])
    assert run("report", path, path, "--out", "page").returncode == 0
    assert "1 of 2 cells failed" in (tmp_path / "page/index.html").read_text(encoding="utf-8")


def test_a_report_draws_some_of_many_groups(run, write, tmp_path):
    cells = [synthetic.record(strategy=strategy, ratio=ratio, batch=batch, key=f"{batch}/{strategy}/{ratio}")
             for batch in range(1, 64) for strategy in ("device", "managed") for ratio in (0.5, 1.0, 2.0, 4.0)]
    done = run("report", write("many.jsonl", [synthetic.environment(), *cells]), "--out", "page")
    assert done.returncode == 0, done.stderr
    assert "Drawn are the 12 of 63 groups" in (tmp_path / "page/index.html").read_text(encoding="utf-8")
    assert (tmp_path / "page/slowdown.csv").read_text(encoding="utf-8").count("\n") == 505
