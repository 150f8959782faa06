"""`umbench advise` compared with measurements: on all kept files of measured cells, and on cells for which its advice must be wrong."""

import json

import pytest
from conftest import ROOT

from umbench import check_advice, load

KEPT = [path for folder in ("measured", "study") for path in sorted((ROOT / "results" / folder).glob("*.jsonl"))
        if path.name not in ("h200_pytorch.jsonl", "link_pace_h200.jsonl") and not path.name.startswith("replay")]


@pytest.mark.study
def test_nine_in_ten_kept_groups_are_right(umbench):
    rows = check_advice.compare_advice_with_fastest(umbench.program, "sim:h200", KEPT)
    assert len(rows) >= 50
    wrong = [row for row in rows if not check_advice.is_advice_right(row)]
    assert len(wrong) <= 0.1 * len(rows), wrong


def test_a_wrong_recommendation_is_reported(umbench, tmp_path):
    """The measured times of the fastest and of the slowest strategy are exchanged."""
    lines = [json.loads(line) for line in (ROOT / "results/study/hints_alexnet_h200.jsonl").read_text(encoding="utf-8").split("\n") if line]
    fast, slow = (next(line for line in lines if line.get("strategy") == name and line["ratio"] == 1.25) for name in ("twin", "managed"))
    fast["samples_ns"], slow["samples_ns"] = slow["samples_ns"], fast["samples_ns"]
    path = tmp_path / "exchanged.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    rows = check_advice.compare_advice_with_fastest(umbench.program, "sim:h200", [path])
    assert [check_advice.is_advice_right(row) for row in rows] == [False] and rows[0].advised == "twin"


def test_cells_alone_or_simulated_are_no_group():
    records = load.read(ROOT / "results/study/best_h200.jsonl")[1]
    assert {ratio for _, ratio in check_advice.measured_groups(records)} == {1.25}
    assert not check_advice.measured_groups([record | {"simulated": True} for record in records])
