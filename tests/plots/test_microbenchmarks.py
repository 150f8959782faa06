"""Figures of microbenchmarks, from a made-up file in the form that Google Benchmark writes."""

import json

import conftest  # noqa: F401
import pytest
from umbench import load, microbenchmark_files

PNG = b"\x89PNG\r\n\x1a\n"


def case_row(name, median_ns=1e6, iterations=3, **counters):
    return {"name": f"{name}/iterations:{iterations}/manual_time", "run_name": name, "run_type": "iteration",
            "repetitions": 1, "repetition_index": 0, "threads": 1, "iterations": iterations, "real_time": 1.0,
            "cpu_time": 1.0, "time_unit": "us", "label": "put back somehow", "first_ns": 2 * median_ns,
            "median_ns": median_ns, **counters}


def skipped_row(name, reason):
    return {"name": f"{name}/iterations:3/manual_time", "run_type": "iteration", "error_occurred": True,
            "error_message": reason, "iterations": 0, "real_time": 0.0, "cpu_time": 0.0, "time_unit": "us"}


def document(*rows):
    return {"context": {"gpu": "Made Up"}, "benchmarks": list(rows)}


def study():
    rows = []
    for by in ("copy_engine", "kernel"):
        for way in ("to_device", "to_host", "both"):
            for size, rate in (("64KiB", 10.0), ("256MiB", 50.0)):
                rows.append(case_row(f"link/{by}/{way}/size:{size}", GB_per_s=rate, link_share=rate / 50))
    for way in ("to_device", "to_host"):
        for call in ("2MiB", "256MiB"):
            rows.append(case_row(f"prefetch/{way}/data:moves/size:256MiB/call:{call}/streams:1/threads:1", GB_per_s=40.0))
        rows.append(case_row(f"prefetch/{way}/data:moves/size:256MiB/call:2MiB/batch", GB_per_s=30.0))
    for how in ("read", "write"):
        name = f"faults/gpu_{how}/strided/data:warm/stride:64KiB/size:128MiB"
        rows.append(case_row(name, GB_per_s=0.1))
        rows.append(case_row(f"{name}/counted", iterations=1, to_device_bytes=2**27))
    for hint in ("none", "read_mostly"):
        for step in ("read", "read_again", "write", "write_after_read", "cpu_touch"):
            rows.append(case_row(f"advice/{hint}/{step}/size:32MiB", GB_per_s=5.0))
    for how in ("prefetch", "pinned_twin", "kernel_twin"):
        for end in ("out", "back"):
            rows.append(case_row(f"eviction/{how}/{end}/beside:nothing/size:256MiB", GB_per_s=25.0))
            rows.append(case_row(f"eviction/{how}/{end}/beside:convolution/size:256MiB", GB_per_s=20.0,
                                 operator_loses_ns=5e5))
    for memory, time in (("device", 1e6), ("managed_cold", 9e6), ("zero_copy", 2e7)):
        rows.append(case_row(f"convolution/vgg16_b64/conv3_1/forward/memory:{memory}", time, GB_per_s=1.0))
    rows.append(skipped_row("faults/gpu_read/sequential/data:malloc/size:128MiB", "skipped: no HMM here"))
    return document(*rows)


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_cases_are_read_with_axes_counters_and_counts(tmp_path):
    run = microbenchmark_files.read(write(tmp_path / "a.json", study()))
    case = run.cases["faults/gpu_read/strided/data:warm/stride:64KiB/size:128MiB"]
    assert case.parts == ["faults", "gpu_read", "strided"]
    assert case.axes == {"data": "warm", "stride": "64KiB", "size": "128MiB"}
    assert case.counters == {"first_ns": 2e6, "median_ns": 1e6, "GB_per_s": 0.1}
    assert case.counted["to_device_bytes"] == 2**27
    assert case.put_back == "put back somehow" and case.reason is None
    assert not any(name.endswith("/counted") for name in run.cases)


def test_skipped_cases_have_a_reason_and_no_counters(tmp_path):
    run = microbenchmark_files.read(write(tmp_path / "a.json", study()))
    case = run.cases["faults/gpu_read/sequential/data:malloc/size:128MiB"]
    assert case.reason == "skipped: no HMM here" and case.counters == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"benchmarks": 3}'])
def test_other_files_are_refused(tmp_path, text):
    with pytest.raises(load.BadInput, match="a.json"):
        microbenchmark_files.read(write(tmp_path / "a.json", text))


@pytest.mark.parametrize("text,size", [("64KiB", 65536), ("8GiB", 2**33), ("12B", 12)])
def test_sizes_of_names(text, size):
    assert microbenchmark_files.parse_size(text) == size


def test_every_figure_is_drawn(script, tmp_path):
    done = script("plots.microbenchmarks", write(tmp_path / "a.json", study()), "--out", tmp_path / "figures")
    assert done.returncode == 0, done.stderr
    for name in ("link", "ways", "prefetch", "faults", "advice", "eviction", "convolution"):
        assert (tmp_path / f"figures/microbenchmarks_{name}.png").read_bytes().startswith(PNG)
        text = (tmp_path / f"figures/microbenchmarks_{name}.svg").read_text(encoding="utf-8")
        assert "measured on one Made Up" in text
    assert "no HMM here" in done.stderr


def test_figures_without_cases_are_left_out(script, tmp_path):
    done = script("plots.microbenchmarks", write(tmp_path / "a.json", document(
        case_row("advice/none/read/size:32MiB", GB_per_s=5.0))), "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in tmp_path.glob("*.svg")} == {"microbenchmarks_advice"}


def test_a_file_without_results_is_too_little(script, tmp_path):
    done = script("plots.microbenchmarks", write(tmp_path / "a.json", document(skipped_row("link/x", "skipped: why"))),
                  "--out", tmp_path)
    assert done.returncode == 3 and "a.json" in done.stderr
