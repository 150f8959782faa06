import json

import conftest
from results import fingerprint


def kept():
    path = conftest.ROOT / "results/measured/h200_capped.jsonl"
    return json.loads(path.read_text(encoding="utf-8").splitlines()[0])


def test_revision_and_date_do_not_count():
    here = kept()
    assert fingerprint.differences(here, here | {"umbench": "9", "created": "2027-01-01T00:00:00Z"}) == []


def test_everything_that_decides_times_counts():
    here = kept()
    for name, value in (("driver", "575.1"), ("name", "NVIDIA H100"), ("cudnn", "9.1.0")):
        there = here | {"gpu": here["gpu"] | {name: value}}
        assert fingerprint.differences(here, there) == [f"gpu.{name}: {here['gpu'][name]} / {value}"]
    there = here | {"nvidia_uvm": here["nvidia_uvm"] | {"uvm_perf_prefetch_threshold": "1"}}
    assert fingerprint.differences(here, there) == ["nvidia_uvm.uvm_perf_prefetch_threshold: 51 / 1"]


def test_what_one_side_does_not_know_is_not_held_against_it():
    here = kept()
    there = here | {"gpu": here["gpu"] | {"driver": None}}
    del there["nvidia_uvm"]
    assert fingerprint.differences(here, there) == []
