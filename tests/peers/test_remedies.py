"""The scripts that run on a GPU: what they would run, and how they divide the time."""

import itertools
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/peers")]

import planners_on_gpu  # noqa: E402
import remedies  # noqa: E402
import resumable  # noqa: E402


def test_best_is_given_the_peak_of_the_remedy():
    task = {"network": "vgg16", "batch": 256, "precision": "bf16", "remedy": "checkpoint", "samples": 12, "deadline_s": 240}
    line = remedies.command("umbench", task, 12345, "out.jsonl")
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


def test_time_that_a_step_leaves_goes_to_the_next():
    shares = {"a": 0.5, "b": 0.25, "c": 0.25}
    assert planners_on_gpu.plan(shares, [], 10) == ("a", 300)
    assert planners_on_gpu.plan(shares, ["a"], 9) == ("b", 270)


def test_a_step_that_takes_too_long_is_asked_to_stop():
    code = "import signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(7))\ntime.sleep(60)"
    assert planners_on_gpu.run([sys.executable, "-c", code], 1.0) == 7


def test_a_step_that_fails_is_told(tmp_path, monkeypatch, capsys):
    codes = {"best": 128 + 2, "ooc_cudnn": 2, "papers": 0}
    monkeypatch.setattr(planners_on_gpu, "run", lambda line, seconds: codes[Path(line[line.index("--out") + 1]).stem])
    wanted = ["--umbench", "umbench", "--out", str(tmp_path), "--minutes", "10", "--steps"]
    assert planners_on_gpu.main([*wanted, *codes]) == 1
    assert "ooc_cudnn: exit code 2" in capsys.readouterr().out
    assert planners_on_gpu.main([*wanted, "best", "papers"]) == 0


def test_every_step_has_its_sweep(tmp_path):
    for step in planners_on_gpu.SHARES:
        line = planners_on_gpu.command_of(step, "umbench", tmp_path, 60)
        for word in line:
            if word.endswith(".json"):
                assert json.loads(Path(word).read_text())["name"] == f"gpu_{step}"


def test_measurements_go_on_behind_what_the_file_holds(tmp_path):
    out, measured = tmp_path / "out.jsonl", []
    tasks = [{"what": name, "ratio": ratio} for name in "ab" for ratio in (1, 2)]

    def measure(task):
        measured.append((task["what"], task["ratio"]))
        return task | {"ms": 1.5}

    resumable.run(out, tasks, ("what", "ratio"), measure, lambda: len(measured) == 3)
    assert measured == [("a", 1), ("a", 2), ("b", 1)]
    resumable.run(out, tasks, ("what", "ratio"), measure)
    assert measured[3:] == [("b", 2)]
    assert [(line["what"], line["ratio"]) for line in resumable.held(out)] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
