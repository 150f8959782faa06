"""Record files as pandas data frames (umbench.read, umbench.samples, umbench.environments).

Columns that are not fields of a record are computed as in umbench's own tables: medians leave out the first iteration; a slowdown is
relative to the `device` cell of the same work in the same file, else in any of the files. Throws BadInput with the file and line of what
cannot be read. If a cell is in several files, the last one counts.
"""

from umbench import iteration_times, load

# Fields whose parts get no columns of their own.
UNSPLIT_FIELDS = ("timeline", "engines", "rules", "samples_ns", "observed")


def _data_frame(rows, **frame_options):
    try:
        import pandas
    except ImportError as missing:
        raise ImportError("data frames need pandas: pip install pandas; umbench.load.read works without it") from missing
    return pandas.DataFrame(rows, **frame_options)


def read(*record_files):
    """A data frame with one row for each cell. Columns are all fields, nested ones with names such as "memory.budget_bytes" and
    "counters.last.faults", and `median_ns`, `low_quartile_ns`, `high_quartile_ns`, `samples` (the number of iterations of these),
    `baseline_ns` and `slowdown`."""
    records_by_file = [load.read(path)[1] for path in record_files]
    baselines_of_all = load.baseline_ns_by_group([record for records in records_by_file for record in records])
    rows = {}
    for path, records in zip(record_files, records_by_file):
        baselines_of_file = load.baseline_ns_by_group(records)
        for record in records:
            group = load.group_of(record)
            baseline_ns = load.baseline_ns_of_group(group, baselines_of_file) or load.baseline_ns_of_group(group, baselines_of_all)
            rows[record["key"], record.get("device")] = _row(record, baseline_ns) | {"file": str(path)}
    return _data_frame(list(rows.values()))


def samples(*record_files):
    """A data frame with one row for each iteration: `key`, `device`, `iteration` (the first is 0) and `ns`."""
    return _data_frame([(record["key"], record.get("device"), iteration, ns) for record in load.read_files(record_files)[1]
                        for iteration, ns in enumerate(record["samples_ns"] or ())], columns=["key", "device", "iteration", "ns"])


def environments(*record_files):
    """A data frame with one row for each environment line: build, host, GPU, libraries."""
    return _data_frame([_flattened(environment) for environment in load.read_files(record_files)[0]])


def _row(record, baseline_ns):
    spread = iteration_times.spread_of(record)
    spread_fields = spread or (None, None, None, 0)
    spread_columns = dict(zip(("median_ns", "low_quartile_ns", "high_quartile_ns", "samples"), spread_fields))
    return _flattened(record) | spread_columns | {"baseline_ns": baseline_ns,
                                                  "slowdown": spread.median / baseline_ns if spread and baseline_ns else None}


def _flattened(entry, prefix=""):
    """{path such as "memory.budget_bytes": value} of all fields."""
    value_by_path = {}
    for name, value in entry.items():
        if isinstance(value, dict) and name not in UNSPLIT_FIELDS:
            value_by_path |= _flattened(value, f"{prefix}{name}.")
        else:
            value_by_path[prefix + name] = value
    return value_by_path
