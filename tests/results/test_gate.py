"""How often `umbench compare` reports false changes. Every draw is seeded, so that these figures are the same everywhere."""

import itertools
import shutil

import conftest
import noise
import numpy
import pytest
import simulate
from umbench import arguments, comparison, judge

DRAWS = 200


@pytest.mark.study
def test_drift_raises_no_false_alarm_in_interleaved_rounds():
    """The machine becomes 0 to 5 % slower every round, in turn."""
    found = simulate.alarm_rates(1, DRAWS)
    assert found.false_alarms < 0.05
    assert found.all_found > 0.95 and found.cells_found > 0.95
    assert found.three_percent > 0.95


@pytest.mark.study
def test_one_slow_cell_among_many_is_found():
    """A draw has all cells of a file, 29 to 59, whose noise differs by more than a hundredfold."""
    assert simulate.alarm_rates(2, DRAWS).one_found > 0.95
    assert simulate.alarm_rates(2, DRAWS, run_noise=1.0).one_found > 0.85


@pytest.mark.study
def test_more_rounds_of_ambiguous_cells_find_one_slow_cell_among_noisy_runs():
    found = simulate.alarm_rates(8, DRAWS, run_noise=1.0, extra_round_count=10)
    assert found.false_alarms < 0.05
    assert found.one_found > 0.95 and found.cells_found > 0.95 and found.three_percent > 0.95


@pytest.mark.study
def test_runs_that_differ_more_than_their_iterations_raise_no_alarm():
    found = simulate.alarm_rates(3, 60, run_noise=2.0)
    assert found.false_alarms < 0.05 and found.all_found == 1


@pytest.mark.study
def test_two_plain_sweeps_of_five_iterations_are_judged():
    found = simulate.alarm_rates(4, 60, drifts=(0.0,), round_count=1)
    assert found.false_alarms < 0.05
    assert found.all_found == 1 and found.cells_found > 0.75 and found.three_percent > 0.95


def test_ten_percent_in_every_round_are_found_under_a_steady_drift():
    random = numpy.random.default_rng(5)
    cells = [noise.MeasuredCell(f"cell{number}", 1e8, 0.01) for number in range(30)]
    drawn = simulate.draw_cells(random, cells, sample_count=10, drift_per_round=0.04, slowdown_of=lambda cell: 1.1)
    assert len(simulate.regressed_keys(drawn)) == 30
    assert not simulate.regressed_keys(simulate.draw_cells(random, cells, sample_count=10, drift_per_round=0.04))


@pytest.mark.study
def test_five_percent_of_noise_never_fail_two_builds_in_a_row():
    random = numpy.random.default_rng(5)
    cells = [noise.MeasuredCell(f"cell{number}", 1e8, 0.05) for number in range(40)]
    alarms = [bool(simulate.regressed_keys(simulate.draw_cells(random, cells, round_count=1, sample_count=10))) for _ in range(DRAWS)]
    assert sum(alarms) < 0.05 * DRAWS
    assert not any(first and second for first, second in zip(alarms, alarms[1:]))


# --- aspects other than time ---

@pytest.fixture(scope="module")
def counted_records():
    return [record for file in noise.measured_records()[:1] for record in file if simulate.has_all_aspects(record)]


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("aspect", sorted(simulate.CHANGES))
def test_each_change_of_another_aspect_than_time_is_found(counted_records, aspect, rounds):
    wanted = arguments.parse_compare("Compares.", ["base", "head"])
    random = numpy.random.default_rng(6)
    for _ in range(10):
        base, head, victim = simulate.draw_sides(random, counted_records, rounds, simulate.CHANGES[aspect])
        found = comparison.compare_sides(base, head, wanted)
        assert [row.key for row in found.rows if row.verdict == "regressed"] == [victim] and found.exit_code == 1
        row = next(row for row in found.rows if row.key == victim)
        assert [change.aspect for change in row.changes if change.verdict == "regressed"] == [aspect]
        wanted_less = arguments.parse_compare("Compares.", ["base", "head", "--fail-on", "time,mean"])
        found = comparison.compare_sides(base, head, wanted_less)
        assert found.exit_code == 0 and [row.verdict for row in found.rows if row.key == victim] == ["tolerated"]


def test_nothing_is_found_where_nothing_changed(counted_records):
    wanted = arguments.parse_compare("Compares.", ["base", "head"])
    random = numpy.random.default_rng(7)
    for _ in range(20):
        assert comparison.compare_sides(*simulate.draw_sides(random, counted_records, 1)[:2], wanted).exit_code == 0


# --- real pairs ---

def pairs_of_identical_work():
    """Yields (name, samples, samples) of pairs of measured cells that did the same work, with all data on the device, in separate processes."""
    for file in noise.measured_records():
        groups = {}
        for record in file:
            fits = record["strategy"] == "device" or (record["ratio"] < 1 and record["strategy"].startswith("managed"))
            if fits:
                groups.setdefault((record["network"], record["strategy"]), []).append(record["samples_ns"][1:])
        for key, samples in groups.items():
            yield from (("/".join(key), *pair) for pair in itertools.combinations(samples, 2))


def test_real_pairs_of_unchanged_code_are_not_called_changed():
    pairs = list(pairs_of_identical_work())
    assert len(pairs) >= 10
    found = [(key, judge.judge({key: judge.cell_of_one_run(base, head)})[key]) for key, base, head in pairs]
    assert not any(finding.verdict in ("regressed", "improved", "insufficient") for _, finding in found)
    table = (conftest.ROOT / "results/measured/gate.md").read_text(encoding="utf-8")
    for key in dict.fromkeys(key for key, _ in found):
        changes = [finding.change for name, finding in found if name == key]
        network, strategy = key.split("/")
        assert f"| {network} | {strategy} | {len(changes)} | {max(map(abs, changes)):.2%} | 0 |" in table
    slowed = [judge.judge({key: judge.cell_of_one_run(base, [1.1 * sample for sample in head])})[key].verdict
              for key, base, head in pairs]
    assert slowed.count("regressed") > 0.95 * len(slowed)


def test_real_runs_of_one_build_under_pressure_are_rarely_called_changed():
    """Cells beyond ratio 1 that ran two or three times in one session: each run is compared with each other one like two single sweeps."""
    runs_by_file, alarms, pairs = {}, 0, 0
    for (file, key), runs in noise.repeated_runs().items():
        for one, other in itertools.permutations(range(len(runs)), 2):
            cell = judge.cell_of_one_run(runs[one], runs[other])
            alarms += judge.judge({key: cell})[key].verdict == "regressed"
            pairs += 1
            runs_by_file.setdefault((file, one, other), {})[key] = cell
    assert pairs > 100 and alarms < 0.05 * pairs
    assert f"in {alarms} of {pairs} pairs" in (conftest.ROOT / "results/measured/gate.md").read_text(encoding="utf-8")
    assert f"In {alarms} of {pairs} pairs" in (conftest.ROOT / "docs/gate.md").read_text(encoding="utf-8")
    assert not any(simulate.is_mean_regressed(cells) for cells in runs_by_file.values())


def test_real_runs_in_turn_of_one_program_are_not_called_changed(umbench):
    kept = conftest.ROOT / "results/measured/h200_aa"
    pairs = len(list((kept / "base").iterdir()))
    assert pairs >= 10
    done = umbench("compare", kept / "base", kept / "head", "--pairs")
    assert done.returncode == 0, done.stderr
    assert f"{pairs} pairs, 0 of them regressed" in done.stdout
    assert f"- {pairs} real A/A pairs of whole runs" in (conftest.ROOT / "results/measured/gate.md").read_text(encoding="utf-8")


def base_and_head(folder):
    return folder / "base", folder / "head"


def test_real_sweeps_in_turn_of_one_program_under_pressure(umbench):
    kept, page = conftest.ROOT / "results/measured/h100_aa", (conftest.ROOT / "results/measured/gate.md").read_text(encoding="utf-8")
    pairs = umbench("compare", *base_and_head(kept), "--pairs")
    assert pairs.returncode == 1, pairs.stderr
    assert "15 pairs, 1 of them regressed" in pairs.stdout and "- 15 real A/A pairs of whole sweeps" in page
    assert "+44.34%" in pairs.stdout and "one `managed_prefetch` called 44 % slower" in page
    improved = [row.split() for row in pairs.stdout.splitlines() if "%" in row and row.split()[7] != "0"]
    assert [(row[0], row[7], row[9]) for row in improved] == [("9", "1", "-35.18%")] and "one `managed` 35 % faster" in page
    together = umbench("compare", *base_and_head(kept), "--allow-unlike")  # records of three machines, both sides of a pair on the same one
    assert together.returncode == 0, together.stderr
    assert "4 measured cells, 2 ambiguous, 2 ok" in together.stdout and "together nothing" in page


def test_real_sweeps_under_pressure_on_an_h200(umbench):
    measured = conftest.ROOT / "results/measured"
    page = (measured / "gate.md").read_text(encoding="utf-8")
    equal, busy = (next(line for line in page.splitlines() if f"]({name})" in line) for name in ("h200_aa_pressure", "h200_ab"))
    pairs = umbench("compare", *base_and_head(measured / "h200_aa_pressure"), "--pairs")
    assert pairs.returncode == 1 and "11 pairs, 2 of them regressed" in pairs.stdout and "| 11 | 2 called slower" in equal
    rows = [row.split() for row in pairs.stdout.splitlines() if "%" in row]
    assert [row[9] for row in rows if row[2] == "1"] == ["+39.57%", "+31.18%"] and "by 40 % and 31 %" in equal
    assert [row[9] for row in rows if row[7] == "1"] == ["-7.86%", "-33.20%", "-18.94%"] and "3 faster (by 8 %, 33 % and 19 %)" in equal
    together = umbench("compare", *base_and_head(measured / "h200_aa_pressure"))
    assert together.returncode == 0 and "3 measured cells, 2 ambiguous, 1 ok" in together.stdout and equal.endswith("| nothing |")
    pairs = umbench("compare", *base_and_head(measured / "h200_ab"), "--pairs")
    assert pairs.returncode == 1 and "4 pairs, 4 of them regressed" in pairs.stdout and "| 4 | 4 called slower |" in busy
    slower = umbench("compare", *base_and_head(measured / "h200_ab"))
    assert slower.returncode == 1 and "3 measured cells, 3 regressed" in slower.stdout
    for cell, change, quoted in (("/device/", "+10.42%", "`device` by 10 %"), ("/managed/", "+52.37%", "`managed` by 52 %"),
                                 ("/managed_prefetch/", "+122.86%", "`managed_prefetch` by 123 %")):
        assert change in next(row for row in slower.stdout.splitlines() if cell in row) and quoted in busy


def test_real_sweeps_beside_another_process_on_one_side(umbench):
    kept, page = conftest.ROOT / "results/measured/h100_busy", (conftest.ROOT / "results/measured/gate.md").read_text(encoding="utf-8")
    together = umbench("compare", *base_and_head(kept), "--allow-unlike")
    assert together.returncode == 0, together.stderr
    assert "3 measured cells, 3 ambiguous" in together.stdout and "- 6 pairs with another process" in page and "together nothing" in page
    assert "other processes used the GPU on one side" in together.stdout + together.stderr and "tells of the process" in page


def test_real_sweeps_in_turn_of_a_slower_program_under_pressure(umbench, tmp_path):
    kept, page = conftest.ROOT / "results/measured/h100_ab", (conftest.ROOT / "results/measured/gate.md").read_text(encoding="utf-8")
    slower = umbench("compare", *base_and_head(kept), "--allow-unlike")
    assert slower.returncode == 1, slower.stderr
    assert "4 measured cells, 4 regressed" in slower.stdout and "- 6 real A/B pairs of it" in page
    for cell, change, quoted in (("/device/", "+10.99%", "`device` and `swap_all` by 11 %"), ("/swap_all/", "+10.99%", "11 %"),
                                 ("/managed/", "+34.74%", "`managed` by 35 %"), ("/managed_prefetch/", "+145.96%", "146 %")):
        row = next(row for row in slower.stdout.splitlines() if cell in row)
        assert row.startswith("regressed") and change in row and quoted in page
    for machine in ((1, 2, 3), (4, 5, 6)):
        some = tmp_path / str(machine[0])
        for side in ("base", "head"):
            (some / side).mkdir(parents=True)
            for number in machine:
                shutil.copy(kept / side / f"{number}.jsonl", some / side)
        done = umbench("compare", *base_and_head(some))
        assert done.returncode == 1, done.stderr
        row = next(row for row in done.stdout.splitlines() if "/device/" in row)
        assert row.startswith("ambiguous") and "With three pairs alone `device`\n  stays `ambiguous`" in page
