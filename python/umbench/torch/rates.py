"""Times of operators from the figures of a machine file (results/machine.schema.json), without a GPU.

An operator takes the longer of its arithmetic and its memory traffic, and `launch_ns` for each kernel that it launches. Products of
matrices run at the full rate, convolutions at the share that the file's `operators` have, others at the shares below.
"""

import torch

from .operators import MIN_CHANNELS, argument_of, is_attention, is_convolution, is_depthwise, operator_name, traced_argument
from .values import padded_strides, value_of

CHANNELS_OF_TILE = 96  # the same value as in simulator/roofline.cpp and measure/operator_paces.py
# Shares of arithmetic that kernels of torch 2.11 reach on an H100 (results/torch/README.md).
ATTENTION_SHARE = 0.49                                   # attention without dropout, of Llama
DROPOUT_SHARE, DROPOUT_BACKWARD_SHARE = 0.16, 0.26       # attention with dropout, of GPT-2 and T5
UNALIGNED_SHARE = 0.22                                   # products with rows that do not begin at multiples of 16 bytes
DEPTHWISE_SHARE, DEPTHWISE_BACKWARD_SHARE = 0.21, 0.16   # depthwise convolutions, of ConvNeXt-T; share of the rate of float32
FEW_CHANNELS_SHARE = 0.15                                # convolutions whose channels are padded, since tensor cores need more
BATCHED_SHARE = 0.7                                      # batched products, of T5's attention; share of the rate of float32
# Shares of the rate of copies: generated kernels; among them gradients of maxima, whose windows may overlap.
GENERATED_SHARE_OF_COPY_RATE, POOL_SHARE_OF_COPY_RATE, OVERLAPPING_POOL_SHARE_OF_COPY_RATE = 0.8, 0.65, 0.18


def set_durations_by_figures(converted, machine_figures):
    """Writes duration_ns of each opaque operator of a Converted in place. `machine_figures`: a machine file's document."""
    for op in converted.document["ops"]:
        if op["kind"] == "opaque":
            flops_per_s = (operations_per_s(converted.alone.get(op["name"]), converted.document["precision"], machine_figures)
                           if op.get("products") else machine_figures["fp32_flops_per_s"])
            traffic_s = op["bytes"] / copy_rate_share(converted.generated.get(op["name"])) / machine_figures["device_bytes_per_s"]
            duration_s = max(op["flops"] / flops_per_s, traffic_s)
            op["duration_ns"] = round(duration_s * 1e9 + machine_figures["launch_ns"] * converted.launches.get(op["name"], 1))


def copy_rate_share(generated_kernel):
    """The share of the rate of copies that a generated kernel (kernels.Kernel) reaches; 1 without a kernel."""
    if generated_kernel is None:
        return 1.0
    pool_nodes = [node for node in generated_kernel.nodes if operator_name(node) == "max_pool2d_with_indices_backward"]
    windows_overlap = any(window > stride
                          for node in pool_nodes for window, stride in zip(argument_of(node, "kernel_size"), argument_of(node, "stride")))
    return OVERLAPPING_POOL_SHARE_OF_COPY_RATE if windows_overlap else POOL_SHARE_OF_COPY_RATE if pool_nodes else GENERATED_SHARE_OF_COPY_RATE


def operations_per_s(node, precision, machine_figures):
    """Operations a second of a node that multiplies matrices: the full rate times the known shares."""
    if node is None:
        return machine_figures[f"{precision}_flops_per_s"]
    operands = [traced_argument(n) for n in node.all_input_nodes]
    if precision == "bf16" and all(v.dtype == torch.float32 for v in operands if isinstance(v, torch.Tensor) and v.is_floating_point()):
        precision = "fp32"
    full_rate = machine_figures[f"{precision}_flops_per_s"]
    is_backward = "backward" in operator_name(node)
    if is_attention(node):
        return full_rate * ((DROPOUT_BACKWARD_SHARE if is_backward else DROPOUT_SHARE) if argument_of(node, "dropout_p") else ATTENTION_SHARE)
    if not is_convolution(node):
        if precision == "fp32":
            return full_rate * BATCHED_SHARE if operator_name(node) == "bmm" else full_rate
        return full_rate if all(map(has_aligned_rows, node.all_input_nodes)) else full_rate * UNALIGNED_SHARE
    if is_depthwise(node):
        return machine_figures["fp32_flops_per_s"] * (DEPTHWISE_BACKWARD_SHARE if is_backward else DEPTHWISE_SHARE)
    channel_count = traced_argument(argument_of(node, "weight")).shape[1]
    if channel_count < MIN_CHANNELS and precision == "bf16":
        return full_rate * FEW_CHANNELS_SHARE * channel_count / MIN_CHANNELS
    gradient_mask = node.args[10] if is_backward else ()
    kinds = [kind for kind, wanted in zip(("convolution_backward_data", "convolution_backward_filter"), gradient_mask) if wanted] or ["convolution"]
    filter_shape = traced_argument(argument_of(node, "weight")).shape
    is_tiled = precision != "fp32" and argument_of(node, "groups") == 1
    shares = [recorded_share(machine_figures, precision, kind, filter_shape[2])
              * (tile_share_of_convolution(kind, filter_shape) if is_tiled else 1)
              for kind in kinds]
    return full_rate * len(shares) / sum(1 / share for share in shares)  # the mean rate of operators with equally many operations


def has_aligned_rows(node):
    """Whether the rows of a matrix, or its columns where these lie together, begin at multiples of 16 bytes."""
    matrix = value_of(node)
    return not isinstance(matrix, torch.Tensor) or matrix.dim() < 2 or max(padded_strides(node)[-2:]) * matrix.element_size() % 16 == 0


def tile_share_of_convolution(kind, filter_shape):
    """The share of the matrix units that a convolution of few output channels uses, as in simulator/roofline.cpp."""
    return min(1.0, filter_shape[1 if kind == "convolution_backward_data" else 0] / CHANNELS_OF_TILE)


def recorded_share(machine_figures, precision, kind, filter_height):
    """The share of the full rate that the machine file has for convolutions of a kind with filters of this height; 1 if it has none."""
    for entry in machine_figures.get("operators", ()):
        if entry["kind"] == kind and entry["precision"] == precision and entry.get("filter", filter_height) == filter_height:
            return entry["percent"] / 100
    return 1.0
