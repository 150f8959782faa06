"""Reads a file of um_microbenchmarks (Google Benchmark's JSON) into cases with their axes.

A case has its times and counters in nanoseconds, bytes and GB/s as the file has them; `counted` has the counts that CUPTI reported in a
separate pass. A case that did not run has a reason and no counters.
"""

from collections import namedtuple

from umbench.load import BadInput, read_json

Case = namedtuple("Case", "name parts axes counters put_back reason counted")
Run = namedtuple("Run", "context cases")

COUNTED_SUFFIX = "/counted"  # suffix of the names of cases that only count events
# Google Benchmark's own fields; all other numbers are counters.
OWN_FIELDS = {"family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads", "iterations",
       "real_time", "cpu_time"}


def read(path):
    """The Run in a file. Raises BadInput that names the file."""
    document = read_json(path)
    if not isinstance(document, dict) or not isinstance(document.get("benchmarks"), list):
        raise BadInput(f"{path}: not what um_microbenchmarks writes with --benchmark_out")
    rows = [row for row in document["benchmarks"] if row.get("run_type") == "iteration"]
    counted_rows = {_case_name(row)[: -len(COUNTED_SUFFIX)]: row for row in rows if _case_name(row).endswith(COUNTED_SUFFIX)}
    cases = {}
    for row in rows:
        name = _case_name(row)
        if not name.endswith(COUNTED_SUFFIX):
            cases[name] = _case(name, row, counted_rows.get(name))
    return Run(document.get("context", {}), cases)


def _case_name(row):
    # Google Benchmark appends "iterations:N" to the name.
    name_parts = row["name"].split("/")
    return "/".join(name_part for name_part in name_parts if name_part != "manual_time" and not name_part.startswith("iterations:"))


def _case(name, row, counted_row):
    name_parts = name.split("/")
    axes = dict(name_part.split(":", 1) for name_part in name_parts if ":" in name_part)
    return Case(name, [name_part for name_part in name_parts if ":" not in name_part], axes, _counters(row), row.get("label", ""),
                row.get("error_message"), _counters(counted_row) if counted_row else {})


def _counters(row):
    if row.get("error_occurred"):
        return {}
    return {key: value for key, value in row.items() if isinstance(value, (int, float)) and key not in OWN_FIELDS}


def parse_size(text):
    """Parses a size such as "64KiB"."""
    for suffix, unit_bytes in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1)):
        if text.endswith(suffix):
            return int(text[: -len(suffix)]) * unit_bytes
    raise ValueError(text)
