"""Traces regions under torch.utils.checkpoint, whose results are not saved but computed again in the backward pass."""

import contextlib
import itertools

import torch.utils.checkpoint
from torch.fx import traceback

# names before torch 2.15, and since then
GENERATOR_NAMES = ("_checkpoint_without_reentrant_generator", "_checkpoint_without_reentrant_generator_impl")
PREFER_RECOMPUTE = torch.utils.checkpoint.CheckpointPolicy.PREFER_RECOMPUTE


@contextlib.contextmanager
def mark_regions():
    """A context in which operators that are traced under torch.utils.checkpoint get torch.compile's marks (torch/_higher_order_ops/wrap.py)."""
    module, region_numbers = torch.utils.checkpoint, itertools.count()

    @contextlib.contextmanager
    def region():
        outer_marks = {key: traceback.current_meta.get(key) for key in ("recompute", "ac_graph_id")}
        traceback.current_meta |= {"recompute": PREFER_RECOMPUTE, "ac_graph_id": next(region_numbers)}
        try:
            yield
        finally:
            for key, value in outer_marks.items():
                traceback.current_meta.pop(key)
                if value is not None:
                    traceback.current_meta[key] = value

    def without_reentrant(*args, **kwargs):
        if kwargs.get("context_fn", args[2]) is not module.noop_context_fn:
            raise RuntimeError("checkpointing that selects operators is not traced; leave context_fn out")
        with region():
            yield

    class Reentrant:
        @staticmethod
        def apply(function, _preserve_rng_state, *inputs):
            with region():
                return function(*inputs)

    replacements = {"CheckpointFunction": Reentrant} | {name: without_reentrant for name in GENERATOR_NAMES if hasattr(module, name)}
    usual = {name: getattr(module, name) for name in replacements}
    vars(module).update(replacements)
    try:
        yield
    finally:
        vars(module).update(usual)


def recompute_checkpointed_regions(graph):
    """Inserts copies of the marked operators before the first backward operators that read them, as eager PyTorch runs a region again.
    torch.compile's split does that itself."""
    region_number_of_node = {node: node.meta["ac_graph_id"] for node in graph.nodes if node.meta.get("recompute") == PREFER_RECOMPUTE}
    region_number_of_sequence = {node.meta["seq_nr"]: region_to_rerun
                                 for node, region_to_rerun in region_number_of_node.items() if "seq_nr" in node.meta}
    copy_of_marked = {}

    def copy_of(node, region_number):
        if region_number_of_node.get(node) != region_number:
            return node
        if node not in copy_of_marked:
            for source in node.all_input_nodes:
                copy_of(source, region_number)
            copy_of_marked[node] = graph.node_copy(node,
                                                   lambda source: copy_of_marked.get(source, source)
                                                   if region_number_of_node.get(source) == region_number else source)
        return copy_of_marked[node]

    for node in list(graph.nodes):
        region_to_rerun = region_number_of_sequence.get(node.meta.get("seq_nr"))
        if node in region_number_of_node or region_to_rerun is None:
            continue
        with graph.inserting_before(node):
            for source in node.all_input_nodes:
                node.replace_input_with(source, copy_of(source, region_to_rerun))
