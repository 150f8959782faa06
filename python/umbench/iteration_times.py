"""Median and quartiles of a cell's iterations without the first, and texts with as many digits as their spread allows."""

import math
import statistics
from collections import namedtuple

from umbench import load

Spread = namedtuple("Spread", "median low high n")  # ns: median and quartiles, or the ends of a simulated band


def spread_of(record):
    """None if the cell did not finish well."""
    median = load.steady_ns(record)
    if median is None:
        return None
    if band := record.get("band_ns"):
        return Spread(median, min(band["low"], median), max(band["high"], median), len(record["samples_ns"][1:]) or 1)
    samples = record["samples_ns"][1:] or record["samples_ns"]
    if len(samples) < 2:
        return Spread(median, median, median, len(samples))
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(median, low, high, len(samples))


def decimals(value, half, most=2, significant=3):
    """How many digits behind the point `value` gets if it is uncertain by plus or minus `half`: to the first digit of `half`, `most` at most."""
    size = math.floor(math.log10(abs(value))) if value else 0
    wanted = max(0, min(most, significant - 1 - size)) if half <= 0 else -math.floor(math.log10(half))
    return max(0, min(most, wanted))


def slowdown_text(record, baseline):
    """'1.12x', or '8.3x ±0.2' with half of the range between the quartiles where that shows, or '1.9x (1.1 to 2.2)' with both ends of
    a simulated band."""
    spread = spread_of(record)
    if record.get("band_ns"):
        return _with_band(*(time / baseline for time in spread[:3]), "x")
    half = (spread.high - spread.low) / 2 / baseline
    value = spread.median / baseline
    return _plus_minus(value, half, "x")


def time_text(record):
    """Milliseconds, as slowdown_text gives slowdowns."""
    spread = spread_of(record)
    if record.get("band_ns"):
        return _with_band(*(time / 1e6 for time in spread[:3]), "")
    return _plus_minus(spread.median / 1e6, (spread.high - spread.low) / 2e6, "", most=3)


def _plus_minus(value, half, unit, most=2):
    if half <= 0:
        return f"{value:.{decimals(value, 0, most)}f}{unit}"
    places = decimals(value, half, most)
    shown = f"{half:.{places}f}"
    return f"{value:.{places}f}{unit}" + (f" ±{shown}" if float(shown) else "")


def _with_band(value, low, high, unit):
    value, low, high = (f"{figure:.{decimals(figure, 0, 2)}f}" for figure in (value, low, high))
    return f"{value}{unit}" + (f" ({low} to {high})" if low != high else "")


def samples_text(records):
    """'n = 4' or 'n = 2 to 10' of cells that finished well; '' where there are none."""
    counts = sorted({spread_of(record).n for record in records if load.steady_ns(record)})
    if not counts:
        return ""
    return f"n = {counts[0]}" + (f" to {counts[-1]}" if counts[-1] > counts[0] else "")
