#!/usr/bin/env python3
"""Estimates how often `umbench compare` reports false changes and how often it finds real ones, with the noise of the kept measurements.

simulate.py [DRAWS]: interleaved rounds of a machine that drifts, then two plain sweeps. Every draw is seeded, so that
the figures are the same everywhere. Tests run parts of it.
"""

import copy
import math
import sys
from collections import namedtuple
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "python"), str(Path(__file__).resolve().parent)]

import noise  # noqa: E402
import numpy  # noqa: E402
from umbench import arguments, aspects, comparison, judge, load, run_folders  # noqa: E402

DRIFTS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05)  # share by which the machine becomes slower every round
ROUNDS, SAMPLES = 5, 4  # of `interleave`, and of a sweep with the standard five iterations


def factor_of_unchanged_code(cell):
    return 1.0


def draw_cells(random, measured_cells, round_count=ROUNDS, sample_count=SAMPLES, drift_per_round=0.0, slowdown_of=factor_of_unchanged_code, run_noise=0.0):
    """{key: judge.Cell} of random samples. slowdown_of(cell): factor of HEAD's time; `run_noise`: standard deviation between runs divided by
    that within runs."""
    found = {}
    for cell in measured_cells:
        sides = [], []
        for number in range(round_count):
            for side, factor in zip(sides, (1.0, slowdown_of(cell))):
                run = math.exp(run_noise * cell.spread * random.standard_normal())
                side.append(noise.draw_samples(random, cell, sample_count, factor * run * (1 + drift_per_round) ** number))
        found[cell.key] = judge.Cell(*sides)
    return found


def run_more_rounds_of_ambiguous_cells(random, cells, measured_cells, extra_round_count, **draw_options):
    """The cells, of which ambiguous ones have `extra_round_count` further rounds as by `umbench interleave --more`. `measured_cells`: their noise.MeasuredCells."""
    findings = judge.judge(cells)
    left = [cell for cell in measured_cells if findings[cell.key].verdict == "ambiguous"] if extra_round_count else []
    further = draw_cells(random, left, extra_round_count, **draw_options)
    return {**cells, **{key: judge.Cell(cells[key].base + cell.base, cells[key].head + cell.head)
                        for key, cell in further.items()}}


def regressed_keys(cells, limits=judge.Limits()):
    return {key for key, finding in judge.judge(cells, limits).items() if finding.verdict == "regressed"}


def is_mean_regressed(cells):
    return judge.judge_mean(cells, judge.Limits()).verdict == "regressed"


Rates = namedtuple("Rates", "false_alarms all_found cells_found one_found three_percent")


def alarm_rates(seed, draw_count, drifts=DRIFTS, extra_round_count=0, round_count=ROUNDS, **draw_options):
    """The Rates as shares of `draw_count` draws, which take the kept files and the drifts in turn. `false_alarms`: draws of unchanged code with an alarm, of
    a cell or of the mean. `all_found` and `cells_found`: draws, and cells, with an alarm if all cells are 10 % slower. `one_found`: the same if
    one cell is. `three_percent`: draws with an alarm of the mean if all cells are 3 % slower."""
    random, files = numpy.random.default_rng(seed), noise.measured_cells()
    tally = Rates([], [], [], [], [])
    for number in range(draw_count):
        cells, drift = files[number % len(files)], drifts[number // len(files) % len(drifts)]

        def draw_with(slowdown_of=factor_of_unchanged_code):
            made = dict(drift_per_round=drift, slowdown_of=slowdown_of, **draw_options)  # noqa: B023
            return run_more_rounds_of_ambiguous_cells(random, draw_cells(random, cells, round_count, **made), cells, extra_round_count, **made)  # noqa: B023

        unchanged = draw_with()
        tally.false_alarms.append(bool(regressed_keys(unchanged)) or is_mean_regressed(unchanged))
        found = regressed_keys(draw_with(lambda cell: 1.1))
        tally.all_found.append(bool(found))
        tally.cells_found.append(len(found) / len(cells))
        victim = cells[random.integers(len(cells))]
        tally.one_found.append(victim.key in regressed_keys(draw_with(lambda cell: 1.1 if cell is victim else 1.0)))  # noqa: B023
        tally.three_percent.append(is_mean_regressed(draw_with(lambda cell: 1.03)))
    return Rates(*(sum(part) / draw_count for part in tally))


# --- aspects other than time ---

def _change_of_field(field_path, new_value):
    """A function that replaces the value at a path of a record by new_value(old value)."""
    def change(record):
        *where, name = field_path.split(".")
        for part in where:
            record = record[part]
        record[name] = new_value(record[name])
    return change


def add_moved_bytes(record):
    last = record["counters"]["last"]
    last["copy_to_host_bytes"] += int(0.2 * sum(last[name] or 0 for name in load.TO_DEVICE + load.TO_HOST)) + 2**24


CHANGES = {
    "peak": _change_of_field("memory.peak_device_bytes", lambda value: 1.1 * value),
    "footprint": _change_of_field("memory.footprint_bytes", lambda value: 1.1 * value),
    "link": add_moved_bytes,
    "faults": _change_of_field("counters.last.faults", lambda value: 2 * value + 1000),
    "loss": _change_of_field("loss", lambda value: 1.01 * value),
    "digest": _change_of_field("digest", lambda value: f"{int(value, 16) ^ 1:016x}"),
    "outcome": lambda record: record.update(outcome="crashed", reason="made up", samples_ns=[]),
}


def has_all_aspects(record):
    """Whether a record has counters and a digest, so that each of CHANGES changes something."""
    return record["counters"] and record["counters"]["last"]["faults"] is not None and record["digest"]


def draw_sides(random, records, round_count, change_record=None):
    """(base, head, key): two run_folders.Sides. `change_record` is applied to the cell of that key in every round of HEAD."""
    victim = records[random.integers(len(records))]["key"]
    sides = []
    for name in ("base", "head"):
        made = []
        for _ in range(round_count):
            run = {}
            for record in records:
                drawn = noise.draw_samples(random, noise.measured_cell_of(record), SAMPLES)
                run[record["key"]] = record | {"samples_ns": [2 * int(drawn[0]), *map(int, drawn)]}
            if name == "head" and change_record:
                run[victim] = copy.deepcopy(run[victim])
                change_record(run[victim])
            made.append(run)
        sides.append(run_folders.Side(name, [], made, [f"{number}.jsonl" for number in range(round_count)]))
    return *sides, victim


def count_draws_found_alone(draw_count, aspect, round_count, seed=6):
    """The number of draws in which a change of `aspect` in one cell is found and nothing else is."""
    wanted, random = arguments.parse_compare("Compares.", ["base", "head"]), numpy.random.default_rng(seed)
    counted, found = [record for record in noise.measured_records()[0] if has_all_aspects(record)], 0
    for _ in range(draw_count):
        base, head, victim = draw_sides(random, counted, round_count, CHANGES[aspect])
        rows = [row for row in comparison.compare_sides(base, head, wanted).rows if row.verdict == "regressed"]
        found += [row.key for row in rows] == [victim] and [change.aspect for change in rows[0].changes
                                                            if change.verdict == "regressed"] == [aspect]
    return found


def main():
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"{draws} draws a row; limits {judge.Limits().relative:.0%} a cell, {judge.Limits().mean:.0%} for the mean; "
          f"aspects {', '.join(aspects.LIMITS)} by tests/results/test_gate.py")
    print(f"{'':46}false alarms  10 % in all: builds, cells  in one  3 % everywhere")
    rows = [(f"{ROUNDS} rounds, {SAMPLES} samples, drift {drift:.0%}", dict(drifts=(drift,))) for drift in DRIFTS]
    rows += [(f"{ROUNDS} rounds, 10 samples, drift 0 to 5 %", dict(sample_count=10)),
             (f"{ROUNDS} rounds, {SAMPLES} samples, drift, noisy runs", dict(run_noise=1.0)),
             (f"{ROUNDS} rounds, 10 more of open cells, noisy runs", dict(run_noise=1.0, extra_round_count=10)),
             (f"{ROUNDS} rounds, 20 more of open cells, noisy runs", dict(run_noise=1.0, extra_round_count=20)),
             (f"12 rounds, {SAMPLES} samples, drift, noisy runs", dict(run_noise=1.0, round_count=12)),
             (f"3 rounds, {SAMPLES} samples, drift 0 to 5 %", dict(round_count=3)),
             (f"two sweeps, {SAMPLES} samples", dict(round_count=1)), ("two sweeps, 10 samples", dict(round_count=1, sample_count=10)),
             (f"two sweeps, {SAMPLES} samples, noisy runs", dict(round_count=1, run_noise=1.0))]
    for number, (name, draw_options) in enumerate(rows):
        found = alarm_rates(number, draws, **draw_options)
        print(f"{name:46}{found.false_alarms:12.1%}  {found.all_found:19.1%} {found.cells_found:6.1%}  {found.one_found:6.1%}  "
              f"{found.three_percent:14.1%}", flush=True)
    for aspect in CHANGES:
        print(f"{aspect} changed in one cell, 3 rounds: found alone in {count_draws_found_alone(draws, aspect, 3)} of {draws}", flush=True)


if __name__ == "__main__":
    main()
