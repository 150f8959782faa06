"""Exports a PyTorch model as a graph file, which umbench takes wherever it takes a network's name.

MODULE:FUNCTION names a function without arguments that returns (model, inputs): a torch.nn.Module and a tuple of example
inputs, the batch first. MODULE is a module or a .py file. Forward and backward pass are traced with fake tensors: no memory is
taken, no GPU is needed. A model that returns a scalar returns its loss; of any other the loss is the cross entropy of its first
result against labels. Needs PyTorch 2.9 or later.
"""

import importlib
import importlib.util
import sys
import time
from pathlib import Path

from umbench import load, model_arguments, output, places


def main(options):
    """Exports a model as a graph file. model_arguments.parse_export() returned `options`."""
    figures = read_machine(options.machine) if options.machine else None
    begin_s = time.monotonic()
    converted = convert_model(options)
    from umbench.torch import convert, launches, optimizer, rates
    kernel_ns = options.launch
    if options.measure:
        from umbench.torch import measuring
        operator_times = measuring.OperatorTimes(options.measure)
        measuring.measure_durations(converted, operator_times)
        kernel_ns = kernel_ns or launches.KERNEL_NS
        for reason in sorted(set(operator_times.untimed.values())):
            print(f"a generated kernel is not timed but priced by its bytes: {reason.splitlines()[0]}", file=sys.stderr)
    elif figures:
        rates.set_durations_by_figures(converted, figures)
    if kernel_ns:
        launches.add_launch_waits(converted, kernel_ns)
    optimizer.add_optimizer_step(converted.document, options.optimizer, options.step)
    output.write(convert.document_text(converted.document), options.out)
    print_summary(converted, options, time.monotonic() - begin_s)


def convert_model(options):
    """The convert.Converted of the model."""
    import torch

    from umbench.torch import capture, convert

    autocast = getattr(torch, model_arguments.AUTOCAST_TYPES[options.autocast]) if options.autocast else None
    try:
        return convert.convert_model(load_function(options.model), form=options.form, inference=options.inference, autocast=autocast,
                                name=options.name, precision=options.precision)
    except capture.CannotExport as error:
        raise load.BadInput(f"{options.model}: {error}") from None


def load_function(module_and_function):
    """The function that MODULE:FUNCTION names."""
    module_name, _, function_name = module_and_function.rpartition(":")
    function = getattr(load_module(module_name), function_name, None)
    if not callable(function):
        raise load.BadInput(f"{module_name}: has no function {function_name}")
    return function


def load_module(name_or_path):
    """The module of that name, or of that .py file."""
    try:
        if name_or_path.endswith(".py"):
            sys.path.insert(1, str(Path(name_or_path).resolve().parent))
            spec = importlib.util.spec_from_file_location(Path(name_or_path).stem, name_or_path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
        sys.path.insert(1, str(Path.cwd()))
        return importlib.import_module(name_or_path)
    except Exception as error:
        raise load.BadInput(f"{name_or_path}: cannot be imported: {type(error).__name__}: {' '.join(str(error).split())}") from None


def read_machine(name_or_path):
    """The document of a machine file, given by its name or path."""
    return load.read_json(name_or_path if name_or_path.endswith(".json") else places.RESULTS / "machines" / f"{name_or_path}.json", "--machine ")


def print_summary(converted, options, export_seconds):
    """Prints a summary of the exported graph."""
    from umbench.torch import liveness
    document = converted.document
    bytes_by_role = {}
    for tensor in document["tensors"]:
        role = tensor.get("use", "activation")
        bytes_by_role[role] = bytes_by_role.get(role, 0) + liveness.tensor_bytes(tensor)
    print(f"{document['name']}: {len(document['ops'])} operators, {len(document['tensors'])} tensors, as {options.form}, in {export_seconds:.1f} s")
    print("  " + ", ".join(f"{role.replace('_', ' ')}s {byte_count / 2**20:.1f} MiB" for role, byte_count in bytes_by_role.items()))
    if options.optimizer == "none" and not options.inference:
        gradient_bytes = bytes_by_role.get("parameter_gradient", 0)
        print(f"  without an optimizer: AdamW would add states of {2 * gradient_bytes / 2**20:.1f} MiB (--optimizer adamw)")
    if options.form == "eager":
        mapped_ops = [op for op in document["ops"] if op["kind"] != "opaque"]
        bytes_of_tensor = {t["name"]: liveness.tensor_bytes(t) for t in document["tensors"]}
        moved_bytes, mapped_bytes = (sum(bytes_of_tensor[name] for op in ops for name in op["in"] + op["out"])
                                     for ops in (document["ops"], mapped_ops))
        print(f"  umbench computes {len(mapped_ops)} of the operators, "
              f"{100 * mapped_bytes / max(moved_bytes, 1):.1f} % of the bytes; the others are opaque")
    if converted.unread_buffer_bytes:
        print(f"  left out: {converted.unread_buffer_bytes} B of running statistics and counters, which only a later pass reads")
    if converted.uncut:
        print(f"  nothing may be cut along the batch: with twice the batch {converted.uncut}")
