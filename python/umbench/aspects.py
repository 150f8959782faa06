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


AMOUNT_BY_ASPECT = {
    "peak": Amount(0.01, BLOCK, _memory_field_getter("peak_device_bytes"), "bytes"),
    "footprint": Amount(0.01, BLOCK, _memory_field_getter("footprint_bytes"), "bytes"),
    "link": Amount(0.10, BLOCK, _last_counters_getter(*load.TO_DEVICE, *load.TO_HOST, "remote_bytes"), "bytes"),
    "faults": Amount(0.25, 100, _last_counters_getter("faults"), ""),
}
LOSS_LIMIT = 0.001

LIMITS = {name: amount.limit for name, amount in AMOUNT_BY_ASPECT.items()} | {"loss": LOSS_LIMIT}
JUDGED = ("time", "mean", "outcome", *AMOUNT_BY_ASPECT, "loss", "digest")
ASPECTS = (*JUDGED, "modes")

# Ranks of outcomes. All others are failures, with rank 0. A lower rank in HEAD is a regression, independent of times.
RANK_OF_OUTCOME = {"ok": 2, "infeasible": 1}

NOISE_DEVIATIONS = 3  # a change within this number of standard deviations of the difference between means counts as noise


def changes(base_records, head_records, limits):
    """[Change, ...] of one cell from its records in BASE to those in HEAD, a record for each run. Aspects that a side lacks are left out.
    `limits` is {aspect: relative change that is tolerated}."""
    is_simulated = base_records[0]["simulated"]
    ok_records_by_side = [[record for record in records if record["outcome"] == "ok"] for records in (base_records, head_records)]
    found_changes = [_outcome_change(base_records, head_records)]
    if all(ok_records_by_side):
        found_changes += [_amount_change(name, *ok_records_by_side, 0.0 if is_simulated else limits[name], is_simulated) for name in AMOUNT_BY_ASPECT]
        found_changes += [_loss_change(*ok_records_by_side, 0.0 if is_simulated else limits["loss"]), _digest_change(*ok_records_by_side)]
    return [change for change in found_changes if change]


def aspects_missing_in_head(base_records, head_records):
    """[aspect] of a cell that the records of BASE have and those of HEAD lack."""
    ok_records_by_side = [[record for record in side_records if record["outcome"] == "ok"] for side_records in (base_records, head_records)]
    if not all(ok_records_by_side):
        return []
    has_value = lambda records, values_of: any(value is not None for record in records for value in values_of(record).values())  # noqa: E731
    getter_by_aspect = {name: amount.values_of for name, amount in AMOUNT_BY_ASPECT.items()}
    getter_by_aspect |= {name: (lambda record, name=name: {name: record[name]}) for name in ("loss", "digest")}
    return [name for name, values_of in getter_by_aspect.items()
            if has_value(ok_records_by_side[0], values_of) and not has_value(ok_records_by_side[1], values_of)]


# --- outcomes ---

def _outcome_change(base_records, head_records):
    """The Change of the worst outcome; None if all runs of both sides are ok."""
    ranks_by_side = [min(RANK_OF_OUTCOME.get(record["outcome"], 0) for record in side_records) for side_records in (base_records, head_records)]
    texts_by_side = [_worst_outcome_text(side_records) for side_records in (base_records, head_records)]
    make_change = lambda verdict, text: Change("outcome", verdict, texts_by_side[0], texts_by_side[1], None, None, text)  # noqa: E731
    if ranks_by_side[1] < ranks_by_side[0]:
        return make_change("regressed", f"was {base_records[-1]['outcome']}, is {texts_by_side[1]}")
    if ranks_by_side[1] > ranks_by_side[0]:
        return make_change("improved", f"was {texts_by_side[0]}, is {head_records[-1]['outcome']}")
    if ranks_by_side == [1, 1]:
        return make_change("ok", "infeasible on both sides")
    if ranks_by_side == [0, 0]:
        has_ok_on_both_sides = any(record["outcome"] == "ok" for record in head_records) and any(record["outcome"] == "ok" for record in base_records)
        if has_ok_on_both_sides:
            return make_change("ambiguous", f"failed in some runs of both sides: {texts_by_side[1]}")
        return make_change("insufficient", f"failed on both sides: {texts_by_side[1]}")
    return None


def _worst_outcome_text(records):
    """The worst outcome of the records and how often it occurs, as text."""
    worst_record = min(records, key=lambda record: RANK_OF_OUTCOME.get(record["outcome"], 0))
    text = worst_record["outcome"] + (f" ({worst_record['reason']})" if worst_record.get("reason") else "")
    occurrences = sum(record["outcome"] == worst_record["outcome"] for record in records)
    return text + (f" in {occurrences} of {len(records)} runs" if occurrences < len(records) else "")


# --- amounts ---

def _amount_change(aspect, base_records, head_records, limit, is_simulated):
    """The Change of the median of one of AMOUNT_BY_ASPECT; None if it is not known on both sides."""
    amount = AMOUNT_BY_ASPECT[aspect]
    values_by_side = [[amount.values_of(record) for record in of_side] for of_side in (base_records, head_records)]
    known_parts = [part for part in values_by_side[0][0] if all(values.get(part) is not None for of_side in values_by_side for values in of_side)]
    if not known_parts:
        return None
    amounts_by_side = [[sum(values[part] for part in known_parts) for values in of_side] for of_side in values_by_side]
    base_amount, head_amount = (statistics.median(of_side) for of_side in amounts_by_side)
    if base_amount == head_amount:
        return Change(aspect, "ok", base_amount, head_amount, 0.0, limit, None)
    min_amount = 1 if is_simulated else amount.min_amount
    relative_change = max(head_amount, min_amount) / max(base_amount, min_amount) - 1
    if not is_simulated:
        limit = max(limit, _max_change_by_noise(amounts_by_side, min_amount))
    change_text = f"{aspect} {amount_text(base_amount, amount.unit)} -> {amount_text(head_amount, amount.unit)}"
    verdict = "regressed" if relative_change > limit else "improved" if relative_change < -limit else "ok"
    return Change(aspect, verdict, base_amount, head_amount, relative_change, limit, change_text if verdict != "ok" else None)


def _max_change_by_noise(amounts_by_side, min_amount):
    """The relative change that noise alone may cause: three standard deviations of the difference between the means of the sides, from the
    spread of the runs within each. 0 if each side has one run."""
    logs_by_side = [[math.log(max(amount, min_amount)) for amount in of_side] for of_side in amounts_by_side]
    freedom = sum(len(of_side) - 1 for of_side in logs_by_side)
    if not freedom:
        return 0.0
    squares = sum((amount - statistics.fmean(of_side)) ** 2 for of_side in logs_by_side for amount in of_side)
    return math.expm1(min(NOISE_DEVIATIONS * math.sqrt(squares / freedom * sum(1 / len(of_side) for of_side in logs_by_side)), 600.0))


def amount_text(value, unit):
    return load.bytes_text(value) if unit == "bytes" else f"{value:g}"


# --- results of the computation ---

def _loss_change(base_records, head_records, limit):
    """The Change of the loss, in either direction; None if a side has none."""
    losses_by_side = [[record["loss"] for record in of_side if record["loss"] is not None] for of_side in (base_records, head_records)]
    if not all(losses_by_side):
        return None
    base_loss, head_loss = (statistics.median(of_side) for of_side in losses_by_side)
    relative_change = (head_loss - base_loss) / abs(base_loss) if base_loss else math.copysign(1.0, head_loss) if head_loss else 0.0
    relative_spread = max(max(of_side) - min(of_side) for of_side in losses_by_side) / (abs(base_loss) or 1.0)
    verdict = "regressed" if abs(relative_change) > max(limit, 3 * relative_spread) else "ok"
    return Change("loss", verdict, base_loss, head_loss, relative_change, limit,
                  f"loss {base_loss:.6g} -> {head_loss:.6g}" if verdict != "ok" else None)


def _digest_change(base_records, head_records):
    """The Change of the digest. Different bits are a regression if the runs of BASE agree and all runs used the same engines. With
    different engines, which round differently, the change is ambiguous."""
    digests_by_side = [{record["digest"] for record in of_side if record["digest"] is not None} for of_side in (base_records, head_records)]
    if not all(digests_by_side):
        return None
    make_change = lambda verdict, text: Change("digest", verdict, min(digests_by_side[0]), min(digests_by_side[1]), None, None, text)  # noqa: E731
    if digests_by_side[0] == digests_by_side[1]:
        return make_change("ok", None)
    if len({_engines(record) for record in [*base_records, *head_records]}) > 1:
        return make_change("ambiguous", "other digest, by other engines")
    if len(digests_by_side[0]) > 1:
        return make_change("ambiguous", "the digest differs from run to run")
    if len(digests_by_side[1]) > 1:
        return make_change("regressed" if len(base_records) > 1 else "ambiguous", "the digest differs from run to run now")
    return make_change("regressed", f"digest {min(digests_by_side[0])} -> {min(digests_by_side[1])}")


def _engines(record):
    return tuple((engine["op"], engine["engine"]) for engine in record.get("engines") or ())
