"""Saves the memory of images that a graph concatenates with others long after they were computed, as in a U-Net."""

import copy

import torch

from .operators import ALONE, is_repeatable, kind_of
from .rewrites import MIN_SHARE_OF_BUDGET, recompute_relu_for_mask, insert_recomputation, split_convolution_gradients
from .values import backward_of, numel, stored_bytes, tensors_of, value_of

CALLS_BETWEEN = 2  # more library calls than this lie between the first reader of such an image and its concatenation


def make_variants(joint, budget):
    """Changes the joint graph in place so that it takes less memory; returns [graph]. If it concatenates images that were computed long before,
    returns [graph, a copy], and the copy computes these images again for the backward pass. `budget` is in bytes."""
    recompute_relu_for_mask(joint)
    if skips_of(joint, budget):
        budget /= 2  # smaller parts pay, too, since few operators are so large
    variants = [(joint, skips_of(joint, budget))]
    if variants[0][1]:
        graph = torch.fx.GraphModule(joint, copy.deepcopy(joint.graph))
        variants.append((graph, skips_of(graph, budget)))
        recompute_for_backward(*variants[1])
    for graph, skips in variants:
        recompute_parts(skips)
        split_convolution_gradients(graph, budget)
    return [graph for graph, _ in variants]


def skips_of(joint, budget):
    """{concatenation along channels: [its parts that were computed long before]}. `budget` is in bytes."""
    order = {node: i for i, node in enumerate(joint.graph.nodes)}
    library_calls = [order[node] for node in order if node.op == "call_function" and kind_of(node) == ALONE]
    backward, found = backward_of(joint.graph), {}
    for node in joint.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default):
        if node in backward or node.args[1:] != (1,) or stored_bytes(value_of(node)) < budget * MIN_SHARE_OF_BUDGET:
            continue
        first_readers = {part: min(map(order.get, part.users)) for part in node.args[0]}
        parts = [part for part, first in first_readers.items() if sum(first < at < order[node] for at in library_calls) > CALLS_BETWEEN]
        if parts:
            found[node] = parts
    return found


def recompute_parts(skips):
    """Recomputes the element-wise operators of each part, {concatenation: [parts]}, right before its concatenation. Otherwise Inductor would
    write the part into the memory of the concatenation as soon as it is computed."""
    for node, parts in skips.items():
        for part in parts:
            node.replace_input_with(part, insert_recomputation(part))


def recompute_for_backward(joint, skips):
    """Makes the backward pass read recomputed copies of the parts in `skips`, {concatenation: [parts]}, so that these are not in memory
    between the two passes. The copies are computed from the largest images on."""
    backward = backward_of(joint.graph)
    largest = max(numel(part) for parts in skips.values() for part in parts)
    copies = {}
    for node, parts in skips.items():
        readers = [user for user in node.users if user in backward]
        with joint.graph.inserting_after(node):
            again = joint.graph.call_function(node.target, node.args)
        again.meta = dict(node.meta)
        with joint.graph.inserting_before(again):
            for part in parts:
                again.replace_input_with(part, _copy_with_sources(part, largest, copies))
        for reader in readers:
            reader.replace_input_with(node, again)


def _copy_with_sources(node, largest_numel, copies):
    """Copies a node and the images that it is computed from, up to library calls as large as `largest_numel`. Returns the copy, or the node if it is
    not copied. copies: {node: copy} so far."""
    if node in copies:
        return copies[node]
    (value, *_), is_fixed = tensors_of(node) or [None], node.op != "call_function" or not is_repeatable(node)
    is_image = value is not None and value.dim() == 4 and value.numel() * 64 > largest_numel
    if is_fixed or not is_image or kind_of(node) == ALONE and numel(node) >= largest_numel:
        return node
    sources = {source: _copy_with_sources(source, largest_numel, copies) for source in node.all_input_nodes}
    copies[node] = node.graph.node_copy(node, sources.get)
    return copies[node]
