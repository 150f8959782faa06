"""The optimizer's states and step in a graph file.

States have the type and size of their parameter, as in PyTorch. Their role is `state`: they keep their value from step to step. `form` is how
torch.optim goes through the parameters:
fused    a kernel over as many parameters as one launch takes (multi_tensor_apply.cuh: 36 tensors or 320 chunks of 64 Ki elements)
foreach  a few kernels over all parameters; AdamW's have a temporary as large as all parameters (PyTorch's default on a GPU)
each     the kernels of one parameter after another

A fused step over f32 is the operator `optimizer_step` (core/operators.hpp), which umbench computes; others are opaque.
"""

import math

from .liveness import tensor_bytes

# {optimizer: (states of a parameter, operations on an element, accesses of a parameter's bytes by a fused step, by other steps)}
OPTIMIZERS = {"sgd": ((), 2, 3, 3), "momentum": (("momentum",), 4, 5, 7), "adamw": (("exp_avg", "exp_avg_sq"), 14, 7, 20)}
MAX_TENSORS, MAX_ELEMENTS = 36, 320 * 65536  # limits of a fused launch


def add_optimizer_step(document, optimizer_name, form="foreach"):
    """Adds the states, and the step after the backward pass, to a graph document in place."""
    if optimizer_name == "none":
        return
    by_name = {t["name"]: t for t in document["tensors"]}
    trained = [t for t in document["tensors"] if t.get("use") == "parameter" and by_name.get(t["name"] + ".grad", {}).get("use") == "parameter_gradient"]
    state_kinds = OPTIMIZERS[optimizer_name][0]
    for group in _parameter_groups(trained, form):
        states = [[state_tensor(t, kind) for kind in state_kinds] for t in group]
        gradients = [by_name[t["name"] + ".grad"] for t in group]
        all_states = [state for of_parameter in states for state in of_parameter]
        document["tensors"] += all_states
        if form == "fused" and _is_supported_by_operator(group, gradients):
            document["ops"].append(_optimizer_step(document, optimizer_name, group, gradients, states))
        else:
            document["ops"].append(_opaque_step(optimizer_name, form, group, gradients, all_states))


def _is_supported_by_operator(parameters, gradients):
    """Whether the operator `optimizer_step` supports the types, orders and shapes of parameters and gradients."""
    both = parameters + gradients
    return (all(t.get("type", "f32") == "f32" for t in both) and len({t.get("order", "nchw") for t in both}) == 1
            and [t["shape"] for t in parameters] == [t["shape"] for t in gradients])


def _optimizer_step(document, optimizer_name, parameters, gradients, states):
    """The operator `optimizer_step`. `states`: a list for each parameter. AdamW's count of steps is added to the document."""
    inputs = [tensor["name"] for t, g, own in zip(parameters, gradients, states, strict=True) for tensor in (t, g, *own)]
    outputs = [tensor["name"] for t, own in zip(parameters, states, strict=True) for tensor in (t, *own)]
    name = f"{optimizer_name}:{parameters[0]['name']}"
    if optimizer_name == "adamw":
        document["tensors"].append({"name": f"{name}.count", "shape": [1, 1, 1, 1], "type": "i32", "use": "state"})
        inputs, outputs = [*inputs, f"{name}.count"], [*outputs, f"{name}.count"]
    return {"name": name, "kind": "optimizer_step", "moments": len(states[0]), "learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
            "decay": 0.01, "in": inputs, "out": outputs, "repeatable": False}


def _opaque_step(optimizer_name, form, parameters, gradients, states):
    """An opaque operator with the work of the step. `states`: of all parameters, in one list."""
    _, operations, fused, unfused = OPTIMIZERS[optimizer_name]
    names, state_names = [t["name"] for t in parameters], [t["name"] for t in states]
    elements, size = sum(_element_count(t) for t in parameters), sum(tensor_bytes(t) for t in parameters)
    op = {"name": f"{optimizer_name}:{names[0]}", "kind": "opaque", "label": f"{optimizer_name} {form}", "flops": operations * elements,
          "bytes": (fused if form == "fused" else unfused) * size, "in": names + [t["name"] for t in gradients] + state_names, "out": names + state_names,
          "repeatable": False}
    return op | ({"workspace_bytes": size} if optimizer_name == "adamw" and form != "fused" else {})


def state_tensor(parameter, state_kind):
    """The document's entry for one optimizer state of a parameter."""
    return parameter | {"name": f"{parameter['name']}.{state_kind}", "use": "state"}


def _parameter_groups(parameters, form):
    """[[parameters that one operator of this form updates]]."""
    if form == "foreach":
        return [parameters] if parameters else []
    if form == "each":
        return [[t] for t in parameters]
    groups, elements = [], 0
    for t in parameters:
        if not groups or len(groups[-1]) == MAX_TENSORS or elements + _element_count(t) > MAX_ELEMENTS:
            groups.append([])
            elements = 0
        groups[-1].append(t)
        elements += _element_count(t)
    return groups


def _element_count(tensor):
    return math.prod(tensor["shape"])
