import json

import conftest
import pytest
import synthetic
from umbench import fingerprint


def kept_environment():
    path = conftest.ROOT / "results/measured/h200_capped.jsonl"
    return json.loads(path.read_text(encoding="utf-8").splitlines()[0])


def unlike(base_environment, head_environment):
    return fingerprint.compare_environments([base_environment], [head_environment]).unlike


def with_gpu(environment, **changes):
    return environment | {"gpu": environment["gpu"] | changes}


def test_revision_and_date_do_not_count():
    here = kept_environment()
    assert unlike(here, here | {"umbench": "9", "created": "2027-01-01T00:00:00Z"}) == []


def test_every_fact_that_changes_times_is_compared():
    here = kept_environment()
    for name, value in (("driver", "575.1"), ("name", "NVIDIA H100"), ("cudnn", "9.1.0")):
        assert unlike(here, with_gpu(here, **{name: value})) == [f"gpu.{name}: {here['gpu'][name]} / {value}"]
    there = here | {"nvidia_uvm": here["nvidia_uvm"] | {"uvm_perf_prefetch_threshold": "1"}}
    assert unlike(here, there) == ["nvidia_uvm.uvm_perf_prefetch_threshold: 51 / 1"]
    for name in ("mig", "mps", "ecc", "pcie_generation", "addressing", "power_limit_mw"):
        left, right = (with_gpu(here, facts={name: value}) for value in ("1", "2"))
        assert unlike(left, right) == [f"gpu.facts.{name}: 1 / 2"]


def test_all_environment_lines_of_a_side_are_compared():
    here = kept_environment()
    there = with_gpu(here, driver="575.1")
    assert fingerprint.compare_environments([here, here], [here, there]).unlike == ["gpu.driver: 580.159.04 / 575.1"]


def test_facts_unknown_on_one_side_are_no_difference():
    here = kept_environment()
    there = with_gpu(here, driver=None)
    del there["nvidia_uvm"]
    assert unlike(here, there) == []
    missing = [with_gpu(here, facts_missing={"mig": why}) for why in ("made up", "otherwise")]
    assert unlike(*missing) == [] and fingerprint.unknown_facts(missing[0]) == {"gpu.mig": "made up"}
    assert unlike(with_gpu(here, facts={"mig": "on"}), missing[0]) == [] and fingerprint.unknown_facts(here) == {}


@pytest.mark.parametrize("name", ["uuid_hash", "other_processes"])
def test_two_gpus_of_one_model_are_reported_and_compared(name):
    left, right = (with_gpu(kept_environment(), facts={name: value}) for value in ("1", "2"))
    found = fingerprint.compare_environments([left], [right])
    assert found.unlike == [] and found.noted == [fingerprint.NOTE_BY_FACT[f"gpu.facts.{name}"]]
    assert fingerprint.compare_environments([left], [left]).noted == []


def test_machines_of_one_type_have_about_the_same_memory():
    here = kept_environment()
    for factor, expected in ((1.001, 0), (1.05, 1)):
        host = here["host"] | {"memory_bytes": int(here["host"]["memory_bytes"] * factor)}
        assert len(unlike(here, here | {"host": host})) == expected


def test_disturbed_cells_are_found():
    def record(ratio, other_process_count=0, *throttle_reasons):
        state = {"throttled_by": list(throttle_reasons), "other_processes": other_process_count}
        return synthetic.record(ratio=ratio, observed={"gpu_before": None, "gpu_after": state})

    cells = [record(1.0), record(1.5, 2), record(2.0, 0, "sw_power_cap", "hw_thermal_slowdown"), synthetic.record(ratio=3.0)]
    assert fingerprint.keys_by_disturbance(cells) == {"other processes": [cells[1]["key"]],
                                                      "hw_thermal_slowdown": [cells[2]["key"]]}
