import pytest
import synthetic
from umbench import load


def test_steady_time_is_the_median_without_the_first_iteration():
    record = synthetic.record(samples_ns=[900, 10, 30, 20])
    assert load.steady_ns(record) == 20
    assert load.steady_ns(synthetic.record(samples_ns=[900])) == 900


@pytest.mark.parametrize("outcome", ["infeasible", "timeout", "crashed", "wrong_result"])
def test_a_cell_that_failed_has_no_time(outcome):
    assert load.steady_ns(synthetic.record(outcome=outcome, samples_ns=[5, 5, 5])) is None


def test_baseline_is_of_the_same_network_and_machine():
    records = [synthetic.record("alexnet", "device", 0.5, time_ns=10), synthetic.record("vgg16", "device", 1.0, time_ns=20),
               synthetic.record("vgg16", "device", 1.0, "sim:p100-pcie3-16g", time_ns=30),
               synthetic.record("vgg16", "managed", 1.5, time_ns=60)]
    group = load.group_of(records[3])
    assert load.baseline_ns(group, records) == load.steady_ns(records[1])
    assert load.baseline_ns(group, records[2:]) is None


def test_baseline_skips_ratios_that_do_not_fit():
    records = [synthetic.record("vgg16", "device", 2.0, outcome="infeasible"), synthetic.record("vgg16", "device", 1.0, time_ns=20)]
    assert load.baseline_ns(load.group_of(records[0]), records) == load.steady_ns(records[1])


def test_simulated_and_measured_never_share_a_group():
    simulated = synthetic.record("vgg16", "managed", 1.5)
    measured = synthetic.record("vgg16", "managed", 1.5, "cuda:0", device="h200")
    assert len(load.records_by_group([simulated, measured])) == 2
    assert load.baseline_ns(load.group_of(measured), [synthetic.record("vgg16", "device", 1.0)]) is None


@pytest.mark.parametrize("change", [{"fusion": "lean"}, {"precision": "tf32"}, {"memory_order": "nhwc"}])
def test_levels_never_share_a_group_or_a_baseline(change):
    device, other = synthetic.record(strategy="device", ratio=1.0), synthetic.record(**change)
    assert len(load.records_by_group([device, other])) == 2
    assert load.baseline_ns(load.group_of(other), [device, other]) is None


def test_titles_say_what_is_computed():
    def text(**change):
        return load.network_text(load.group_of(synthetic.record(**change)))

    assert text() == "VGG-16, batch 64, training, fp32, fused"
    assert text(fusion="none") == "VGG-16, batch 64, training, fp32, not fused"
    assert text(precision="bf16", memory_order="nhwc", fusion="lean") == "VGG-16, batch 64, training, bf16, lean"
    assert text(precision="tf32", memory_order="nchw") == "VGG-16, batch 64, training, tf32, NCHW, fused"
    assert text(memory_order="nhwc") == "VGG-16, batch 64, training, fp32, NHWC, fused"
    assert text(network="resnet20_cifar", network_knobs={"insize": 32}) == "ResNet-20 (CIFAR-10), batch 128, training, fp32, fused"
    assert text(network="resnet50") == "ResNet-50, batch 128, training, fp32, fused"


def test_titles_say_how_the_figures_came_about():
    text = load.machine_text(load.group_of(synthetic.record()))
    assert text == f"h200, simulated, {synthetic.H200_MEASURED}"
    calibrated = load.machine_text(load.group_of(synthetic.record(calibrated=True)))
    assert calibrated == "h200, simulated, calibrated rates"
    measured = synthetic.record(backend="cuda:0", device="NVIDIA H200")
    assert load.machine_text(load.group_of(measured)) == "NVIDIA H200, measured, capped, workspaces up to 2 GiB"


def test_knobs_are_named_only_where_they_vary():
    one = [synthetic.record(strategy="swap_all", ratio=r, strategy_knobs={"ahead": 2}) for r in (1.0, 2.0)]
    assert list(load.records_by_strategy(one)) == ["swap_all"]
    two = one + [synthetic.record(strategy="swap_all", ratio=1.0, strategy_knobs={"ahead": 4})]
    assert list(load.records_by_strategy(two)) == ["swap_all (ahead 2)", "swap_all (ahead 4)"]


def test_lines_rise_in_ratio():
    records = [synthetic.record(ratio=r) for r in (2.0, 0.5, 1.0)]
    assert [r["ratio"] for r in load.records_by_strategy(records)["managed"]] == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("change, message", [
    ({"schema": 2}, "schema 2 is from a newer umbench; this reader knows 1"), ({"schema": "1"}, 'schema "1"; this'),
    ({"kind": "other"}, "neither an environment nor a record")])
def test_foreign_lines_are_refused(tmp_path, change, message):
    path = synthetic.write_records(tmp_path / "foreign.jsonl", [synthetic.record() | change])
    with pytest.raises(load.BadInput, match=message):
        load.read(path)


@pytest.mark.parametrize("change, message", [
    ({"samples_ns": [1, "x"]}, r"a\.jsonl:2: samples_ns\[1\]: 'x' is not of type 'integer'"), ({"samples_ns": [True]}, r"samples_ns\[0\]"),
    ({"samples_ns": [-1]}, r"samples_ns\[0\]: -1 is less than the minimum of 0"), ({"samples_ns": [float("nan")]}, "not JSON: NaN"),
    ({"samples_ns": []}, r"samples_ns: \[\] is too short"), ({"ratio": "1"}, "ratio: '1' is not of type 'number'"), ({"ratio": 0}, "ratio: 0 is less than or equal to the minimum"),
    ({"batch": 10**400}, "batch: .*0 is not of type 'integer'"), ({"key": None}, "key: None is not of type 'string'"), ({"outcome": ["ok"]}, r"outcome: \['ok'\] is not one of \['ok', "),
    ({"memory": []}, r"memory: \[\] is not of type 'object'"), ({"memory": {}}, "memory: 'footprint_bytes' is a required property"),
    ({"counters": {"first": 1, "last": 2}}, "counters.first: 1 is not of type 'object'"), ({"simulated": 1}, "simulated: 1 is not of type 'boolean'"),
    ({"timeline": {"iteration": 0, "spans": [{"lane": "compute"}], "resident": []}}, r"timeline\.spans\[0\]: '(name|begin_ns)' is a required property")])
def test_records_of_another_shape_are_refused(tmp_path, change, message):
    path = synthetic.write_records(tmp_path / "a.jsonl", [synthetic.record() | change])
    with pytest.raises(load.BadInput, match=message):
        load.read(path)


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(load.BadInput, match="no record file of umbench"):
        load.read(path)


def test_a_cell_that_failed_early_gets_its_device_from_its_neighbours(tmp_path):
    failed = synthetic.record(ratio=3.0, outcome="crashed", device=None, calibrated=None)
    _, records = load.read(synthetic.write_records(tmp_path / "early.jsonl", [synthetic.record(calibrated=True), failed]))
    assert len(load.records_by_group(records)) == 1


def test_cells_without_a_ratio_are_on_no_line():
    assert load.records_by_strategy([synthetic.record(ratio=1.0), synthetic.record(ratio=1.0, key="b") | {"ratio": None}])["managed"] \
        == [synthetic.record(ratio=1.0)]
