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
    wide = {t.order for t in tensors if t.shape[1] > 1 and t.shape[2] * t.shape[3] > 1}
    return all(t is not None for t in tensors) and len(wide) <= 1 and all(t.type == wanted_type for t in tensors)


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
    wants = node.args[10]
    outs = [walk.add_result(node, f"{name}.{what}", i) if wanted else None
            for i, (what, wanted) in enumerate(zip(("dx", "dw", "db"), wants))]
    if outs[1] is not None:
        walk.add_op(node, name + ".backward_filter", "convolution_backward_filter", attributes, [x, dy], [outs[1]])
    if outs[2] is not None:
        walk.add_op(node, name + ".backward_bias", "bias_backward", {}, [dy], [outs[2]])
    if outs[0] is not None:
        walk.add_op(node, name + ".backward_data", "convolution_backward_data", attributes, [w, dy], [outs[0]])
    walk.views[node] = [View(o) if o is not None else None for o in outs]
    return True


def map_native_batch_norm_legit_functional(walk, node):
    x, scale, shift = (walk.plain_tensor(n) if n is not None else None for n in node.args[:3])
    if x is None or scale is None or shift is None or not node.args[5] or scale.type != "f32":
        return False
    if x.shape != list(node.args[0].meta["val"].shape):
        return False
    name = walk.label_of(node)
    y, mean, deviation = (walk.add_result(node, f"{name}.{what}", i) for i, what in enumerate(("y", "mean", "inverse_deviation")))
    walk.norms[scale] = shift
    walk.views[node] = [View(y), View(mean), View(deviation), None, None]
    walk.add_op(node, name, "batch_norm", {"epsilon": node.args[7]}, [x, scale, shift], [y, mean, deviation])
    return True


def map_native_batch_norm_backward(walk, node):
    dy, x, scale, mean, deviation = (walk.plain_tensor(node.args[i]) if node.args[i] is not None else None for i in (0, 1, 2, 5, 6))
    shift = walk.norms.get(scale)
    if None in (dy, x, scale, mean, deviation, shift) or not node.args[7] or node.args[9] != [True, True, True]:
        return False
    if not have_same_layout([dy, x], x.type) or dy.shape != x.shape:
        return False
    name = walk.label_of(node)
    outs = [walk.add_result(node, f"{name}.{what}", i) for i, what in enumerate(("dx", "dscale", "dshift"))]
    walk.views[node] = [View(o) for o in outs]
    walk.add_op(node, name + ".backward", "batch_norm_backward", {}, [x, scale, shift, mean, deviation, dy], outs, (5, 0))
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
    read = [walk.plain_tensor(node.args[1]), walk.plain_tensor(node.args[0])]
    return is_relu6(node.args[2:4]) and add_pointwise(walk, node, "relu_backward", read, (1, 0), {"capped": True})


def is_relu6(limits):
    return tuple(limits) == (0, 6)


def map_avg_pool2d(walk, node):
    return add_average_pool(walk, node, "average_pool", node.args[1:], ".y")


def map_avg_pool2d_backward(walk, node):
    return add_average_pool(walk, node, "average_pool_backward", node.args[2:], ".dx")


def add_average_pool(walk, node, kind, pool_arguments, name_suffix):
    given, attributes = walk.plain_tensor(node.args[0]), _attributes_of_average_pool(pool_arguments)
    if attributes is None or not _keeps_four_extents(node.args[0], given):
        return False
    made = walk.add_result(node, walk.label_of(node) + name_suffix)
    walk.views[node] = View(made)
    walk.add_op(node, walk.label_of(node), kind, attributes, [given], [made])
    return True


def map_cat(walk, node):
    nodes, along = node.args[0], node.args[1] if len(node.args) > 1 else 0
    parts = [walk.plain_tensor(n) for n in nodes]
    if len(parts) < 2 or along not in (1, -3) or not all(_keeps_four_extents(n, t) for n, t in zip(nodes, parts)):
        return False
    if not have_same_layout(parts, parts[0].type):
        return False
    y = walk.add_result(node, walk.label_of(node) + ".y")
    if y.order != parts[0].order and y.shape[2] * y.shape[3] > 1:
        return remove_added_tensor(walk, y)
    walk.views[node] = View(y)
    walk.add_op(node, walk.label_of(node), "concat", {}, parts, [y])
    return True


def split_concat_gradient(walk, node):
    """Splits a gradient whose slices of channels are read, the gradient of a concatenation, into one tensor for each slice. Returns False if
    that is not possible."""
    source = node.args[0]
    dy, cuts = walk.plain_tensor(source), [(sliced_channel_range(user), user) for user in source.users if sliced_channel_range(user)]
    pieces = sorted({cut for cut, _ in cuts})
    tiles = len(pieces) > 1 and [first for first, _ in pieces] == [0] + [end for _, end in pieces[:-1]]
    if walk.use != "activation_gradient" or not _keeps_four_extents(source, dy) or not tiles or pieces[-1][1] != dy.shape[1]:
        return False
    made = {}
    for cut, user in cuts:
        if cut not in made:
            made[cut] = walk.add_result(user, walk.label_of(user) + ".dx")
            made[cut].order = dy.order
        walk.views[user] = View(made[cut])
    walk.add_op(node, walk.label_of(source) + ".backward", "concat_backward", {}, [dy], [made[cut] for cut in pieces])
    return True


def map_add(walk, node):
    both = [walk.plain_tensor(n) for n in node.args[:2]]
    return not node.kwargs and both[0] is not both[1] and add_pointwise(walk, node, "add", both, (0, 0))


def map_max_pool2d_with_indices(walk, node):
    x, (h, w) = walk.plain_tensor(node.args[0]), _pair(node.args[1])
    stride, pad, dilation = (_pair(node.args[i]) if len(node.args) > i and node.args[i] != [] else usual
                             for i, usual in ((2, (h, w)), (3, (0, 0)), (4, (1, 1))))
    readers = [user for user in node.users if user.target is operator.getitem and user.args[1] == 1]
    backward = all(operator_name(u) == "max_pool2d_with_indices_backward" for r in readers for u in r.users)
    if x is None or h != w or stride[0] != stride[1] or pad[0] != pad[1] or dilation != (1, 1) or h > 256 or not backward:
        return False
    if x.shape != list(node.args[0].meta["val"].shape):
        return False
    y, index = walk.add_result(node, walk.label_of(node) + ".y", 0), walk.add_result(node, walk.label_of(node) + ".index", 1)
    index.type = "u8" if h <= 16 else "u16"
    attributes = {"window": h, "stride": stride[0], "pad": pad[0]}
    index.pool = attributes
    walk.views[node] = [View(y), View(index)]
    walk.add_op(node, walk.label_of(node), "max_pool", attributes, [x], [y, index])
    return True


def map_max_pool2d_with_indices_backward(walk, node):
    dy, index = walk.plain_tensor(node.args[0]), walk.plain_tensor(node.args[7])
    attributes = getattr(index, "pool", None)
    if dy is None or attributes is None or dy.shape != index.shape:
        return False
    dx = walk.add_result(node, walk.label_of(node) + ".dx")
    walk.views[node] = View(dx)
    walk.add_op(node, walk.label_of(node), "max_pool_backward", attributes, [dy, index], [dx])
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
    rows, columns = node.args[-2].meta["val"].shape
    wanted = [w.shape[0], *x.shape[1:]]
    if x.shape[0] != rows or math.prod(x.shape[1:]) != columns or (w.fixed and w.shape != wanted):
        return False
    name = walk.label_of(node)
    y = walk.add_result(node, name + ".y")
    if y.shape != [rows, w.shape[0], 1, 1]:
        return remove_added_tensor(walk, y)
    w.shape, w.fixed = wanted, True
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
    rows = node.args[1].meta["val"].shape[0]
    if not have_same_layout([x, dy]) or x.shape[0] != rows or dy.shape != [rows, dy.shape[1], 1, 1]:
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
    x, value = walk.plain_tensor(node.args[0]), node.args[0].meta["val"]
    if x is None or len(node.args) < 2 or value.dim() != 4 or sorted(d % 4 for d in node.args[1]) != [2, 3] or x.shape != list(value.shape):
        return False
    y = walk.add_result(node, walk.label_of(node) + ".y")
    y.shape = [*x.shape[:2], 1, 1]
    walk.views[node] = View(y)
    walk.add_op(node, walk.label_of(node), "global_average_pool", {}, [x], [y])
    return True


def map_div(walk, node):
    """Maps only the gradient of a mean over a plane: it is expanded over the plane and divided by its size. Any other division is refused."""
    spread = node.args[0]
    if not isinstance(spread, torch.fx.Node) or operator_name(spread) != "expand" or not isinstance(node.args[1], (int, float)):
        return False
    dy, value = walk.plain_tensor(spread.args[0]), node.meta["val"]
    if dy is None or value.dim() != 4 or dy.shape != [*value.shape[:2], 1, 1] or node.args[1] != math.prod(value.shape[2:]):
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


def _pair(one_or_two):
    return (one_or_two, one_or_two) if isinstance(one_or_two, int) else (one_or_two[0], one_or_two[-1])


def _is_plain_window(image_node, stride, pad, dilation, is_transposed):
    """Whether umbench supports this convolution over planes."""
    return image_node.meta["val"].dim() == 4 and len(stride) == len(pad) == 2 and list(dilation) == [1, 1] and not is_transposed


def _window_attributes(stride, pad, groups):
    return {"stride": list(stride), "pad": list(pad)} | ({"groups": groups} if groups > 1 else {})


def _attributes_of_average_pool(pool_arguments):
    """Attributes of an average pool from its arguments; None if umbench does not support them."""
    window, stride, pad, _, counts, divisor = list(pool_arguments) + [[], (0, 0), False, True, None][len(pool_arguments) - 1:]
    if divisor is not None:
        return None
    window = _pair(window)
    return {"window": list(window), "stride": list(_pair(stride) if stride not in ([], None) else window), "pad": list(_pair(pad)),
            "count_include_pad": bool(counts)}


def _keeps_four_extents(node, tensor):
    """Whether a tensor is known and has the four extents of its node."""
    return tensor is not None and tensor.shape == list(node.meta["val"].shape) and tensor.type in ("f32", "bf16")


def sliced_channel_range(node):
    """[begin, end) of the channels of a slice; None for any other view."""
    if operator_name(node) != "slice" or node.meta["val"].dim() != 4 or (len(node.args) > 1 and node.args[1] != 1):
        return None
    first, end, step = (node.args[i] if len(node.args) > i else usual for i, usual in ((2, 0), (3, None), (4, 1)))
    channels = node.args[0].meta["val"].shape[1]
    first, end = first or 0, channels if end is None else min(end, channels)
    return (first, end) if len(node.args) > 1 and step == 1 and 0 <= first < end else None


KNOWN = {name.removeprefix("map_"): function for name, function in list(globals().items()) if name.startswith("map_")}
