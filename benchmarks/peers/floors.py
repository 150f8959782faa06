"""How fast the card could be at best, by its own measured ceilings, and where the rest of the time goes.

The floor of an operator is its arithmetic over the measured matrix rate of the precision, or its bytes
(each operand once) over the measured copy bandwidth, whichever takes longer. The floor of a step is the
sum over its operators. Algorithms that need less arithmetic than the definition (Winograd's, in fp32)
can be faster than that.
"""

TOP = 5


def floor_ns(engine, ceilings, precision):
    """Nanoseconds that one operator takes at least; `engine` is an entry of a record's `engines`."""
    arithmetic = engine["flops"] / ceilings["matrix_flops_per_s"][precision]
    traffic = engine["bytes"] / ceilings["copy_bytes_per_s"]
    return 1e9 * max(arithmetic, traffic)


def floor_of(engines, ceilings, precision):
    """The floor of a step, and what all its arithmetic and all its bytes take alone, in ms."""
    return {
        "floor_ms": sum(floor_ns(e, ceilings, precision) for e in engines) / 1e6,
        "arithmetic_ms": 1e3 * sum(e["flops"] for e in engines) / ceilings["matrix_flops_per_s"][precision],
        "traffic_ms": 1e3 * sum(e["bytes"] for e in engines) / ceilings["copy_bytes_per_s"],
        "operators_ms": sum(e["time_ns"] for e in engines) / 1e6,
    }


def gaps_of(engines, ceilings, precision, top=TOP):
    """The operators furthest above their floors, largest gap first."""
    rows = [{"op": e["op"], "engine": e["engine"], "time_ms": e["time_ns"] / 1e6,
             "floor_ms": floor_ns(e, ceilings, precision) / 1e6} for e in engines]
    return sorted(rows, key=lambda row: row["floor_ms"] - row["time_ms"])[:top]
