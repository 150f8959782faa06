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
    found = floors.floor_of(ENGINES, CEILINGS, "fp32")
    assert found["floor_ms"] == pytest.approx(2.0)
    assert found["arithmetic_ms"] == pytest.approx(1.0001)
    assert found["traffic_ms"] == pytest.approx(1.1)
    assert found["operators_ms"] == pytest.approx(4.1)


def test_the_largest_gap_comes_first():
    gaps = floors.gaps_of(ENGINES, CEILINGS, "fp32")
    assert [gap["op"] for gap in gaps] == ["conv", "relu"]
    assert gaps[0]["time_ms"] == 3.0 and gaps[0]["engine"] == "e1"
    assert len(floors.gaps_of(ENGINES, CEILINGS, "fp32", top=1)) == 1
