"""Draws samples with the spread that each measured cell of results/ has."""

import functools
import json
from collections import namedtuple

import conftest
import numpy

MeasuredCell = namedtuple("MeasuredCell", "key median_ns spread")  # spread: standard deviation of the logarithm of a sample


@functools.cache
def measured_records():
    """[[successful records], ...] of each file."""
    files = sorted((conftest.ROOT / "results/measured").glob("h200_capped*.jsonl"))
    lines = [[json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] for path in files]
    return [[entry for entry in file if entry["kind"] == "record" and entry["outcome"] == "ok"] for file in lines]


@functools.cache
def measured_cells():
    """[[MeasuredCell, ...], ...] of each file."""
    return [[measured_cell_of(record) for record in file] for file in measured_records()]


def measured_cell_of(record):
    logs = numpy.log(record["samples_ns"][1:])
    return MeasuredCell(record["key"], float(numpy.exp(numpy.median(logs))), float(numpy.std(logs, ddof=1)))


def draw_samples(random, cell, sample_count=10, time_factor=1.0):
    return (cell.median_ns * time_factor * numpy.exp(cell.spread * random.standard_normal(sample_count))).tolist()


def repeated_runs():
    """{(file, key): [samples of a run, ...]} of cells that one session ran several times."""
    found = {}
    for path in sorted((conftest.ROOT / "results/validation").glob("h200_host_*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["kind"] == "record" and entry["outcome"] == "ok":
                found.setdefault((path.name, entry["key"]), []).append(entry["samples_ns"][1:])
    return {key: runs for key, runs in found.items() if len(runs) > 1}
