"""What a node that is not fused costs: measured on the GPU, or from its operations and bytes."""

import torch
from torch.utils.flop_counter import flop_registry

from . import private
from .step import name_of, stored_elements, tensors_of, value_of

# Operations and bytes a nanosecond that well-tuned kernels reach, by a word of the device's name.
RATES = {
    "H200": {"half": 600e3, "single": 50e3, "bytes": 4000.0},
    "H100": {"half": 600e3, "single": 50e3, "bytes": 2700.0},
    "A100": {"half": 240e3, "single": 18e3, "bytes": 1500.0},
    "4090": {"half": 150e3, "single": 70e3, "bytes": 900.0},
    "": {"half": 100e3, "single": 15e3, "bytes": 700.0},
}
LAUNCH_NS = 2000


def rates_of(device_name):
    return next(rates for word, rates in RATES.items() if word in device_name)


class Estimated:
    """Costs by a device's rates."""

    def __init__(self, rates):
        self.rates = rates

    def ns(self, node):
        values = [v for n in node.all_input_nodes for v in tensors_of(value_of(n))] + tensors_of(value_of(node))
        moved = sum(stored_elements(v) * v.element_size() for v in values)
        half = any(v.dtype in (torch.float16, torch.bfloat16) for v in values)
        return int(max(LAUNCH_NS, moved / self.rates["bytes"], operations_of(node) / self.rates["half" if half else "single"]))

    def workspace(self, node):
        return 0


def operations_of(node):
    """Multiplications and additions of products and convolutions; 0 for all else."""
    formula = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if formula is None:
        return 0
    arguments = torch.fx.node.map_arg(node.args, lambda n: n.meta.get("val"))
    options = torch.fx.node.map_arg(dict(node.kwargs), lambda n: n.meta.get("val"))
    return int(formula(*arguments, **options, out_val=value_of(node)))


class Measured:
    """Costs measured on the GPU, once for each operator and shape."""

    REPEATS, IN_A_ROW = 4, 3

    def __init__(self, rates):
        self.estimated, self.known = Estimated(rates), {}

    def ns(self, node):
        return self._of(node)[0]

    def workspace(self, node):
        return self._of(node)[1]

    def _of(self, node):
        key = (node.target, shape_key(node.args), shape_key(dict(node.kwargs)))
        if key not in self.known:
            try:
                self.known[key] = self._measure(node)
            except Exception:  # an operator that wants other inputs than random ones
                self.known[key] = (self.estimated.ns(node), 0)
        return self.known[key]

    def _measure(self, node):
        with private.real_tensors(), torch.no_grad():
            args = torch.fx.node.map_arg(node.args, lambda n: example_of(value_of(n)))
            kwargs = torch.fx.node.map_arg(dict(node.kwargs), lambda n: example_of(value_of(n)))
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            result = node.target(*args, **kwargs)
            torch.cuda.synchronize()
            workspace = torch.cuda.max_memory_allocated() - max(before, torch.cuda.memory_allocated())
            result = node.target(*args, **kwargs)
            times = []
            for _ in range(self.REPEATS):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                for _ in range(self.IN_A_ROW):
                    result = node.target(*args, **kwargs)
                end.record()
                torch.cuda.synchronize()
                times.append(begin.elapsed_time(end) * 1e6 / self.IN_A_ROW)
            del result, args, kwargs
            return max(LAUNCH_NS, int(min(times))), max(0, workspace)


def shape_key(value):
    if isinstance(value, torch.fx.Node):
        return tuple((tuple(v.shape), v.stride(), v.dtype) for v in tensors_of(value_of(value)))
    if isinstance(value, (tuple, list)):
        return tuple(shape_key(each) for each in value)
    if isinstance(value, dict):
        return tuple((name, shape_key(each)) for name, each in sorted(value.items()))
    return str(value)


def example_of(value):
    """A real tensor like the fake one."""
    if not isinstance(value, torch.Tensor):
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return made.normal_() if value.dtype.is_floating_point else made.zero_()


def costs_for(device):
    """Costs for a torch.device."""
    if device.type == "cuda":
        return Measured(rates_of(torch.cuda.get_device_name(device)))
    return Estimated(RATES[""])
