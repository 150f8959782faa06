"""Makes PyTorch trace on the CPU the operators that it would run on a GPU: attention, autocast, and devices named in the model."""

import contextlib

import torch
from torch.overrides import TorchFunctionMode

from .operators import HALF_TYPES

aten = torch.ops.aten
# Operators that autocast computes in float32 on CUDA and not on the CPU (torch/csrc autocast_mode.h, AT_FORALL_FP32*).
FLOAT32_OPERATORS = {"layer_norm", "native_layer_norm", "group_norm", "softmax", "log_softmax", "cross_entropy", "cross_entropy_loss", "nll_loss",
                     "nll_loss2d", "cumsum", "cumprod", "prod", "sum", "norm", "pow", "exp", "expm1", "log", "log1p", "log2", "log10", "rsqrt",
                     "reciprocal", "sinh", "cosh", "tan", "softplus", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div",
                     "cosine_similarity", "binary_cross_entropy_with_logits", "renorm", "logsumexp"}
MAX_HEAD_WIDTH = 256  # largest extent of a head that cuDNN's attention supports
MIN_OPERATIONS_PER_VALUE = 150  # a product with more operations for each bf16 value is bound by arithmetic on an H100 (pad_mm.is_mm_compute_bound)


# Operators with their own kernel on CUDA that tracing would decompose.
NOT_DECOMPOSED = ("silu_backward", "mish_backward")
library = torch.library.Library("umbench", "FRAGMENT")
for _name in NOT_DECOMPOSED:
    library.define(f"{_name}(Tensor gradient, Tensor x) -> Tensor", tags=(torch.Tag.pointwise,))
    library.impl(_name, lambda gradient, x: torch.empty_like(x), "Meta")


@contextlib.contextmanager
def keep_undecomposed():
    """A context in which operators of NOT_DECOMPOSED are not decomposed."""
    dispatch_key = torch._C.DispatchKey.CompositeImplicitAutograd
    overloads = {name: getattr(torch.ops.aten, name).default for name in NOT_DECOMPOSED}
    for name, overload in overloads.items():
        overload.py_kernels[dispatch_key] = getattr(torch.ops.umbench, name).default
    try:
        yield
    finally:
        for overload in overloads.values():
            del overload.py_kernels[dispatch_key]


class AsCuda(TorchFunctionMode):
    """A context in which functions of PyTorch run on the CPU with the operators and types that they would use on a GPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        if name == "scaled_dot_product_attention":
            return attention(*args, **kwargs)
        if name == "cuda" and args and isinstance(args[0], torch.Tensor):
            return args[0]
        args = tuple(_cpu_for_cuda_device(argument) for argument in args)
        kwargs = {key: _cpu_for_cuda_device(argument) for key, argument in kwargs.items()}
        if name in FLOAT32_OPERATORS and torch.is_autocast_enabled("cpu") and kwargs.get("dtype") is None:
            with torch.autocast("cpu", enabled=False):
                return function(*[_float32_for_half(argument) for argument in args],
                                **{key: _float32_for_half(argument) for key, argument in kwargs.items()})
        return function(*args, **kwargs)


def _cpu_for_cuda_device(argument):
    if isinstance(argument, torch.device) and argument.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(argument, str) and argument.partition(":")[0] == "cuda" else argument


def _float32_for_half(argument):
    return argument.float() if isinstance(argument, torch.Tensor) and argument.dtype in HALF_TYPES else argument


@contextlib.contextmanager
def apply_cuda_autocast_on_cpu():
    """A context in which torch.autocast("cuda") applies to operators that are traced on the CPU."""
    usual = torch.autocast.__init__

    def init_for_cpu(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if device_type == "cuda" and dtype is None:
            dtype = torch.get_autocast_dtype("cuda")
        usual(self, "cpu" if device_type == "cuda" else device_type, dtype, enabled, cache_enabled)

    torch.autocast.__init__ = init_for_cpu
    try:
        yield
    finally:
        torch.autocast.__init__ = usual


@contextlib.contextmanager
def report_compiling():
    """A context in which torch.compiler.is_compiling() is true, since the graph is that of torch.compile."""
    usual = torch.compiler.is_compiling
    torch.compiler.is_compiling = lambda: True
    try:
        yield
    finally:
        torch.compiler.is_compiling = usual


@contextlib.contextmanager
def pad_products_without_gpu():
    """A context in which Inductor pads operands of matrix products with unaligned rows. By itself it measures on a GPU whether padding pays
    (torch/_inductor/fx_passes/pad_mm.py). Here it pays if the product is bound by arithmetic, and the rows of the right operand are
    unaligned or those of the left operand have an odd length. An even length was not padded for DistilBERT on an H100."""
    from torch._inductor.fx_passes import pad_mm

    def is_padding_worthwhile(match, left, right, op, input=None):
        alignment = pad_mm.get_alignment_size(left)
        m, k, n = *left.shape[-2:], right.shape[-1]
        has_unaligned_rows = alignment and (k > 1 and k % 2 or n > 1 and n % alignment)
        return has_unaligned_rows and m * k * n > MIN_OPERATIONS_PER_VALUE * (m * k + k * n + m * n)

    usual, pad_mm.should_pad = pad_mm.should_pad, is_padding_worthwhile
    try:
        yield
    finally:
        pad_mm.should_pad = usual


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Attention by the kernel that PyTorch chooses on an H100: cuDNN's, whose result has the layout of the query, the memory-efficient one, or
    the plain one (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp). Only the plain one takes a mask that is trained, as T5's is, or
    whose last extent is expanded."""
    if torch.is_autocast_enabled("cpu"):
        autocast_type = torch.get_autocast_dtype("cpu")
        query, key, value = (t.to(autocast_type) if t.is_floating_point() else t for t in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(autocast_type)
    if query.dim() != 4 or query.dtype not in (*HALF_TYPES, torch.float32):
        return _attention_of_pytorch(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if attn_mask is not None and (attn_mask.requires_grad or attn_mask.dim() not in (2, 4) or attn_mask.stride(-1) != 1 < attn_mask.shape[-1]):
        key, value = _repeat_keys_and_values(query, key, value, enable_gqa)
        return torch.ops.aten._scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)[0]
    bias = attn_mask
    if bias is not None:
        bias = torch.where(bias, 0.0, float("-inf")).to(query.dtype) if bias.dtype == torch.bool else bias
        bias = bias.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    needs_gradients = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    if query.dtype in HALF_TYPES and max(query.shape[-1], value.shape[-1]) <= MAX_HEAD_WIDTH and query.shape[-1] % 8 == value.shape[-1] % 8 == 0:
        return torch.ops.aten._scaled_dot_product_cudnn_attention(query, key, value, bias, needs_gradients, dropout_p, is_causal, False, scale=scale)[0]
    key, value = _repeat_keys_and_values(query, key, value, enable_gqa)
    return torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, bias, needs_gradients, dropout_p, is_causal, scale=scale)[0]


def _repeat_keys_and_values(query, key, value, is_grouped):
    """[keys, values], which are repeated if queries are grouped, so that each query head has its own."""
    repeat_count = query.shape[1] // key.shape[1] if is_grouped else 1
    return [t.repeat_interleave(repeat_count, 1) if repeat_count > 1 else t for t in (key, value)]


def _attention_of_pytorch(query, key, value, mask, dropout, is_causal, scale, is_grouped):
    """Attention as PyTorch itself traces it on the CPU."""
    with torch._C.DisableTorchFunction():
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, dropout, is_causal, scale=scale, enable_gqa=is_grouped)


def gpu_decompositions():
    """Inductor's decompositions for a GPU, for tracing on the CPU. They separate a convolution from its bias, which generated kernels add, and
    whose gradient they sum (torch/_inductor/kernel/conv.py and decomposition.py)."""
    from torch._inductor.decomposition import select_decomp_table

    return {**select_decomp_table(), aten.convolution.default: _separate_bias, aten.convolution_backward.default: _separate_bias_gradient}


def _separate_bias(x, weight, bias, *others):
    """A convolution without bias, followed by the addition of its bias."""
    if bias is None:
        return NotImplemented
    return aten.convolution(x, weight, None, *others) + bias.view([-1] + [1] * (x.dim() - 2))


def _separate_bias_gradient(gradient, x, weight, bias_sizes, *others):
    *others, (wants_x, wants_weight, wants_bias) = others
    if not wants_bias:
        return NotImplemented
    gradients = aten.convolution_backward(gradient, x, weight, bias_sizes, *others, [wants_x, wants_weight, False])
    return gradients[0], gradients[1], gradient.sum([0, *range(2, gradient.dim())])
