"""benchmarks/on_gpu.py and the scripts behind it: their command lines, their time, their verdicts."""

import itertools
import json
import os
import sys
import time
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/peers")]

import gpu_tests  # noqa: E402
import on_gpu  # noqa: E402
import remedies  # noqa: E402
import timed  # noqa: E402


def test_best_is_given_the_peak_of_the_remedy():
    task = {"network": "vgg16", "batch": 256, "precision": "bf16", "remedy": "checkpoint", "samples": 12, "deadline_s": 240}
    line = remedies.best_command_line("umbench", task, 12345, "out.jsonl")
    assert line[line.index("--budget") + 1] == "12345"
    assert line[line.index("--strategy") + 1] == "best"


def test_the_page_has_the_kept_remedies():
    kept = json.loads((ROOT / "results/peers/remedies_h100.json").read_text(encoding="utf-8"))
    page = (ROOT / "results/study/README.md").read_text(encoding="utf-8")
    columns = list(itertools.product(("vgg16", "resnet50"), ("bf16", "tf32")))
    assert len(kept) == 20 and all(row["best_over_remedy"] == row["best_ms"] / row["ms"] for row in kept)
    for remedy in {row["remedy"] for row in kept}:
        cells = {(row["network"], row["precision"]): row for row in kept if row["remedy"] == remedy}
        shown = [f"{row['ms']:.{1 if row['ms'] < 100 else 0}f} ms, {row['peak_bytes'] / 2**30:.2f} GiB: {row['best_over_remedy']:.2f}"
                 for row in (cells[column] for column in columns)]
        assert f"| {remedy} | {' | '.join(shown)} |" in page
    worst = {name: max(row["best_over_remedy"] for row in kept if row["network"] == name) for name in ("vgg16", "resnet50")}
    assert f"at most {worst['vgg16']:.2f} and {worst['resnet50']:.2f}" in page


def test_time_that_a_part_leaves_goes_to_the_next(monkeypatch):
    monkeypatch.setattr(on_gpu, "TIME_WEIGHTS", {"a": 2, "b": 1, "c": 1})
    assert on_gpu.seconds_for_first(["a", "b", "c"], 10) == 300
    assert on_gpu.seconds_for_first(["b", "c"], 9) == 270


def test_a_program_that_takes_too_long_is_asked_to_stop():
    code = "import signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(7))\ntime.sleep(60)"
    assert timed.run_within([sys.executable, "-c", code], 1.0) == 7


def test_a_part_that_fails_is_named(tmp_path, monkeypatch, capsys):
    verdicts = {"best": True, "ooc_cudnn": False, "papers": True}
    for part, well in verdicts.items():
        monkeypatch.setitem(on_gpu.PARTS, part, lambda options, folder, seconds, well=well: well)
    wanted = ["--out", str(tmp_path), "--minutes", "10", "--parts"]
    assert on_gpu.main([*wanted, *verdicts]) == 1
    assert "not as wanted: ooc_cudnn" in capsys.readouterr().out
    assert on_gpu.main([*wanted, "best", "papers"]) == 0
    assert on_gpu.main(["--out", str(tmp_path), "--minutes", "0", "--parts", "best"]) == 0
    assert "no time is left for best" in capsys.readouterr().out


def test_every_part_has_its_share_and_every_sweep_its_file():
    assert on_gpu.TIME_WEIGHTS.keys() == on_gpu.PARTS.keys()
    for name in ("tables", "best", "papers", "ooc_cudnn", "before_after", "aa"):
        spec = json.loads((ROOT / f"benchmarks/sweeps/gpu_{name}.json").read_text(encoding="utf-8"))
        assert spec["name"] == f"gpu_{name}" and spec["common"]["mode"] == "capped"


def record(strategy, ratio, ns, digest="a", outcome="ok"):
    return {"kind": "record", "network": "vgg16", "batch": 32, "precision": "bf16", "strategy": strategy, "ratio": ratio, "outcome": outcome,
            "reason": "no room", "samples_ns": [9 * ns, ns, ns], "digest": digest}


@pytest.fixture
def write_records(monkeypatch):
    """Files of records stand for what load.read makes of them."""
    monkeypatch.setattr(on_gpu.load, "read", lambda path: ([], timed.read_lines_if_exists(path)))

    def write_records(path, *entries):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(one) + "\n" for one in entries), encoding="utf-8")
    return write_records


def test_a_sweep_is_shown_as_slowdowns(tmp_path, write_records):
    write_records(tmp_path / "r.jsonl", record("device", 0.9, 100_000_000), record("best", 2, 150_000_000), record("twin", 3, 0, outcome="infeasible"))
    table = on_gpu.slowdown_table(tmp_path / "r.jsonl")
    assert "| vgg16 | 32 | bf16 | best | 2 | 150.00 | 1.500 |" in table
    assert "| vgg16 | 32 | bf16 | twin | 3 | infeasible: no room |  |" in table


@pytest.mark.parametrize("now, well", [(100, True), (102, False)])
def test_two_builds_are_compared_by_their_least_times(tmp_path, write_records, capsys, now, well):
    for side, times in (("base", (100, 130)), ("head", (now, 140))):
        for number, ns in enumerate(times, 1):
            write_records(tmp_path / f"before_after/{side}/1.{number}.jsonl", record("best", 2, ns * 1_000_000, digest=side))
    assert on_gpu.report_time_ratios(tmp_path, 1) == well
    assert f"| vgg16 32 bf16 best 2 | 100.00 | {now}.00 | {now / 100:.3f} | 2 | no |" in capsys.readouterr().out
    assert not on_gpu.report_time_ratios(tmp_path, 0)


TEST = """#!/bin/sh
echo "[ RUN      ] a.b"
echo "[       OK ] a.b (3 ms)"
echo "[  FAILED  ] a.c, where GetParam() = 4 (12 ms)"
echo "[  SKIPPED ] a.d (0 ms)"
exit {}
"""


def test_verdicts_of_tests_are_counted(tmp_path, capsys):
    for name, code in (("cuda_kernels_test", 1), ("cuda_allocators_test", 0), ("other_test", 1)):
        (tmp_path / name).write_text(TEST.format(code), encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    assert not gpu_tests.run_all(tmp_path, tmp_path / "logs", 60)
    told = capsys.readouterr().out
    assert "tests: 2 ok, 2 failed, 2 skipped" in told and "cuda_kernels_test: 1 ok, 1 failed, 1 skipped" in told
    assert "other_test" not in told
    (tmp_path / "cuda_kernels_test").write_text("#!/bin/sh\necho '[       OK ] a.b (3 ms)'\nsleep 60", encoding="utf-8")
    (tmp_path / "cuda_allocators_test").unlink()
    began = time.monotonic()
    assert not gpu_tests.run_all(tmp_path, tmp_path / "logs", 1)
    assert "stopped: cuda_kernels_test" in capsys.readouterr().out and time.monotonic() - began < 50
    (tmp_path / "cuda_kernels_test").write_text("#!/bin/sh\necho '[       OK ] a.b (3 ms)'", encoding="utf-8")
    assert gpu_tests.run_all(tmp_path, tmp_path / "logs", 60)
    assert not gpu_tests.run_all(tmp_path / "logs", tmp_path / "logs", 60)


def test_the_sweeps_are_taken():
    if not os.environ.get("UMBENCH"):
        pytest.skip("UMBENCH does not name a binary")
    for name in ("tables", "before_after"):
        assert timed.count_cells(os.environ["UMBENCH"], ROOT / f"benchmarks/sweeps/gpu_{name}.json") > 10


def test_measurements_go_on_behind_what_the_file_holds(tmp_path):
    out, measured = tmp_path / "out.jsonl", []
    tasks = [{"what": name, "ratio": ratio} for name in "ab" for ratio in (1, 2)]

    def measure(task):
        measured.append((task["what"], task["ratio"]))
        return task | {"ms": 1.5}

    timed.measure_missing(out, tasks, ("what", "ratio"), measure, lambda: len(measured) == 3)
    assert measured == [("a", 1), ("a", 2), ("b", 1)]
    timed.measure_missing(out, tasks, ("what", "ratio"), measure)
    assert measured[3:] == [("b", 2)]
    assert [(line["what"], line["ratio"]) for line in timed.read_lines_if_exists(out)] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_a_paper_that_was_stopped_runs_again_elsewhere(tmp_path, monkeypatch):
    ran = []

    def run(line, _):
        paper, out = line[2], Path(line[line.index("--out") + 1])
        out.mkdir(parents=True)
        cells = list(json.loads((ROOT / f"results/papers/{paper}.json").read_text(encoding="utf-8"))["cells"])
        kept = cells[:2] if out.name == "vdnn_1" else cells
        (out / f"{paper}.cells.json").write_text(json.dumps(dict.fromkeys(kept, "key")), encoding="utf-8")
        ran.append(out.name)
        return 0

    monkeypatch.setattr(on_gpu.timed, "run_within", run)
    options = types.SimpleNamespace(umbench="umbench", backend="cuda:0")
    assert on_gpu.reproduce_papers(options, tmp_path, 60) and len(ran) == len(on_gpu.PAPERS)
    assert on_gpu.reproduce_papers(options, tmp_path, 60) and ran[len(on_gpu.PAPERS):] == ["vdnn_2"]
