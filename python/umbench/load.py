"""Reads record files (JSON Lines) and computes the values that figures and tables show.

A file has environment lines and one record for each cell; docs/records.md names the fields. A file has the times of all iterations: medians
are computed here, without the first iteration, which takes longer since pages and the link's mappings are made.
"""

import contextlib
import functools
import json
import statistics
from collections import namedtuple
from pathlib import Path

from umbench import jsonl, output, places, record_schema

EXIT_BAD_INPUT, EXIT_TOO_LITTLE = 2, 3

# Endings of the names of a machine file's figures.
ENDINGS_OF_FIGURES = ("_ns", "_bytes", "_per_s", "_percent", "_granules", "_of_page", "_threshold", "multiprocessors")

# One set of comparable cells: same work on the same machine in the same mode.
Group = namedtuple("Group", "network knobs batch phase update fusion precision "
                            "memory_order workspace_cap mode backend device simulated calibrated kernels_at_peak")


class BadInput(output.Refusal):
    """A file cannot be used. The message names it and the line."""


class TooLittle(Exception):
    """The file is valid but has too few data for the request."""


def refuse_empty_path(path):
    """Throws BadInput for an empty path, as of an unset variable, which would mean the current folder."""
    if not str(path):
        raise BadInput("an empty path names no file; is a variable unset?")


def files_in(folder, pattern):
    """The files of a folder that match the pattern. Throws BadInput if the folder cannot be read, which Path.glob treats as empty."""
    try:
        return [file for file in Path(folder).iterdir() if file.match(pattern)]
    except OSError as error:
        raise BadInput(f"{folder}: {error.strerror}") from error


def read_json(path, message_prefix=""):
    """The value of a JSON file. Throws BadInput with a message that begins with `message_prefix`."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{message_prefix}{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{message_prefix}{path}: not JSON: {' '.join(str(error).split())[:200]}") from error


def read(path, warn=output.warn):
    """(environments, records) of a file. An incomplete last line, which a crash while appending leaves, is dropped with a warning. Of
    records with the same key the last one counts."""
    refuse_empty_path(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:  # ValueError is that of a path with a zero byte
        raise BadInput(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    try:
        lines = jsonl.parse(data)
    except jsonl.UnreadableLine as refusal:
        raise BadInput(f"{path}:{refusal}") from refusal
    if lines.torn:
        warn(f"{path}:{lines.torn}: the last line is torn and left out")
    environments, records = [], {}
    for line_number, entry in lines.entries:
        _check_entry(entry, f"{path}:{line_number}")
        if entry["kind"] == "environment":
            environments.append(entry)
        elif not environments:
            raise BadInput(f"{path}:{line_number}: a record before any environment")
        else:
            records[entry["key"]] = entry
    _fill_missing_devices(records.values())
    return environments, list(records.values())


def _fill_missing_devices(records):
    """Adds the device to records of cells that failed before their backend opened, from other records of the file."""
    record_by_backend = {r["backend"]: r for r in records if r.get("device")}
    for record in records:
        if not record.get("device") and record["backend"] in record_by_backend:
            neighbour = record_by_backend[record["backend"]]
            record["device"], record["calibrated"] = neighbour["device"], neighbour.get("calibrated")


def _check_entry(entry, location):
    """Throws BadInput unless the entry is an environment or a record of this schema. `location` is its file and line."""
    if not isinstance(entry, dict) or entry.get("kind") not in ("environment", "record"):
        raise BadInput(f"{location}: neither an environment nor a record of umbench")
    if entry.get("tool") == "umbench trace":
        raise BadInput(f"{location}: a trace; draw it with umbench report, or name it as a sweep's network and draw the sweep's records")
    schema = entry.get("schema")
    if type(schema) is not int or schema != 1:
        is_newer = type(schema) is int and schema > 1
        schema_text = json.dumps(schema)[:40]
        raise BadInput(f"{location}: schema {schema_text}{' is from a newer umbench' if is_newer else ''}; this reader knows 1")
    error = record_schema.validation_error(entry)
    if error:
        raise BadInput(f"{location}: {error}")


def read_files(record_files):
    """(environments, records) of several files, in order. Of a cell that is in several files the last record counts."""
    environments, records = [], {}
    for path in record_files:
        environments_and_records = read(path)
        environments += environments_and_records[0]
        for record in environments_and_records[1]:
            records[record["key"], record.get("device")] = record
    return environments, list(records.values())


def read_records(record_files):
    """The records alone of read_files()."""
    return read_files(record_files)[1]


def steady_samples(record):
    """The times in ns of all iterations but the first, or of the first if it is the only one; empty unless the cell succeeded."""
    samples = record["samples_ns"] or [] if record["outcome"] == "ok" else []
    return samples[1:] or samples


def steady_ns(record):
    """The median of steady_samples() in ns; None if there are none."""
    samples = steady_samples(record)
    return statistics.median(samples) if samples else None


def optimizer_options(record):
    """The options of the command line that select the update of parameters."""
    if record.get("optimizer"):
        return ("--optimizer", record["optimizer"], *(["--masters"] if record.get("masters") else []))
    return ("--sgd",) if record.get("sgd") else ()


def optimizer_text(options):
    """A text such as ' with AdamW and masters' for what optimizer_options() returned; empty without an update."""
    texts_by_option = {"--sgd": "SGD", "sgd": "one step of SGD", "adamw": "AdamW", "--masters": "masters"}
    update_text = " and ".join(texts_by_option.get(option, option) for option in options if option != "--optimizer")
    return f" with {update_text}" if update_text else ""


def group_of(record):
    return Group(
        network=record["network"], knobs=tuple(sorted((record.get("network_knobs") or {}).items())),
        batch=record["batch"], phase=record["pass"], update=optimizer_options(record),
        fusion=record["fusion"], precision=record["precision"], memory_order=record["memory_order"],
        workspace_cap=record.get("workspace_cap_bytes"),
        mode=record["mode"], backend=record["backend"], device=record.get("device") or record["backend"],
        simulated=bool(record["simulated"]), calibrated=bool(record.get("calibrated")),
        kernels_at_peak=bool(record.get("kernels_at_peak")))


def records_by_group(records):
    """{Group: records}, in order of first appearance."""
    records_of_groups = {}
    for record in records:
        records_of_groups.setdefault(group_of(record), []).append(record)
    return records_of_groups


TO_DEVICE = ("fault_to_device_bytes", "prefetch_to_device_bytes", "copy_to_device_bytes")
TO_HOST = ("driver_evict_bytes", "plan_evict_bytes", "copy_to_host_bytes")


def last_counters(record):
    """The counters of the last iteration; empty if there are none."""
    return (record.get("counters") or {}).get("last") or {}


def moved_bytes(record):
    """(bytes to the device, bytes to the host) of the last iteration; None unless all causes were observed."""
    counters = last_counters(record)
    if any(counters.get(name) is None for name in TO_DEVICE + TO_HOST):
        return None
    return sum(counters[name] for name in TO_DEVICE), sum(counters[name] for name in TO_HOST)


def link_share(record, to_device_bytes_per_s, to_host_bytes_per_s):
    """The share of the link's rate that the busier direction used in the last iteration; None if a direction was not counted. Data that
    kernels access over the link counts as moved to the device."""
    moved_by_direction = moved_bytes(record)
    if not record["samples_ns"] or moved_by_direction is None:
        return None
    bytes_to_device = moved_by_direction[0] + (last_counters(record).get("remote_bytes") or 0)
    return max(bytes_to_device / to_device_bytes_per_s, moved_by_direction[1] / to_host_bytes_per_s) / (record["samples_ns"][-1] / 1e9)


def baseline_ns_by_group(records):
    """{group of any mode: time of an iteration with everything on the device}, at any ratio, the minimum of several. The mode does not
    matter, since nothing moves. baseline_ns_of_group looks up a group."""
    ns_by_group = {}
    for record in records:
        if record["strategy"] == "device" and (time_ns := steady_ns(record)):
            group = group_of(record)._replace(mode=None)
            ns_by_group[group] = min(time_ns, ns_by_group.get(group, time_ns))
    return ns_by_group


def baseline_ns_of_group(group, ns_by_group):
    """The time of a group in what baseline_ns_by_group() returned, or None."""
    return ns_by_group.get(group._replace(mode=None))


def baseline_ns(group, records):
    """The time of an iteration with everything on the device, or None. `records` may contain other groups."""
    return baseline_ns_of_group(group, baseline_ns_by_group(records))


def lower_bounds_ns(record, baseline_ns):
    """{"swap_ns": ..., "recompute_ns": ..., "both_ns": ..., "plan_ns": ...}: lower bounds of the times of plans that swap, recompute or do
    both, and of this record's kind of plan; None where there is no such plan or no bound. Measured operators were timed one by one, which
    takes longer than in a row. If `device` took less than their sum, the bounds are reduced by the same factor, so that they remain lower
    bounds."""
    recorded_bounds = record.get("bounds") or {}
    bounds = {name: recorded_bounds.get(name) for name in ("swap_ns", "recompute_ns", "both_ns")}
    bounds["plan_ns"] = recorded_bounds.get("plan", {}).get("least_ns", record["compute_ns"])
    if record["simulated"] or not baseline_ns or not record["compute_ns"]:
        return bounds
    factor = min(1, baseline_ns / record["compute_ns"])
    return {name: bound_ns and bound_ns * factor for name, bound_ns in bounds.items()}


def strategy_labels(records):
    """[label] of each record: the strategy's name with the knobs that vary among the records of that strategy."""
    knobs_by_strategy = {}  # strategy: {knob: values}, with None for an absent knob
    for record in records:
        knobs_by_strategy.setdefault(record["strategy"], []).append(record.get("strategy_knobs") or {})
    varying_by_strategy = {strategy: {name for name in set().union(*knobs) if len({each.get(name) for each in knobs}) > 1}
                           for strategy, knobs in knobs_by_strategy.items()}
    labels = []
    for record in records:
        record_knobs = record.get("strategy_knobs") or {}
        varying_knobs = [f"{name} {record_knobs[name]}" for name in sorted(record_knobs) if name in varying_by_strategy[record["strategy"]]]
        labels.append(record["strategy"] + (f" ({', '.join(varying_knobs)})" if varying_knobs else ""))
    return labels


def records_by_strategy(records):
    """{label of the strategy: its records by rising ratio} of one group, in order of first appearance. Cells without a ratio, whose
    footprint was never known, are left out."""
    records_by_label = {}
    for record, label in zip(records, strategy_labels(records)):
        if record["ratio"] is not None:
            records_by_label.setdefault(label, []).append(record)
    return {label: sorted(labelled_records, key=lambda r: r["ratio"]) for label, labelled_records in records_by_label.items()}


def measured_or_simulated_text(group):
    """The origin of the times (measured or simulated), for titles."""
    if not group.simulated:
        return "measured"
    if group.calibrated:
        return "simulated, calibrated rates"
    kernels_note = ", kernels at 100 % of the peak" if group.kernels_at_peak else ""
    return f"simulated, {measured_figures_text(group.device) or 'estimated rates'}{kernels_note}"


@functools.lru_cache(maxsize=None)
def measured_figures_text(machine_name):
    """A text such as '49 of 52 figures measured' for the machine file of that name; None if there is no such file."""
    machine_path = places.RESULTS / "machines" / f"{machine_name}.json"
    try:
        machine = json.loads(machine_path.read_text(encoding="utf-8"))
        figure_names = [name for name in [*machine, *machine["uvm"]] if name.endswith(ENDINGS_OF_FIGURES)]
        return f"{len(figure_names) - len(machine['estimated']) or 'none'} of {len(figure_names)} figures measured"
    except (OSError, ValueError, KeyError, TypeError):
        return None


def machine_text(group):
    """A text such as 'h200, simulated, 49 of 52 figures measured' or 'NVIDIA H200, measured, capped, workspaces up to 2 GiB'."""
    texts = [group.device, measured_or_simulated_text(group)]
    if group.mode != "simulated":
        texts.append(group.mode)
    if group.workspace_cap is not None:
        texts.append(f"workspaces up to {bytes_text(group.workspace_cap)}")
    return ", ".join(texts)


def network_text(group):
    """A text such as 'VGG-16, batch 64, training, fp32, fused', with the memory order if it is not the default of the precision."""
    name_by_network = {"alexnet": "AlexNet", "conv": "convolution"}
    name = name_by_network.get(group.network, group.network)
    for prefix, shown_prefix in (("vgg", "VGG-"), ("resnet", "ResNet-")):
        if name.startswith(prefix):
            name = shown_prefix + name[len(prefix):]
    name = name.replace("_cifar", " (CIFAR-10)")
    phase = {"train": "training", "inference": "inference"}.get(group.phase, group.phase)
    default_insize = ("insize", 32 if group.network.endswith("_cifar") else 224)
    knob_texts = [f"{key} {value}" for key, value in group.knobs if (key, value) != default_insize]
    texts = [name, *knob_texts, f"batch {group.batch}", phase + optimizer_text(group.update), group.precision]
    if group.memory_order != ("nchw" if group.precision == "fp32" else "nhwc"):
        texts.append(group.memory_order.upper())
    texts.append({"none": "not fused"}.get(group.fusion, group.fusion))
    return ", ".join(texts)


def cell_text(record):
    """A text such as 'VGG-16, batch 64, training, fp32, fused: managed (ahead 2) at 1.5, capped, workspace 256 MiB, NVIDIA H200'."""
    group = group_of(record)
    value_by_knob = record.get("strategy_knobs") or {}
    strategy_text = record["strategy"] + (f" ({', '.join(f'{name} {value_by_knob[name]}' for name in sorted(value_by_knob))})"
                                          if value_by_knob else "")
    ratio = record["ratio"]
    texts = [strategy_text + (f" at {ratio:.4g}" if ratio is not None else "")]
    if group.mode != "simulated":
        texts.append(group.mode)
    if group.workspace_cap is not None:
        texts.append(f"workspace {bytes_text(group.workspace_cap)}")
    return f"{network_text(group)}: {', '.join([*texts, group.device])}"


def bytes_text(byte_count):
    for unit_bytes, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if byte_count >= unit_bytes:
            return f"{byte_count / unit_bytes:.4g} {unit}"
    return f"{byte_count:g} B"


def time_text(ns):
    if ns is None:
        return ""
    unit_ns, unit = (1e9, "s") if ns >= 1e9 else (1e6, "ms") if ns >= 1e5 else (1e3, "us")
    return f"{ns / unit_ns:.4g} {unit}"


def count_text(number, noun):
    """A number and a noun: '1 cell', '2 cells'."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def report_errors(main, message_prefix="error", progress_task=""):
    """Runs main(). An error becomes one line that begins with `message_prefix`, and an exit code. `progress_task` is the task that is printed if it
    takes long."""
    with output.showing_progress(progress_task) if progress_task else contextlib.nullcontext():
        return output.run(main, message_prefix, {output.Refusal: EXIT_BAD_INPUT, TooLittle: EXIT_TOO_LITTLE})
