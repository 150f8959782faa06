"""The optimizer's states and step in a graph file.

States have the type and size of their parameter, as PyTorch's have; their role is `state`: they keep their value from step to
step. `form` says how torch.optim walks over the parameters:
fused    a kernel over as many parameters as one launch takes (multi_tensor_apply.cuh: 36 tensors or 320 chunks of 64 Ki elements)
foreach  some kernels over all parameters, with a temporary as large as all of them (AdamW; PyTorch's default on a GPU)
each     the kernels of one parameter after another
"""

import math

from .liveness import size_of

# States of a parameter, operations on an element, and how often its bytes are read or written: fused, else.
OPTIMIZERS = {"sgd": ((), 2, 3, 3), "momentum": (("momentum",), 4, 5, 7), "adamw": (("exp_avg", "exp_avg_sq"), 14, 7, 20)}
FORMS = ("foreach", "fused", "each")
TENSORS, ELEMENTS = 36, 320 * 65536


def add_step(document, optimizer, form="foreach"):
    """Adds the states and the step behind the backward pass to a graph document, in place."""
    if optimizer == "none":
        return
    by_name = {t["name"]: t for t in document["tensors"]}
    trained = [t for t in document["tensors"] if t["use"] == "parameter" and by_name.get(t["name"] + ".grad", {}).get("use") == "parameter_gradient"]
    wanted, operations, fused, unfused = OPTIMIZERS[optimizer]
    for group in _groups(trained, form):
        states = [state_of(t, kind) for t in group for kind in wanted]
        document["tensors"] += states
        names, gradients = [t["name"] for t in group], [t["name"] + ".grad" for t in group]
        elements, size = sum(_elements(t) for t in group), sum(size_of(t) for t in group)
        held = [t["name"] for t in states]
        op = {"name": f"{optimizer}:{names[0]}", "kind": "opaque", "label": f"{optimizer} {form}", "flops": operations * elements,
              "bytes": (fused if form == "fused" else unfused) * size, "in": names + gradients + held, "out": names + held, "repeatable": False}
        if optimizer == "adamw" and form != "fused":
            op["workspace_bytes"] = size
        document["ops"].append(op)


def state_of(parameter, kind):
    return parameter | {"name": f"{parameter['name']}.{kind}", "use": "state"}


def _groups(parameters, form):
    if form == "foreach":
        return [parameters] if parameters else []
    if form == "each":
        return [[t] for t in parameters]
    groups, elements = [], 0
    for t in parameters:
        if not groups or len(groups[-1]) == TENSORS or elements + _elements(t) > ELEMENTS:
            groups.append([])
            elements = 0
        groups[-1].append(t)
        elements += _elements(t)
    return groups


def _elements(tensor):
    return math.prod(tensor["shape"])
