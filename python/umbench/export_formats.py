"""Converts records to the text formats of other tools. Names or labels mark simulated cells, since no format has a field for that."""

import csv
import io
import json
import re
import statistics
import xml.etree.ElementTree as xml

from umbench import load, perfetto

NS_PER_S = 1e9


def successful_records(records):
    return [record for record in records if load.steady_ns(record) is not None]


# --- Google Benchmark ---

def as_google_benchmark(environments, records):
    """JSON of Google Benchmark. Every steady iteration is a repetition, so that its compare.py can apply its rank test."""
    benchmarks = [entry for family_index, record in enumerate(records) for entry in _benchmark_entries(family_index, record)]
    return json.dumps({"context": _context(environments), "benchmarks": benchmarks}, indent=1) + "\n"


def _context(environments):
    last_environment = environments[-1] if environments else {}
    host, gpu = last_environment.get("host") or {}, last_environment.get("gpu") or {}
    context = {"date": last_environment.get("created"), "host_name": "", "executable": "umbench", "num_cpus": host.get("cores") or 0,
               "mhz_per_cpu": 0, "cpu_scaling_enabled": False, "caches": [], "load_avg": [],
               "library_version": last_environment.get("umbench"), "library_build_type": "release", "json_schema_version": 1}
    return context | {"gpu": gpu.get("name") or ""}


def _benchmark_entries(family_index, record):
    key = record["key"]
    common_fields = {"name": key, "family_index": family_index, "per_family_instance_index": 0, "run_name": key,
                     "run_type": "iteration", "threads": 1, "label": load.measured_or_simulated_text(load.group_of(record))}
    if record["outcome"] != "ok":
        reason = f"{record['outcome']}: {record['reason']}"
        return [common_fields | {"repetitions": 1, "repetition_index": 0, "error_occurred": True, "error_message": reason,
                                 "iterations": 0, "real_time": 0.0, "cpu_time": 0.0, "time_unit": "ns"}]
    times_ns, cpu_ns = load.steady_samples(record), _cpu_ns(record)
    entries = [common_fields | {"repetitions": len(times_ns), "repetition_index": index, "iterations": 1, "real_time": time_ns,
                                "cpu_time": cpu_ns, "time_unit": "ns"} for index, time_ns in enumerate(times_ns)]
    return entries + _aggregate_entries(common_fields, times_ns, cpu_ns)


def _cpu_ns(record):
    """The CPU time of an iteration, averaged over all iterations; 0 if it was not observed."""
    return (record.get("observed") or {}).get("host_cpu_ns") or 0.0


def _aggregate_entries(common_fields, times_ns, cpu_ns):
    if len(times_ns) < 2:
        return []
    ns_by_aggregate = {"mean": statistics.mean(times_ns), "median": statistics.median(times_ns), "stddev": statistics.stdev(times_ns)}
    return [common_fields | {"name": f"{common_fields['run_name']}_{name}", "run_type": "aggregate", "aggregate_name": name,
                             "aggregate_unit": "time", "repetitions": len(times_ns), "iterations": len(times_ns),
                             "real_time": aggregate_ns, "cpu_time": 0.0 if name == "stddev" else cpu_ns, "time_unit": "ns"}
            for name, aggregate_ns in ns_by_aggregate.items()]


# --- continuous integration ---

def as_github_action(_, records):
    entries = []
    for record in successful_records(records):
        times_ns = load.steady_samples(record)
        range_text = f"± {max(times_ns) - min(times_ns)} ns" if len(times_ns) > 1 else ""
        entries.append({"name": _entry_name(record), "unit": "ns", "value": load.steady_ns(record), "range": range_text,
                        "extra": f"{len(times_ns)} iterations after the first, {load.measured_or_simulated_text(load.group_of(record))}"})
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def as_bencher(_, records):
    measures_by_entry = {}
    for record in successful_records(records):
        times_ns = load.steady_samples(record)
        latency = {"value": load.steady_ns(record), "lower_value": min(times_ns), "upper_value": max(times_ns)}
        measures_by_entry[_entry_name(record)] = {"latency": latency}
        memory, observed = record.get("memory") or {}, record.get("observed") or {}
        last_counters, moved_bytes = load.last_counters(record), load.moved_bytes(record)
        measures = {"peak-device-bytes": memory.get("peak_device_bytes"), "footprint-bytes": memory.get("footprint_bytes"),
                    "link-bytes": sum(moved_bytes) if moved_bytes else None, "faults": last_counters.get("faults"),
                    "host-cpu": observed.get("host_cpu_ns"), "energy": observed.get("energy_uj")}
        measures_by_entry[_entry_name(record)] |= {name: {"value": value} for name, value in measures.items() if value is not None}
    return json.dumps(measures_by_entry, indent=1) + "\n"


def _entry_name(record):
    return record["key"] + (" (simulated)" if record["simulated"] else "")


def as_junit(_, records):
    failed_records = [record for record in records if record["outcome"] not in ("ok", "infeasible")]
    seconds_by_key = {record["key"]: sum(record["samples_ns"] or []) / NS_PER_S for record in records}
    suite_element = xml.Element("testsuite", name="umbench", tests=str(len(records)), failures=str(len(failed_records)), errors="0",
                                skipped=str(sum(record["outcome"] == "infeasible" for record in records)),
                                time=f"{sum(seconds_by_key.values()):.9f}")
    for record in records:
        case_element = xml.SubElement(suite_element, "testcase", name=_escaped_for_xml(_entry_name(record)),
                                      classname=_escaped_for_xml(f"umbench.{record['network']}"),
                                      time=f"{seconds_by_key[record['key']]:.9f}")
        if record["outcome"] == "infeasible":
            xml.SubElement(case_element, "skipped", message=_escaped_for_xml(f"infeasible: {record['reason']}"))
        elif record["outcome"] != "ok":
            xml.SubElement(case_element, "failure", type=record["outcome"], message=_escaped_for_xml(record["reason"] or ""))
    return xml.tostring(suite_element, encoding="unicode", xml_declaration=True) + "\n"


def _escaped_for_xml(text):
    """Replaces characters that XML 1.0 does not allow by JSON escapes."""
    return re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", lambda found: f"\\u{ord(found[0]):04x}", text)


# --- CSV ---

COLUMNS = ["key", "network", "batch", "insize", "network_knobs", "pass", "sgd", "fusion", "precision", "memory_order",
           "workspace_cap_bytes", "strategy", "strategy_knobs", "ratio", "mode", "backend", "device", "simulated", "calibrated",
           "launch", "outcome", "reason", "first_ns", "median_ns", "iterations", "compute_ns", "digest", "loss", "commit"]
OBSERVED_FIELDS = ["host_cpu_ns", "energy_uj"]
MEMORY_FIELDS = ["footprint_bytes", "budget_bytes", "peak_device_bytes", "touched_bytes"]
COUNTER_NAMES = ["faults", "fault_batches", "fault_to_device_bytes", "prefetch_to_device_bytes", "copy_to_device_bytes",
                 "driver_evict_bytes", "plan_evict_bytes", "copy_to_host_bytes", "evicted_blocks", "remote_bytes", "amplification"]


def as_csv(environments, records):
    """CSV with one row a cell. The column `commit` has the build that wrote the file; it is empty if several builds did."""
    builds = {environment["umbench"] for environment in environments}
    commit = builds.pop() if len(builds) == 1 else None
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS + OBSERVED_FIELDS + MEMORY_FIELDS + [f"last_{name}" for name in COUNTER_NAMES])
    for record in records:
        last_counters = load.last_counters(record)
        fields = record | {"first_ns": (record["samples_ns"] or [None])[0], "median_ns": load.steady_ns(record),
                           "insize": record["network_knobs"].get("insize"), "commit": commit,
                           "network_knobs": _knobs_text(record["network_knobs"]),
                           "strategy_knobs": _knobs_text(record["strategy_knobs"])}
        writer.writerow([fields.get(name) for name in COLUMNS]
                        + [(record.get("observed") or {}).get(name) for name in OBSERVED_FIELDS]
                        + [(record.get("memory") or {}).get(name) for name in MEMORY_FIELDS]
                        + [last_counters.get(name) for name in COUNTER_NAMES])
    return buffer.getvalue()


def _knobs_text(value_by_knob):
    """Knobs as text, such as "ahead=2 gap=32"."""
    return " ".join(f"{name}={value_by_knob[name]}" for name in sorted(value_by_knob))


FORMATS = {"google-benchmark": as_google_benchmark, "github-action": as_github_action, "bencher": as_bencher, "junit": as_junit,
           "csv": as_csv, "perfetto": perfetto.as_text}
