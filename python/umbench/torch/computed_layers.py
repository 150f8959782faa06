"""Eager operators of PyTorch that have a corresponding operator of umbench.

Each map_ function takes a walk.Walk and a node, and adds umbench's operator to the walk. It returns False where types, layouts or arguments
are not those of umbench's operator; the node then becomes an opaque operator.
"""

import math
import operator

import torch

from .operators import operator_name
from .walk import View


def have_same_layout(tensors, wanted_type="f32"):
    """Whether all tensors are known, have the type `wanted_type` and the same memory order."""
    orders = {t.order for t in tensors if t.shape[1] > 1 and t.shape[2] * t.shape[3] > 1}
    return all(t is not None for t in tensors) and len(orders) <= 1 and all(t.type == wanted_type for t in tensors)


def map_convolution(walk, node):
    x, w = walk.plain_tensor(node.args[0]), walk.plain_tensor(node.args[1])
    b = walk.plain_tensor(node.args[2]) if node.args[2] is not None else None
    if x is None or w is None or (node.args[2] is not None and b is None):
        return False
    if not _is_plain_window(node.args[0], *node.args[3:6], node.args[6]) or not have_same_layout([x, w], x.type):
        return False
    if x.shape != list(node.args[0].meta["val"].shape) or (b is not None and b.type != "f32"):
        return False
    name = walk.label_of(node)
    y = walk.add_result(node, name + ".y")
    if y.shape != list(node.meta["val"].shape):
        return remove_added_tensor(walk, y)
    walk.views[node] = View(y)
    walk.add_op(node, name, "convolution", _window_attributes(node.args[3], node.args[4], node.args[8]),
              [x, w] + ([b] if b is not None else []), [y])
    return True


def remove_added_tensor(walk, tensor):
    """Removes a tensor that was made for an operator that umbench does not compute. Returns False, as the caller then does."""
    walk.tensors.remove(tensor)
    walk.names.discard(tensor.name)
    return False


def map_convolution_backward(walk, node):
    dy, x, w = (walk.plain_tensor(n) for n in node.args[:3])
    if dy is None or x is None or w is None or not have_same_layout([dy, x, w]):
        return False
    if not _is_plain_window(node.args[1], *node.args[4:7], node.args[7]):
        return False
    if x.shape != list(node.args[1].meta["val"].shape) or dy.shape != list(node.args[0].meta["val"].shape):
        return False
    name = walk.label_of(node)
    attributes = _window_attributes(node.args[4], node.args[5], node.args[9])
    gradient_mask = node.args[10]
    gradients = [walk.add_result(node, f"{name}.{suffix}", i) if wanted else None
                 for i, (suffix, wanted) in enumerate(zip(("dx", "dw", "db"), gradient_mask))]
    if gradients[1] is not None:
        walk.add_op(node, name + ".backward_filter", "convolution_backward_filter", attributes, [x, dy], [gradients[1]])
    if gradients[2] is not None:
        walk.add_op(node, name + ".backward_bias", "bias_backward", {}, [dy], [gradients[2]])
    if gradients[0] is not None:
        walk.add_op(node, name + ".backward_data", "convolution_backward_data", attributes, [w, dy], [gradients[0]])
    walk.views[node] = [View(o) if o is not None else None for o in gradients]
    return True


def map_native_batch_norm_legit_functional(walk, node):
    x, scale, shift = (walk.plain_tensor(n) if n is not None else None for n in node.args[:3])
    if x is None or scale is None or shift is None or not node.args[5] or scale.type != "f32":
        return False
    if x.shape != list(node.args[0].meta["val"].shape):
        return False
    name = walk.label_of(node)
    y, mean, inverse_deviation = (walk.add_result(node, f"{name}.{suffix}", i) for i, suffix in enumerate(("y", "mean", "inverse_deviation")))
    walk.norms[scale] = shift
    walk.views[node] = [View(y), View(mean), View(inverse_deviation), None, None]
    walk.add_op(node, name, "batch_norm", {"epsilon": node.args[7]}, [x, scale, shift], [y, mean, inverse_deviation])
    return True


def map_native_batch_norm_backward(walk, node):
    dy, x, scale, mean, inverse_deviation = (walk.plain_tensor(node.args[i]) if node.args[i] is not None else None for i in (0, 1, 2, 5, 6))
    shift = walk.norms.get(scale)
    if None in (dy, x, scale, mean, inverse_deviation, shift) or not node.args[7] or node.args[9] != [True, True, True]:
        return False
    if not have_same_layout([dy, x], x.type) or dy.shape != x.shape:
        return False
    name = walk.label_of(node)
    gradients = [walk.add_result(node, f"{name}.{suffix}", i) for i, suffix in enumerate(("dx", "dscale", "dshift"))]
    walk.views[node] = [View(o) for o in gradients]
    walk.add_op(node, name + ".backward", "batch_norm_backward", {}, [x, scale, shift, mean, inverse_deviation, dy], gradients, (5, 0))
    return True


def add_pointwise(walk, node, kind, operands, overwrite_pair, attributes=None):
    """Adds an operator whose result has the shape of its operands, the tensors `operands`. `overwrite_pair`: (index of an operand, index of
    the result that may overwrite it)."""
    if None in operands or any(t.shape != operands[0].shape or t.order != operands[0].order or t.type != operands[0].type for t in operands):
        return False
    y = walk.add_result(node, walk.label_of(node) + ".y")
    if y.shape != operands[0].shape or y.type != operands[0].type or y.order != operands[0].order or y.type not in ("f32", "bf16"):
        return remove_added_tensor(walk, y)
    walk.views[node] = View(y)
    walk.add_op(node, walk.label_of(node), kind, attributes or {}, operands, [y], overwrite_pair)
    return True


def map_relu(walk, node):
    return add_pointwise(walk, node, "relu", [walk.plain_tensor(node.args[0])], (0, 0))


def map_threshold_backward(walk, node):
    return node.args[2] == 0 and add_pointwise(walk, node, "relu_backward", [walk.plain_tensor(node.args[1]), walk.plain_tensor(node.args[0])], (1, 0))


def map_hardtanh(walk, node):
    return is_relu6(node.args[1:3]) and add_pointwise(walk, node, "relu", [walk.plain_tensor(node.args[0])], (0, 0), {"capped": True})


def map_hardtanh_backward(walk, node):
    """PyTorch saves the input of the ReLU6, umbench the output. Both are between 0 and 6 for the same elements."""
    operands = [walk.plain_tensor(node.args[1]), walk.plain_tensor(node.args[0])]
    return is_relu6(node.args[2:4]) and add_pointwise(walk, node, "relu_backward", operands, (1, 0), {"capped": True})


def is_relu6(limits):
    return tuple(limits) == (0, 6)


def map_avg_pool2d(walk, node):
    return add_average_pool(walk, node, "average_pool", node.args[1:], ".y")


def map_avg_pool2d_backward(walk, node):
    return add_average_pool(walk, node, "average_pool_backward", node.args[2:], ".dx")


def add_average_pool(walk, node, kind, pool_arguments, name_suffix):
    operand, attributes = walk.plain_tensor(node.args[0]), _attributes_of_average_pool(pool_arguments)
    if attributes is None or not _keeps_four_extents(node.args[0], operand):
        return False
    result = walk.add_result(node, walk.label_of(node) + name_suffix)
    walk.views[node] = View(result)
    walk.add_op(node, walk.label_of(node), kind, attributes, [operand], [result])
    return True


def map_cat(walk, node):
    operand_nodes, dimension = node.args[0], node.args[1] if len(node.args) > 1 else 0
    operands = [walk.plain_tensor(n) for n in operand_nodes]
    if len(operands) < 2 or dimension not in (1, -3) or not all(_keeps_four_extents(n, t) for n, t in zip(operand_nodes, operands)):
        return False
    if not have_same_layout(operands, operands[0].type):
        return False
    y = walk.add_result(node, walk.label_of(node) + ".y")
    if y.order != operands[0].order and y.shape[2] * y.shape[3] > 1:
        return remove_added_tensor(walk, y)
    walk.views[node] = View(y)
    walk.add_op(node, walk.label_of(node), "concat", {}, operands, [y])
    return True


def split_concat_gradient(walk, node):
    """Splits a gradient whose slices of channels are read, the gradient of a concatenation, into one tensor for each slice. Returns False if
    that is not possible."""
    concat_gradient = node.args[0]
    dy = walk.plain_tensor(concat_gradient)
    ranges_and_users = [(sliced_channel_range(user), user) for user in concat_gradient.users if sliced_channel_range(user)]
    channel_ranges = sorted({channel_range for channel_range, _ in ranges_and_users})
    are_contiguous = len(channel_ranges) > 1 and [begin for begin, _ in channel_ranges] == [0] + [end for _, end in channel_ranges[:-1]]
    if (walk.use != "activation_gradient" or not _keeps_four_extents(concat_gradient, dy)
            or not are_contiguous or channel_ranges[-1][1] != dy.shape[1]):
        return False
    gradient_of_range = {}
    for channel_range, user in ranges_and_users:
        if channel_range not in gradient_of_range:
            gradient_of_range[channel_range] = walk.add_result(user, walk.label_of(user) + ".dx")
            gradient_of_range[channel_range].order = dy.order
        walk.views[user] = View(gradient_of_range[channel_range])
    walk.add_op(node, walk.label_of(concat_gradient) + ".backward", "concat_backward", {},
                [dy], [gradient_of_range[channel_range] for channel_range in channel_ranges])
    return True


def map_add(walk, node):
    operands = [walk.plain_tensor(n) for n in node.args[:2]]
    return not node.kwargs and operands[0] is not operands[1] and add_pointwise(walk, node, "add", operands, (0, 0))


def map_max_pool2d_with_indices(walk, node):
    x, (h, w) = walk.plain_tensor(node.args[0]), _two_extents(node.args[1])
    stride, pad, dilation = (_two_extents(node.args[i]) if len(node.args) > i and node.args[i] != [] else default
                             for i, default in ((2, (h, w)), (3, (0, 0)), (4, (1, 1))))
    items_with_indices = [user for user in node.users if user.target is operator.getitem and user.args[1] == 1]
    only_backward_reads = all(operator_name(u) == "max_pool2d_with_indices_backward" for r in items_with_indices for u in r.users)
    if x is None or h != w or stride[0] != stride[1] or pad[0] != pad[1] or dilation != (1, 1) or h > 256 or not only_backward_reads:
        return False
    if x.shape != list(node.args[0].meta["val"].shape):
        return False
    y, indices = walk.add_result(node, walk.label_of(node) + ".y", 0), walk.add_result(node, walk.label_of(node) + ".index", 1)
    indices.type = "u8" if h <= 16 else "u16"
    attributes = {"window": h, "stride": stride[0], "pad": pad[0]}
    indices.pool = attributes
    walk.views[node] = [View(y), View(indices)]
    walk.add_op(node, walk.label_of(node), "max_pool", attributes, [x], [y, indices])
    return True


def map_max_pool2d_with_indices_backward(walk, node):
    dy, indices = walk.plain_tensor(node.args[0]), walk.plain_tensor(node.args[7])
    attributes = getattr(indices, "pool", None)
    if dy is None or attributes is None or dy.shape != indices.shape:
        return False
    dx = walk.add_result(node, walk.label_of(node) + ".dx")
    walk.views[node] = View(dx)
    walk.add_op(node, walk.label_of(node), "max_pool_backward", attributes, [dy, indices], [dx])
    return True


def map_addmm(walk, node):
    b, x, w = walk.plain_tensor(node.args[0]), walk.plain_tensor(node.args[1]), walk.transposed_tensor(node.args[2])
    return not node.kwargs and b is not None and add_linear(walk, node, x, w, [b])


def map_mm(walk, node):
    left, right = node.args
    if walk.transposed_tensor(right) is not None and walk.plain_tensor(left) is not None:
        return add_linear(walk, node, walk.plain_tensor(left), walk.transposed_tensor(right), [])
    if walk.transposed_tensor(left) is not None and walk.plain_tensor(right) is not None:
        return add_linear_weight_gradient(walk, node, walk.plain_tensor(right), walk.transposed_tensor(left))
    return add_linear_input_gradient(walk, node, walk.plain_tensor(right), walk.plain_tensor(left))


def add_linear(walk, node, x, w, zero_or_one_bias):
    if x is None or w is None or w.use != "parameter" or not have_same_layout([x, w], x.type) or any(b.type != "f32" for b in zero_or_one_bias):
        return False
    row_count, column_count = node.args[-2].meta["val"].shape
    weight_shape = [w.shape[0], *x.shape[1:]]
    if x.shape[0] != row_count or math.prod(x.shape[1:]) != column_count or (w.fixed and w.shape != weight_shape):
        return False
    name = walk.label_of(node)
    y = walk.add_result(node, name + ".y")
    if y.shape != [row_count, w.shape[0], 1, 1]:
        return remove_added_tensor(walk, y)
    w.shape, w.fixed = weight_shape, True
    walk.views[node] = View(y)
    walk.add_op(node, name, "linear", {}, [x, w, *zero_or_one_bias], [y])
    return True


def add_linear_input_gradient(walk, node, w, dy):
    if w is None or dy is None or not w.fixed or w.use != "parameter" or not have_same_layout([w, dy], w.type):
        return False
    if dy.shape != [dy.shape[0], w.shape[0], 1, 1]:
        return False
    name = walk.label_of(node)
    dx = walk.add_result(node, name + ".dx")
    dx.shape = [dy.shape[0], *w.shape[1:]]
    walk.views[node] = View(dx)
    walk.add_op(node, name + ".backward_data", "linear_backward_data", {}, [w, dy], [dx])
    return True


def add_linear_weight_gradient(walk, node, x, dy):
    row_count = node.args[1].meta["val"].shape[0]
    if not have_same_layout([x, dy]) or x.shape[0] != row_count or dy.shape != [row_count, dy.shape[1], 1, 1]:
        return False
    dw = walk.add_result(node, walk.label_of(node) + ".dw")
    dw.shape, dw.fixed = [dy.shape[1], *x.shape[1:]], True
    walk.views[node] = View(dw)
    walk.add_op(node, walk.label_of(node), "linear_backward_filter", {}, [x, dy], [dw])
    return True


def map_sum(walk, node):
    dy = walk.plain_tensor(node.args[0])
    if dy is None or dy.type != "f32" or node.args[1:2] != ([0],) or dy.shape[2:] != [1, 1] or node.args[0].meta["val"].dim() != 2:
        return False
    db = walk.add_result(node, walk.label_of(node) + ".db")
    if db.shape != [1, dy.shape[1], 1, 1]:
        return remove_added_tensor(walk, db)
    walk.views[node] = View(db)
    walk.add_op(node, walk.label_of(node), "bias_backward", {}, [dy], [db])
    return True


def map_mean(walk, node):
    x, traced_value = walk.plain_tensor(node.args[0]), node.args[0].meta["val"]
    if (x is None or len(node.args) < 2 or traced_value.dim() != 4
            or sorted(d % 4 for d in node.args[1]) != [2, 3] or x.shape != list(traced_value.shape)):
        return False
    y = walk.add_result(node, walk.label_of(node) + ".y")
    y.shape = [*x.shape[:2], 1, 1]
    walk.views[node] = View(y)
    walk.add_op(node, walk.label_of(node), "global_average_pool", {}, [x], [y])
    return True


def map_div(walk, node):
    """Maps only the gradient of a mean over a plane: it is expanded over the plane and divided by its size. Any other division is refused."""
    expand_node = node.args[0]
    if not isinstance(expand_node, torch.fx.Node) or operator_name(expand_node) != "expand" or not isinstance(node.args[1], (int, float)):
        return False
    dy, traced_value = walk.plain_tensor(expand_node.args[0]), node.meta["val"]
    if dy is None or traced_value.dim() != 4 or dy.shape != [*traced_value.shape[:2], 1, 1] or node.args[1] != math.prod(traced_value.shape[2:]):
        return False
    dx = walk.add_result(node, walk.label_of(node) + ".dx")
    walk.views[node] = View(dx)
    walk.add_op(node, walk.label_of(node), "global_average_pool_backward", {}, [dy], [dx])
    return True


def map_to_copy(walk, node):
    x = walk.plain_tensor(node.args[0])
    if x is None or x.type not in ("f32", "bf16") or not node.meta["val"].is_floating_point():
        return False
    y = walk.add_result(node, walk.label_of(node) + ".y")
    if y.type == x.type or y.shape != x.shape or y.order != x.order:
        return remove_added_tensor(walk, y)
    walk.views[node] = View(y)
    walk.add_op(node, walk.label_of(node), "cast", {}, [x], [y])
    return True


def _two_extents(one_or_two):
    return (one_or_two, one_or_two) if isinstance(one_or_two, int) else (one_or_two[0], one_or_two[-1])


def _is_plain_window(image_node, stride, pad, dilation, is_transposed):
    """Whether umbench supports this convolution over planes."""
    return image_node.meta["val"].dim() == 4 and len(stride) == len(pad) == 2 and list(dilation) == [1, 1] and not is_transposed


def _window_attributes(stride, pad, groups):
    return {"stride": list(stride), "pad": list(pad)} | ({"groups": groups} if groups > 1 else {})


def _attributes_of_average_pool(pool_arguments):
    """Attributes of an average pool from its arguments; None if umbench does not support them."""
    window, stride, pad, _, counts_padding, divisor = list(pool_arguments) + [[], (0, 0), False, True, None][len(pool_arguments) - 1:]
    if divisor is not None:
        return None
    window = _two_extents(window)
    return {"window": list(window), "stride": list(_two_extents(stride) if stride not in ([], None) else window), "pad": list(_two_extents(pad)),
            "count_include_pad": bool(counts_padding)}


def _keeps_four_extents(node, tensor):
    """Whether a tensor is known and has the four extents of its node."""
    return tensor is not None and tensor.shape == list(node.meta["val"].shape) and tensor.type in ("f32", "bf16")


def sliced_channel_range(node):
    """[begin, end) of the channels of a slice; None for any other view."""
    if operator_name(node) != "slice" or node.meta["val"].dim() != 4 or (len(node.args) > 1 and node.args[1] != 1):
        return None
    begin, end, slice_step = (node.args[i] if len(node.args) > i else default for i, default in ((2, 0), (3, None), (4, 1)))
    channel_count = node.args[0].meta["val"].shape[1]
    begin, end = begin or 0, channel_count if end is None else min(end, channel_count)
    return (begin, end) if len(node.args) > 1 and slice_step == 1 and 0 <= begin < end else None


MAP_FUNCTIONS = {name.removeprefix("map_"): function for name, function in list(globals().items()) if name.startswith("map_")}
