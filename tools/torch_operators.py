"""What PyTorch's operators (ATen) are, as far as an export needs to know: which are views, which go element by element,
which treat every sample of a batch by itself, and how many operations they take."""

import math

import torch
from torch.utils.flop_counter import flop_registry

TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "bf16", torch.int64: "i32", torch.int32: "i32",
         torch.int16: "u16", torch.bool: "u8", torch.uint8: "u8", torch.int8: "u8"}
SIZES = {"f32": 4, "bf16": 2, "i32": 4, "u16": 2, "u8": 1}

# The same elements in the same order, whatever the shape.
PLAIN_VIEWS = {"view", "_unsafe_view", "reshape", "squeeze", "unsqueeze", "detach", "alias", "lift_fresh", "flatten", "unflatten"}
# Some of the elements, or in another order.
OTHER_VIEWS = {"expand", "permute", "transpose", "t", "slice", "select", "split", "split_with_sizes", "unbind", "chunk",
               "diagonal", "unfold", "narrow", "as_strided", "movedim", "swapaxes"}

# Memory that nothing was written to yet.
WITHOUT_DATA = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "sym_size"}

ELEMENTWISE = {
    "add", "sub", "rsub", "mul", "div", "neg", "abs", "exp", "log", "log2", "sqrt", "rsqrt", "reciprocal", "pow", "erf", "tanh",
    "tanh_backward", "sigmoid", "sigmoid_backward", "relu", "threshold", "threshold_backward", "gelu", "gelu_backward", "silu",
    "silu_backward", "mish", "elu", "elu_backward", "leaky_relu", "leaky_relu_backward", "hardtanh", "hardtanh_backward",
    "hardswish", "hardswish_backward", "hardsigmoid", "hardsigmoid_backward", "softplus", "clamp", "clamp_min", "clamp_max",
    "minimum", "maximum", "where", "masked_fill", "eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "bitwise_not",
    "bitwise_and", "bitwise_or", "sin", "cos", "floor", "round", "sign", "clone", "copy", "_to_copy", "fill", "zeros_like",
    "ones_like", "full_like", "native_dropout_backward", "addcmul", "addcdiv", "lerp", "square"}
# One sample's result follows from that sample alone (and operands without a batch). Where an output has no
# batch, as a filter's gradient, it is the sum over the samples' own.
BY_SAMPLE = ELEMENTWISE | {
    "convolution", "convolution_backward", "avg_pool2d", "avg_pool2d_backward", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool2d_backward", "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "upsample_nearest2d",
    "upsample_nearest2d_backward", "upsample_bilinear2d", "upsample_bilinear2d_backward", "constant_pad_nd", "reflection_pad2d",
    "native_dropout", "native_layer_norm", "native_layer_norm_backward", "native_group_norm", "mm", "addmm", "bmm",
    "baddbmm", "embedding", "embedding_dense_backward", "nll_loss2d_forward", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_efficient_attention_backward"}
# The same, if it is not the first dimension that they go along: where the argument lies that says which.
BY_SAMPLE_ALONG = {"cat": 1, "_softmax": 1, "_safe_softmax": 1, "_log_softmax": 1, "_softmax_backward_data": 2,
                   "_log_softmax_backward_data": 2,
                   "mean": 1, "amax": 1, "amin": 1, "argmax": 1, "cumsum": 1, "roll": 2, "flip": 1, "slice_scatter": 2,
                   "slice_backward": 2, "select_backward": 2, "select_scatter": 2, "gather": 1, "index_select": 1}

RANDOM = {"native_dropout", "bernoulli", "rand", "randn", "rand_like", "randn_like", "randint", "normal", "uniform"}


def name_of(node):
    """convolution of aten.convolution.default; the target's own name where it is no operator of PyTorch."""
    packet = getattr(node.target, "overloadpacket", None)
    return packet.__name__ if packet is not None else getattr(node.target, "__name__", str(node.target))


def is_random(node):
    attention = "scaled_dot_product" in name_of(node) and "backward" not in name_of(node)
    return name_of(node) in RANDOM or (attention and any(isinstance(a, float) and a > 0 for a in node.args[3:6]))


def stored_elements(value):
    """Elements that lie in memory: those of an expanded tensor are counted once."""
    return math.prod(size for size, stride in zip(value.shape, value.stride()) if stride != 0)


def size_in_bytes(value):
    return stored_elements(value) * SIZES[TYPES[value.dtype]]


def work_of(node, values, outputs):
    """(operations, bytes read and written, whether the operations are products of matrices)."""
    moved = sum(size_in_bytes(value) for value in values + outputs)
    products = _products(node)
    if products is not None:
        return products, moved, True
    return max([stored_elements(value) for value in values + outputs], default=0), moved, False


def _products(node):
    """Operations of what multiplies matrices, None for all else. A multiplication and an addition are two."""
    name, at = name_of(node), [_value_of(a) for a in node.args]
    if name == "convolution":
        return _of_convolution(node.meta["val"], at[1], at[0], transposed=at[6])
    if name == "convolution_backward":
        return (bool(at[10][0]) + bool(at[10][1])) * _of_convolution(at[0], at[2], at[1], transposed=at[7])
    if name.startswith("_scaled_dot_product"):
        backward = "backward" in name
        q, k, v = at[1:4] if backward else at[:3]
        forward = 2 * math.prod(q.shape[:3]) * k.shape[2] * (q.shape[3] + v.shape[3])
        return forward * 5 // 2 if backward else forward
    formula = flop_registry.get(getattr(node.target, "overloadpacket", None))
    return None if formula is None else int(formula(*at, **{k: _value_of(v) for k, v in node.kwargs.items()}, out_val=node.meta["val"]))


def _of_convolution(y, w, x, transposed):
    return 2 * math.prod((x if transposed else y).shape) * math.prod(w.shape[1:])


def _value_of(argument):
    return torch.fx.node.map_arg(argument, lambda n: n.meta.get("val"))
