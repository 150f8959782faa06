"""Decides whether the times of cells changed between two sides, base and head.

A cell has one run or several on each side. Runs of one round (made in turn by `umbench interleave`) are compared only with each other, so
that drift from round to round cancels. A change counts if the median differs by more than a limit and a t test on the logarithms is
significant after a correction for the number of cells that chance could move beyond the limit. A large change that is not significant, or
one whose confidence interval exceeds the limit, is ambiguous. A cell with too few samples is insufficient. Times are nanoseconds.

The variance between runs of one code is estimated from several runs and from the iterations within them: runs of the kept
measurements differ about twice as much as their iterations explain (RUN_FACTOR), and a cell that is noisy within a run is
noisy between runs. Variances are moderated as in G. K. Smyth, "Linear models and empirical Bayes methods for assessing
differential expression in microarray experiments", 2004.
"""

import itertools
import math
import statistics
from collections import namedtuple

import numpy
from scipy import special

# `low` and `high` bound the relative change of the median; `limit` is the change tolerated in this cell.
Finding = namedtuple("Finding", "verdict reason base_ns head_ns change low high p p_adjusted limit samples runs",
                     defaults=(None,) * 11)

Limits = namedtuple("Limits", "relative absolute_ns mean alpha correction confidence",
                    defaults=(0.05, 10_000, 0.02, 0.05, "bh", 0.95))

# The samples of a cell: for each side a list of runs, each a list of times. `paired`: run i of base and run i of head are of one round.
# `rounds`: the numbers of these rounds; None: 0, 1, ...
Cell = namedtuple("Cell", "base head paired rounds", defaults=(True, None))

# The relative change, as a logarithm; `spread`: its standard error, with `freedom` degrees of freedom.
Estimate = namedtuple("Estimate", "change spread freedom")

# The variance of one run's median, or of one round's change if runs are paired: `expected` from the iterations within runs, with
# `within_freedom` degrees of freedom, and `seen` between runs, with `freedom`. `share` times it is the variance of the cell's change.
RunVariance = namedtuple("RunVariance", "expected seen freedom within_freedom share")

RUN_FACTOR = 4.0    # variance between runs divided by that within them, if nothing else is known
PRIOR_FREEDOM = (4, 16)  # least and largest number of degrees of freedom of RUN_FACTOR or its estimate
PRIOR_WEIGHT_IN_CELLS = 4
MIN_CELLS_FOR_SPREAD = 10    # least number of cells from which the spread of their factors is estimated
MIN_VARIANCE = 1e-6  # a standard deviation of 0.1 %, the precision of the clocks
MEDIAN_OVER_MEAN = math.pi / 2  # ratio of the variances of median and mean in normal samples
MEAN_ALPHA_SHARE = 0.2    # the mean of all cells is tested at this share of alpha, since whole sessions of one build differ
MAX_ROUNDS = 200     # largest number of rounds that is tried


def cell_of_one_run(base_samples, head_samples):
    """The Cell of two lists of samples."""
    return Cell([list(base_samples)], [list(head_samples)])


# --- changes and their spread ---

def log_change(cell):
    """The logarithm of the relative change. For several rounds it is the Hodges-Lehmann estimate of their changes, on which one outlier has
    little influence; drift between rounds cancels."""
    if not cell.paired:
        return _log_median_of_runs(cell.head) - _log_median_of_runs(cell.base)
    round_changes = log_changes_of_rounds(cell)
    return statistics.median((one + other) / 2 for one, other in itertools.combinations_with_replacement(round_changes, 2))


def log_changes_of_rounds(cell):
    """[the logarithm of the relative change] of each round of a paired cell."""
    return [_log_median(head) - _log_median(base) for base, head in zip(cell.base, cell.head)]


def log_change_by_round(cell):
    """{number of the round: its change}; empty for a cell without pairs of runs."""
    round_numbers = range(len(cell.base)) if cell.rounds is None else cell.rounds
    return dict(zip(round_numbers, log_changes_of_rounds(cell))) if cell.paired else {}


def _log_median(samples):
    return math.log(max(statistics.median(samples), 1.0))


def _log_median_of_runs(runs):
    return statistics.median(_log_median(run) for run in runs)


def _run_variance(cell):
    """The RunVariance of a cell."""
    within_freedom = sum(len(run) - 1 for run in cell.base + cell.head)
    sum_of_squares = sum(_sum_of_squared_deviations([math.log(max(sample, 1.0)) for sample in run]) for run in cell.base + cell.head)
    mean_inverse_length = lambda runs: statistics.fmean(1 / len(run) for run in runs)  # noqa: E731
    if cell.paired:
        weight, share = mean_inverse_length(cell.base) + mean_inverse_length(cell.head), 1 / len(cell.base)
        values_between_runs = [log_changes_of_rounds(cell)]
    else:
        weight, share = (mean_inverse_length(cell.base) + mean_inverse_length(cell.head)) / 2, 1 / len(cell.base) + 1 / len(cell.head)
        values_between_runs = [[_log_median(run) for run in side] for side in (cell.base, cell.head)]
    seen_freedom = sum(len(values) - 1 for values in values_between_runs)
    seen_variance = sum(map(_sum_of_squared_deviations, values_between_runs)) / max(seen_freedom, 1)
    expected_variance = max(MEDIAN_OVER_MEAN * weight * sum_of_squares / within_freedom, MIN_VARIANCE) if within_freedom else None
    return RunVariance(expected_variance, seen_variance, seen_freedom, within_freedom, share)


def _sum_of_squared_deviations(values):
    mean = statistics.fmean(values)
    return sum((value - mean) ** 2 for value in values)


Prior = namedtuple("Prior", "factor freedom")


def _noise_prior(run_variances):
    """The Prior of all cells: the factor by which the variance between runs exceeds that which their iterations explain, as a median, and its
    degrees of freedom. The more alike the cells are in this factor, the more degrees of freedom it has."""
    ratios_and_freedoms = [(each.seen / each.expected, each.freedom) for each in run_variances if each.expected and each.freedom]
    if not ratios_and_freedoms:
        return Prior(RUN_FACTOR, PRIOR_FREEDOM[0])
    factors = numpy.array([factor / (special.chdtri(freedom, 0.5) / freedom) for factor, freedom in ratios_and_freedoms])
    factor = (PRIOR_WEIGHT_IN_CELLS * RUN_FACTOR + len(factors) * float(numpy.median(factors))) / (PRIOR_WEIGHT_IN_CELLS + len(factors))
    if len(factors) < MIN_CELLS_FOR_SPREAD:
        return Prior(factor, PRIOR_FREEDOM[0])
    variance_by_chance = float(numpy.mean([special.polygamma(1, freedom / 2) for _, freedom in ratios_and_freedoms]))
    excess = max(float(numpy.var(numpy.log(numpy.maximum(factors, 1e-9)), ddof=1)) - variance_by_chance, 1e-3)
    return Prior(factor, min(max((1 + math.sqrt(1 + 2 * excess)) / excess, PRIOR_FREEDOM[0]), PRIOR_FREEDOM[1]))


def estimate_changes(cells):
    """{name: Estimate, or None if its spread is unknown}"""
    run_variances = {name: _run_variance(cell) for name, cell in cells.items()}
    prior = _noise_prior(run_variances.values())
    return {name: _estimate(cells[name], run_variance, prior) for name, run_variance in run_variances.items()}


def _estimate(cell, run_variance, prior):
    """The Estimate of a cell; None if its spread is unknown."""
    if run_variance.freedom:
        prior_freedom = min(prior.freedom, run_variance.within_freedom)
        freedom = prior_freedom + run_variance.freedom
        run_change_variance = (prior_freedom * prior.factor * (run_variance.expected or 0.0) + run_variance.freedom * run_variance.seen) / freedom
    elif run_variance.expected:
        freedom, run_change_variance = run_variance.within_freedom, prior.factor * run_variance.expected
    else:
        return None
    return Estimate(log_change(cell), math.sqrt(max(run_change_variance, MIN_VARIANCE) * run_variance.share), freedom)


def confidence_interval(estimate, confidence):
    """(low, high) of the relative change."""
    half_width = t_quantile((1 - confidence) / 2, estimate.freedom) * estimate.spread
    return math.expm1(estimate.change - half_width), math.expm1(min(estimate.change + half_width, 600.0))


def p_value(estimate):
    """The two-sided p value of Student's t."""
    return float(2 * special.stdtr(estimate.freedom, -abs(estimate.change) / estimate.spread))


def t_quantile(tail_probability, degrees_of_freedom):
    """The value that Student's t exceeds with that chance."""
    return -special.stdtrit(degrees_of_freedom, tail_probability)


def adjust_p_values(p_values, correction, chances_beyond_limit=None, are_beyond_limit=None):
    """The p values corrected for their number: `holm` bounds the chance of any false alarm, `bh` (Benjamini and
    Hochberg) the share of false ones among all alarms. If nothing changed, both bound the same chance.

    An alarm also needs a change beyond the limit. `chances_beyond_limit`: for each cell the chance that noise alone moves it beyond the limit (1 if
    not given). At some p, sum(min(p, chances_beyond_limit)) false alarms are expected, so cells of little noise do not make it harder to find
    changes of noisy ones. `are_beyond_limit`: for each cell whether its change is beyond the limit (True if not given)."""
    p = numpy.asarray(p_values, dtype=float)
    sorted_indices = numpy.argsort(p, kind="stable")
    expected_alarms = numpy.minimum(p[sorted_indices][:, None],
                                    (numpy.ones(len(p)) if chances_beyond_limit is None else numpy.asarray(chances_beyond_limit))[sorted_indices])
    beyond_in_order = numpy.ones(len(p)) if are_beyond_limit is None else numpy.asarray(are_beyond_limit, dtype=float)[sorted_indices]
    result = numpy.empty(len(p))
    if correction == "holm":
        adjusted = numpy.maximum.accumulate(numpy.triu(expected_alarms).sum(axis=1))
    elif correction == "bh":
        adjusted = numpy.minimum.accumulate((expected_alarms.sum(axis=1) / numpy.maximum(beyond_in_order.cumsum(), 1))[::-1])[::-1]
    else:
        raise ValueError(f"correction {correction!r} is neither 'holm' nor 'bh'")
    result[sorted_indices] = numpy.minimum(adjusted, 1)
    return result


# --- verdicts ---

def judge(cells, limits=Limits(), noise_limits=None):
    """{name: Finding} of {name: Cell}, which are tested together. `noise_limits` is {name: relative change that runs of unchanged code show}; a
    cell's limit is never below its noise."""
    judgeable = {name: cell for name, cell in cells.items() if all(map(len, cell.base + cell.head)) and cell.base and cell.head}
    estimates = estimate_changes(judgeable)
    names_with_estimate = [name for name, estimate in estimates.items() if estimate]
    p_values = {name: p_value(estimates[name]) for name in names_with_estimate}
    tolerated_changes = {name: _tolerated_change(cell, limits, (noise_limits or {}).get(name, 0.0)) for name, cell in judgeable.items()}
    chances_beyond = [p_value(estimates[name]._replace(change=math.log1p(tolerated_changes[name]))) for name in names_with_estimate]
    are_beyond = [abs(math.expm1(estimates[name].change)) > tolerated_changes[name] for name in names_with_estimate]
    adjusted_by_name = (dict(zip(names_with_estimate, adjust_p_values(list(p_values.values()), limits.correction, chances_beyond, are_beyond)))
                        if names_with_estimate else {})
    return {name: _finding(cell, estimates.get(name), limits, tolerated_changes.get(name), p_values.get(name), adjusted_by_name.get(name))
            for name, cell in cells.items()}


def _tolerated_change(cell, limits, noise_limit):
    """The relative change that is tolerated in a cell."""
    return max(limits.relative, noise_limit, limits.absolute_ns / max(float(statistics.median(itertools.chain(*cell.base))), 1.0))


def _finding(cell, estimate, limits, tolerated_change, p, p_adjusted):
    """The Finding of a cell. `estimate` is None if its spread is unknown."""
    sample_counts = tuple(sum(map(len, side)) for side in (cell.base, cell.head))
    run_counts = (len(cell.base), len(cell.head))
    medians = [float(statistics.median(itertools.chain(*side))) if count else None
               for side, count in zip((cell.base, cell.head), sample_counts)]
    if not all(sample_counts):
        return Finding("insufficient", "no time after the first iteration; --iterations 5 is the standard", *medians,
                       samples=sample_counts, runs=run_counts)
    if estimate is None:
        return Finding("insufficient", "1 sample after the first iteration on each side tells nothing of the noise; "
                       "2 are the least, 4 (--iterations 5) the standard", *medians, math.expm1(log_change(cell)),
                       limit=tolerated_change, samples=sample_counts, runs=run_counts)
    low, high = confidence_interval(estimate, limits.confidence)
    change = math.expm1(estimate.change)
    verdict, reason = _verdict(change, low, high, tolerated_change, p_adjusted < limits.alpha)
    if verdict == "ambiguous":
        reason += text_on_rounds_needed(estimate, tolerated_change, max(run_counts), p_adjusted / p if p else 1.0, limits)
    return Finding(verdict, reason, *medians, change, low, high, p, float(p_adjusted), tolerated_change, sample_counts, run_counts)


def _verdict(change, low, high, limit, is_significant):
    """(verdict, reason or None) of a relative change whose interval is from `low` to `high`."""
    if is_significant and change > limit:
        return "regressed", None
    if is_significant and change < -limit:
        return "improved", None
    if abs(change) > limit:
        return "ambiguous", "beyond the limit, but it may be chance"
    if high > limit or low < -limit:
        return "ambiguous", "within the limit, but its interval is not"
    return "ok", None


def text_on_rounds_needed(estimate, limit, run_count, tested_cell_count, limits):
    """A text with the number of rounds that would decide if change and noise are as estimated. `tested_cell_count`: the number
    of cells for which the p value was corrected."""
    distance = abs(estimate.change)
    is_beyond = distance > math.log1p(limit)
    needed_half_width, chance = (distance, limits.alpha / tested_cell_count) if is_beyond else (math.log1p(limit) - distance, 1 - limits.confidence)
    spread_of_round = estimate.spread * math.sqrt(run_count)
    round_counts = numpy.arange(max(run_count + 1, 3), MAX_ROUNDS + 1)
    are_enough = t_quantile(chance / 2, PRIOR_FREEDOM[0] + round_counts - 1) * spread_of_round / numpy.sqrt(round_counts) < needed_half_width
    if are_enough.any():
        return f"; about {round_counts[are_enough.argmax()]} interleaved rounds would tell"
    return f"; more than {MAX_ROUNDS} rounds would tell"


Mean = namedtuple("Mean", "verdict cells change low high p limit")


def judge_mean(cells, limits, noise_limit=0.0):
    """The Mean of the changes of all cells; None if fewer than two cells have an Estimate. The fewer cells, the closer its limit is to that
    of a single cell; the limit is at least `noise_limit`, the change that runs of unchanged code show. The spread of the rounds includes shifts
    of all cells in one round."""
    estimates = {name: estimate for name, estimate in estimate_changes(cells).items() if estimate}
    if len(estimates) < 2:
        return None
    mean_log_change = sum(estimate.change for estimate in estimates.values()) / len(estimates)
    variance = sum(estimate.spread ** 2 for estimate in estimates.values()) / len(estimates) ** 2
    freedom = PRIOR_FREEDOM[0] * len(estimates)
    change_by_round_of_cells = [log_change_by_round(cells[name]) for name in estimates]
    common_rounds = sorted(set.intersection(*map(set, change_by_round_of_cells)))
    round_count = len(common_rounds)
    if round_count > 1:
        mean_changes = [statistics.mean(change_by_round[round_number] for change_by_round in change_by_round_of_cells)
                        for round_number in common_rounds]
        seen_variance = float(numpy.var(mean_changes, ddof=1)) / round_count
        freedom = PRIOR_FREEDOM[0] + round_count - 1
        variance = (PRIOR_FREEDOM[0] * variance + (round_count - 1) * seen_variance) / freedom
    estimate = Estimate(mean_log_change, math.sqrt(variance), freedom)
    limit = max(limits.mean, limits.relative / math.sqrt(len(estimates)), noise_limit)
    low, high = confidence_interval(estimate, limits.confidence)
    p = p_value(estimate)
    verdict, _ = _verdict(math.expm1(mean_log_change), low, high, limit, p < MEAN_ALPHA_SHARE * limits.alpha)
    return Mean(verdict, len(estimates), math.expm1(mean_log_change), low, high, p, limit)


# --- two speeds ---

def find_two_speeds(cell, min_change):
    """{"base" or "head": (number of fast iterations, their time, number of slow iterations, their time)} of the sides whose
    iterations ran at two speeds that differ by more than `min_change`: the widest gap between times is more than half of the range
    of all. Needs at least eight samples."""
    speeds_by_side = {}
    for side, runs in (("base", cell.base), ("head", cell.head)):
        if not runs or not all(map(len, [*runs, *cell.base])):
            continue
        reference_runs = cell.base if cell.paired else runs
        log_ratios = sorted(math.log(max(sample, 1.0)) - _log_median(reference_run)
                            for run, reference_run in zip(runs, reference_runs) for sample in run)
        reference_ns = math.exp(_log_median_of_runs(reference_runs))
        fast_count = _count_fast_iterations(log_ratios, min_change)
        if fast_count:
            speeds_by_side[side] = (fast_count, reference_ns * math.exp(statistics.median(log_ratios[:fast_count])), len(log_ratios) - fast_count,
                                    reference_ns * math.exp(statistics.median(log_ratios[fast_count:])))
    return speeds_by_side


def _count_fast_iterations(sorted_log_times, min_change):
    """The number of fast iterations among sorted logarithms of times that are of two speeds; None if they are of one."""
    min_count = max(2, math.ceil(0.15 * len(sorted_log_times)))
    if len(sorted_log_times) < 8:
        return None
    gaps = numpy.diff(sorted_log_times)[min_count - 1:len(sorted_log_times) - min_count]
    gap_index = int(numpy.argmax(gaps))
    is_wide = gaps[gap_index] > 0.5 * (sorted_log_times[-1] - sorted_log_times[0]) and gaps[gap_index] > math.log1p(min_change)
    return gap_index + min_count if is_wide else None


# --- noise of unchanged code ---

def noise_by_cell(same_code_runs, prior_run_count=3):
    """{name of the cell: spread} of several runs of the same code, each {name: samples}. The spread is the standard deviation of
    the logarithm of a run's median. Few runs say little of a single cell, so its spread is averaged with that of all cells, which
    counts as `prior_run_count` runs of the cell."""
    log_medians_by_name = {}
    for samples_by_name in same_code_runs:
        for name, samples in samples_by_name.items():
            if len(samples):
                log_medians_by_name.setdefault(name, []).append(_log_median(samples))
    repeated_medians = {name: log_medians for name, log_medians in log_medians_by_name.items() if len(log_medians) > 1}
    if not repeated_medians:
        return {}
    squares_by_name = {name: float(numpy.sum((log_medians - numpy.mean(log_medians)) ** 2)) for name, log_medians in repeated_medians.items()}
    freedom_by_name = {name: len(log_medians) - 1 for name, log_medians in repeated_medians.items()}
    variance_of_all = sum(squares_by_name.values()) / sum(freedom_by_name.values())
    prior_freedom = prior_run_count - 1
    return {name: math.sqrt((prior_freedom * variance_of_all + squares_by_name[name]) / (prior_freedom + freedom_by_name[name]))
            for name in repeated_medians}


def noise_of_mean(same_code_runs):
    """The standard deviation, between several runs of the same code, of the logarithm of the geometric mean over the cells that all of them
    have."""
    common_names = (set.intersection(*({name for name, samples in samples_by_name.items() if len(samples)}
                                       for samples_by_name in same_code_runs))
                    if same_code_runs else set())
    log_means = ([statistics.fmean(_log_median(samples_by_name[name]) for name in common_names)
                  for samples_by_name in same_code_runs]
                 if common_names else [])
    return statistics.stdev(log_means) if len(log_means) > 1 else 0.0


def noise_limit(spread, base_run_count, head_run_count):
    """The relative change of the median that corresponds to three standard deviations of the noise between runs."""
    return math.expm1(3 * spread * math.sqrt(1 / base_run_count + 1 / head_run_count))
