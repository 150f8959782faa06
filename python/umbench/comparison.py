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
    same_code_runs = [samples_by_key for path in options.noise
                      for samples_by_key in run_folders.measured_samples_of_runs(run_folders.read_side(path, print_warning))]
    return compare_sides(run_folders.read_side(options.base, print_warning), run_folders.read_side(options.head, print_warning), options, same_code_runs)


def compare_sides(base_side, head_side, options, same_code_runs=()):
    """The Comparison of two run_folders.Sides. `same_code_runs` are runs of the same code, each {key: samples}, which show the noise."""
    base_records_by_key, head_records_by_key = run_folders.records_by_key(base_side), run_folders.records_by_key(head_side)
    if not set(base_records_by_key) & set(head_records_by_key):
        raise load.TooLittle(f"{base_side.name} and {head_side.name} have no cell in common, nothing to compare")
    measured_keys = [key for key in base_records_by_key if key in head_records_by_key and not base_records_by_key[key][0]["simulated"]]
    machine_differences = _machine_differences(base_side, head_side, options) if measured_keys else fingerprint.Differences([], [])
    limits = Limits(options.relative, options.absolute, options.limits["mean"], options.alpha, options.correction)
    run_pairs = run_folders.paired_runs(base_side, head_side)
    cells = {key: run_folders.cell_to_judge(base_side, head_side, run_pairs, key) for key in measured_keys
             if _any_succeeded(base_records_by_key[key]) and _any_succeeded(head_records_by_key[key])}
    findings = judge.judge(cells, limits, _noise_limits(cells, same_code_runs))
    rows = [_row(key, base_records, head_records_by_key.get(key), findings.get(key), cells.get(key), options)
            for key, base_records in base_records_by_key.items()]
    mean_change = judge.judge_mean({key: cell for key, cell in cells.items() if cell.base and cell.head}, limits,
                                   judge.noise_limit(judge.noise_of_mean(same_code_runs), *_run_counts(base_side, head_side, run_pairs)))
    keys_only_in_head = [key for key in head_records_by_key if key not in base_records_by_key]
    disturbance_notes = (_disturbance_notes("BASE", base_records_by_key, measured_keys)
                         + _disturbance_notes("HEAD", head_records_by_key, measured_keys))
    notes = [*machine_differences.noted, *_notes_on_files_left_out(base_side, head_side, run_pairs),
             *_drift_notes(base_records_by_key, head_records_by_key, measured_keys, run_pairs),
             *_notes_on_missing_aspects(base_records_by_key, head_records_by_key)]
    return Comparison(base_side.name, head_side.name, (_side_text(base_side), _side_text(head_side)), limits, options.limits, options.fail_on,
                      len(run_pairs) if run_pairs else None, rows, mean_change, keys_only_in_head,
                      _count_cells_by_changed_machine(base_records_by_key, head_records_by_key), machine_differences.unlike, notes, disturbance_notes,
                      _cells_at_two_speeds(cells, limits), _exit_code(rows, mean_change, options))


def _run_counts(base_side, head_side, run_pairs):
    """(number of runs of BASE, of HEAD) that are compared."""
    return (len(run_pairs), len(run_pairs)) if run_pairs else (len(base_side.runs), len(head_side.runs))


def _any_succeeded(records):
    return any(record["outcome"] == "ok" for record in records)


# --- the sides ---

def _side_text(side):
    """A text such as 'umbench 0.1.0+4d30cd4a1b2c, NVIDIA H200, 5 runs'. """
    builds = list(dict.fromkeys(entry["umbench"] for entry in side.environments))
    gpus = list(dict.fromkeys(entry["gpu"]["name"] for entry in side.environments if entry["gpu"]))
    texts = [f"umbench {' and '.join(builds)}" if builds else "unknown build", " and ".join(gpus) if gpus else "no GPU"]
    return ", ".join(texts + ([f"{len(side.runs)} runs"] if len(side.runs) > 1 else []))


def _machine_differences(base_side, head_side, options):
    """The fingerprint.Differences of the sides. Throws BadInput if they must not be compared."""
    differences = fingerprint.compare_environments(base_side.environments, head_side.environments)
    if differences.unlike and not options.allow_unlike:
        more_text = f" and {len(differences.unlike) - 3} more" if len(differences.unlike) > 3 else ""
        raise load.BadInput(f"{base_side.name} and {head_side.name} were measured in unlike places ({'; '.join(differences.unlike[:3])}"
                            f"{more_text}); compare them all the same with --allow-unlike")
    if options.same_gpu and fingerprint.NOTE_BY_FACT[fingerprint.OTHER_GPU_FACT] in differences.noted:
        raise load.BadInput(f"{base_side.name} and {head_side.name} were measured on two GPUs of one model; run both on one "
                            "(umbench interleave), or leave --same-gpu out")
    return differences


def _notes_on_files_left_out(base_side, head_side, run_pairs):
    """[note] if some files exist in one folder only, so that drift does not cancel; else []."""
    if max(len(base_side.runs), len(head_side.runs)) == 1:
        return []
    if run_pairs is None:
        return ["no two files of BASE and HEAD have one name: compared as a whole, so that what drifts from run to run "
                "does not cancel (umbench interleave names them by rounds)"]
    unpaired_count = len(base_side.runs) + len(head_side.runs) - 2 * len(run_pairs)
    return [f"{load.count_text(unpaired_count, 'file')} without a namesake on the other side: times left out"] if unpaired_count else []


def _count_cells_by_changed_machine(base_records_by_key, head_records_by_key):
    """{simulated machine: number of its cells} of the machines whose file changed."""
    cell_counts = Counter()
    for key, records in base_records_by_key.items():
        if key in head_records_by_key and _is_machine_file_changed(records[-1], head_records_by_key[key][-1]):
            cell_counts[records[-1]["device"] or records[-1]["backend"]] += 1
    return dict(cell_counts)


def _is_machine_file_changed(base_record, head_record):
    digests = base_record.get("figures_digest"), head_record.get("figures_digest")
    return base_record["simulated"] and None not in digests and digests[0] != digests[1]


MIN_CLOCK_DRIFT = 0.01  # relative difference of the clocks under load


def _drift_notes(base_records_by_key, head_records_by_key, measured_keys, run_pairs):
    """[note] if each side is a single sweep, since drift between them looks like a change of all cells; else []."""
    if not measured_keys or len(run_pairs or ()) != 1:
        return []
    text = ("one sweep a side: a GPU that warms up or slows down between them looks like a change, and how much sweeps differ is "
            "estimated from their iterations; umbench interleave measures both")
    clocks_mhz = [_median_clock_mhz(records_by_key[key][-1] for key in measured_keys if key in records_by_key)
                  for records_by_key in (base_records_by_key, head_records_by_key)]
    if all(clocks_mhz) and abs(clocks_mhz[1] / clocks_mhz[0] - 1) > MIN_CLOCK_DRIFT:
        text += (f"; the clock under load did drift: {clocks_mhz[0]:.0f} MHz in BASE, {clocks_mhz[1]:.0f} MHz in HEAD "
                 f"({clocks_mhz[1] / clocks_mhz[0] - 1:+.1%})")
    return [text]


def _median_clock_mhz(records):
    """The median of the GPU's clocks at the end of the cells, or None."""
    gpu_states = [(record.get("observed") or {}).get("gpu_after") or {} for record in records]
    clocks_mhz = [gpu_state["sm_clock_mhz"] for gpu_state in gpu_states if gpu_state.get("sm_clock_mhz")]
    return statistics.median(clocks_mhz) if clocks_mhz else None


def _notes_on_missing_aspects(base_records_by_key, head_records_by_key):
    """[note] for each aspect that HEAD lacks in cells in which BASE has it."""
    keys_by_aspect = {}
    for key, records in base_records_by_key.items():
        for aspect in aspects.aspects_missing_in_head(records, head_records_by_key.get(key, ())):
            keys_by_aspect.setdefault(aspect, []).append(key)
    return [f"BASE knows the {aspect} of {load.count_text(len(keys), 'cell')} that HEAD does not, such as {keys[0]}"
            for aspect, keys in keys_by_aspect.items()]


def _disturbance_notes(side_name, records_by_key, keys):
    cell_keys_by_kind = fingerprint.keys_by_disturbance(record for key in keys for record in records_by_key[key])
    return [f"{load.count_text(len(cell_keys), 'cell')} of {side_name} ran beside or under {kind}, such as {cell_keys[0]}"
            for kind, cell_keys in cell_keys_by_kind.items()]


def _cells_at_two_speeds(cells, limits):
    """[(key, side, text), ...] of cells whose iterations ran at two speeds."""
    cells_at_two_speeds = []
    for key, cell in cells.items():
        for side, speeds in judge.find_two_speeds(cell, limits.relative).items():
            cells_at_two_speeds.append((key, side, f"{side.upper()} ran at two speeds: {_speed_text(speeds)}"))
    return cells_at_two_speeds


def _speed_text(speeds):
    fast_count, fast_ns, slow_count, slow_ns = speeds
    return f"{fast_count} iterations at {load.time_text(fast_ns)}, {slow_count} at {load.time_text(slow_ns)}"


def _noise_limits(cells, same_code_runs):
    """{key: limit of the relative change, from runs of the same code}"""
    return {key: judge.noise_limit(noise, len(cells[key].base), len(cells[key].head))
            for key, noise in judge.noise_by_cell(same_code_runs).items() if key in cells and cells[key].base and cells[key].head}


# --- rows of single cells ---

def _row(key, base_records, head_records, finding, cell, options):
    """The Row of a cell. `cell` is its judge.Cell, None if its times are not judged; `head_records` is None if HEAD lacks the cell."""
    record = base_records[-1]
    name, provenance = load.cell_text(record), load.measured_or_simulated_text(load.group_of(record))
    make_row = lambda *other_fields: Row(key, name, record["simulated"], *other_fields, provenance)  # noqa: E731
    if not head_records:
        verdict = _verdict_under_fail_on("insufficient", "outcome", options.fail_on)
        return make_row(verdict, ["not in HEAD"], Finding("insufficient", None), [])
    changes = aspects.changes(base_records, head_records, options.limits)
    if finding is None and record["simulated"] and _any_succeeded(base_records) and _any_succeeded(head_records):
        finding = _simulated_finding(base_records[-1], head_records[-1], changes)
    speeds_by_side = judge.find_two_speeds(cell, options.relative) if cell else {}
    if "head" in speeds_by_side and "base" not in speeds_by_side:
        verdict = "regressed" if "modes" in options.fail_on else "ambiguous"
        changes.append(aspects.Change("modes", verdict, None, None, None, None, f"two speeds now: {_speed_text(speeds_by_side['head'])}"))
    judged_aspects = [(change.aspect, change.verdict, change.text) for change in changes]
    if finding:
        judged_aspects.append(("time", finding.verdict, finding.reason))
    if _is_machine_file_changed(record, head_records[-1]) and not options.allow_unlike:
        judged_aspects = [("outcome", "unlike", "another machine file")]
    verdicts_and_texts = [(_verdict_under_fail_on(verdict, aspect, options.fail_on), text)
                          for aspect, verdict, text in judged_aspects] or [("ok", None)]
    verdict = min((verdict for verdict, _ in verdicts_and_texts), key=VERDICTS.index)
    return make_row(verdict, [text for _, text in sorted(verdicts_and_texts, key=lambda entry: VERDICTS.index(entry[0])) if text],
                    finding or Finding(verdict, None), changes)


def _verdict_under_fail_on(verdict, aspect, fail_on):
    """The verdict, or "tolerated" for a regression in an aspect that --fail-on leaves out."""
    return "tolerated" if verdict in ("regressed", "insufficient") and aspect not in fail_on else verdict


def _simulated_finding(base_record, head_record, changes):
    """The Finding of a simulated cell, whose times must be equal on both sides."""
    times_ns = load.steady_ns(base_record), load.steady_ns(head_record)
    relative_change = times_ns[1] / times_ns[0] - 1 if times_ns[0] else 0.0
    finding_fields = dict(base_ns=times_ns[0], head_ns=times_ns[1], change=relative_change,
                          samples=(len(base_record["samples_ns"]), len(head_record["samples_ns"])), runs=(1, 1))
    if times_ns[0] != times_ns[1]:
        reason = "another machine file" if _is_machine_file_changed(base_record, head_record) else "simulated times must be equal"
        return Finding("regressed" if times_ns[1] > times_ns[0] else "improved", reason, **finding_fields)
    if any(change.verdict != "ok" for change in changes):
        return Finding("ok", None, **finding_fields)
    differing_field = next((field for field in ("samples_ns", "counters", "memory", "compute_ns")
                            if _values_differ(base_record.get(field), head_record.get(field))), None)
    if differing_field:
        return Finding("ambiguous", f"equal median, but {differing_field} differs", **finding_fields)
    return Finding("ok", None, **finding_fields)


def _values_differ(base_value, head_value):
    """Whether two values differ. Fields that only one of them has do not count."""
    if isinstance(base_value, dict) and isinstance(head_value, dict):
        return any(_values_differ(base_value[name], head_value[name]) for name in base_value.keys() & head_value.keys())
    return base_value != head_value


def _exit_code(rows, mean, options):
    verdicts = {row.verdict for row in rows}
    if "regressed" in verdicts or (mean and mean.verdict == "regressed" and "mean" in options.fail_on):
        return EXIT_REGRESSED
    if verdicts & {"insufficient", "unlike"} or (options.strict and verdicts & {"ambiguous", "tolerated"}):
        return load.EXIT_TOO_LITTLE
    return 0
