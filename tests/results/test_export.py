"""`umbench export` for other tools."""

import csv
import io
import json
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
import synthetic


@pytest.fixture
def export(umbench, write):
    """A function that exports a small study with one cell of every kind and returns the text."""
    records = [synthetic.record(), synthetic.record(strategy="swap_all", ratio=3.0, outcome="infeasible"),
               synthetic.record(backend="cuda:0", ratio=2.0, observed=synthetic.observed(host_cpu_ns=5000, energy_uj=70000)),
               synthetic.record(backend="cuda:0", strategy="device", outcome="crashed")]
    path = write("study.jsonl", [synthetic.environment(), *records])

    def run(format_name):
        done = umbench("export", path, "--format", format_name)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.records = records
    return run


def test_google_benchmark(export):
    document = json.loads(export("google-benchmark"))
    assert document["context"]["json_schema_version"] == 1 and document["context"]["num_cpus"] == 2
    entries = document["benchmarks"]
    by_name = {}
    for entry in entries:
        by_name.setdefault(entry["run_name"], []).append(entry)
    assert list(by_name) == [record["key"] for record in export.records]
    first = by_name[export.records[0]["key"]]
    assert [entry["real_time"] for entry in first if entry["run_type"] == "iteration"] == export.records[0]["samples_ns"][1:]
    assert [entry["aggregate_name"] for entry in first if entry["run_type"] == "aggregate"] == ["mean", "median", "stddev"]
    assert {entry["label"] for entry in first} == {f"simulated, {synthetic.H200_MEASURED}"}
    assert {entry["cpu_time"] for entry in first} == {0}
    assert {entry["cpu_time"] for entry in by_name[export.records[2]["key"]] if entry["run_type"] == "iteration"} == {5000}
    failed = by_name[export.records[3]["key"]]
    assert failed[0]["error_occurred"] and failed[0]["error_message"] == "crashed: made up"


def test_google_benchmarks_own_script_reads_it(export, tmp_path):
    """The script is that of Debian's package libbenchmark-tools; skipped if it is not installed."""
    script = Path("/usr/share/benchmark/compare.py")
    if not script.exists():
        pytest.skip("Google Benchmark's compare.py is not installed (Debian: libbenchmark-tools)")
    document = json.loads(export("google-benchmark"))
    paths = [tmp_path / "base.json", tmp_path / "head.json"]
    for path, slower in zip(paths, (1, 2)):
        for entry in document["benchmarks"]:
            entry["real_time"] *= slower
        path.write_text(json.dumps(document), encoding="utf-8")
    done = subprocess.run([sys.executable, script, "--no-color", "benchmarks", *paths], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    for record in (export.records[0], export.records[2]):
        rows = [line.split() for line in done.stdout.splitlines() if line.startswith(record["key"] + "_median")]
        assert rows and rows[0][1] == "+1.0000"  # twice as slow
    assert "_pvalue" in done.stdout


def test_github_action(export):
    entries = json.loads(export("github-action"))
    assert [set(entry) for entry in entries] == [{"name", "unit", "value", "range", "extra"}] * 2
    assert entries[0]["extra"].endswith(f", simulated, {synthetic.H200_MEASURED}") and entries[1]["extra"].endswith(", measured")
    assert entries[0]["name"].endswith("(simulated)") and not entries[1]["name"].endswith("(simulated)")
    assert entries[0]["value"] == synthetic.made_up_time_ns("managed", 1.5) + 1.5 and entries[0]["unit"] == "ns"


def test_bencher(export):
    found = json.loads(export("bencher"))
    assert len(found) == 2
    for metrics in found.values():
        latency = metrics["latency"]
        assert latency["lower_value"] <= latency["value"] <= latency["upper_value"]
        assert metrics["peak-device-bytes"]["value"] > 0 and metrics["footprint-bytes"]["value"] > 0
    measured = found[export.records[2]["key"]]
    assert measured["host-cpu"]["value"] == 5000 and measured["energy"]["value"] == 70000 and "link-bytes" not in measured


def test_junit(export):
    suite = xml.fromstring(export("junit"))
    assert suite.tag == "testsuite"
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "1", "errors": "0", "skipped": "1"}
    assert [[child.tag for child in case] for case in suite] == [[], ["skipped"], [], ["failure"]]
    assert suite[3][0].get("type") == "crashed" and suite[3][0].get("message") == "made up"


def test_csv(export):
    rows = list(csv.DictReader(io.StringIO(export("csv"))))
    assert [row["key"] for row in rows] == [record["key"] for record in export.records]
    assert {(row["insize"], row["commit"], row["memory_order"], row["network_knobs"]) for row in rows} == {
        ("224", "0.1.0+unknown", "nchw", "insize=224")}
    assert [row["workspace_cap_bytes"] for row in rows] == ["", "", str(2 * 2**30), str(2 * 2**30)]
    assert [row["outcome"] for row in rows] == ["ok", "infeasible", "ok", "crashed"]
    assert [row["simulated"] for row in rows] == ["True", "True", "False", "False"]
    assert float(rows[0]["median_ns"]) == synthetic.made_up_time_ns("managed", 1.5) + 1.5 and rows[1]["median_ns"] == ""
    assert [(row["host_cpu_ns"], row["energy_uj"]) for row in rows[1:3]] == [("", ""), ("5000", "70000")]


def test_bad_usage(umbench, write, tmp_path):
    path = write("study.jsonl", [synthetic.environment(), synthetic.record()])
    for arguments, words in [([path], "--format"), ([path, "--format", "xml"], "junit"),
                             (["absent.jsonl", "--format", "csv"], "absent.jsonl"),
                             ([path, "--format", "csv", "--out", tmp_path], "Is a directory")]:
        done = umbench("export", *arguments)
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
    assert umbench("export", write("empty.jsonl", []), "--format", "csv").returncode == 3


def test_perfetto(write, umbench):
    timeline = synthetic.timeline()
    timeline["spans"][1]["name"] = "prefetch conv0.x"
    records = [synthetic.record(timeline=timeline), synthetic.record(backend="cuda:0", timeline=timeline), synthetic.record(strategy="device")]
    done = umbench("export", write("lines.jsonl", [synthetic.environment(), *records]), "--format", "perfetto")
    assert done.returncode == 0, done.stderr
    events = json.loads(done.stdout)["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {1: records[0]["key"] + " (simulated)", 2: records[1]["key"] + " (measured)"}
    spans = [event for event in events if event["ph"] == "X" and event["pid"] == 1]
    assert len(spans) == 1 + len(timeline["spans"])
    assert spans[0]["dur"] == pytest.approx(max(span["end_ns"] for span in timeline["spans"]) / 1000)
    assert spans[0]["args"]["budget_bytes"] == records[0]["memory"]["budget_bytes"]
    assert [span["cat"] for span in spans[1:4]] == ["compute", "prefetch", "compute"]
    assert {span["tid"] for span in spans[1:]} == {1, 2, 3}
    for track in (1, 2, 3):
        mine = sorted((span["ts"], span["ts"] + span["dur"]) for span in spans if span["tid"] == track)
        assert all(before[1] <= after[0] + 1e-6 for before, after in zip(mine, mine[1:])), "a lane does one thing at a time"
    held = [event["args"]["bytes"] for event in events if event["ph"] == "C" and event["pid"] == 1 and event["name"].startswith("resident")]
    assert held[:-1] == [sample["bytes"] for sample in timeline["resident"]] and held[-1] == held[-2]


def test_perfetto_export_needs_a_timeline(write, umbench):
    done = umbench("export", write("lines.jsonl", [synthetic.environment(), synthetic.record()]), "--format", "perfetto")
    assert done.returncode != 0 and "--timeline" in done.stderr and done.stderr.count("\n") == 1
