"""`umbench export`: what other tools read."""

import csv
import io
import json
import xml.etree.ElementTree as xml

import pytest
import synthetic


@pytest.fixture
def export(umbench, write):
    """The text of an export of a small study with one cell of every kind."""
    records = [synthetic.record(), synthetic.record(strategy="swap_all", ratio=3.0, outcome="infeasible"),
               synthetic.record(backend="cuda:0", ratio=2.0),
               synthetic.record(backend="cuda:0", strategy="device", outcome="crashed")]
    path = write("study.jsonl", [synthetic.environment(), *records])

    def run(name):
        done = umbench("export", path, "--format", name)
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
    assert {entry["label"] for entry in first} == {"simulated"}
    failed = by_name[export.records[3]["key"]]
    assert failed[0]["error_occurred"] and failed[0]["error_message"] == "crashed: made up"


def test_google_benchmarks_own_script_reads_it(export, tmp_path):
    """The parts of its tools that every comparison goes through, where Debian's package has them."""
    report = pytest.importorskip("gbench.report", reason="Google Benchmark's tools are not installed")
    document = json.loads(export("google-benchmark"))
    document["benchmarks"] = [entry for entry in document["benchmarks"] if not entry.get("error_occurred")]
    found = report.get_difference_report(document, document, utest=True)
    assert [entry["time_unit"] for entry in found] == ["ns"] * len(found) and found


def test_github_action(export):
    entries = json.loads(export("github-action"))
    assert [set(entry) for entry in entries] == [{"name", "unit", "value", "range", "extra"}] * 2
    assert entries[0]["name"].endswith("(simulated)") and not entries[1]["name"].endswith("(simulated)")
    assert entries[0]["value"] == synthetic.slow("managed", 1.5) + 1.5 and entries[0]["unit"] == "ns"


def test_bencher(export):
    found = json.loads(export("bencher"))
    assert len(found) == 2
    for metrics in found.values():
        latency = metrics["latency"]
        assert latency["lower_value"] <= latency["value"] <= latency["upper_value"]
        assert metrics["peak-device-bytes"]["value"] > 0


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
    assert [row["outcome"] for row in rows] == ["ok", "infeasible", "ok", "crashed"]
    assert [row["simulated"] for row in rows] == ["True", "True", "False", "False"]
    assert float(rows[0]["median_ns"]) == synthetic.slow("managed", 1.5) + 1.5 and rows[1]["median_ns"] == ""


def test_bad_usage(umbench, write, tmp_path):
    path = write("study.jsonl", [synthetic.environment(), synthetic.record()])
    for arguments, words in [([path], "--format"), ([path, "--format", "xml"], "junit"),
                             (["absent.jsonl", "--format", "csv"], "absent.jsonl"),
                             ([path, "--format", "csv", "--out", tmp_path], "Is a directory")]:
        done = umbench("export", *arguments)
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
    assert umbench("export", write("empty.jsonl", []), "--format", "csv").returncode == 3
