"""Computes the CPU time to launch a compiled step, and the time that the GPU waits for launches.

Costs are counted in launches of a generated kernel. They were fitted to CPU times of the forward and backward passes of AlexNet, SqueezeNet,
ResNet-50, ConvNeXtV2, DINOv2, Phi, GPT-NeoX, Mixtral and T5 on the host of an H100 with torch 2.11; RELATIVE_COPY_COST was fitted to a U-Net.
"""

from .operators import is_attention, library_launch_count, operator_name

KERNEL_NS = 29_000  # CPU time of a launch of a generated kernel on that host; between runs of short steps it varied from 12 to 49 us
# relative to a launch of a generated kernel, as all below
RELATIVE_CALL_COSTS = {"mm": 1.1, "addmm": 1.1, "bmm": 1.1, "convolution": 1.0, "convolution_backward": 4.0}
RELATIVE_ATTENTION_COST, RELATIVE_ATTENTION_BACKWARD_COST, RELATIVE_OTHER_COST = 1.2, 2.4, 2.7
RELATIVE_COPY_COST = 1.5  # copying an operand or result of a convolution to another order
# in launches: before the first kernel, before the backward pass, and after the last kernel, where gradients are stored
RELATIVE_COST_BEFORE, RELATIVE_COST_BETWEEN, RELATIVE_COST_AFTER = 15, 35, 50


def add_launch_waits(converted, kernel_launch_ns=KERNEL_NS):
    """Lengthens the operators of a Converted, in place, by the time that the GPU waits for the CPU, which launches ahead while kernels are long.
    `kernel_launch_ns`: time to launch a generated kernel. Returns the CPU time of all launches in ns."""
    timed_ops = [op for op in converted.document["ops"] if "duration_ns" in op]
    first_op_names = first_operators_of_passes(converted.document)
    relative_cost_before = dict(zip(first_op_names, (RELATIVE_COST_BEFORE, RELATIVE_COST_BETWEEN)))
    launched_ns = done_ns = 0
    for op in timed_ops:
        launched_ns += round(kernel_launch_ns * (relative_launch_cost(converted, op["name"]) + relative_cost_before.get(op["name"], 0)))
        end_ns = max(done_ns + op["duration_ns"], launched_ns + op["duration_ns"] // converted.launches.get(op["name"], 1))
        op["duration_ns"], done_ns = end_ns - done_ns, end_ns
    if len(first_op_names) > 1:
        launched_ns += round(kernel_launch_ns * RELATIVE_COST_AFTER)
        timed_ops[-1]["duration_ns"] += max(0, launched_ns - done_ns)
    return launched_ns


def relative_launch_cost(converted, op_name):
    """The cost of launching an operator, in launches of a generated kernel."""
    node = converted.alone.get(op_name)
    if node is None:
        return converted.launches.get(op_name, 1)
    if is_attention(node):
        return RELATIVE_ATTENTION_BACKWARD_COST if "backward" in operator_name(node) else RELATIVE_ATTENTION_COST
    return (RELATIVE_CALL_COSTS.get(operator_name(node), RELATIVE_OTHER_COST)
            + RELATIVE_COPY_COST * (converted.launches.get(op_name, 1) - library_launch_count(node)))


def first_operators_of_passes(document):
    """[name of the first operator of the forward pass, name of that of the backward pass]; without a backward pass only the former."""
    gradient_names = {t["name"] for t in document["tensors"] if t.get("use") in ("activation_gradient", "parameter_gradient")}
    first_name_by_is_backward = {}
    for op in document["ops"]:
        if "duration_ns" in op:
            first_name_by_is_backward.setdefault(any(name in gradient_names for name in op["out"]), op["name"])
    return [first_name_by_is_backward[is_backward] for is_backward in sorted(first_name_by_is_backward)]
