"""Compares two sides of record files. The result has a verdict for each cell, one for their mean, and an exit code.

A row has the Finding on the cell's times (judge.py) and the Changes of its other results (aspects.py); its verdict is the worst of them. An
aspect that `--fail-on` leaves out is reported, but its regression is only `tolerated`. A simulated cell whose machine file changed is
`unlike`, since its times do not depend on the code alone.
"""

import statistics
from collections import Counter, namedtuple

from umbench import aspects, fingerprint, judge, load, run_folders
from umbench.judge import Finding, Limits

EXIT_REGRESSED = 1

VERDICTS = ("regressed", "insufficient", "unlike", "tolerated", "ambiguous", "improved", "ok")

Row = namedtuple("Row", "key name simulated verdict reasons finding changes provenance")
# `machines`: {machine whose file changed: number of cells}. `unlike` and `noted` are texts on differences between the two sides' machines.
# `disturbance_notes`: [text] for each side and kind of disturbance. `at_two_speeds`: [(key, side, text)] of cells some of whose iterations
# were fast and the others slow.
Comparison = namedtuple("Comparison", "base head sides limits aspects fail_on rounds rows mean new machines unlike noted "
                                      "disturbance_notes at_two_speeds exit_code")


def compare(options, print_warning):
    """The Comparison of the sides that the options name."""
    same_code_runs = [run for path in options.noise for run in run_folders.measured_samples_by_run(run_folders.read_side(path, print_warning))]
    return compare_sides(run_folders.read_side(options.base, print_warning), run_folders.read_side(options.head, print_warning), options, same_code_runs)


def compare_sides(base, head, options, same_code_runs=()):
    """The Comparison of two run_folders.Sides. `same_code_runs` are runs of the same code, each {key: samples}, which show the noise."""
    base_records, head_records = run_folders.records_by_key(base), run_folders.records_by_key(head)
    if not set(base_records) & set(head_records):
        raise load.TooLittle(f"{base.name} and {head.name} have no cell in common, nothing to compare")
    measured = [key for key in base_records if key in head_records and not base_records[key][0]["simulated"]]
    machines = _machine_differences(base, head, options) if measured else fingerprint.Differences([], [])
    limits = Limits(options.relative, options.absolute, options.limits["mean"], options.alpha, options.correction)
    run_pairs = run_folders.paired_runs(base, head)
    cells = {key: run_folders.cell_to_judge(base, head, run_pairs, key) for key in measured if _any_succeeded(base_records[key]) and _any_succeeded(head_records[key])}
    findings = judge.judge(cells, limits, _noise_limits(cells, same_code_runs))
    rows = [_row(key, before, head_records.get(key), findings.get(key), cells.get(key), options) for key, before in base_records.items()]
    mean = judge.judge_mean({key: cell for key, cell in cells.items() if cell.base and cell.head}, limits,
                                judge.noise_limit(judge.noise_of_mean(same_code_runs), *_run_counts(base, head, run_pairs)))
    new = [key for key in head_records if key not in base_records]
    disturbed = _disturbance_notes("BASE", base_records, measured) + _disturbance_notes("HEAD", head_records, measured)
    noted = [*machines.noted, *_notes_on_files_left_out(base, head, run_pairs),
             *_drift_notes(base_records, head_records, measured, run_pairs), *_notes_on_missing_aspects(base_records, head_records)]
    return Comparison(base.name, head.name, (_side_text(base), _side_text(head)), limits, options.limits, options.fail_on,
                      len(run_pairs) if run_pairs else None, rows, mean, new,
                      _count_cells_by_changed_machine(base_records, head_records), machines.unlike, noted, disturbed,
                      _cells_at_two_speeds(cells, limits), _exit_code(rows, mean, options))


def _run_counts(base, head, run_pairs):
    """(number of runs of BASE, of HEAD) that are compared."""
    return (len(run_pairs), len(run_pairs)) if run_pairs else (len(base.runs), len(head.runs))


def _any_succeeded(records):
    return any(record["outcome"] == "ok" for record in records)


# --- the sides ---

def _side_text(side):
    """A text such as 'umbench 0.1.0+4d30cd4a1b2c, NVIDIA H200, 5 runs'. """
    tools = list(dict.fromkeys(entry["umbench"] for entry in side.environments))
    gpus = list(dict.fromkeys(entry["gpu"]["name"] for entry in side.environments if entry["gpu"]))
    parts = [f"umbench {' and '.join(tools)}" if tools else "unknown build", " and ".join(gpus) if gpus else "no GPU"]
    return ", ".join(parts + ([f"{len(side.runs)} runs"] if len(side.runs) > 1 else []))


def _machine_differences(base, head, options):
    """The fingerprint.Differences of the sides. Throws BadInput if they must not be compared."""
    found = fingerprint.compare_environments(base.environments, head.environments)
    if found.unlike and not options.allow_unlike:
        more = f" and {len(found.unlike) - 3} more" if len(found.unlike) > 3 else ""
        raise load.BadInput(f"{base.name} and {head.name} were measured in unlike places ({'; '.join(found.unlike[:3])}"
                            f"{more}); compare them all the same with --allow-unlike")
    if options.same_gpu and fingerprint.NOTED[fingerprint.OTHER_GPU] in found.noted:
        raise load.BadInput(f"{base.name} and {head.name} were measured on two GPUs of one model; run both on one "
                            "(umbench interleave), or leave --same-gpu out")
    return found


def _notes_on_files_left_out(base, head, run_pairs):
    """[note] if some files exist in one folder only, so that drift does not cancel; else []."""
    if max(len(base.runs), len(head.runs)) == 1:
        return []
    if run_pairs is None:
        return ["no two files of BASE and HEAD have one name: compared as a whole, so that what drifts from run to run "
                "does not cancel (umbench interleave names them by rounds)"]
    alone = len(base.runs) + len(head.runs) - 2 * len(run_pairs)
    return [f"{load.count_text(alone, 'file')} without a namesake on the other side: times left out"] if alone else []


def _count_cells_by_changed_machine(base_records, head_records):
    """{simulated machine: number of its cells} of the machines whose file changed."""
    found = Counter()
    for key, records in base_records.items():
        if key in head_records and _is_machine_file_changed(records[-1], head_records[key][-1]):
            found[records[-1]["device"] or records[-1]["backend"]] += 1
    return dict(found)


def _is_machine_file_changed(base_record, head_record):
    digests = base_record.get("figures_digest"), head_record.get("figures_digest")
    return base_record["simulated"] and None not in digests and digests[0] != digests[1]


DRIFT = 0.01  # relative difference of the clocks under load


def _drift_notes(base_records, head_records, measured_keys, run_pairs):
    """[note] if each side is a single sweep, since drift between them looks like a change of all cells; else []."""
    if not measured_keys or len(run_pairs or ()) != 1:
        return []
    text = ("one sweep a side: a GPU that warms up or slows down between them looks like a change, and how much sweeps differ is "
            "estimated from their iterations; umbench interleave measures both")
    clocks = [_median_clock_mhz(side[key][-1] for key in measured_keys if key in side) for side in (base_records, head_records)]
    if all(clocks) and abs(clocks[1] / clocks[0] - 1) > DRIFT:
        text += (f"; the clock under load did drift: {clocks[0]:.0f} MHz in BASE, {clocks[1]:.0f} MHz in HEAD "
                 f"({clocks[1] / clocks[0] - 1:+.1%})")
    return [text]


def _median_clock_mhz(records):
    """The median of the GPU's clocks at the end of the cells, or None."""
    states = [(record.get("observed") or {}).get("gpu_after") or {} for record in records]
    clocks = [state["sm_clock_mhz"] for state in states if state.get("sm_clock_mhz")]
    return statistics.median(clocks) if clocks else None


def _notes_on_missing_aspects(base_records, head_records):
    """[note] for each aspect that HEAD lacks in cells in which BASE has it."""
    found = {}
    for key, records in base_records.items():
        for name in aspects.aspects_missing_in_head(records, head_records.get(key, ())):
            found.setdefault(name, []).append(key)
    return [f"BASE knows the {name} of {load.count_text(len(keys), 'cell')} that HEAD does not, such as {keys[0]}"
            for name, keys in found.items()]


def _disturbance_notes(side_name, records_by_key, keys):
    found = fingerprint.cells_by_disturbance(record for key in keys for record in records_by_key[key])
    return [f"{load.count_text(len(cells), 'cell')} of {side_name} ran beside or under {kind}, such as {cells[0]}"
            for kind, cells in found.items()]


def _cells_at_two_speeds(cells, limits):
    """[(key, side, text), ...] of cells whose iterations ran at two speeds."""
    found = []
    for key, cell in cells.items():
        for side, speeds in judge.find_two_speeds(cell, limits.relative).items():
            found.append((key, side, f"{side.upper()} ran at two speeds: {_speed_text(speeds)}"))
    return found


def _speed_text(speeds):
    few, fast, many, slow = speeds
    return f"{few} iterations at {load.time_text(fast)}, {many} at {load.time_text(slow)}"


def _noise_limits(cells, same_code_runs):
    """{key: limit of the relative change, from runs of the same code}"""
    return {key: judge.noise_limit(spread, len(cells[key].base), len(cells[key].head))
            for key, spread in judge.noise_by_cell(same_code_runs).items() if key in cells and cells[key].base and cells[key].head}


# --- rows of single cells ---

def _row(key, base_runs, head_runs, finding, cell, options):
    """The Row of a cell. `cell` is its judge.Cell, None if its times are not judged; `head_runs` is None if HEAD lacks the cell."""
    record = base_runs[-1]
    name, provenance = load.cell_text(record), load.provenance(load.group_of(record))
    make_row = lambda *other_fields: Row(key, name, record["simulated"], *other_fields, provenance)  # noqa: E731
    if not head_runs:
        verdict = _verdict_under_fail_on("insufficient", "outcome", options.fail_on)
        return make_row(verdict, ["not in HEAD"], Finding("insufficient", None), [])
    changes = aspects.changes(base_runs, head_runs, options.limits)
    if finding is None and record["simulated"] and _any_succeeded(base_runs) and _any_succeeded(head_runs):
        finding = _simulated_finding(base_runs[-1], head_runs[-1], changes)
    speeds = judge.find_two_speeds(cell, options.relative) if cell else {}
    if "head" in speeds and "base" not in speeds:
        verdict = "regressed" if "modes" in options.fail_on else "ambiguous"
        changes.append(aspects.Change("modes", verdict, None, None, None, None, f"two speeds now: {_speed_text(speeds['head'])}"))
    told = [(change.aspect, change.verdict, change.text) for change in changes]
    if finding:
        told.append(("time", finding.verdict, finding.reason))
    if _is_machine_file_changed(record, head_runs[-1]) and not options.allow_unlike:
        told = [("outcome", "unlike", "another machine file")]
    found = [(_verdict_under_fail_on(verdict, aspect, options.fail_on), text) for aspect, verdict, text in told] or [("ok", None)]
    verdict = min((verdict for verdict, _ in found), key=VERDICTS.index)
    return make_row(verdict, [text for _, text in sorted(found, key=lambda entry: VERDICTS.index(entry[0])) if text],
                    finding or Finding(verdict, None), changes)


def _verdict_under_fail_on(verdict, aspect, fail_on):
    """The verdict, or "tolerated" for a regression in an aspect that --fail-on leaves out."""
    return "tolerated" if verdict in ("regressed", "insufficient") and aspect not in fail_on else verdict


def _simulated_finding(base_record, head_record, changes):
    """The Finding of a simulated cell, whose times must be equal on both sides."""
    times = load.steady_ns(base_record), load.steady_ns(head_record)
    change = times[1] / times[0] - 1 if times[0] else 0.0
    facts = dict(base_ns=times[0], head_ns=times[1], change=change,
                 samples=(len(base_record["samples_ns"]), len(head_record["samples_ns"])), runs=(1, 1))
    if times[0] != times[1]:
        reason = "another machine file" if _is_machine_file_changed(base_record, head_record) else "simulated times must be equal"
        return Finding("regressed" if times[1] > times[0] else "improved", reason, **facts)
    if any(change.verdict != "ok" for change in changes):
        return Finding("ok", None, **facts)
    differing = next((field for field in ("samples_ns", "counters", "memory", "compute_ns")
                      if _values_differ(base_record.get(field), head_record.get(field))), None)
    if differing:
        return Finding("ambiguous", f"equal median, but {differing} differs", **facts)
    return Finding("ok", None, **facts)


def _values_differ(before, after):
    """Whether two values differ. Fields that only one of them has do not count."""
    if isinstance(before, dict) and isinstance(after, dict):
        return any(_values_differ(before[name], after[name]) for name in before.keys() & after.keys())
    return before != after


def _exit_code(rows, mean, options):
    found = {row.verdict for row in rows}
    if "regressed" in found or (mean and mean.verdict == "regressed" and "mean" in options.fail_on):
        return EXIT_REGRESSED
    if found & {"insufficient", "unlike"} or (options.strict and found & {"ambiguous", "tolerated"}):
        return load.EXIT_TOO_LITTLE
    return 0
