"""Decides whether two environments (environment lines of record files) may be compared.

The revision under test and the date do not count. A fact that only one side knows does not count either. Two GPUs of one
model, or other processes on one of them, are noted but allowed: machines of a pool could never be compared otherwise.
"""

from collections import namedtuple

IGNORED = {"kind", "schema", "umbench", "created"}
REASONS_MISSING = "facts_missing"  # the field with the reasons why facts are unknown; it is not compared

OTHER_GPU = "gpu.facts.uuid_hash"
NOTED = {OTHER_GPU: "measured on two GPUs of one model, which may differ by some percent",
         "gpu.facts.other_processes": "other processes used the GPU on one side"}

# Different Linux releases report slightly different memory sizes for the same machine.
BYTES_TOLERANCE = 0.01

# Values of record["observed"]["gpu_after"]["throttled_by"] that mean heat or power supply, not the GPU's own limits.
SLOWED_BY = {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}

Differences = namedtuple("Differences", "unlike noted")  # lists of texts; those of `noted` do not make times incomparable


def facts_of(environment):
    """{"gpu.name": value, ...} without ignored and unknown facts."""
    found = {}

    def add_facts(prefix, value):
        if isinstance(value, dict):
            for name, part in value.items():
                if name == REASONS_MISSING:
                    continue
                add_facts(f"{prefix}.{name}" if prefix else name, part)
        elif value is not None and prefix not in IGNORED:
            found[prefix] = value

    add_facts("", environment)
    return found


def unknown_facts(environment):
    """{"gpu.mig": reason why it is unknown, ...}"""
    return {f"{part}.{name}": why for part in ("host", "gpu")
            for name, why in ((environment.get(part) or {}).get(REASONS_MISSING) or {}).items()}


def compare_environments(base_environments, head_environments):
    """Differences(unlike, noted) of each environment line of one side from each of the other, as texts such as "gpu.driver: 580 / 575"."""
    unlike, noted = {}, {}
    for left in map(facts_of, base_environments):
        for right in map(facts_of, head_environments):
            for name in left:
                if name in right and not _are_alike(name, left[name], right[name]):
                    if name in NOTED:
                        noted[NOTED[name]] = None
                    else:
                        unlike[f"{name}: {left[name]} / {right[name]}"] = None
    return Differences(list(unlike), list(noted))


def _are_alike(name, left, right):
    if name.endswith("_bytes"):
        return abs(left - right) <= BYTES_TOLERANCE * max(left, right)
    return left == right


def cells_by_disturbance(records):
    """{disturbance: [key, ...]} of cells during which heat or power reduced the GPU's clocks, or other processes used the GPU."""
    found = {}
    for record in records:
        observed = record.get("observed") or {}
        states = [observed.get(name) or {} for name in ("gpu_before", "gpu_after")]
        kinds = {reason for state in states for reason in state.get("throttled_by") or () if reason in SLOWED_BY}
        if any(state.get("other_processes") for state in states):
            kinds.add("other processes")
        for kind in sorted(kinds):
            found.setdefault(kind, []).append(record["key"])
    return found
