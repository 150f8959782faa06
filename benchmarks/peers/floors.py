"""Lower bounds ("floors") of times from the measured rates of the GPU, and the operators that take longest beyond them.

The floor of an operator is the longer one of two times: its arithmetic divided by the measured matrix rate of the precision, and its bytes
(each operand once) divided by the measured copy bandwidth. The floor of a step is the sum over its operators. Convolutions count with the
arithmetic of direct convolution: algorithms with less arithmetic (Winograd's, in fp32) can be faster than the floor.
"""

import re

import architectures as nets

MAX_GAPS = 5
KINDS = {nets.Conv: "convolution", nets.Norm: "normalisation", nets.Linear: "linear"}


def floor_ns(engine_entry, measured_rates, precision):
    """The floor of one operator in nanoseconds. `engine_entry` is an entry of a record's `engines`."""
    arithmetic_s = engine_entry["flops"] / measured_rates["matrix_flops_per_s"][precision]
    traffic_s = engine_entry["bytes"] / measured_rates["copy_bytes_per_s"]
    return 1e9 * max(arithmetic_s, traffic_s)


def floor_of_step(engine_entries, measured_rates, precision):
    """{"floor_ms": of a step, "arithmetic_ms" and "traffic_ms": the times of its arithmetic and of its bytes alone, "operators_ms": the sum of
    the operators' measured times}."""
    return {
        "convolutions": "direct",
        "floor_ms": sum(floor_ns(e, measured_rates, precision) for e in engine_entries) / 1e6,
        "arithmetic_ms": 1e3 * sum(e["flops"] for e in engine_entries) / measured_rates["matrix_flops_per_s"][precision],
        "traffic_ms": 1e3 * sum(e["bytes"] for e in engine_entries) / measured_rates["copy_bytes_per_s"],
        "operators_ms": sum(e["time_ns"] for e in engine_entries) / 1e6,
    }


def largest_gaps(engine_entries, measured_rates, precision, max_count=MAX_GAPS):
    """[{op, engine, time_ms, floor_ms}] of the `max_count` operators furthest above their floors, largest gap first."""
    rows = [{"op": e["op"], "engine": e["engine"], "time_ms": e["time_ns"] / 1e6,
             "floor_ms": floor_ns(e, measured_rates, precision) / 1e6} for e in engine_entries]
    return sorted(rows, key=_negative_gap_ms)[:max_count]


def gaps_by_kind(engine_entries, measured_rates, precision, network):
    """[{kind, operators (their number), time_ms, floor_ms}] of whole kinds of operators, largest gap first."""
    kinds_of_layers, row_of_kind = kinds_by_layer_name(nets.layers_of(network)), {}
    for engine_entry in engine_entries:
        kind = kind_of_operator(engine_entry["op"], kinds_of_layers)
        row = row_of_kind.setdefault(kind, {"kind": kind, "operators": set(), "time_ms": 0.0, "floor_ms": 0.0})
        row["operators"].add(_without_slice_suffix(engine_entry["op"]))
        row["time_ms"] += engine_entry["time_ns"] / 1e6
        row["floor_ms"] += floor_ns(engine_entry, measured_rates, precision) / 1e6
    return sorted(({**row, "operators": len(row["operators"])} for row in row_of_kind.values()), key=_negative_gap_ms)


def _without_slice_suffix(op_name):
    return re.sub(r" \[[^\[\]]*\]$", "", op_name)


def _negative_gap_ms(row):
    return row["floor_ms"] - row["time_ms"]


def kinds_by_layer_name(layers):
    """{name of a layer that has parameters: its kind}."""
    kind_of_name = {}
    for layer in layers:
        for inner_layers in nets.inner_layer_lists(layer):
            kind_of_name |= kinds_by_layer_name(inner_layers)
        if type(layer) in KINDS:
            kind_of_name[layer.name] = KINDS[type(layer)]
    return kind_of_name


def kind_of_operator(op_name, kinds_of_layers):
    """The kind of the layer and of the pass: 'convolution.backward_filter' for 'layer1.0.conv2.backward_filter'. For layers without
    parameters it is the operator's name without numbers and blocks."""
    op_name = _without_slice_suffix(op_name)
    if op_name.endswith(".bf16"):
        return "cast"
    layer_name, _, pass_operation = op_name.partition(".backward")
    pass_suffix = f".backward{pass_operation}" if pass_operation or op_name.endswith(".backward") else ""
    layer_name, again_suffix, _ = layer_name.partition(".again")
    own_name = re.sub(r"\d+(_\d+)?$", "", layer_name.rsplit(".", 1)[-1])
    return kinds_of_layers.get(layer_name, own_name or "other") + again_suffix + pass_suffix
