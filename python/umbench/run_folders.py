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
        environments_of_file, records = load.read(file, print_warning)
        environments += environments_of_file
        runs.append({record["key"]: record for record in records})
    return Side(str(path), environments, runs, [file.name for file in files])


def records_by_key(side):
    """{key: its records in the order of the runs}"""
    records_of_key = {}
    for record_by_key in side.runs:
        for key, record in record_by_key.items():
            records_of_key.setdefault(key, []).append(record)
    return records_of_key


def paired_runs(base_side, head_side):
    """[(run of BASE, run of HEAD), ...] of pairs that ran in turn: two single files, or files with the same name in two folders; None if
    there are no pairs."""
    if len(base_side.runs) == len(head_side.runs) == 1:
        return [(base_side.runs[0], head_side.runs[0])]
    head_run_by_file_name = dict(zip(head_side.file_names, head_side.runs))
    return [(run, head_run_by_file_name[file_name])
            for file_name, run in zip(base_side.file_names, base_side.runs) if file_name in head_run_by_file_name] or None


def samples_to_judge(record):
    """The times in ns of all iterations but the first, even if there is no other; empty unless the cell succeeded."""
    return record["samples_ns"][1:] if load.steady_samples(record) else []


def cell_to_judge(base_side, head_side, run_pairs, key):
    """The judge.Cell of a key, paired by the rounds in which it succeeded on both sides, if there are any."""
    samples_of_run = lambda run: samples_to_judge(run[key]) if key in run else []  # noqa: E731
    sample_pairs = [(samples_of_run(base_run), samples_of_run(head_run)) for base_run, head_run in run_pairs or ()]
    judged_rounds = [(*pair, round_number) for round_number, pair in enumerate(sample_pairs) if all(pair)]
    if judged_rounds:
        base_samples, head_samples, round_numbers = map(list, zip(*judged_rounds))
        return judge.Cell(base_samples, head_samples, True, round_numbers)
    return judge.Cell(*([samples for run in side.runs if (samples := samples_of_run(run))] for side in (base_side, head_side)), False)


def measured_samples_of_runs(side):
    """[{key: samples to judge}] of each run, without simulated cells."""
    return [{key: samples_to_judge(record) for key, record in record_by_key.items() if not record["simulated"]}
            for record_by_key in side.runs]
