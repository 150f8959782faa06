"""Lower bounds of time in measured records: no plan that ran on a GPU took less than its own bound, computed with the speed of operators in
the cell of `device`."""

from pathlib import Path

import pytest

from umbench import load

RESULTS = Path(__file__).resolve().parents[2] / "results"
KEPT = sorted([*RESULTS.glob("study/best_*h?00.jsonl"), *RESULTS.glob("study/papers_*_h?00.jsonl"),
               *RESULTS.glob("study/hints*_h200.jsonl"), *RESULTS.glob("measured/h200_capped*.jsonl"),
               RESULTS / "validation/h200_host_1.jsonl"])
NOISE = 0.995  # smallest quotient of a time and its bound, which scales with the fastest of several cells of `device`


def times_over_bounds(record_file):
    """{key: (time / bound of its plan, time / sum of operators timed alone)} of measured cells whose group has a cell of `device`."""
    records = load.read(record_file)[1]
    baselines = load.baseline_ns_by_group(records)
    found = {}
    for record in records:
        time, baseline = load.steady_ns(record), load.baseline_ns_of_group(load.group_of(record), baselines)
        if time and baseline and not record["simulated"]:
            found[record["key"]] = time / load.lower_bounds_ns(record, baseline)["plan_ns"], time / record["compute_ns"]
    return found


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_no_measured_plan_is_below_its_bound(path):
    found = times_over_bounds(path)
    assert found and {key: over for key, (over, _) in found.items() if over < NOISE} == {}


def test_the_page_quotes_plans_of_exported_networks_and_their_bounds():
    records = load.read(RESULTS / "study/best_exported_simulated.jsonl")[1]
    device_ns = {record["network"]: record["samples_ns"][-1] for record in records if record["strategy"] == "device"}
    usual_knobs = {"bits": 0, "copies": 5, "copy_us": 3, "effort": 1}
    plans = sorted((record for record in records if record["strategy_knobs"] == usual_knobs), key=lambda record: record["ratio"])
    page = (RESULTS / "study/README.md").read_text(encoding="utf-8")
    for network, alone_ns in device_ns.items():
        cells = [f"{plan['samples_ns'][-1] / alone_ns:.3f} / {plan['bounds']['both_ns'] / alone_ns:.3f}" for plan in plans if plan["network"] == network]
        assert len(cells) == 5 and f"| {' | '.join(cells)} |" in page
    assert len(device_ns) == 8


def test_operators_timed_one_by_one_are_no_bound():
    over = times_over_bounds(RESULTS / "study/best_h200.jsonl").values()
    assert len(over) >= 8 and min(alone for _, alone in over) < 0.95


def test_resnet_ends_its_forward_pass_first_and_keeps_to_that_bound():
    records = [r for r in load.read(RESULTS / "study/best_h200.jsonl")[1] if r["network"] == "resnet50"]
    baseline = load.baseline_ns(load.group_of(records[0]), records)
    over = [load.steady_ns(r) / load.lower_bounds_ns(r, baseline)["both_ns"] for r in records]
    assert len(over) == 6 and min(over) >= 1 > min(load.steady_ns(r) / r["bounds"]["both_ns"] for r in records)


@pytest.mark.parametrize("change,expected", [
    ({}, {"swap_ns": None, "recompute_ns": 90, "both_ns": 45, "plan_ns": 45}),
    ({"simulated": True}, {"swap_ns": None, "recompute_ns": 180, "both_ns": 90, "plan_ns": 90}),
    ({"bounds": None}, {"swap_ns": None, "recompute_ns": None, "both_ns": None, "plan_ns": 40}),
    ({"compute_ns": 30}, {"swap_ns": None, "recompute_ns": 180, "both_ns": 90, "plan_ns": 90})])
def test_bounds_are_scaled_by_the_time_of_device(change, expected):
    record = {"simulated": False, "compute_ns": 80,
              "bounds": {"swap_ns": None, "recompute_ns": 180, "both_ns": 90, "plan": {"least_ns": 90}}} | change
    assert load.lower_bounds_ns(record, 40) == expected
