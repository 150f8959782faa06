"""Two sides of record files -> a finding for each cell and an exit code. print_comparison.py shows it."""

from collections import namedtuple

from results import fingerprint, judge, load, runs
from results.judge import Finding, Limits

EXIT_REGRESSED = 1

# How well a cell ended: a step down is a regression whatever the times.
RANK = {"ok": 2, "infeasible": 1}

Row = namedtuple("Row", "key simulated finding provenance")
# `unlike` and `noted` are differences of the places, `disturbed` what disturbed measured cells: texts.
Comparison = namedtuple("Comparison", "base head limits rows new unlike noted disturbed exit_code")


def compare(wanted, warn):
    base, head = runs.read_side(wanted.base, warn), runs.read_side(wanted.head, warn)
    befores, afters = runs.last_records(base), runs.last_records(head)
    if not set(befores) & set(afters):
        raise load.TooLittle(f"{base.name} and {head.name} have no cell in common, nothing to compare")
    measured = [key for key in befores if key in afters and not befores[key]["simulated"]]
    places = _places(base, head, wanted) if measured else fingerprint.Differences([], [])
    limits = Limits(wanted.relative, wanted.absolute, wanted.alpha, wanted.correction)
    findings = _judge_measured(base, head, [k for k in measured if _both_ok(befores[k], afters[k])], limits,
                               _noise(base, head, wanted.noise, warn))
    rows = [Row(key, before["simulated"], findings.get(key) or _by_record(before, afters.get(key)),
                load.provenance(load.group_of(before)))
            for key, before in befores.items()]
    new = [key for key in afters if key not in befores]
    disturbed = _disturbed("BASE", befores, measured) + _disturbed("HEAD", afters, measured)
    return Comparison(base.name, head.name, limits, rows, new, places.unlike, places.noted, disturbed,
                      _exit_code(rows, wanted.strict))


def _both_ok(before, after):
    return before["outcome"] == after["outcome"] == "ok"


def _places(base, head, wanted):
    found = fingerprint.differences(base.environments, head.environments)
    if found.unlike and not wanted.allow_unlike:
        more = f" and {len(found.unlike) - 3} more" if len(found.unlike) > 3 else ""
        raise load.BadInput(f"{base.name} and {head.name} were measured in unlike places ({'; '.join(found.unlike[:3])}"
                            f"{more}); compare them all the same with --allow-unlike")
    if wanted.same_gpu and fingerprint.NOTED[fingerprint.OTHER_GPU] in found.noted:
        raise load.BadInput(f"{base.name} and {head.name} were measured on two GPUs of one model; run both on one "
                            "(umbench interleave), or leave --same-gpu out")
    return found


def _disturbed(side, records, keys):
    found = fingerprint.disturbances(records[key] for key in keys)
    return [f"{load.counted(len(cells), 'cell')} of {side} ran beside or under {kind}, such as {cells[0]}" for kind, cells in found.items()]


def _noise(base, head, paths, warn):
    """{key: (spread, from which the limit follows)}: what is known of run-to-run noise."""
    taught = [run for path in paths for run in runs.samples_by_run(runs.read_side(path, warn))]
    spreads = {}
    for group in (taught, runs.samples_by_run(base), runs.samples_by_run(head)):
        for key, spread in judge.run_noise(group).items():
            spreads[key] = max(spread, spreads.get(key, 0.0))
    return spreads


def _judge_measured(base, head, keys, limits, spreads):
    cells = {key: (runs.pooled_samples(base, key), runs.pooled_samples(head, key)) for key in keys}
    count = lambda side, key: sum(key in run for run in side.runs)  # noqa: E731
    noise = {key: judge.noise_limit(spread, count(base, key), count(head, key))
             for key, spread in spreads.items() if key in cells}
    return judge.judge(cells, limits, noise)


def _by_record(before, after):
    """What the records themselves decide: missing and failed cells, and all simulated ones."""
    if after is None:
        return Finding("insufficient", "not in HEAD")
    ranks = RANK.get(before["outcome"], 0), RANK.get(after["outcome"], 0)
    if ranks[1] < ranks[0]:
        return Finding("regressed", f"was {before['outcome']}, is {_outcome(after)}")
    if ranks[1] > ranks[0]:
        return Finding("improved", f"was {_outcome(before)}, is {after['outcome']}")
    if ranks == (0, 0):
        return Finding("insufficient", f"failed on both sides: {_outcome(after)}")
    if before["outcome"] == "infeasible":
        return Finding("ok", "infeasible on both sides")
    return _equal(before, after)


def _outcome(record):
    return record["outcome"] + (f" ({record['reason']})" if record.get("reason") else "")


def _equal(before, after):
    times = load.steady_ns(before), load.steady_ns(after)
    change = times[1] / times[0] - 1 if times[0] else 0.0
    facts = dict(base_ns=times[0], head_ns=times[1], change=change,
                 samples=(len(before["samples_ns"]), len(after["samples_ns"])))
    if times[0] != times[1]:
        return Finding("regressed" if times[1] > times[0] else "improved", "simulated times must be equal", **facts)
    for field in ("samples_ns", "counters", "memory", "compute_ns"):
        if _differ(before.get(field), after.get(field)):
            return Finding("ambiguous", f"equal median, but {field} differs", **facts)
    return Finding("ok", None, **facts)


def _differ(before, after):
    """What only one of them has, a field that older files lack, tells nothing."""
    if isinstance(before, dict) and isinstance(after, dict):
        return any(_differ(before[name], after[name]) for name in before.keys() & after.keys())
    return before != after


def _exit_code(rows, strict):
    found = {row.finding.verdict for row in rows}
    if "regressed" in found:
        return EXIT_REGRESSED
    if "insufficient" in found or (strict and "ambiguous" in found):
        return load.EXIT_TOO_LITTLE
    return 0
