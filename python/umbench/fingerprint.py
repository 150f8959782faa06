"""Decides whether two environments (environment lines of record files) may be compared.

The revision under test and the date do not count. A fact that only one side knows does not count either. Two GPUs of one
model, or other processes on one of them, are noted but allowed: machines of a pool could never be compared otherwise.
"""

from collections import namedtuple

IGNORED_FACTS = {"kind", "schema", "umbench", "created"}
REASONS_FIELD = "facts_missing"  # the field with the reasons why facts are unknown; it is not compared

OTHER_GPU_FACT = "gpu.facts.uuid_hash"
NOTE_BY_FACT = {OTHER_GPU_FACT: "measured on two GPUs of one model, which may differ by some percent",
                "gpu.facts.other_processes": "other processes used the GPU on one side"}

# Different Linux releases report slightly different memory sizes for the same machine.
BYTES_TOLERANCE = 0.01

# Values of record["observed"]["gpu_after"]["throttled_by"] that mean heat or power supply, not the GPU's own limits.
SLOWED_BY = {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}

Differences = namedtuple("Differences", "unlike noted")  # lists of texts; those of `noted` do not make times incomparable


def facts_of(environment):
    """{"gpu.name": value, ...} without ignored and unknown facts."""
    facts = {}

    def add_facts(prefix, value):
        if isinstance(value, dict):
            for name, part_value in value.items():
                if name == REASONS_FIELD:
                    continue
                add_facts(f"{prefix}.{name}" if prefix else name, part_value)
        elif value is not None and prefix not in IGNORED_FACTS:
            facts[prefix] = value

    add_facts("", environment)
    return facts


def unknown_facts(environment):
    """{"gpu.mig": reason why it is unknown, ...}"""
    return {f"{part}.{name}": reason for part in ("host", "gpu")
            for name, reason in ((environment.get(part) or {}).get(REASONS_FIELD) or {}).items()}


def compare_environments(base_environments, head_environments):
    """Differences(unlike, noted) of each environment line of one side from each of the other, as texts such as "gpu.driver: 580 / 575"."""
    unlike, noted = {}, {}
    for base_facts in map(facts_of, base_environments):
        for head_facts in map(facts_of, head_environments):
            for name in base_facts:
                if name in head_facts and not _are_alike(name, base_facts[name], head_facts[name]):
                    if name in NOTE_BY_FACT:
                        noted[NOTE_BY_FACT[name]] = None
                    else:
                        unlike[f"{name}: {base_facts[name]} / {head_facts[name]}"] = None
    return Differences(list(unlike), list(noted))


def _are_alike(name, base_value, head_value):
    if name.endswith("_bytes"):
        return abs(base_value - head_value) <= BYTES_TOLERANCE * max(base_value, head_value)
    return base_value == head_value


def keys_by_disturbance(records):
    """{disturbance: [key, ...]} of cells during which heat or power reduced the GPU's clocks, or other processes used the GPU."""
    keys_by_disturbance = {}
    for record in records:
        observed = record.get("observed") or {}
        gpu_states = [observed.get(name) or {} for name in ("gpu_before", "gpu_after")]
        disturbances = {reason for gpu_state in gpu_states for reason in gpu_state.get("throttled_by") or () if reason in SLOWED_BY}
        if any(gpu_state.get("other_processes") for gpu_state in gpu_states):
            disturbances.add("other processes")
        for disturbance in sorted(disturbances):
            keys_by_disturbance.setdefault(disturbance, []).append(record["key"])
    return keys_by_disturbance
