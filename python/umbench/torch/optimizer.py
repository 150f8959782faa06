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
MAX_TENSORS_PER_LAUNCH, MAX_ELEMENTS_PER_LAUNCH = 36, 320 * 65536  # limits of a fused launch


def add_optimizer_step(document, optimizer_name, form="foreach"):
    """Adds the states, and the step after the backward pass, to a graph document in place."""
    if optimizer_name == "none":
        return
    tensor_of_name = {t["name"]: t for t in document["tensors"]}
    trained_parameters = [t for t in document["tensors"]
                          if t.get("use") == "parameter" and tensor_of_name.get(t["name"] + ".grad", {}).get("use") == "parameter_gradient"]
    state_kinds = OPTIMIZERS[optimizer_name][0]
    for group in _parameter_groups(trained_parameters, form):
        states_per_parameter = [[state_tensor(t, kind) for kind in state_kinds] for t in group]
        gradients = [tensor_of_name[t["name"] + ".grad"] for t in group]
        all_states = [state for states in states_per_parameter for state in states]
        document["tensors"] += all_states
        if form == "fused" and _is_supported_by_operator(group, gradients):
            document["ops"].append(_make_fused_step(document, optimizer_name, group, gradients, states_per_parameter))
        else:
            document["ops"].append(_make_opaque_step(optimizer_name, form, group, gradients, all_states))


def _is_supported_by_operator(parameters, gradients):
    """Whether the operator `optimizer_step` supports the types, orders and shapes of parameters and gradients."""
    tensors = parameters + gradients
    return (all(t.get("type", "f32") == "f32" for t in tensors) and len({t.get("order", "nchw") for t in tensors}) == 1
            and [t["shape"] for t in parameters] == [t["shape"] for t in gradients])


def _make_fused_step(document, optimizer_name, parameters, gradients, states_per_parameter):
    """Returns the operator `optimizer_step`, which the caller adds. `states_per_parameter`: a list for each parameter. Adds AdamW's count of steps
    to the document's tensors."""
    inputs = [tensor["name"] for t, g, states in zip(parameters, gradients, states_per_parameter, strict=True) for tensor in (t, g, *states)]
    outputs = [tensor["name"] for t, states in zip(parameters, states_per_parameter, strict=True) for tensor in (t, *states)]
    name = f"{optimizer_name}:{parameters[0]['name']}"
    if optimizer_name == "adamw":
        document["tensors"].append({"name": f"{name}.count", "shape": [1, 1, 1, 1], "type": "i32", "use": "state"})
        inputs, outputs = [*inputs, f"{name}.count"], [*outputs, f"{name}.count"]
    return {"name": name, "kind": "optimizer_step", "moments": len(states_per_parameter[0]),
            "learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
            "decay": 0.01, "in": inputs, "out": outputs, "repeatable": False}


def _make_opaque_step(optimizer_name, form, parameters, gradients, states):
    """An opaque operator with the work of the step. `states`: of all parameters, in one list."""
    _, operations_per_element, fused_accesses, unfused_accesses = OPTIMIZERS[optimizer_name]
    parameter_names, state_names = [t["name"] for t in parameters], [t["name"] for t in states]
    element_count, parameter_bytes = sum(_element_count(t) for t in parameters), sum(tensor_bytes(t) for t in parameters)
    op = {"name": f"{optimizer_name}:{parameter_names[0]}", "kind": "opaque", "label": f"{optimizer_name} {form}",
          "flops": operations_per_element * element_count,
          "bytes": (fused_accesses if form == "fused" else unfused_accesses) * parameter_bytes,
          "in": parameter_names + [t["name"] for t in gradients] + state_names,
          "out": parameter_names + state_names,
          "repeatable": False}
    return op | ({"workspace_bytes": parameter_bytes} if optimizer_name == "adamw" and form != "fused" else {})


def state_tensor(parameter, state_kind):
    """The document's entry for one optimizer state of a parameter."""
    return parameter | {"name": f"{parameter['name']}.{state_kind}", "use": "state"}


def _parameter_groups(parameters, form):
    """[[parameters that one operator of this form updates]]."""
    if form == "foreach":
        return [parameters] if parameters else []
    if form == "each":
        return [[t] for t in parameters]
    groups, element_count = [], 0
    for t in parameters:
        if not groups or len(groups[-1]) == MAX_TENSORS_PER_LAUNCH or element_count + _element_count(t) > MAX_ELEMENTS_PER_LAUNCH:
            groups.append([])
            element_count = 0
        groups[-1].append(t)
        element_count += _element_count(t)
    return groups


def _element_count(tensor):
    return math.prod(tensor["shape"])
