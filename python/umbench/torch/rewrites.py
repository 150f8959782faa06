"""Changes of graphs that leave their values and take less memory."""

import torch

from .values import stored_bytes, value_of


PART_OF_BUDGET = 1 / 25  # that image and result of a convolution take at least where its gradients are parted: each operator has to be launched


def part_convolutions(joint, budget):
    """The gradients of large convolutions become two operators: that by the filters comes first, and the image that it reads may go before
    that by the image is there, a convolution in the other direction. budget: bytes."""
    aten = torch.ops.aten
    for node in joint.graph.find_nodes(op="call_function", target=aten.convolution_backward.default):
        gradient, image, filters, _, stride, padding, dilation, transposed, _, groups, mask = node.args
        made = node.meta["val"]
        if not (mask[0] and mask[1]) or groups > 1 or min(map(stored_bytes, (value_of(image), value_of(gradient)))) < budget * PART_OF_BUDGET:
            continue
        missing = [0] * len(stride) if transposed else rest_of_image(made[0], value_of(gradient), value_of(filters), stride, padding, dilation)
        items = {item.args[1]: item for item in node.users}
        with joint.graph.inserting_before(node):
            of_image = joint.graph.call_function(aten.convolution.default, (gradient, filters, None, stride, padding, dilation, not transposed,
                                                                           missing, groups))
        of_image.meta = {**node.meta, "val": made[0]}
        items[0].replace_all_uses_with(of_image)
        joint.graph.erase_node(items[0])
        node.args = (*node.args[:10], [False, True, mask[2]])
        node.meta = {**node.meta, "val": (None, *made[1:])}
        of_image.prepend(node)


def rest_of_image(image, gradient, filters, stride, padding, dilation):
    """By how much an image is larger than what its gradient's convolution gives of itself: output_padding."""
    sizes = zip(image.shape[2:], gradient.shape[2:], filters.shape[2:], stride, padding, dilation)
    return [large - ((small - 1) * s - 2 * p + d * (f - 1) + 1) for large, small, f, s, p, d in sizes]


def widen_where_read(module):
    """Values of a half type that several nodes read in float32 are widened by each of them: Inductor then keeps the half ones in memory."""
    graph = module.graph
    for node in graph.find_nodes(op="call_function", target=torch.ops.prims.convert_element_type.default):
        if not widens(node):
            continue
        for user in [user for user in node.users if user.op != "output"][1:]:
            with graph.inserting_before(user):
                new = graph.node_copy(node)
            user.replace_input_with(node, new)
    module.recompile()


def widens(node):
    """Whether a node is the same numbers in a wider type."""
    if node.target is not torch.ops.prims.convert_element_type.default:
        return False
    kind, wide = value_of(node.args[0]).dtype, value_of(node).dtype
    return kind.is_floating_point and wide.is_floating_point and kind.itemsize < wide.itemsize
