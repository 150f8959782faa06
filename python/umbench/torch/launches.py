"""Computes the CPU time to launch a compiled step, and the time that the GPU waits for launches.

Costs are counted in launches of a generated kernel. They were fitted to CPU times of the forward and backward passes of AlexNet, SqueezeNet,
ResNet-50, ConvNeXtV2, DINOv2, Phi, GPT-NeoX, Mixtral and T5 on the host of an H100 with torch 2.11; COPY_COST was fitted to a U-Net.
"""

from .operators import is_attention, library_launch_count, operator_name

KERNEL_NS = 29_000  # CPU time of a launch of a generated kernel on that host; between runs of short steps it varied from 12 to 49 us
CALL_COSTS = {"mm": 1.1, "addmm": 1.1, "bmm": 1.1, "convolution": 1.0, "convolution_backward": 4.0}
ATTENTION_COST, ATTENTION_BACKWARD_COST, OTHER_COST = 1.2, 2.4, 2.7
COPY_COST = 1.5  # cost of copying an operand or result of a convolution to another order
COST_BEFORE, COST_BETWEEN, COST_AFTER = 15, 35, 50  # costs before the first kernel, before the backward pass, and after the last kernel, where gradients are stored


def add_launch_waits(converted, kernel_launch_ns=KERNEL_NS):
    """Lengthens the operators of a Converted, in place, by the time that the GPU waits for the CPU, which launches ahead while kernels are long.
    `kernel_launch_ns`: time to launch a generated kernel. Returns the CPU time of all launches in ns."""
    timed = [op for op in converted.document["ops"] if "duration_ns" in op]
    passes = first_operators_of_passes(converted.document)
    before = dict(zip(passes, (COST_BEFORE, COST_BETWEEN)))
    launched = done = 0
    for op in timed:
        launched += round(kernel_launch_ns * (relative_launch_cost(converted, op["name"]) + before.get(op["name"], 0)))
        end = max(done + op["duration_ns"], launched + op["duration_ns"] // converted.launches.get(op["name"], 1))
        op["duration_ns"], done = end - done, end
    if len(passes) > 1:
        launched += round(kernel_launch_ns * COST_AFTER)
        timed[-1]["duration_ns"] += max(0, launched - done)
    return launched


def relative_launch_cost(converted, op_name):
    """The cost of launching an operator, in launches of a generated kernel."""
    node = converted.alone.get(op_name)
    if node is None:
        return converted.launches.get(op_name, 1)
    if is_attention(node):
        return ATTENTION_BACKWARD_COST if "backward" in operator_name(node) else ATTENTION_COST
    return CALL_COSTS.get(operator_name(node), OTHER_COST) + COPY_COST * (converted.launches.get(op_name, 1) - library_launch_count(node))


def first_operators_of_passes(document):
    """[name of the first operator of the forward pass, name of that of the backward pass]; without a backward pass only the former."""
    gradients = {t["name"] for t in document["tensors"] if t.get("use") in ("activation_gradient", "parameter_gradient")}
    found = {}
    for op in document["ops"]:
        if "duration_ns" in op:
            found.setdefault(any(name in gradients for name in op["out"]), op["name"])
    return [found[back] for back in sorted(found)]
