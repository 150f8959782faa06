import numpy
import pytest
import scipy.stats
from results import judge


def samples(median=1e8, spread=0.01, count=10, seed=1):
    return median * numpy.exp(spread * numpy.random.default_rng(seed).standard_normal(count))


def verdict(base, head, **limits):
    return judge.judge({"cell": (base, head)}, judge.Limits(**limits))["cell"].verdict


def test_each_verdict():
    base = samples(seed=1)
    assert verdict(base, samples(seed=2)) == "ok"
    assert verdict(base, 1.1 * samples(seed=2)) == "regressed"
    assert verdict(base, 0.9 * samples(seed=2)) == "improved"
    assert verdict(base[:3], samples(seed=2)) == "insufficient"
    wild = samples(spread=0.3, seed=1), samples(spread=0.3, seed=2)
    assert verdict(*wild) == "ambiguous"


def test_a_sure_change_within_the_limit_is_none():
    base = samples(spread=0.001, seed=1)
    finding = judge.judge({"cell": (base, 1.03 * samples(spread=0.001, seed=2))})["cell"]
    assert finding.verdict == "ok" and finding.p_adjusted < 0.001
    assert verdict(base, 1.03 * base, relative=0.02) == "regressed"


def test_short_cells_are_held_to_the_absolute_limit():
    base = samples(median=50_000, spread=0.001)
    assert verdict(base, base + 9_000) == "ok"
    assert verdict(base, base + 11_000) == "regressed"
    assert verdict(base, base + 9_000, absolute_ns=0) == "regressed"


def test_known_noise_raises_the_limit():
    base, head = samples(spread=0.001, seed=1), 1.1 * samples(spread=0.001, seed=2)
    assert judge.judge({"cell": (base, head)}, noise={"cell": 0.2})["cell"].verdict == "ok"
    assert judge.judge({"cell": (base, head)}, noise={"other": 0.2})["cell"].verdict == "regressed"


def test_more_cells_need_more_samples():
    base, head = samples(count=5, seed=1), samples(count=5, seed=2)
    assert verdict(base, head) == "ok"
    found = judge.judge({f"cell{number}": (base, head) for number in range(50)})
    assert {finding.verdict for finding in found.values()} == {"insufficient"}
    assert "50 cells need 7 on each side" in found["cell0"].reason
    assert judge.least_p(7, 7) < 0.05 / 50 <= judge.least_p(6, 6)


def test_p_values_are_scipys_and_bounded_by_what_the_samples_allow():
    base, head = samples(seed=1), samples(seed=2)
    assert judge.p_value(base, head) == scipy.stats.mannwhitneyu(base, head, method="exact").pvalue
    assert judge.p_value([1, 2, 3], [4, 5, 6]) == pytest.approx(judge.least_p(3, 3)) == pytest.approx(0.1)
    assert judge.p_value([1, 1, 2], [1, 2, 2]) == scipy.stats.mannwhitneyu([1, 1, 2], [1, 2, 2], method="asymptotic").pvalue
    assert judge.p_value([1, 1], [1, 1]) == 1


def test_corrections():
    p = [0.01, 0.04, 0.03, 0.005]
    assert judge.adjusted(p, "holm") == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert judge.adjusted(p, "bh") == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert judge.adjusted([0.9, 0.9], "holm") == pytest.approx([1, 1])
    with pytest.raises(ValueError):
        judge.adjusted(p, "none")


def test_the_interval_holds_the_true_change_as_often_as_it_says():
    random, held = numpy.random.default_rng(7), 0
    for _ in range(300):
        base, head = (numpy.exp(0.03 * random.standard_normal(15)) for _ in range(2))
        _, low, high = judge.change_interval(base, 1.07 * head, 0.95, 400)
        held += low <= 0.07 <= high
    assert 0.92 * 300 < held <= 0.995 * 300


def test_an_interval_is_the_same_each_time():
    sides = samples(seed=1), samples(seed=2)
    assert judge.change_interval(*sides, 0.95, 100, "a") == judge.change_interval(*sides, 0.95, 100, "a")


def test_runs_of_one_code_teach_their_noise():
    quiet = [{"a": [100.0], "b": [100.0]}, {"a": [100.1], "b": [100.1]}]
    loud = [{"a": [100.0], "b": [100.0]}, {"a": [100.1], "b": [130.0]}]
    assert judge.run_noise(quiet[:1]) == {} == judge.run_noise([])
    assert max(judge.run_noise(quiet).values()) < 0.001
    found = judge.run_noise(loud)
    assert found["b"] > found["a"] > 0.05  # one lucky pair of runs does not make a cell quiet
    many = [{"a": [100.0], "b": [median]} for median in numpy.linspace(90, 110, 20)]
    assert judge.run_noise(many)["a"] < 0.25 * judge.run_noise(many)["b"]
    assert judge.noise_limit(0.02, 5, 5) < judge.noise_limit(0.02, 1, 1) == pytest.approx(0.0885, abs=1e-3)
