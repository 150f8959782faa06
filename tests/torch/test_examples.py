"""The example trains to a falling loss, fitted as well as unplanned."""

import json
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", minversion="2.9")

import test_fit  # noqa: E402, F401  skips where the program umbench is not built

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/torch/fit_training.py"


@pytest.mark.parametrize("network, ratio, rate", (("resnet50", 1.2, 1e-3), ("gpt2", 1.3, 1e-2), ("llama_lora", 1.3, 1e-2)))
def test_the_loss_falls(network, ratio, rate, tmp_path, monkeypatch, capsys):
    curve = tmp_path / "curve.jsonl"
    monkeypatch.setattr(sys, "argv", ["fit_training.py", network, "--small", "--steps", "25", "--ratio", str(ratio), "--rate", str(rate), "--out", str(curve)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    rows = [json.loads(line) for line in curve.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 25 and "predicted peak" in capsys.readouterr().out
    for way in ("unplanned", "fitted"):
        assert sum(row[way] for row in rows[-5:]) < 0.97 * sum(row[way] for row in rows[:5])
    assert all(abs(row["unplanned"] - row["fitted"]) < 0.02 * row["unplanned"] for row in rows)
