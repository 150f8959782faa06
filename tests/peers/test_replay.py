"""benchmarks/replay.py: networks with opaque operators, and the comparison of their times."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "python")]

import replay  # noqa: E402

VGG = json.loads((ROOT / "tests/networks/exported/vgg16.json").read_text(encoding="utf-8"))


def replayed_vgg16():
    return replay.with_opaque_operators(VGG, {op["name"]: (1000 * (i + 1), 256 * i) for i, op in enumerate(VGG["ops"])})


def test_every_operator_keeps_what_it_touches_and_takes_its_time():
    made = replayed_vgg16()
    assert made["name"] == "vgg16_replayed" and made["tensors"] == VGG["tensors"]
    assert [(op["name"], op["in"], op["out"]) for op in made["ops"]] == [(op["name"], op["in"], op["out"]) for op in VGG["ops"]]
    assert {op["kind"] for op in made["ops"]} == {"opaque"}
    assert made["ops"][0]["duration_ns"] == 1000
    assert max(op["workspace_bytes"] for op in made["ops"]) == 256 * (len(made["ops"]) - 1)
    by_label = {op["label"]: op for op in made["ops"]}
    assert by_label["convolution_backward_filter"]["cut"] == {"in": ["part", "part"], "out": ["sum"]}
    assert by_label["convolution"]["cut"] == {"in": ["part", "whole", "whole"], "out": ["part"]}


def test_operators_together_take_what_an_iteration_takes(monkeypatch):
    engines = [{"op": "a", "time_ns": 300, "workspace_bytes": 8}, {"op": "b", "time_ns": 100, "workspace_bytes": 0}]
    monkeypatch.setattr(replay.load, "read", lambda path: ({}, [record("vgg16", "device", 0.9, 200) | {"engines": engines}]))
    assert replay.costs_of_operators(Path("in_core.jsonl"), "vgg16") == {"a": (150, 8), "b": (50, 0)}


def test_the_made_network_is_taken(tmp_path):
    if "UMBENCH" not in os.environ:
        pytest.skip("UMBENCH does not name a binary")
    (tmp_path / "vgg16.json").write_text(json.dumps(replayed_vgg16()), encoding="utf-8")
    cell = ["--network", tmp_path / "vgg16.json", "--ratio", "1.25", "--backend", "sim:h200", "--iterations", "2"]
    done = subprocess.run([os.environ["UMBENCH"], "run", *cell, "--strategy", "swap_all", "--out", tmp_path / "r.jsonl"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def record(network, strategy, ratio, ns):
    return {"network": network, "strategy": strategy, "ratio": ratio, "outcome": "ok", "samples_ns": [9 * ns, ns, ns]}


def test_the_report_compares_slowdowns_and_their_order(capsys):
    def both(replayed_twin):
        rows = [("device", 0.9, 100), ("managed", 1.25, 400), ("twin", 1.25, 150)]
        theirs = [("device", 0.9, 50), ("managed", 1.25, 210), ("twin", 1.25, replayed_twin)]
        return [record("vgg16", *row) for row in rows] + [record("vgg16_replayed#00000000", *row) for row in theirs]

    assert replay.report_whether_both_agree(both(80))
    assert "| vgg16 | 1.25 | managed | 4.00 | 4.20 | 1.050 |" in capsys.readouterr().out
    assert not replay.report_whether_both_agree(both(100))
    assert not replay.report_whether_both_agree(both(300))
    assert "in another order" in capsys.readouterr().out
    assert not replay.report_whether_both_agree([])


def test_slowdowns_are_medians_over_runs():
    computed = [("device", 0.9, 100), ("device", 0.9, 100), ("twin", 2, 300), ("twin", 2, 200), ("twin", 2, 220)]
    replayed = [("#1", "device", 0.9, 50), ("#1", "twin", 2, 100), ("#2", "device", 0.9, 40), ("#2", "twin", 2, 88)]
    records = [record("vgg16", *run) for run in computed] + [record("vgg16_replayed" + own, *run) for own, *run in replayed]
    assert replay.computed_and_replayed_slowdowns(records) == {("vgg16", 0.9, "device"): (1, 1), ("vgg16", 2, "twin"): (2.2, 2.1)}


def kept_records(card):
    lines = (ROOT / f"results/study/replay_beside_computed_{card}.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry for entry in map(json.loads, lines) if entry["kind"] == "record"]  # load.read() keeps one run of a cell


def row_of_page(card):
    page = (ROOT / "results/study/README.md").read_text(encoding="utf-8").splitlines()
    return next(line for line in page if line.startswith(f"| `replay_beside_computed_{card}.jsonl`"))


@pytest.mark.parametrize("card", ["h100", "h200"])
def test_the_page_says_how_many_kept_slowdowns_agree(card):
    found = replay.computed_and_replayed_slowdowns(kept_records(card))
    apart = [abs(theirs / ours - 1) for (_, _, strategy), (ours, theirs) in found.items() if strategy != "device"]
    assert f"{sum(each <= replay.TOLERATED_DIFFERENCE for each in apart)} of {len(apart)} slowdowns within 15 %" in row_of_page(card)


def test_the_page_says_how_many_pairs_of_runs_of_one_cell_agree():
    times = {}
    for each in kept_records("h100"):
        if each["strategy"] != "device":
            times.setdefault((each["network"].split("#")[0], each["strategy"], each["ratio"]), []).append(replay.load.steady_ns(each))
    pairs = [sorted(pair) for runs in times.values() for pair in itertools.combinations(runs, 2)]
    near = sum(longer <= 1.15 * shorter for shorter, longer in pairs)
    assert f"of pairs of runs of one cell: {near} of {len(pairs)}" in row_of_page("h100")


def test_curves_compare_replayed_networks_with_the_simulator(tmp_path, monkeypatch, capfd):
    """Another machine stands for the GPU, and few cells for all."""
    if "UMBENCH" not in os.environ:
        pytest.skip("UMBENCH does not name a binary")
    grids = [{"strategy": "device", "ratio": 0.9}, {"strategy": ["managed", "twin"], "ratio": 1.5}]
    monkeypatch.setattr(replay, "CURVES_SWEEP", replay.CURVES_SWEEP | {"grids": grids})
    monkeypatch.setattr(replay, "NETWORKS_OF_CURVES", ("convnext_t",))
    assert replay.compare_with_simulated(os.environ["UMBENCH"], tmp_path, 600, "sim:h100-pcie5-80g")
    rows = [line for line in capfd.readouterr().out.splitlines() if line.startswith("| convnext_t_replayed | ")]
    assert len(rows) == 3 and rows[0].endswith("| device | 0.9 | 1.00 | 1.00 | 1.000 |")
    made = json.loads((tmp_path / "convnext_t.replayed.json").read_text(encoding="utf-8"))
    own = json.loads((ROOT / "tests/networks/exported/convnext_t.json").read_text(encoding="utf-8"))
    assert {op["kind"] for op in made["ops"]} == {"opaque"} and min(op["duration_ns"] for op in made["ops"]) > 0
    cuts = {op["name"]: op.get("cut") for op in own["ops"] if op["kind"] == "opaque"}
    assert cuts and all(op["cut"] == cuts[op["name"]] for op in made["ops"] if op["name"] in cuts)


def test_a_cell_that_did_not_end_well_is_told():
    cells = [record("a", "device", 0.9, 10), record("a", "twin", 1.5, 20)]
    assert replay.print_slowdowns_side_by_side(cells, cells)
    assert not replay.print_slowdowns_side_by_side(cells, [cells[0], cells[1] | {"outcome": "out_of_memory"}])
    assert not replay.print_slowdowns_side_by_side([], [])
