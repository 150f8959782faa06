"""torch.compile's own split of a joint graph. Private functions of torch: they exist in 2.9 to 2.15."""

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition


def split(joint, joint_inputs, num_fwd_outputs, static_inputs):
    """(forward, backward) GraphModules; backward is None where no output is a gradient. `joint` is left as it was."""
    outputs = next(n for n in joint.graph.nodes if n.op == "output").args[0]
    if len(outputs) <= num_fwd_outputs:
        return copied(joint), None
    forward, backward = min_cut_rematerialization_partition(copied(joint), joint_inputs, num_fwd_outputs=num_fwd_outputs,
                                                            static_lifetime_input_indices=list(static_inputs or ()))
    return forward, backward


def copied(module):
    """The same graph with nodes of its own."""
    graph, nodes = torch.fx.Graph(), {}
    result = graph.graph_copy(module.graph, nodes)
    out = graph.output(result)
    out.meta = dict(next(n for n in module.graph.nodes if n.op == "output").meta)
    return torch.fx.GraphModule(module, graph)
