"""Record files as runs: one file is one run, a folder holds several runs of the same code."""

from collections import namedtuple
from pathlib import Path

from results import load

Side = namedtuple("Side", "name environments runs")  # runs: a list of {key: record}


def read_side(path, warn):
    """A file, or a folder of *.jsonl. Throws load.BadInput."""
    path = Path(path)
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise load.BadInput(f"{path}: the folder holds no *.jsonl")
    environments, runs = [], []
    for file in files:
        found, records = load.read(file, warn)
        environments += found
        runs.append({record["key"]: record for record in records})
    return Side(str(path), environments, runs)


def last_records(side):
    """{key: record}: of several runs the last one that has the cell."""
    found = {}
    for run in side.runs:
        found.update(run)
    return found


def steady_samples(record):
    """Every iteration but the first, which differs; nothing unless the cell ended well."""
    if record["outcome"] != "ok" or not record["samples_ns"]:
        return []
    return record["samples_ns"][1:]


def pooled_samples(side, key):
    return [sample for run in side.runs if key in run for sample in steady_samples(run[key])]


def samples_by_run(side):
    return [{key: steady_samples(record) for key, record in run.items() if not record["simulated"]}
            for run in side.runs]
