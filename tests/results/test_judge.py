import math

import numpy
import pytest
import scipy.stats
from umbench import judge


def samples(median_ns=1e8, spread=0.01, count=10, seed=1):
    return median_ns * numpy.exp(spread * numpy.random.default_rng(seed).standard_normal(count))


def finding(base_samples, head_samples, noise_limits=None, **limits):
    return judge.judge({"cell": judge.cell_of_one_run(base_samples, head_samples)}, judge.Limits(**limits), noise_limits)["cell"]


def verdict(base_samples, head_samples, **limits):
    return finding(base_samples, head_samples, **limits).verdict


def test_each_verdict():
    base = samples(seed=1)
    assert verdict(base, samples(seed=2)) == "ok"
    assert verdict(base, 1.1 * samples(seed=2)) == "regressed"
    assert verdict(base, 0.9 * samples(seed=2)) == "improved"
    assert verdict(base[:1], samples(seed=2)[:1]) == "insufficient"
    wild = samples(spread=0.3, seed=1), samples(spread=0.3, seed=2)
    assert verdict(*wild) == "ambiguous"


def test_a_significant_change_within_the_limit_is_no_regression():
    base = samples(spread=0.001, seed=1)
    found = finding(base, 1.03 * samples(spread=0.001, seed=2))
    assert found.verdict == "ok" and found.p_adjusted < 0.001
    assert verdict(base, 1.03 * base, relative=0.02) == "regressed"


def test_short_cells_are_judged_by_the_absolute_limit():
    base = samples(median_ns=50_000, spread=0.001)
    assert verdict(base, base + 9_000) == "ok"
    assert verdict(base, base + 11_000) == "regressed"
    assert verdict(base, base + 9_000, absolute_ns=0) == "regressed"


def test_known_noise_raises_the_limit():
    base, head = samples(spread=0.001, seed=1), 1.1 * samples(spread=0.001, seed=2)
    assert finding(base, head, noise_limits={"cell": 0.2}).verdict == "ok"
    assert finding(base, head, noise_limits={"other": 0.2}).verdict == "regressed"


def test_few_samples_are_judged_and_the_change_is_always_reported():
    for count, expected in ((1, "insufficient"), (2, "regressed"), (4, "regressed")):
        found = finding(samples(spread=0.002, count=count, seed=1), 1.3 * samples(spread=0.002, count=count, seed=2))
        assert found.verdict == expected and found.change == pytest.approx(0.3, abs=0.02)
    assert "--iterations 5" in finding([1e8], [1.3e8]).reason
    none = finding([], [1e8])
    assert none.verdict == "insufficient" and none.change is None and none.head_ns == 1e8


def test_many_cells_of_four_samples_are_judged():
    cells = {f"cell{number}": judge.cell_of_one_run(samples(count=4, seed=number), 1.2 * samples(count=4, seed=100 + number))
             for number in range(59)}
    found = [one.verdict for one in judge.judge(cells).values()]
    assert found.count("regressed") > 55
    cells = {name: cell if name == "cell7" else judge.cell_of_one_run(*cell.base, samples(count=4, seed=100 + number))
             for number, (name, cell) in enumerate(cells.items())}
    found = {name: one.verdict for name, one in judge.judge(cells).items()}
    assert found.pop("cell7") == "regressed" and not {"regressed", "improved", "insufficient"} & set(found.values())


def test_drift_between_rounds_cancels():
    shifts = [1.0, 1.3, 0.8, 1.7, 2.5]
    base = [shift * samples(count=4, seed=number) for number, shift in enumerate(shifts)]
    head = [1.1 * shift * samples(count=4, seed=50 + number) for number, shift in enumerate(shifts)]
    by_round = judge.judge({"cell": judge.Cell(base, head)})["cell"]
    assert by_round.verdict == "regressed" and by_round.change == pytest.approx(0.1, abs=0.01) and by_round.runs == (5, 5)
    pooled = judge.judge({"cell": judge.Cell(base, head, False)})["cell"]
    assert pooled.verdict == "ambiguous" and pooled.high - pooled.low > 10 * (by_round.high - by_round.low)


def test_one_sample_in_each_round_is_enough():
    base, head = ([[time] for time in samples(count=8, seed=seed)] for seed in (1, 2))
    assert judge.judge({"cell": judge.Cell(base, head)})["cell"].verdict == "ok"
    slower = judge.Cell(base, [[1.1 * time] for [time] in head])
    assert judge.judge({"cell": slower})["cell"].verdict == "regressed"


def test_one_outlying_round_changes_the_result_little():
    base = [samples(seed=number) for number in range(5)]
    head = [samples(seed=10 + number) * (5.0 if number == 3 else 1.0) for number in range(5)]
    assert abs(math.expm1(judge.log_change(judge.Cell(base, head)))) < 0.02
    turning = judge.Cell([[100.0], [102.0]] * 2 + [[100.0]], [[102.0], [100.0]] * 2 + [[102.0]])  # drift within rounds, in alternating directions
    assert judge.log_change(turning) == 0


def test_p_values_and_intervals_are_those_of_student_t():
    found = judge.Estimate(0.1, 0.04, 7)
    assert judge.p_value(found) == pytest.approx(2 * scipy.stats.t.sf(2.5, 7))
    reach = 0.04 * scipy.stats.t.ppf(0.975, 7)
    assert judge.confidence_interval(found, 0.95) == pytest.approx((math.expm1(0.1 - reach), math.expm1(0.1 + reach)))


def test_corrections():
    p = [0.01, 0.04, 0.03, 0.005]
    assert judge.adjust_p_values(p, "holm") == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert judge.adjust_p_values(p, "bh") == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert judge.adjust_p_values([0.9, 0.9], "holm") == pytest.approx([1, 1])
    with pytest.raises(ValueError):
        judge.adjust_p_values(p, "none")


@pytest.mark.parametrize("correction", ["bh", "holm"])
def test_cells_of_little_noise_do_not_hide_a_change_of_a_noisy_cell(correction):
    """Only cells that chance could take beyond their limit count in the correction. Small p values of quiet cells do not
    make those of noisy cells smaller."""
    p, quiet = [0.004, 0.3, 0.6], [0.001] * 30
    alone = judge.adjust_p_values(p, correction)
    among = judge.adjust_p_values([*p, *[0.5] * 30], correction, [1, 1, 1, *quiet], [True, True, True, *[False] * 30])
    assert among[0] == pytest.approx(alone[0] + sum(quiet))
    assert judge.adjust_p_values([*p, *[0.5] * 30], correction)[0] > 2 * among[0]
    nothing = judge.adjust_p_values([0.04, *[0.03] * 30], correction, [1, *quiet], [True, *[False] * 30])
    assert nothing[0] > 0.04



@pytest.mark.parametrize("rounds, least, most", [(1, 0.9, 1.0), (5, 0.93, 1.0)])
def test_the_interval_contains_the_true_change_with_its_confidence(rounds, least, most):
    """The runs differ 1.7 times as much as their iterations explain."""
    random, held = numpy.random.default_rng(7), []
    for _ in range(60):
        cells = {}
        for number in range(10):
            runs = lambda slower: [slower * numpy.exp(0.02 * random.standard_normal() + 0.04 * random.standard_normal(10))  # noqa: E731,B023
                                   for _ in range(rounds)]
            cells[number] = judge.Cell(runs(1e8), runs(1.07e8))
        held += [one.low <= 0.07 <= one.high for one in judge.judge(cells).values()]
    assert least < sum(held) / len(held) <= most


def test_the_mean_finds_a_change_that_no_single_cell_shows():
    cells = {number: judge.cell_of_one_run(samples(seed=number), 1.03 * samples(seed=100 + number)) for number in range(20)}
    assert {one.verdict for one in judge.judge(cells).values()} <= {"ok", "ambiguous"}
    mean = judge.judge_mean(cells, judge.Limits())
    assert mean.verdict == "regressed" and mean.change == pytest.approx(0.03, abs=0.005) and mean.limit == 0.02
    assert judge.judge_mean({0: cells[0]}, judge.Limits()) is None
    assert judge.judge_mean({0: cells[0], 1: cells[1]}, judge.Limits()).limit == pytest.approx(0.05 / math.sqrt(2))


def test_a_disturbance_of_a_whole_round_is_no_change_of_the_mean():
    shifts = [0.9, 1.1, 0.95, 1.12, 1.05]  # of HEAD alone, in all cells: only the rounds can tell
    cells = {number: judge.Cell([samples(seed=number)] * 5, [shift * samples(seed=99 + number) for shift in shifts])
             for number in range(20)}
    assert judge.judge_mean(cells, judge.Limits()).verdict == "ambiguous"


def test_two_speeds_are_detected_and_noise_is_not():
    base = samples(count=12, seed=1)
    head = samples(count=12, seed=2)
    head[[1, 4, 5, 8, 11]] *= 3
    few, fast, many, slow = judge.find_two_speeds(judge.cell_of_one_run(base, head), 0.05)["head"]
    assert (few, many) == (7, 5) and fast == pytest.approx(1e8, rel=0.02) and slow == pytest.approx(3e8, rel=0.02)
    seen = sum(bool(judge.find_two_speeds(judge.cell_of_one_run(samples(spread=0.1, count=count, seed=seed), [1e8] * 12), 0.05))
               for seed in range(200) for count in (8, 12, 20))
    assert seen < 0.02 * 600
    drift = [[shift * time for time in base] for shift in (1, 2, 3)]
    assert judge.find_two_speeds(judge.Cell(drift, drift), 0.05) == {}
    assert set(judge.find_two_speeds(judge.Cell([base] * 3, [head] * 3), 0.05)) == {"head"}


def test_advice_names_the_number_of_rounds_that_would_decide():
    noisy = finding(samples(spread=0.1, seed=1), 1.1 * samples(spread=0.1, seed=2))
    assert noisy.verdict == "ambiguous" and "interleaved rounds would tell" in noisy.reason


def test_noise_is_estimated_from_runs_of_one_build():
    quiet = [{"a": [100.0], "b": [100.0]}, {"a": [100.1], "b": [100.1]}]
    loud = [{"a": [100.0], "b": [100.0]}, {"a": [100.1], "b": [130.0]}]
    assert judge.noise_by_cell(quiet[:1]) == {} == judge.noise_by_cell([])
    assert max(judge.noise_by_cell(quiet).values()) < 0.001
    found = judge.noise_by_cell(loud)
    assert found["b"] > found["a"] > 0.05  # one lucky pair of runs does not make a cell quiet
    many = [{"a": [100.0], "b": [median]} for median in numpy.linspace(90, 110, 20)]
    assert judge.noise_by_cell(many)["a"] < 0.25 * judge.noise_by_cell(many)["b"]
    assert judge.noise_limit(0.02, 5, 5) < judge.noise_limit(0.02, 1, 1) == pytest.approx(0.0885, abs=1e-3)
