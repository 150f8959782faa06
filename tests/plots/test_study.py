"""The figure of growing work and the table of bounds."""

import json

from umbench.plots import bounds
from umbench.plots import growth
import pytest
import synthetic

GIB = 1024**3


def record_of_batch(strategy, batch, **changes):
    key = f"alexnet/b{batch}/train/none/fp32/{strategy}/whole/simulated/sim:h200"
    return synthetic.record("alexnet", strategy, batch / 128, batch=batch, key=key, fusion="none", **changes)


@pytest.fixture
def records():
    return [record_of_batch(strategy, batch) for strategy in ("managed", "twin") for batch in (64, 128, 256)]


def test_growth_has_a_panel_an_axis_and_says_what_is_simulated(script, tmp_path, records):
    wide = [synthetic.record("alexnet", "managed", size / 448, batch=32, network_knobs={"insize": size},
                             key=f"alexnet,insize={size}/managed/whole/sim:h200") for size in (224, 448, 896)]
    done = script("plots.growth", synthetic.write_records(tmp_path / "a.jsonl", records + wide), "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "growth.svg").read_text(encoding="utf-8")
    assert all(f">{shown}<" in text for shown in ("batch", "64", "256", "height and width of an image", "224", "896"))
    assert text.count(synthetic.H200_MEASURED) == 2 and ", measured" not in text
    assert "twin" in text


def test_growth_keeps_measured_apart(records):
    measured = [record_of_batch("managed", batch, simulated=False, backend="cuda:0", device="NVIDIA H200", mode="capped")
                for batch in (64, 128)]
    for record in measured:
        record["key"] += "/measured"
    assert len(growth.records_by_panel(records + measured)) == 2


def test_growth_needs_something_that_grows(script, tmp_path, records):
    done = script("plots.growth", synthetic.write_records(tmp_path / "a.jsonl", records[:1]), "--out", tmp_path)
    assert done.returncode == 3 and "varies" in done.stderr


def graph():
    def tensor(name, use, gib):
        return {"name": name, "shape": [gib, 1024, 1024, 256], "type": "f32", "use": use}

    return {"tensors": [tensor("data", "input", 1), tensor("w", "parameter", 1), tensor("y", "activation", 4),
                        tensor("dropped", "activation", 3), tensor("loss", "output", 1),
                        tensor("y.grad", "activation_gradient", 4), tensor("w.grad", "parameter_gradient", 1)],
            "ops": [{"name": "conv", "in": ["data", "w"], "out": ["y"]},
                    {"name": "pool", "in": ["y"], "out": ["dropped"]},
                    {"name": "top", "in": ["dropped"], "out": ["loss", "y.grad"]},
                    {"name": "conv.backward", "in": ["data", "y", "y.grad"], "out": ["w.grad"]}]}


def test_what_is_alive_between_the_passes():
    assert bounds.bytes_alive_between_passes(graph()) == (1 + 4 + 3) * GIB


def test_the_bound_is_the_slower_of_operators_and_link(script, tmp_path):
    records = [synthetic.record(strategy="managed", ratio=2.0, time_ns=900_000_000),
               synthetic.record(strategy="twin", ratio=2.0, time_ns=300_000_000),
               synthetic.record(strategy="swap_all", ratio=2.0, time_ns=200_000_000),
               synthetic.record(strategy="twin", ratio=1.25, time_ns=120_000_000)]
    files = [synthetic.write_records(tmp_path / "a.jsonl", records), "--graph", tmp_path / "g.json", "--machine", tmp_path / "m.json"]
    (tmp_path / "g.json").write_text(json.dumps(graph()), encoding="utf-8")
    (tmp_path / "m.json").write_text(json.dumps({"link_to_device_bytes_per_s": 20 * GIB}), encoding="utf-8")
    done = script("plots.bounds", *files, "--markdown")
    assert done.returncode == 0, done.stderr
    rows = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
            for line in done.stdout.splitlines() if line.startswith("| ")}
    # 8 GiB alive, a budget of 4 GiB: 4 GiB at 20 GiB/s. At 1.25 the operators' 100 ms are more than 1.6 GiB.
    assert rows["2"][:5] == ["100 ms", "4.00 GiB", "200 ms", "300 ms", "twin"]
    assert rows["2"][5:] == ["3.00x", "1.50x", "3.00x"]
    assert rows["1.25"][2] == "100 ms" and rows["1.25"][-1] == "no fit"
    assert f"simulated, {synthetic.H200_MEASURED}" in done.stdout


def test_what_leaves_in_the_forward_pass_and_comes_back_in_the_backward_pass(script, tmp_path):
    spans = [{"lane": "compute", "name": name, "begin_ns": begin * 10**6, "end_ns": end * 10**6}
             for name, begin, end in (("conv", 0, 20), ("pool", 20, 30), ("top", 30, 40), ("conv.backward", 40, 100))]
    assert bounds.pass_times_ns(graph(), spans) == (30 * 10**6, 70 * 10**6)
    records = [synthetic.record(strategy="twin", ratio=2.0, time_ns=1_000_000_000)]
    device = synthetic.record(strategy="device", ratio=0.9, timeline={"iteration": 1, "spans": spans, "resident": []})
    (tmp_path / "g.json").write_text(json.dumps(graph()), encoding="utf-8")
    (tmp_path / "m.json").write_text(json.dumps({"link_to_device_bytes_per_s": 20 * GIB,
                                                 "link_to_host_bytes_per_s": 10 * GIB}), encoding="utf-8")
    done = script("plots.bounds", synthetic.write_records(tmp_path / "a.jsonl", records), "--graph", tmp_path / "g.json",
                  "--machine", tmp_path / "m.json", "--device", synthetic.write_records(tmp_path / "d.jsonl", [device]))
    assert done.returncode == 0, done.stderr
    # 7 GiB of activations, a budget of 4: 3 GiB leave at 10 GiB/s, and 4 GiB come back at 20 GiB/s.
    assert "500 ms" in done.stdout and "2.00x" in done.stdout
