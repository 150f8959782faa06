"""Record files as runs: one file is one run, a folder holds several runs of the same code."""

from collections import namedtuple
from pathlib import Path

from umbench import judge, load

Side = namedtuple("Side", "name environments runs file_names")  # runs is a list of {key: record}


def read_side(path, print_warning):
    """Reads a file, or a folder of *.jsonl, as a Side. Throws load.BadInput."""
    load.refuse_empty_path(path)
    files = [Path(path)]
    if files[0].is_dir():
        files = sorted(load.files_in(path, "*.jsonl"))
    if not files:
        raise load.BadInput(f"{path}: the folder holds no *.jsonl")
    environments, runs = [], []
    for file in files:
        found, records = load.read(file, print_warning)
        environments += found
        runs.append({record["key"]: record for record in records})
    return Side(str(path), environments, runs, [file.name for file in files])


def records_by_key(side):
    """{key: its records in the order of the runs}"""
    found = {}
    for run in side.runs:
        for key, record in run.items():
            found.setdefault(key, []).append(record)
    return found


def paired_runs(base, head):
    """[(run of BASE, run of HEAD), ...] of pairs that ran in turn: two single files, or files with the same name in two folders; None if
    there are no pairs."""
    if len(base.runs) == len(head.runs) == 1:
        return [(base.runs[0], head.runs[0])]
    heads = dict(zip(head.file_names, head.runs))
    return [(run, heads[name]) for name, run in zip(base.file_names, base.runs) if name in heads] or None


def samples_to_judge(record):
    """The times in ns of all iterations but the first, even if there is no other; empty unless the cell succeeded."""
    return record["samples_ns"][1:] if load.steady_samples(record) else []


def cell_to_judge(base, head, run_pairs, key):
    """The judge.Cell of a key, paired by the rounds in which it succeeded on both sides, if there are any."""
    samples = lambda run: samples_to_judge(run[key]) if key in run else []  # noqa: E731
    sample_pairs = [(samples(base_run), samples(head_run)) for base_run, head_run in run_pairs or ()]
    both = [(*pair, number) for number, pair in enumerate(sample_pairs) if all(pair)]
    if both:
        base, head, rounds = map(list, zip(*both))
        return judge.Cell(base, head, True, rounds)
    return judge.Cell(*([found for run in side.runs if (found := samples(run))] for side in (base, head)), False)


def measured_samples_by_run(side):
    """[{key: samples to judge}] of each run, without simulated cells."""
    return [{key: samples_to_judge(record) for key, record in run.items() if not record["simulated"]}
            for run in side.runs]
