"""The peak memory of a graph file whose operators run in order and whose tensors are freed after their last use."""

from umbench.graph_files import SIZES, tensor_bytes  # noqa: F401

USES_THAT_STAY = ("input", "label", "parameter", "state")  # uses of tensors that exist before the first operator and after the last
USES_THAT_OUTLIVE = ("parameter_gradient", "output")


def peak_and_operator_of(document):
    """(peak in bytes, name of the operator at which it occurs). A result that an operator writes in the place of an operand takes no bytes of
    its own."""
    tensors = {t["name"]: t for t in document["tensors"]}
    last_op_number = {}
    for op_number, op in enumerate(document["ops"]):
        last_op_number |= {name: op_number for name in op["in"] + op["out"]}
    for name, tensor in tensors.items():
        if tensor.get("use") in USES_THAT_OUTLIVE:
            last_op_number[name] = len(document["ops"])
    held_bytes = sum(tensor_bytes(t) for t in tensors.values() if t.get("use") in USES_THAT_STAY)
    peak_bytes, peak_op_name, live_names = held_bytes, "", set()
    for op_number, op in enumerate(document["ops"]):
        new_names = [name for name in op["out"] if name not in live_names and tensors[name].get("use") not in USES_THAT_STAY]
        held_bytes += sum(tensor_bytes(tensors[name]) for name in new_names)
        live_names.update(new_names)
        overwritten_bytes = _overwritten_bytes(op, tensors, last_op_number, op_number)
        if held_bytes - overwritten_bytes + op.get("workspace_bytes", 0) > peak_bytes:
            peak_bytes, peak_op_name = held_bytes - overwritten_bytes + op.get("workspace_bytes", 0), op["name"]
        for name in {*op["in"], *op["out"]} & live_names:
            if last_op_number[name] == op_number:
                live_names.discard(name)
                held_bytes -= tensor_bytes(tensors[name])
    return peak_bytes, peak_op_name


def saved_bytes(document):
    """Bytes that the forward pass saves for the backward pass, without parameters and inputs."""
    bytes_of_activation = {t["name"]: tensor_bytes(t) for t in document["tensors"] if t.get("use", "activation") == "activation"}
    tensors = {t["name"]: t for t in document["tensors"]}
    names_read_by_backward = {name for op in document["ops"]
                              if all(tensors[o].get("use") in ("activation_gradient", "parameter_gradient") for o in op["out"])
                              for name in op["in"]}
    return sum(byte_count for name, byte_count in bytes_of_activation.items() if name in names_read_by_backward)


def _overwritten_bytes(op, tensors, last_op_number, op_number):
    """Bytes of the operand in whose place an operator writes its result; 0 if there is none."""
    alias = op.get("alias")
    if not alias:
        return 0
    operand_name = op["in"][alias["input"]]
    return (tensor_bytes(tensors[operand_name])
            if last_op_number[operand_name] == op_number and tensors[operand_name].get("use") not in USES_THAT_STAY else 0)
