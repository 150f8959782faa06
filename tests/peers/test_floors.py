import architectures
import floors
import pytest

CEILINGS = {"copy_bytes_per_s": 1e12, "matrix_flops_per_s": {"fp32": 1e13, "tf32": 1e14}}
ENGINES = [{"op": "conv", "engine": "e1", "flops": 10**10, "bytes": 10**8, "time_ns": 3_000_000},
           {"op": "relu", "engine": "kernel", "flops": 10**6, "bytes": 10**9, "time_ns": 1_100_000}]


def test_an_operator_is_bound_by_arithmetic_or_by_traffic():
    assert floors.floor_ns(ENGINES[0], CEILINGS, "fp32") == pytest.approx(1e6)
    assert floors.floor_ns(ENGINES[0], CEILINGS, "tf32") == pytest.approx(1e5)
    assert floors.floor_ns(ENGINES[1], CEILINGS, "fp32") == pytest.approx(1e6)


def test_a_steps_floor_is_the_sum_of_its_operators():
    found = floors.floor_of_step(ENGINES, CEILINGS, "fp32")
    assert found["floor_ms"] == pytest.approx(2.0)
    assert found["arithmetic_ms"] == pytest.approx(1.0001)
    assert found["traffic_ms"] == pytest.approx(1.1)
    assert found["operators_ms"] == pytest.approx(4.1)


def test_the_largest_gap_comes_first():
    gaps = floors.largest_gaps(ENGINES, CEILINGS, "fp32")
    assert [gap["op"] for gap in gaps] == ["conv", "relu"]
    assert gaps[0]["time_ms"] == 3.0 and gaps[0]["engine"] == "e1"
    assert len(floors.largest_gaps(ENGINES, CEILINGS, "fp32", max_count=1)) == 1


@pytest.mark.parametrize("op, kind", [
    ("conv1", "convolution"), ("conv1.again2", "convolution.again"), ("conv1.w.bf16", "cast"),
    ("layer1.0.conv2.backward_filter", "convolution.backward_filter"),
    ("layer1.0.downsample.0.backward_data", "convolution.backward_data"),
    ("layer1.0.downsample.1.backward", "normalisation.backward"), ("bn1.again", "normalisation.again"),
    ("conv1.backward_filter [batch 3/8]", "convolution.backward_filter"),
    ("conv1.backward_filter [row 0/4]", "convolution.backward_filter"),
    ("fc", "linear"), ("fc.backward_data", "linear.backward_data"), ("pool1.backward", "pool.backward"),
    ("layer4.2.relu3.backward", "relu.backward"), ("average", "average"), ("loss", "loss"), ("relu1_2", "relu")])
def test_operators_are_of_a_kind(op, kind):
    layers = floors.kinds_by_layer_name(architectures.layers_of("resnet50"))
    assert floors.kind_of_operator(op, layers) == kind


def test_gaps_of_a_kind_are_added_up():
    engines = [{"op": "conv1_1 [batch 0/2]", "flops": 5 * 10**9, "bytes": 1, "time_ns": 2_000_000},
               {"op": "conv1_1 [batch 1/2]", "flops": 5 * 10**9, "bytes": 1, "time_ns": 1_000_000},
               {"op": "conv1_2", "flops": 10**10, "bytes": 1, "time_ns": 2_000_000},
               {"op": "pool1", "flops": 1, "bytes": 10**9, "time_ns": 9_000_000}]
    found = floors.gaps_by_kind(engines, CEILINGS, "fp32", "vgg16")
    assert [row["kind"] for row in found] == ["pool", "convolution"]
    assert found[1] == {"kind": "convolution", "operators": 2, "time_ms": pytest.approx(5.0),
                        "floor_ms": pytest.approx(2.0)}
