"""Saves the memory of images that a graph concatenates with others long after they were computed, as in a U-Net."""

import copy

import torch

from .operators import ALONE, is_repeatable, inductor_kind
from .rewrites import MIN_SHARE_OF_BUDGET, recompute_relu_for_mask, insert_recomputation, split_convolution_gradients
from .values import backward_nodes_of, largest_numel, stored_bytes, tensors_of, value_of

MAX_CALLS_BETWEEN = 2  # more library calls than this lie between the first reader of such an image and its concatenation


def make_graph_variants(joint, budget_bytes):
    """Changes the joint graph in place so that it takes less memory; returns [graph]. If it concatenates images that were computed long before,
    returns [graph, a copy], and the copy computes these images again for the backward pass."""
    recompute_relu_for_mask(joint)
    if find_skips(joint, budget_bytes):
        budget_bytes /= 2  # smaller parts pay, too, since few operators are so large
    variants = [(joint, find_skips(joint, budget_bytes))]
    if variants[0][1]:
        graph = torch.fx.GraphModule(joint, copy.deepcopy(joint.graph))
        variants.append((graph, find_skips(graph, budget_bytes)))
        recompute_for_backward(*variants[1])
    for graph, skips in variants:
        recompute_parts(skips)
        split_convolution_gradients(graph, budget_bytes)
    return [graph for graph, _ in variants]


def find_skips(joint, budget_bytes):
    """{concatenation along channels: [its parts that were computed long before]}."""
    index_of_node = {node: i for i, node in enumerate(joint.graph.nodes)}
    library_call_indices = [index_of_node[node] for node in index_of_node if node.op == "call_function" and inductor_kind(node) == ALONE]
    backward_nodes, parts_of_concatenation = backward_nodes_of(joint.graph), {}
    for node in joint.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default):
        if node in backward_nodes or node.args[1:] != (1,) or stored_bytes(value_of(node)) < budget_bytes * MIN_SHARE_OF_BUDGET:
            continue
        first_reader_index_of_part = {part: min(map(index_of_node.get, part.users)) for part in node.args[0]}
        skipped_parts = [part for part, first_reader_index in first_reader_index_of_part.items()
                         if sum(first_reader_index < call_index < index_of_node[node] for call_index in library_call_indices) > MAX_CALLS_BETWEEN]
        if skipped_parts:
            parts_of_concatenation[node] = skipped_parts
    return parts_of_concatenation


def recompute_parts(parts_by_concatenation):
    """Recomputes the element-wise operators of each part, {concatenation: [parts]}, right before its concatenation. Otherwise Inductor would
    write the part into the memory of the concatenation as soon as it is computed."""
    for node, parts in parts_by_concatenation.items():
        for part in parts:
            node.replace_input_with(part, insert_recomputation(part))


def recompute_for_backward(joint, parts_by_concatenation):
    """Makes the backward pass read recomputed copies of the parts, {concatenation: [parts]}, so that these are not in memory between the two
    passes. The copies are computed from the largest images on."""
    backward_nodes = backward_nodes_of(joint.graph)
    max_numel = max(largest_numel(part) for parts in parts_by_concatenation.values() for part in parts)
    copy_of_node = {}
    for node, parts in parts_by_concatenation.items():
        readers = [user for user in node.users if user in backward_nodes]
        with joint.graph.inserting_after(node):
            second_concatenation = joint.graph.call_function(node.target, node.args)
        second_concatenation.meta = dict(node.meta)
        with joint.graph.inserting_before(second_concatenation):
            for part in parts:
                second_concatenation.replace_input_with(part, _copy_with_sources(part, max_numel, copy_of_node))
        for reader in readers:
            reader.replace_input_with(node, second_concatenation)


def _copy_with_sources(node, max_numel, copy_of_node):
    """Copies a node and the images that it is computed from, up to library calls as large as `max_numel`. Returns the copy, or the node if it is
    not copied. `copy_of_node`: {node: copy} so far."""
    if node in copy_of_node:
        return copy_of_node[node]
    (value, *_), is_fixed = tensors_of(node) or [None], node.op != "call_function" or not is_repeatable(node)
    is_image = value is not None and value.dim() == 4 and value.numel() * 64 > max_numel
    if is_fixed or not is_image or inductor_kind(node) == ALONE and largest_numel(node) >= max_numel:
        return node
    sources = {source: _copy_with_sources(source, max_numel, copy_of_node) for source in node.all_input_nodes}
    copy_of_node[node] = node.graph.node_copy(node, sources.get)
    return copy_of_node[node]
