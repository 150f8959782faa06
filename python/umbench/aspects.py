"""Judges all results of a cell except its times: bytes, faults, loss, digest and others. In simulated cells any difference counts.
In measured cells a change counts if it exceeds a limit and the noise between runs of one side."""

import math
import statistics
from collections import namedtuple

from umbench import load

# `change` is relative, or None if the aspect is not a number; `verdict` is regressed, improved, ambiguous or ok.
Change = namedtuple("Change", "aspect verdict base head change limit text")

# An amount, of which less is better. `limit`: the relative change that is tolerated in measured cells; `min_amount`: smaller amounts count as
# this one; `values_of(record)`: {name: value} of its parts.
Amount = namedtuple("Amount", "limit min_amount values_of unit")

MIB = 2**20
BLOCK = 2 * MIB  # the driver manages memory in blocks of this size


def _memory_field_getter(field_name):
    """A function of a record that returns {name: value in its memory}."""
    return lambda record: {field_name: record["memory"].get(field_name)}


def _last_counters_getter(*counter_names):
    """A function of a record that returns {name: value in its last counters}."""
    return lambda record: {counter_name: load.last_counters(record).get(counter_name) for counter_name in counter_names}


AMOUNTS = {
    "peak": Amount(0.01, BLOCK, _memory_field_getter("peak_device_bytes"), "bytes"),
    "footprint": Amount(0.01, BLOCK, _memory_field_getter("footprint_bytes"), "bytes"),
    "link": Amount(0.10, BLOCK, _last_counters_getter(*load.TO_DEVICE, *load.TO_HOST, "remote_bytes"), "bytes"),
    "faults": Amount(0.25, 100, _last_counters_getter("faults"), ""),
}
LOSS_LIMIT = 0.001

LIMITS = {name: amount.limit for name, amount in AMOUNTS.items()} | {"loss": LOSS_LIMIT}
JUDGED = ("time", "mean", "outcome", *AMOUNTS, "loss", "digest")
ASPECTS = (*JUDGED, "modes")

# Ranks of outcomes. All others are failures, with rank 0. A lower rank in HEAD is a regression, independent of times.
RANK_OF_OUTCOME = {"ok": 2, "infeasible": 1}

NOISE_DEVIATIONS = 3  # a change within this number of standard deviations of the difference between means counts as noise


def changes(base_runs, head_runs, limits):
    """[Change, ...] of one cell from its records in BASE to those in HEAD, a record for each run. Aspects that a side lacks are left out.
    `limits` is {aspect: relative change that is tolerated}."""
    simulated = base_runs[0]["simulated"]
    ok_runs = [[record for record in side if record["outcome"] == "ok"] for side in (base_runs, head_runs)]
    found = [_outcome_change(base_runs, head_runs)]
    if all(ok_runs):
        found += [_amount_change(name, *ok_runs, 0.0 if simulated else limits[name], simulated) for name in AMOUNTS]
        found += [_loss_change(*ok_runs, 0.0 if simulated else limits["loss"]), _digest_change(*ok_runs)]
    return [change for change in found if change]


def aspects_missing_in_head(base_runs, head_runs):
    """[aspect] of a cell that the records of BASE have and those of HEAD lack."""
    ok_runs = [[record for record in side if record["outcome"] == "ok"] for side in (base_runs, head_runs)]
    if not all(ok_runs):
        return []
    has_value = lambda records, values_of: any(value is not None for record in records for value in values_of(record).values())  # noqa: E731
    values_of_aspect = {name: amount.values_of for name, amount in AMOUNTS.items()}
    values_of_aspect |= {name: (lambda record, name=name: {name: record[name]}) for name in ("loss", "digest")}
    return [name for name, values_of in values_of_aspect.items()
            if has_value(ok_runs[0], values_of) and not has_value(ok_runs[1], values_of)]


# --- outcomes ---

def _outcome_change(base_runs, head_runs):
    """The Change of the worst outcome; None if all runs of both sides are ok."""
    ranks = [min(RANK_OF_OUTCOME.get(record["outcome"], 0) for record in side) for side in (base_runs, head_runs)]
    texts = [_worst_outcome_text(side) for side in (base_runs, head_runs)]
    make_change = lambda verdict, text: Change("outcome", verdict, texts[0], texts[1], None, None, text)  # noqa: E731
    if ranks[1] < ranks[0]:
        return make_change("regressed", f"was {base_runs[-1]['outcome']}, is {texts[1]}")
    if ranks[1] > ranks[0]:
        return make_change("improved", f"was {texts[0]}, is {head_runs[-1]['outcome']}")
    if ranks == [1, 1]:
        return make_change("ok", "infeasible on both sides")
    if ranks == [0, 0]:
        some = any(record["outcome"] == "ok" for record in head_runs) and any(record["outcome"] == "ok" for record in base_runs)
        if some:
            return make_change("ambiguous", f"failed in some runs of both sides: {texts[1]}")
        return make_change("insufficient", f"failed on both sides: {texts[1]}")
    return None


def _worst_outcome_text(records):
    """The worst outcome of the records and how often it occurs, as text."""
    worst = min(records, key=lambda record: RANK_OF_OUTCOME.get(record["outcome"], 0))
    text = worst["outcome"] + (f" ({worst['reason']})" if worst.get("reason") else "")
    occurrences = sum(record["outcome"] == worst["outcome"] for record in records)
    return text + (f" in {occurrences} of {len(records)} runs" if occurrences < len(records) else "")


# --- amounts ---

def _amount_change(name, base_runs, head_runs, limit, is_simulated):
    """The Change of the median of one of AMOUNTS; None if it is not known on both sides."""
    amount = AMOUNTS[name]
    sides = [[amount.values_of(record) for record in side] for side in (base_runs, head_runs)]
    known = [part for part in sides[0][0] if all(values.get(part) is not None for side in sides for values in side)]
    if not known:
        return None
    amounts = [[sum(values[part] for part in known) for values in side] for side in sides]
    base, head = (statistics.median(side) for side in amounts)
    if base == head:
        return Change(name, "ok", base, head, 0.0, limit, None)
    min_amount = 1 if is_simulated else amount.min_amount
    change = max(head, min_amount) / max(base, min_amount) - 1
    if not is_simulated:
        limit = max(limit, _max_change_by_noise(amounts, min_amount))
    shown = f"{name} {amount_text(base, amount.unit)} -> {amount_text(head, amount.unit)}"
    verdict = "regressed" if change > limit else "improved" if change < -limit else "ok"
    return Change(name, verdict, base, head, change, limit, shown if verdict != "ok" else None)


def _max_change_by_noise(amounts_by_side, min_amount):
    """The relative change that noise alone may cause: three standard deviations of the difference between the means of the sides, from the
    spread of the runs within each. 0 if each side has one run."""
    sides = [[math.log(max(value, min_amount)) for value in side] for side in amounts_by_side]
    freedom = sum(len(side) - 1 for side in sides)
    if not freedom:
        return 0.0
    squares = sum((value - statistics.fmean(side)) ** 2 for side in sides for value in side)
    return math.expm1(min(NOISE_DEVIATIONS * math.sqrt(squares / freedom * sum(1 / len(side) for side in sides)), 600.0))


def amount_text(value, unit):
    return load.bytes_text(value) if unit == "bytes" else f"{value:g}"


# --- results of the computation ---

def _loss_change(base_runs, head_runs, limit):
    """The Change of the loss, in either direction; None if a side has none."""
    sides = [[record["loss"] for record in side if record["loss"] is not None] for side in (base_runs, head_runs)]
    if not all(sides):
        return None
    base, head = (statistics.median(side) for side in sides)
    change = (head - base) / abs(base) if base else math.copysign(1.0, head) if head else 0.0
    spread = max(max(side) - min(side) for side in sides) / (abs(base) or 1.0)
    verdict = "regressed" if abs(change) > max(limit, 3 * spread) else "ok"
    return Change("loss", verdict, base, head, change, limit, f"loss {base:.6g} -> {head:.6g}" if verdict != "ok" else None)


def _digest_change(base_runs, head_runs):
    """The Change of the digest. Different bits are a regression if the runs of BASE agree and all runs used the same engines. With
    different engines, which round differently, the change is ambiguous."""
    sides = [{record["digest"] for record in side if record["digest"] is not None} for side in (base_runs, head_runs)]
    if not all(sides):
        return None
    make_change = lambda verdict, text: Change("digest", verdict, min(sides[0]), min(sides[1]), None, None, text)  # noqa: E731
    if sides[0] == sides[1]:
        return make_change("ok", None)
    if len({_engines(record) for record in [*base_runs, *head_runs]}) > 1:
        return make_change("ambiguous", "other digest, by other engines")
    if len(sides[0]) > 1:
        return make_change("ambiguous", "the digest differs from run to run")
    if len(sides[1]) > 1:
        return make_change("regressed" if len(base_runs) > 1 else "ambiguous", "the digest differs from run to run now")
    return make_change("regressed", f"digest {min(sides[0])} -> {min(sides[1])}")


def _engines(record):
    return tuple((engine["op"], engine["engine"]) for engine in record.get("engines") or ())
