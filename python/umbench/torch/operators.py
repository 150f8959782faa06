"""Properties of PyTorch's operators (ATen) that an export needs: which are views, which are element-wise, which treat every sample of a
batch separately, and how many operations they take."""

import math
import operator

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

HALF_TYPES = (torch.float16, torch.bfloat16)
TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "bf16", torch.int64: "i32", torch.int32: "i32",
         torch.uint64: "i32", torch.uint32: "i32", torch.int16: "u16", torch.bool: "u8", torch.uint8: "u8", torch.int8: "u8"}

MIN_CHANNELS = 8  # minimum channels of a convolution's group for tensor cores

VIEW, COMPUTED, REDUCED, READS_NEIGHBOURS, SCATTERED, ALONE, NOTHING = range(7)

# Views of the same elements in the same order.
PLAIN_VIEWS = {"view", "_unsafe_view", "reshape", "squeeze", "unsqueeze", "detach", "alias", "lift_fresh", "flatten", "unflatten"}
# Views of some of the elements, or in another order.
OTHER_VIEWS = {"expand", "permute", "transpose", "t", "slice", "select", "split", "split_with_sizes", "unbind", "chunk",
               "diagonal", "unfold", "narrow", "as_strided", "movedim", "swapaxes"}

# Operators that allocate memory without writing, and operators without a result.
WITHOUT_DATA = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "sym_size", "_assert_tensor_metadata",
                "_assert_async", "_assert_scalar"}

# Operators that Inductor computes element by element though PyTorch does not tag them so (torch/_inductor/lowering.py).
COMPUTED_OPERATORS = {"convert_element_type", "_to_copy", "clone", "copy", "copy_", "where", "full", "full_like", "iota", "arange", "scalar_tensor",
                      "zeros", "ones", "zeros_like", "ones_like", "new_zeros", "new_full", "cat", "constant_pad_nd", "slice_scatter",
                      "select_scatter", "diagonal_scatter", "fma", "inductor_random", "inductor_randint", "inductor_lookup_seed", "rand", "randn",
                      "bernoulli", "uniform", "_low_memory_max_pool_offsets_to_indices", "masked_fill", "tril", "triu", "flip", "roll", "repeat",
                      "broadcast_in_dim", "isinf", "isnan", "one_hot"}
# Operators that read elements of an operand at other positions than the result's, or only some of them.
GATHERS = {"embedding", "index", "_unsafe_index", "_unsafe_masked_index", "gather", "index_select", "cat", "constant_pad_nd", "flip", "roll",
           "repeat", "slice_scatter", "select_scatter"}
REDUCTIONS = {"sum", "mean", "amax", "amin", "var", "var_mean", "std", "prod", "any", "all", "argmax", "argmin", "max", "min", "logsumexp",
              "prepare_softmax_online", "xor_sum"}
WINDOW_OPERATORS = {"_low_memory_max_pool_with_offsets", "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d",
                    "avg_pool2d_backward", "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "upsample_nearest2d",
                    "upsample_nearest2d_backward", "upsample_bilinear2d", "upsample_bicubic2d", "cumsum", "cumprod", "logcumsumexp",
                    "reflection_pad2d", "reflection_pad2d_backward"}
SCATTERS = {"index_put", "_unsafe_index_put", "scatter", "scatter_add", "scatter_reduce", "index_add", "_unsafe_masked_index_put_accumulate"}

ELEMENTWISE = {
    "add", "sub", "rsub", "mul", "div", "neg", "abs", "exp", "log", "log2", "sqrt", "rsqrt", "reciprocal", "pow", "erf", "tanh",
    "tanh_backward", "sigmoid", "sigmoid_backward", "relu", "threshold", "threshold_backward", "gelu", "gelu_backward", "silu",
    "silu_backward", "mish", "elu", "elu_backward", "leaky_relu", "leaky_relu_backward", "hardtanh", "hardtanh_backward",
    "hardswish", "hardswish_backward", "hardsigmoid", "hardsigmoid_backward", "softplus", "clamp", "clamp_min", "clamp_max",
    "minimum", "maximum", "where", "masked_fill", "eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "bitwise_not",
    "bitwise_and", "bitwise_or", "sin", "cos", "floor", "round", "sign", "clone", "copy", "_to_copy", "fill", "zeros_like",
    "ones_like", "full_like", "native_dropout_backward", "addcmul", "addcdiv", "lerp", "square"}
# Operators whose result for a sample depends on that sample and on operands without a batch alone. An output
# without a batch, such as a filter's gradient, is the sum over the samples.
BY_SAMPLE = ELEMENTWISE | {
    "convolution", "convolution_backward", "avg_pool2d", "avg_pool2d_backward", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool2d_backward", "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "upsample_nearest2d",
    "upsample_nearest2d_backward", "upsample_bilinear2d", "upsample_bilinear2d_backward", "constant_pad_nd", "reflection_pad2d",
    "native_dropout", "native_layer_norm", "native_layer_norm_backward", "native_group_norm", "mm", "addmm", "bmm",
    "baddbmm", "embedding", "embedding_dense_backward", "nll_loss2d_forward", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_cudnn_attention_backward", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_efficient_attention_backward"}
# {operator that is BY_SAMPLE too unless it goes along the first dimension: position of the argument with the dimension}
BY_SAMPLE_ALONG = {"cat": 1, "_softmax": 1, "_safe_softmax": 1, "_log_softmax": 1, "_softmax_backward_data": 2,
                   "_log_softmax_backward_data": 2,
                   "mean": 1, "amax": 1, "amin": 1, "argmax": 1, "cumsum": 1, "roll": 2, "flip": 1, "slice_scatter": 2,
                   "slice_backward": 2, "select_backward": 2, "select_scatter": 2, "gather": 1, "index_select": 1}

RANDOM = {"inductor_random", "inductor_randint", "inductor_seeds", "native_dropout", "bernoulli", "rand", "randn", "rand_like", "randn_like", "randint", "normal", "uniform"}


def operator_name(node):
    """The name of a node's operator, such as "convolution" of aten.convolution.default; else the name of the target."""
    packet = getattr(node.target, "overloadpacket", None)
    return packet.__name__ if packet is not None else getattr(node.target, "__name__", str(node.target))


def library_launch_count(node):
    """The number of kernels and fills that cuBLAS and cuDNN of torch 2.11 launch for an operator on an H100."""
    name = operator_name(node)
    if "scaled_dot_product" in name:
        return 4 if "backward" in name else 2 + is_random(node)
    if not is_convolution(node):
        return 1
    gradient_count = sum(map(bool, argument_of(node, "output_mask")[:2])) if name == "convolution_backward" else 1
    if is_depthwise(node):
        return 2 * gradient_count - 1  # the gradient of filters is summed by a second kernel
    return gradient_count if is_pointwise_convolution(node) else 2 * gradient_count


def is_convolution(node):
    return operator_name(node) in ("convolution", "convolution_backward")


def is_attention(node):
    return "scaled_dot_product" in operator_name(node)


def is_depthwise(node):
    """Whether a convolution's groups are too small for tensor cores."""
    return argument_of(node, "groups") > 1 and traced_argument(argument_of(node, "weight")).shape[1] < MIN_CHANNELS


def is_pointwise_convolution(node):
    """Whether a convolution has filters of 1 x 1 and stride 1, so that it is a product of matrices."""
    return tuple(traced_argument(argument_of(node, "weight")).shape[2:]) == (1, 1) and set(argument_of(node, "stride")) == {1}


def is_view(node):
    """Whether an operator returns a view of its first operand, or several views."""
    if node.target is operator.getitem:
        return is_view(node.args[0])
    if operator_name(node) in PLAIN_VIEWS | OTHER_VIEWS:
        return True
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.returns or not node.all_input_nodes:
        return False
    alias = schema.returns[0].alias_info
    return alias is not None and not alias.is_write


def inductor_kind(node):
    """How Inductor computes an operator: VIEW, COMPUTED (element by element), ..., ALONE (by a separate kernel), or NOTHING."""
    op_name = operator_name(node)
    if is_view(node):
        return VIEW
    if op_name in WITHOUT_DATA:
        return NOTHING
    if op_name == "scatter" and _is_one_hot(node):
        return COMPUTED
    for operator_names, kind in ((REDUCTIONS, REDUCED), (WINDOW_OPERATORS, READS_NEIGHBOURS), (SCATTERS, SCATTERED),
                                 (COMPUTED_OPERATORS, COMPUTED), (GATHERS, COMPUTED)):
        if op_name in operator_names:
            return kind
    return COMPUTED if torch.Tag.pointwise in getattr(node.target, "tags", ()) else ALONE


def _is_one_hot(node):
    """Whether a scatter puts a number into a constant tensor, which Inductor computes element by element (fx_passes/misc_patterns, post_grad)."""
    target_node, written_value = node.args[0], node.args[3]
    return not isinstance(written_value, torch.fx.Node) and isinstance(target_node, torch.fx.Node) and operator_name(target_node) == "full"


def is_random(node):
    is_forward_attention = is_attention(node) and "backward" not in operator_name(node)
    return operator_name(node) in RANDOM or (is_forward_attention and bool(argument_of(node, "dropout_p")))


def is_repeatable(node):
    """Whether computing a node again gives the same result. Random numbers that Inductor makes from a seed are the same."""
    if node.op != "call_function" or node.target is operator.getitem:
        return True
    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        return False
    if not isinstance(target, torch._ops.OpOverload):
        return True
    if target._schema.is_mutable:
        return False
    if operator_name(node) in ("inductor_seeds", "inductor_seed"):
        return False
    if torch.Tag.nondeterministic_seeded in target.tags:
        return "scaled_dot_product" in operator_name(node) and not argument_of(node, "dropout_p")
    return True


def reduces_rows(node):
    """Whether a reduction goes along the innermost extents in memory, and not along all."""
    source = traced_argument(node.args[0])
    dims = node.args[1] if len(node.args) > 1 else None
    if not isinstance(source, torch.Tensor) or dims is None:
        return False
    dims = {d % max(1, source.dim()) for d in (dims if isinstance(dims, (tuple, list)) else [dims])}
    dims_by_stride = sorted((d for d in range(source.dim()) if source.shape[d] > 1), key=lambda d: source.stride(d))
    dims &= set(dims_by_stride)
    return 0 < len(dims) < len(dims_by_stride) and set(dims_by_stride[:len(dims)]) == dims


def operations_of_kernel(kernel):
    """(operations, whether they are products of matrices). A generated kernel has one operation for each element of each operator."""
    if not kernel.is_generated:
        matrix_operation_count = matrix_operations(kernel.nodes[-1])
        if matrix_operation_count is not None:
            return matrix_operation_count, True
    operation_counts = [max((t.numel() for t in _tensors_in([n.meta.get("val"), [m.meta.get("val") for m in n.all_input_nodes]])), default=0)
                        for n in kernel.nodes]
    return sum(operation_counts), False


def _tensors_in(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def matrix_operations(node):
    """The operations of a node that multiplies matrices; None for other nodes. A multiplication and an addition count as two."""
    op_name, arguments = operator_name(node), [traced_argument(a) for a in node.args]
    if op_name == "convolution":
        return _convolution_operations(node.meta["val"], arguments[1], arguments[0], transposed=arguments[6])
    if op_name == "convolution_backward":
        return ((bool(arguments[10][0]) + bool(arguments[10][1]))
                * _convolution_operations(arguments[0], arguments[2], arguments[1], transposed=arguments[7]))
    if op_name.startswith("_scaled_dot_product"):
        is_backward = "backward" in op_name
        q, k, v = arguments[1:4] if is_backward else arguments[:3]
        forward_operations = 2 * math.prod(q.shape[:3]) * k.shape[2] * (q.shape[3] + v.shape[3]) // (2 if argument_of(node, "is_causal") else 1)
        return forward_operations * 5 // 2 if is_backward else forward_operations
    if "grouped_mm" in op_name:
        return (2 if "backward" in op_name else 1) * _expert_operations([a for a in arguments if isinstance(a, torch.Tensor)])
    formula = flop_registry.get(getattr(node.target, "overloadpacket", None))
    return None if formula is None else int(formula(*arguments, **{k: traced_argument(v) for k, v in node.kwargs.items()}, out_val=node.meta["val"]))


def _expert_operations(operands):
    """The operations of a product of experts: each row is multiplied by the matrix of its expert. Matrices have the extents experts, rows,
    columns."""
    matrices = next((t for t in operands if t.dim() == 3), None)
    row_matrix = next(t for t in operands if t.dim() == 2)
    if matrices is None:  # the gradient of the matrices is a sum over the rows
        return 2 * math.prod(row_matrix.shape) * next(t for t in operands[1:] if t.dim() == 2).shape[1]
    return 2 * row_matrix.shape[0] * math.prod(matrices.shape[1:])


def argument_of(node, argument_name):
    """The argument of that name; None if it was not given."""
    names = [argument.name for argument in node.target._schema.arguments]
    return (dict(zip(names, node.args)) | node.kwargs).get(argument_name)


def _convolution_operations(y, w, x, transposed):
    return 2 * math.prod((x if transposed else y).shape) * math.prod(w.shape[1:])


def traced_argument(argument):
    return torch.fx.node.map_arg(argument, lambda n: n.meta.get("val"))
