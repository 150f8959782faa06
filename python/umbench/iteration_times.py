"""Median and quartiles of a cell's iterations without the first, and texts of times and slowdowns with as many digits as the spread
allows."""

import math
import statistics
from collections import namedtuple

from umbench import load

Spread = namedtuple("Spread", "median low high n")  # median and quartiles, or the ends of a simulated band, in ns


def spread_of(record):
    """The Spread of a record; None if the cell did not succeed."""
    median = load.steady_ns(record)
    if median is None:
        return None
    if band := record.get("band_ns"):
        return Spread(median, min(band["low"], median), max(band["high"], median), len(record["samples_ns"][1:]) or 1)
    samples = load.steady_samples(record)
    if len(samples) < 2:
        return Spread(median, median, median, len(samples))
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(median, low, high, len(samples))


def decimals_to_show(value, uncertainty, max_decimals=2, significant_digits=3):
    """The number of decimals of `value` that its `uncertainty` (plus or minus) justifies, at most `max_decimals`."""
    exponent = math.floor(math.log10(abs(value))) if value else 0
    decimals = max(0, min(max_decimals, significant_digits - 1 - exponent)) if uncertainty <= 0 else -math.floor(math.log10(uncertainty))
    return max(0, min(max_decimals, decimals))


def slowdown_text(record, baseline_ns):
    """A text such as '1.12x', '8.3x ±0.2' with half of the distance of the quartiles if it is visible, or '1.9x (1.1 to 2.2)' with the ends
    of a simulated band."""
    spread = spread_of(record)
    if record.get("band_ns"):
        return _text_with_band(*(time / baseline_ns for time in spread[:3]), "x")
    half_range = (spread.high - spread.low) / 2 / baseline_ns
    value = spread.median / baseline_ns
    return _text_with_half_range(value, half_range, "x")


def milliseconds_text(record):
    """The time in milliseconds as text without unit, in the form of slowdown_text."""
    spread = spread_of(record)
    if record.get("band_ns"):
        return _text_with_band(*(time / 1e6 for time in spread[:3]), "")
    return _text_with_half_range(spread.median / 1e6, (spread.high - spread.low) / 2e6, "", max_decimals=3)


def _text_with_half_range(value, half_range, unit, max_decimals=2):
    if half_range <= 0:
        return f"{value:.{decimals_to_show(value, 0, max_decimals)}f}{unit}"
    decimals = decimals_to_show(value, half_range, max_decimals)
    half_range_text = f"{half_range:.{decimals}f}"
    return f"{value:.{decimals}f}{unit}" + (f" ±{half_range_text}" if float(half_range_text) else "")


def _text_with_band(value, low, high, unit):
    value, low, high = (f"{figure:.{decimals_to_show(figure, 0, 2)}f}" for figure in (value, low, high))
    return f"{value}{unit}" + (f" ({low} to {high})" if low != high else "")


def sample_counts_text(records):
    """The numbers of iterations of successful cells as text, 'n = 4' or 'n = 2 to 10'; '' if there are none."""
    sample_counts = sorted({spread_of(record).n for record in records if load.steady_ns(record)})
    if not sample_counts:
        return ""
    return f"n = {sample_counts[0]}" + (f" to {sample_counts[-1]}" if sample_counts[-1] > sample_counts[0] else "")
