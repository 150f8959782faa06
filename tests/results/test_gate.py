"""How often the gate is wrong. Every draw is seeded, so that these figures are the same everywhere."""

import itertools

import conftest
import noise
import numpy
from results import judge

REPETITIONS, PAIRS = 10, 200


def fails(random, cells, slower=lambda cell: 1.0):
    """The verdicts of one comparison of whole files: {key: verdict}."""
    drawn = {cell.key: (noise.draw(random, cell, REPETITIONS), noise.draw(random, cell, REPETITIONS, slower(cell)))
             for cell in cells}
    found = judge.judge(drawn, judge.Limits(resamples=20))
    return {key: finding.verdict for key, finding in found.items()}


def test_unchanged_code_rarely_fails_a_build():
    random, files = numpy.random.default_rng(1), noise.measured_cells()
    alarms = [any(verdict == "regressed" for verdict in fails(random, files[number % len(files)]).values())
              for number in range(PAIRS)]
    assert sum(alarms) < 0.05 * PAIRS


def test_ten_percent_are_caught_in_a_cell_compared_alone():
    random, caught = numpy.random.default_rng(2), []
    for cell in itertools.chain(*noise.measured_cells()):
        for _ in range(3):
            sides = noise.draw(random, cell, REPETITIONS), noise.draw(random, cell, REPETITIONS, 1.1)
            caught.append(judge.judge({cell.key: sides}, judge.Limits(resamples=20))[cell.key].verdict == "regressed")
    assert len(caught) > 300 and sum(caught) > 0.95 * len(caught)


def test_ten_percent_of_everything_are_caught_in_every_cell_of_a_whole_file():
    random, caught = numpy.random.default_rng(3), []
    for number in range(12):
        cells = noise.measured_cells()[number % 3]
        caught += [verdict == "regressed" for verdict in fails(random, cells, lambda cell: 1.1).values()]
    assert sum(caught) > 0.95 * len(caught)


def test_ten_percent_of_one_strategy_always_fail_the_build():
    random, files = numpy.random.default_rng(4), noise.measured_cells()
    for number in range(60):
        cells = files[number % len(files)]
        strategy = ("device", "managed", "managed_prefetch", "swap_all")[number % 4]
        verdicts = fails(random, cells, lambda cell: 1.1 if f"/{strategy}/" in cell.key else 1.0)  # noqa: B023
        assert any(v == "regressed" for key, v in verdicts.items() if f"/{strategy}/" in key)
        assert not any(v == "regressed" for key, v in verdicts.items() if f"/{strategy}/" not in key)


def test_five_percent_of_noise_never_fail_two_builds_in_a_row():
    random = numpy.random.default_rng(5)
    cells = [noise.Cell(f"cell{number}", 1e8, 0.05) for number in range(40)]
    alarms = [any(verdict == "regressed" for verdict in fails(random, cells).values()) for _ in range(PAIRS)]
    assert sum(alarms) < 0.05 * PAIRS
    assert not any(first and second for first, second in zip(alarms, alarms[1:]))


def identical_work():
    """Pairs of measured cells that did the same in processes of their own: everything resident at ratios at which
    it all fits."""
    for file in noise.measured_records():
        groups = {}
        for record in file:
            fits = record["strategy"] == "device" or (record["ratio"] < 1 and record["strategy"].startswith("managed"))
            if fits:
                groups.setdefault((record["network"], record["strategy"]), []).append(record["samples_ns"][1:])
        for key, samples in groups.items():
            yield from (("/".join(key), *pair) for pair in itertools.combinations(samples, 2))


def test_real_pairs_of_unchanged_code_are_not_called_changed():
    pairs = list(identical_work())
    assert len(pairs) >= 10
    found = [(key, judge.judge({key: (base, head)})[key]) for key, base, head in pairs]
    assert all(finding.verdict == "ok" for _, finding in found)
    table = (conftest.ROOT / "docs/gate.md").read_text(encoding="utf-8")
    for key in dict.fromkeys(key for key, _ in found):
        changes = [finding.change for name, finding in found if name == key]
        network, strategy = key.split("/")
        assert f"| {network} | {strategy} | {len(changes)} | {max(map(abs, changes)):.2%} | 0 |" in table
    slowed = [judge.judge({key: (base, [1.1 * sample for sample in head])})[key].verdict for key, base, head in pairs]
    assert slowed.count("regressed") > 0.95 * len(slowed)


def test_real_runs_in_turn_of_one_program_are_not_called_changed(umbench):
    kept = conftest.ROOT / "results/measured/h200_aa"
    pairs = len(list((kept / "base").iterdir()))
    assert pairs >= 10
    done = umbench("compare", kept / "base", kept / "head", "--pairs")
    assert done.returncode == 0, done.stderr
    assert f"{pairs} pairs, 0 of them regressed" in done.stdout
    assert f"- {pairs} real A/A pairs of whole runs" in (conftest.ROOT / "docs/gate.md").read_text(encoding="utf-8")
