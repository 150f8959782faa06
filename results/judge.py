"""Decides whether the samples of one cell changed between two sides, base and head.

A change counts when it is both too large to tolerate and too sure to be chance: the medians differ by more than
a limit, and a rank test, corrected for the number of cells tested together, finds the samples different. What
is large but not sure, or might be large for all the samples say, is ambiguous; what no test could ever find,
for want of samples, is insufficient. Times are nanoseconds.
"""

import math
import zlib
from collections import namedtuple

import numpy
import scipy.stats

VERDICTS = ("regressed", "insufficient", "ambiguous", "improved", "ok")

# `low` and `high` bound the relative change of the median; `limit` is the change tolerated in this cell.
Finding = namedtuple("Finding", "verdict reason base_ns head_ns change low high p p_adjusted limit samples",
                     defaults=(None,) * 10)

Limits = namedtuple("Limits", "relative absolute_ns alpha correction confidence resamples",
                    defaults=(0.05, 10_000, 0.05, "bh", 0.95, 2000))

LEAST_SAMPLES = 4


def p_value(base, head):
    """Mann-Whitney U, two-sided; exact unless samples tie."""
    tied = len(numpy.unique(numpy.concatenate([base, head]))) < len(base) + len(head)
    method = "asymptotic" if tied or min(len(base), len(head)) > 60 else "exact"
    if tied and numpy.ptp(numpy.concatenate([base, head])) == 0:
        return 1.0
    return float(scipy.stats.mannwhitneyu(base, head, alternative="two-sided", method=method).pvalue)


def least_p(base_count, head_count):
    """The smallest p that this many samples can give: all of one side above all of the other."""
    return min(1.0, 2 / math.comb(base_count + head_count, base_count))


def adjusted(p_values, correction):
    """The p values corrected for their number: `holm` bounds the chance of any false alarm, `bh` (Benjamini and
    Hochberg) the share of false ones among all alarms. Where nothing changed the two bound the same chance."""
    p = numpy.asarray(p_values, dtype=float)
    order, count = numpy.argsort(p, kind="stable"), len(p)
    result = numpy.empty(count)
    if correction == "holm":
        steps = numpy.maximum.accumulate(p[order] * (count - numpy.arange(count)))
    elif correction == "bh":
        steps = numpy.minimum.accumulate((p[order] * count / (numpy.arange(count) + 1))[::-1])[::-1]
    else:
        raise ValueError(f"correction {correction!r} is neither 'holm' nor 'bh'")
    result[order] = numpy.minimum(steps, 1)
    return result


def change_interval(base, head, confidence, resamples, name=""):
    """(change, low, high): the relative change of the median and its bootstrap interval. The same samples of a
    cell of the same name give the same interval."""
    random = numpy.random.default_rng(zlib.crc32(name.encode()))
    ratios = (numpy.median(random.choice(head, (resamples, len(head))), axis=1)
              / numpy.median(random.choice(base, (resamples, len(base))), axis=1))
    low, high = numpy.quantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(numpy.median(head) / numpy.median(base) - 1), float(low - 1), float(high - 1)


def judge(cells, limits=Limits(), noise=None):
    """{name: Finding} of {name: (base samples, head samples)}, which are tested together. `noise` maps names to
    changes that unchanged code is known to show; a cell's limit is never below its noise."""
    arrays = {name: tuple(numpy.asarray(side, dtype=float) for side in sides) for name, sides in cells.items()}
    enough = {name: sides for name, sides in arrays.items() if _shortage(sides, len(arrays), limits) is None}
    p_values = {name: p_value(*sides) for name, sides in enough.items()}
    corrected = dict(zip(p_values, adjusted(list(p_values.values()), limits.correction))) if p_values else {}
    return {name: _finding(name, sides, len(arrays), limits, (noise or {}).get(name, 0.0), p_values.get(name),
                           corrected.get(name)) for name, sides in arrays.items()}


def _shortage(sides, cells, limits):
    """Why these samples can decide nothing, or None."""
    least = min(map(len, sides))
    if least >= LEAST_SAMPLES and least_p(*map(len, sides)) < limits.alpha / cells:
        return None
    needed = LEAST_SAMPLES
    while least_p(needed, needed) >= limits.alpha / cells:
        needed += 1
    text = "1 cell" if cells == 1 else f"{cells} cells"
    return f"{least} samples after the first iteration; {text} need {needed} on each side"


def _finding(name, sides, cells, limits, noise, p, p_adjusted):
    base, head = sides
    samples = (len(base), len(head))
    shortage = _shortage(sides, cells, limits)
    if shortage:
        medians = [float(numpy.median(side)) if len(side) else None for side in sides]
        return Finding("insufficient", shortage, *medians, samples=samples)
    change, low, high = change_interval(base, head, limits.confidence, limits.resamples, name)
    base_ns, head_ns = float(numpy.median(base)), float(numpy.median(head))
    limit = max(limits.relative, noise, limits.absolute_ns / base_ns)
    verdict, reason = _verdict(change, low, high, limit, p_adjusted < limits.alpha)
    return Finding(verdict, reason, base_ns, head_ns, change, low, high, p, float(p_adjusted), limit, samples)


def _verdict(change, low, high, limit, sure):
    if sure and change > limit:
        return "regressed", None
    if sure and change < -limit:
        return "improved", None
    if abs(change) > limit:
        return "ambiguous", "beyond the limit, but it may be chance"
    if high > limit or low < -limit:
        return "ambiguous", "within the limit, but its interval is not"
    return "ok", None


# --- what unchanged code shows ---

def run_noise(runs, prior_runs=3):
    """{name: spread} of several runs of the same code, each {name: samples}: the standard deviation of the
    logarithm of a run's median. Few runs say little of a single cell, so its own spread is drawn towards that
    of all cells, as if that had been seen in `prior_runs` runs of it."""
    medians = {}
    for run in runs:
        for name, samples in run.items():
            if len(samples):
                medians.setdefault(name, []).append(math.log(float(numpy.median(samples))))
    seen = {name: values for name, values in medians.items() if len(values) > 1}
    if not seen:
        return {}
    squares = {name: float(numpy.sum((values - numpy.mean(values)) ** 2)) for name, values in seen.items()}
    freedom = {name: len(values) - 1 for name, values in seen.items()}
    everywhere = sum(squares.values()) / sum(freedom.values())
    prior = prior_runs - 1
    return {name: math.sqrt((prior * everywhere + squares[name]) / (prior + freedom[name])) for name in seen}


def noise_limit(spread, base_runs, head_runs):
    """The change of the median that three standard deviations of run-to-run noise explain."""
    return math.expm1(3 * spread * math.sqrt(1 / base_runs + 1 / head_runs))
