"""The library that the driver injects, with a fake CUPTI and a fake driver: it pauses and goes on, keeps every byte, and hands records on."""

import json
import os
import signal
import subprocess

import pytest


@pytest.fixture
def injected(tmp_path):
    if "INJECTED_PROGRAM" not in os.environ:
        pytest.skip("built without CUDA")

    def run(scenario, exit_code=0, **changes):
        names = {"UMBENCH_TRACE_OUT": str(tmp_path / "run.jsonl"), "UMBENCH_CUPTI": os.environ["FAKE_CUPTI"]}
        done = subprocess.run([os.environ["INJECTED_PROGRAM"], os.environ["TRACE_LIBRARY"], scenario], capture_output=True, text=True,
                              env=os.environ | names | changes, check=False)
        assert done.returncode == exit_code, done.stderr
        part, = tmp_path.glob("run.jsonl.*")
        return done.stdout, [json.loads(line) for line in part.read_text(encoding="utf-8").splitlines()]

    return run


def of_kind(lines, kind):
    return [line for line in lines if line["kind"] == kind]


def bytes_in(lines):
    return sum(run[2] for line in lines for run in line.get("in_demand", []))


def faults_in(lines):
    return sum(run[2] for line in lines for run in line.get("gpu_read_faults", []))


def test_a_short_program_is_counted_whole(injected):
    _, lines = injected("short")
    assert bytes_in(of_kind(lines, "kernel")) == 512 * 4096
    assert not of_kind(lines, "uncounted") and lines[-1]["kind"] == "end"
    assert [line["what"] for line in of_kind(lines, "lacking")] == ["the driver's own sums of what moved (/dev/nvidia-uvm-tools)"]


def test_a_crash_leaves_what_had_happened(injected):
    _, lines = injected("crashed", exit_code=-signal.SIGABRT, UMBENCH_TRACE_SHARE="1")
    assert bytes_in(of_kind(lines, "kernel")) == 250_000 * 4096
    assert not of_kind(lines, "end")


def test_counting_pauses_and_goes_on(injected):
    counts, lines = injected("paused")
    assert counts == "1\n" and bytes_in(lines) == 250_000 * 4096
    pause, = of_kind(lines, "uncounted")
    assert pause["end_ns"] - pause["begin_ns"] > 90e9
    assert len(of_kind(lines, "unseen")) == 1 and not of_kind(lines, "quiet")


def test_with_the_whole_share_it_never_pauses(injected):
    counts, lines = injected("whole", UMBENCH_TRACE_SHARE="1")
    assert counts == "1\n" and not of_kind(lines, "uncounted")


def test_a_program_that_counts_itself_hears_every_record(injected):
    counts, lines = injected("followed")
    assert counts == "1\n" and bytes_in(lines) == 250_000 * 4096
    assert len(of_kind(lines, "range")) == 1


def test_the_drivers_own_events_are_counted_where_it_tells_them(injected):
    enabled, lines = injected("events")
    kernel, = of_kind(lines, "kernel")
    assert enabled == "1\n" and bytes_in([kernel]) == 512 * 4096
    assert faults_in([kernel]) == 3 and kernel["batches"] == 1
    assert not of_kind(lines, "lacking") and lines[-1]["lost_records"] == 0


def test_events_pause_as_cuptis_records_do(injected):
    enabled, lines = injected("events_paused")
    assert enabled == "0\n" and bytes_in(lines) == 250_000 * 4096
    assert len(of_kind(lines, "uncounted")) == 1
    assert faults_in(lines) == 3  # of a batch whose replay came in the pause


@pytest.mark.parametrize("what", ["events_of_bytes", "events_after_bytes"])
def test_a_program_that_counts_bytes_alone_leaves_the_trace_its_events_of_faults(injected, what):
    enabled, lines = injected(what)
    assert enabled == "1\n" and bytes_in(lines) == 512 * 4096 and faults_in(lines) == 3
    assert not of_kind(lines, "lacking")


@pytest.mark.parametrize("what, counted", [("bytes_then_faults", "0 1 1\n"), ("faults_then_bytes", "1 0 1\n")])
def test_a_program_that_counts_bytes_alone_by_cupti_takes_faults_from_the_trace_only_meanwhile(injected, what, counted):
    faults, lines = injected(what)
    assert faults == counted
    assert "faults while the program counted bytes alone: with them CUPTI loses bytes" in [line["what"] for line in of_kind(lines, "lacking")]
