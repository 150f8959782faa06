"""Costs of nodes that are not fused, with the gaps after its kernels: measured on the GPU, or from its operations and bytes."""

import torch

from . import private
from .measuring import BETWEEN_KERNELS_NS, OperatorTimes
from .operators import HALF_TYPES, library_launch_count, operator_name, matrix_operations
from .rates import operations_per_s
from .values import stored_numel, tensors_of

# Operations and bytes a nanosecond that well-tuned kernels reach, and copies between pinned memory and the device, by a word of the device's name.
# Generated kernels reached `bytes` in fitted models (results/torch/fit_h100.jsonl, fit_h200.jsonl).
RATES_BY_GPU = {
    "H200": {"half": 600e3, "single": 50e3, "bytes": 2850.0, "link": 50.0},
    "H100": {"half": 600e3, "single": 50e3, "bytes": 2300.0, "link": 50.0},
    "A100": {"half": 240e3, "single": 18e3, "bytes": 1500.0, "link": 24.0},
    "4090": {"half": 150e3, "single": 70e3, "bytes": 900.0, "link": 24.0},
    "": {"half": 100e3, "single": 15e3, "bytes": 700.0, "link": 12.0},
}
MIN_KERNEL_NS = 2000


def tabulated_rates_of(device_name):
    """The entry of RATES_BY_GPU for a GPU."""
    return next(rates for gpu_word, rates in RATES_BY_GPU.items() if gpu_word in device_name)


class EstimatedCosts:
    """Costs of nodes by `rates_per_ns`, a value of RATES_BY_GPU."""

    def __init__(self, rates_per_ns):
        self.rates, self.untimed = rates_per_ns, set()

    def node_ns(self, node):
        """Nanoseconds of the node's kernels and of the gaps after them."""
        return self.kernel_ns(node) + BETWEEN_KERNELS_NS * library_launch_count(node)

    def kernel_ns(self, node):
        """Nanoseconds of the node's kernels without the gaps after them."""
        tensors = [v for n in node.all_input_nodes for v in tensors_of(n)] + tensors_of(node)
        moved_bytes = sum(stored_numel(v) * v.element_size() for v in tensors)
        return int(max(MIN_KERNEL_NS, moved_bytes / self.rates["bytes"], (matrix_operations(node) or 0) / self.operations_per_ns(node, tensors)))

    def operations_per_ns(self, node, operands):
        is_half = any(v.dtype in HALF_TYPES for v in operands)
        return self.rates["half" if is_half else "single"]

    def workspace_bytes(self, node):
        """Bytes of the workspace that the node's kernels need."""
        return 0

    def link_bytes_per_ns(self):
        """Bytes a nanosecond of copies between pinned memory and the GPU."""
        return self.rates["link"]

    def free_memory(self):
        pass


class MachineCosts(EstimatedCosts):
    """Costs of nodes by `machine_figures`, the content of a machine file, as in `umbench export --machine`."""

    def __init__(self, machine_figures):
        super().__init__({"bytes": machine_figures["device_bytes_per_s"] / 1e9,
                          "link": min(machine_figures["link_to_device_bytes_per_s"], machine_figures["link_to_host_bytes_per_s"]) / 1e9})
        self.figures = machine_figures

    def operations_per_ns(self, node, operands):
        return operations_per_s(node, "bf16", self.figures) / 1e9


class MeasuredCosts:
    """Costs of nodes, measured on the GPU once for each operator and shape. `untimed`: names of operators that fail with random operands."""

    def __init__(self, fallback_rates_per_ns, device):
        self.estimated, self.times, self.untimed = EstimatedCosts(fallback_rates_per_ns), OperatorTimes(device), set()

    def node_ns(self, node):
        cost = self._cost_of(node)
        return max(MIN_KERNEL_NS, cost["ns"]) + BETWEEN_KERNELS_NS * library_launch_count(node) if cost else self.estimated.node_ns(node)

    def workspace_bytes(self, node):
        cost = self._cost_of(node)
        return cost["workspace"] if cost else 0

    def link_bytes_per_ns(self):
        with private.allow_real_tensors(), torch.cuda.device(self.times.device):
            return self.times.link_bytes_per_ns()

    def free_memory(self):
        """Frees the memory of measurements."""
        with private.allow_real_tensors():
            self.times.free_memory()

    def _cost_of(self, node):
        with private.allow_real_tensors(), torch.cuda.device(self.times.device):
            cost = self.times.cost_of_node(node)
        if cost is None:
            self.untimed.add(operator_name(node))
        return cost


def costs_for(device):
    """The costs of nodes on a torch.device: MeasuredCosts on a GPU, EstimatedCosts on a CPU."""
    if device.type == "cuda":
        return MeasuredCosts(tabulated_rates_of(torch.cuda.get_device_name(device)), device)
    return EstimatedCosts(RATES_BY_GPU[""])
