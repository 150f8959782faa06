"""Finds products of matrices that Inductor lets the library add to another matrix (torch/_inductor/fx_passes/post_grad.py: addmm_fusion)."""

import operator

import torch

from .operators import is_view
from .values import value_of

aten = torch.ops.aten


def replace_sums_by_addmm(graph):
    """Replaces mm and add by addmm, unless only generated kernels read the sum."""
    for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
        for product, addend in (node.args[:2], node.args[1::-1]):
            if is_addmm(node, product, addend):
                with graph.inserting_before(node):
                    addmm_node = graph.call_function(aten.addmm.default, (addend, *product.args))
                addmm_node.meta = dict(node.meta)
                node.replace_all_uses_with(addmm_node)
                graph.erase_node(node)
                graph.erase_node(product)
                break


def is_addmm(sum_node, product, addend):
    """Whether the library adds `addend` to `product` for the sum `sum_node`."""
    if not isinstance(addend, torch.fx.Node) or not isinstance(product, torch.fx.Node) or product is addend or product.target is not aten.mm.default:
        return False
    only_sum_reads_product = len(product.users) == 1 and not sum_node.kwargs and value_of(addend).dtype == value_of(product).dtype
    shapes_fit = value_of(addend).dim() <= 2 and value_of(sum_node).shape == value_of(product).shape
    return only_sum_reads_product and shapes_fit and not all(map(is_generated_reader, sum_node.users))


def is_generated_reader(user):
    """Whether `user`, a reader of a sum, is in a generated kernel, or is a view that only generated kernels read."""
    if user.op != "call_function":
        return False
    if user.target is operator.getitem or is_view(user):
        return all(map(is_generated_reader, user.users))
    return torch.Tag.pointwise in getattr(user.target, "tags", ())
