"""The peak memory of a graph file whose operators run in order and whose tensors are freed after their last use."""

from umbench.graph_files import SIZES, tensor_bytes  # noqa: F401

STAYS = ("input", "label", "parameter", "state")  # uses of tensors that exist before the first operator and after the last
LASTS = ("parameter_gradient", "output")


def peak_and_operator_of(document):
    """(peak in bytes, name of the operator at which it occurs). A result that an operator writes in the place of an operand takes no bytes of
    its own."""
    tensors = {t["name"]: t for t in document["tensors"]}
    last = {}
    for number, op in enumerate(document["ops"]):
        last |= {name: number for name in op["in"] + op["out"]}
    for name, tensor in tensors.items():
        if tensor.get("use") in LASTS:
            last[name] = len(document["ops"])
    held = sum(tensor_bytes(t) for t in tensors.values() if t.get("use") in STAYS)
    peak, at, live = held, "", set()
    for number, op in enumerate(document["ops"]):
        new = [name for name in op["out"] if name not in live and tensors[name].get("use") not in STAYS]
        held += sum(tensor_bytes(tensors[name]) for name in new)
        live.update(new)
        twice = _overwritten_bytes(op, tensors, last, number)
        if held - twice + op.get("workspace_bytes", 0) > peak:
            peak, at = held - twice + op.get("workspace_bytes", 0), op["name"]
        for name in {*op["in"], *op["out"]} & live:
            if last[name] == number:
                live.discard(name)
                held -= tensor_bytes(tensors[name])
    return peak, at


def saved_bytes(document):
    """Bytes that the forward pass saves for the backward pass, without parameters and inputs."""
    forward = {t["name"]: tensor_bytes(t) for t in document["tensors"] if t.get("use", "activation") == "activation"}
    tensors = {t["name"]: t for t in document["tensors"]}
    used = {name for op in document["ops"] if all(tensors[o].get("use") in ("activation_gradient", "parameter_gradient") for o in op["out"])
            for name in op["in"]}
    return sum(size for name, size in forward.items() if name in used)


def _overwritten_bytes(op, tensors, last_use, op_number):
    """Bytes of the operand in whose place an operator writes its result; 0 if there is none."""
    alias = op.get("alias")
    if not alias:
        return 0
    old = op["in"][alias["input"]]
    return tensor_bytes(tensors[old]) if last_use[old] == op_number and tensors[old].get("use") not in STAYS else 0
