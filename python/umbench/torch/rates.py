"""How long operators take by the figures of a machine file (results/machine.schema.json), without a GPU.

An operator takes the longer of its arithmetic and its memory traffic, and `launch_ns` for each kernel that it launches. Products of
matrices run at the full rate, convolutions at the share that the file's `operators` have, attention at that of flash attention.
"""

from .operators import argument_of, is_depthwise, name_of, value_of_argument

# FlashAttention-2 reaches 35 % of an H100's arithmetic where products reach 80 % (Shah et al., FlashAttention-3, 2024, section 1).
ATTENTION_SHARE = 35 / 80
# Shares of float32 arithmetic that filters with few channels of their own reach: ConvNeXt-T's on an H100 (results/torch/README.md).
DEPTHWISE_SHARE, DEPTHWISE_BACKWARD_SHARE = 0.21, 0.16


def set_durations(made, machine):
    """Writes duration_ns of each opaque operator of a Converted in place. `machine`: a machine file's document."""
    for op in made.document["ops"]:
        if op["kind"] == "opaque":
            rate = products_per_s(made.alone.get(op["name"]), made.document["precision"], machine) if op.get("products") else machine["fp32_flops_per_s"]
            seconds = max(op["flops"] / rate, op["bytes"] / machine["device_bytes_per_s"])
            op["duration_ns"] = round(seconds * 1e9 + machine["launch_ns"] * made.launches.get(op["name"], 1))


def launched_in(made, launch_ns):
    """What the CPU takes to launch each operator of a Converted, by its name, where a kernel takes `launch_ns`."""
    return {op["name"]: launch_ns * made.launches.get(op["name"], 1) for op in made.document["ops"]}


def wait_for_launches(made, host_ns):
    """Lengthens the operators of a Converted, in place, by what the GPU waits for the CPU, which takes `host_ns` of its name to launch
    each: the CPU runs ahead while kernels are long, and the GPU waits for it while they are short."""
    launched = done = 0
    for op in made.document["ops"]:
        if "duration_ns" in op:
            count = made.launches.get(op["name"], 1)
            launched += round(host_ns[op["name"]])
            end = max(done + op["duration_ns"], launched + op["duration_ns"] // count)
            op["duration_ns"], done = end - done, end


def products_per_s(node, precision, machine):
    """Operations a second of a node's products; the full rate where neither the node nor the machine file tells more."""
    full = machine[f"{precision}_flops_per_s"]
    name = name_of(node) if node is not None else ""
    if "attention" in name:
        return full * ATTENTION_SHARE
    if name not in ("convolution", "convolution_backward"):
        return full
    backward = name == "convolution_backward"
    if is_depthwise(node):
        return machine["fp32_flops_per_s"] * (DEPTHWISE_BACKWARD_SHARE if backward else DEPTHWISE_SHARE)
    asked = node.args[10] if backward else ()
    kinds = [kind for kind, wanted in zip(("convolution_backward_data", "convolution_backward_filter"), asked) if wanted] or ["convolution"]
    return full * mean_share(machine, precision, kinds, value_of_argument(argument_of(node, "weight")).shape[2])


def mean_share(machine, precision, kinds, height):
    """The harmonic mean: of operators that do as many operations each."""
    return len(kinds) / sum(1 / share_of(machine, precision, kind, height) for kind in kinds)


def share_of(machine, precision, kind, height):
    for entry in machine.get("operators", ()):
        if entry["kind"] == kind and entry["precision"] == precision and entry.get("filter", height) == height:
            return entry["percent"] / 100
    return 1.0
