"""The plan of a fitted model for its activations."""

import warnings

from . import copies
from .operators import is_view, operator_name
from .values import module_path_of

# Slack for unused pieces of the caching allocator on a GPU (arena.py): a share of the budget within limits.
SLACK_SHARE, MIN_SLACK_BYTES, MAX_SLACK_BYTES = 0.05, 48 * 2**20, 768 * 2**20


class Plan:
    """A plan; empty until the first batch.

    budget, usable: bytes that the user allows, and that the plan may use.
    saved, offloaded, recomputed: names of nodes; the offloaded ones are among the saved.
    differences: names of nodes that PyTorch saved or recomputed unlike the plan.
    predicted: {"peak": bytes, "ms": float} of a step. unplanned: the same of PyTorch's own choice, for a graph with the same shares.
    measured: {"peak", "reserved", "ms"} of a whole step on a GPU, in bytes and milliseconds.
    chunks: the number of shares of the loss. micro_batches: the number of parts of a batch.
    plans: the number of plans so far. seconds: the time of all planning so far.
    unforeseen: {shares of the loss: bytes by which a measured peak exceeded its prediction}.
    is_replayed: whether steps are replayed as CUDA graphs now. launched_because: why they never will be; "" if they may be, or if that
    was not asked for.
    settled: whether the plan is final. If so, reserved: bytes that PyTorch reserves; within: whether these are within the budget;
    unplaced_because: why the step's tensors are not placed, or ""."""

    def __init__(self, budget):
        self.budget, self.usable, self.more_slack = budget, budget, 0
        self.plans, self.unforeseen, self.settled, self.chunks, self.micro_batches = 0, {}, False, 1, 1
        self.saved, self.offloaded, self.recomputed, self.modules, self.differences = [], [], [], {}, None
        self.predicted = self.unplanned = self.measured = None
        self.reserved = self.within = None
        self.unplaced_because = ""
        self.is_replayed, self.launched_because = False, ""
        self.tried = []  # (predicted, measured) peaks in bytes
        self.base_bytes, self.offloaded_bytes, self.seconds = 0, 0, 0.0
        self.bound = 0  # lower bound of the peaks of all plans, in bytes
        self.untimed = []  # operators whose time is estimated

    def leave_slack(self):
        """Sets the usable bytes: the budget without slack."""
        self.usable = self.budget - min(max(int(self.budget * SLACK_SHARE), MIN_SLACK_BYTES), MAX_SLACK_BYTES) - self.more_slack

    def leave_more_slack(self, missing_bytes=0):
        """Increases the slack, since the allocator lost at least `missing_bytes` bytes more."""
        self.more_slack += max(self.budget // 50, missing_bytes)

    def add_measurement(self, peak_bytes, reserved_bytes, step_ms):
        """Stores peaks in bytes and the milliseconds of one step, the optimizer's part included. The next plan includes the bytes by which the
        peak exceeds its prediction."""
        self.measured = {"peak": peak_bytes, "reserved": reserved_bytes, "ms": step_ms}
        self.tried.append((self.predicted["peak"], peak_bytes))
        self.unforeseen[self.chunks] = self.unforeseen.get(self.chunks, 0) + peak_bytes - self.predicted["peak"]

    def measured_peak_exceeds_usable(self):
        """Whether the measured peak exceeds the usable bytes by more than a tolerance."""
        return self.measured["peak"] > self.usable + MIN_SLACK_BYTES // 4

    def make_final(self, reserved_bytes, unplaced_because=""):
        """Makes the plan final. `reserved_bytes`: those that PyTorch reserves."""
        self.settled, self.reserved, self.within, self.unplaced_because = True, reserved_bytes, reserved_bytes <= self.budget, unplaced_because
        if not self.within:
            warnings.warn(f"PyTorch reserves {size_text(reserved_bytes)}, more than the budget of {size_text(self.budget)}: a hard cap there may fail"
                          + (f"; {unplaced_because}" if unplaced_because else ""), stacklevel=2)

    def warn_of_lost_memory(self):
        """Notes, and warns, that the mapped memory of the step was lost."""
        self.within = False
        warnings.warn("the cache of PyTorch's allocator was emptied, and memory could not be mapped again: a hard cap may fail", stacklevel=4)

    def store_answer(self, step_nodes, planner_answer, base_bytes, share_count=1):
        """Stores the planner's answer for a StepNodes."""
        plan_answer, unplanned_answer = planner_answer["plan"], planner_answer["begin"]
        self.chunks = share_count
        self.base_bytes, self.bound = base_bytes, planner_answer["bound"]
        self.saved = [step_nodes.nodes[number].name for number in plan_answer["saved"]]
        self.offloaded = [step_nodes.nodes[number].name for number, _, _ in plan_answer["offloaded"]]
        self.offloaded_bytes = sum(step_nodes.node_fields[number]["bytes"] for number, _, _ in plan_answer["offloaded"])
        self.recomputed = [step_nodes.nodes[number].name for number in plan_answer["recomputed"]]
        self.predicted = {"peak": plan_answer["peak"], "ms": plan_answer["ns"] / 1e6,
                          "saved": plan_answer["saved_bytes"], "forward_peak": plan_answer["forward_peak"],
                          "evaluations": plan_answer["evaluations"], "library_ms": library_call_ms(step_nodes, plan_answer)}
        self.unplanned = {"peak": unplanned_answer["peak"], "ms": unplanned_answer["ns"] / 1e6, "saved": unplanned_answer["saved_bytes"]}
        self.modules = summarize_modules(step_nodes, plan_answer)
        self.peak_at = step_nodes.nodes[plan_answer["peak_node"]].name if plan_answer["peak_node"] >= 0 else ""

    def store_differences(self, forward_module, backward_module):
        """Sets `differences` to the names of nodes that PyTorch's two graphs save, recompute or offload unlike the plan."""
        saved_names = {node.name for node in backward_module.graph.find_nodes(op="placeholder") if not node.name.startswith(("primals", "tangents"))}
        names_run_per_pass = [{node.name for node in module.graph.nodes if node.op == "call_function" and not is_view(node)}
                              for module in (forward_module, backward_module)]
        names_run_per_pass = [{name for name in names_of_pass if not name.startswith(("copy_out", "copy_back", "finish_copy"))}
                              for names_of_pass in names_run_per_pass]
        self.differences = (sorted(saved_names ^ set(self.saved)) + sorted((names_run_per_pass[0] & names_run_per_pass[1]) ^ set(self.recomputed))
                            + sorted(copies.names_copied_back(backward_module) ^ set(self.offloaded)))

    def min_budget(self, peak=None):
        """The smallest budget for a plan with this peak; without an argument, of this plan."""
        return (self.predicted["peak"] if peak is None else peak) + self.budget - self.usable

    def __str__(self):
        if self.predicted is None:
            return f"budget {size_text(self.budget)}: planned when the first batch arrives"
        lines = [f"budget {size_text(self.budget)}: predicted peak {size_text(self.predicted['peak'])} and {self.predicted['ms']:.1f} ms; "
                 f"unplanned {size_text(self.unplanned['peak'])} and {self.unplanned['ms']:.1f} ms; no plan for this graph takes less than {size_text(self.bound)}"]
        if self.measured:
            lines.append(f"  measured peak {size_text(self.measured['peak'])} and {self.measured['ms']:.1f} ms with the optimizer, while allocations were noted" + (f", after {self.plans} plans" if self.plans > 1 else ""))
        if self.settled:
            lines.append(f"  PyTorch reserves {size_text(self.reserved)}, " + ("within the budget" if self.within else "a hard cap at the budget may fail")
                         + (f": {self.unplaced_because}" if self.unplaced_because else ""))
        if self.is_replayed or self.launched_because:
            lines.append("  steps are replayed as CUDA graphs" if self.is_replayed else f"  steps are launched: {self.launched_because}")
        if self.micro_batches > 1:
            lines.append(f"  each batch is computed in {self.micro_batches} parts; times are of one part")
        if self.chunks > 1:
            lines.append(f"  the loss is computed in {self.chunks} shares of its rows")
        if self.untimed:
            lines.append(f"  estimated, not timed: {', '.join(self.untimed)}")
        if self.offloaded:
            lines.append(f"  {len(self.offloaded)} tensors wait on the host: {size_text(self.offloaded_bytes)}")
        lines += [f"  {module or 'the model'}: keeps {size_text(kept_bytes)}" + (f", {size_text(host_bytes)} of it on the host" if host_bytes else "")
                  + (f", computes again {', '.join(recomputed_names)}" if recomputed_names else "")
                  for module, (kept_bytes, host_bytes, recomputed_names) in self.modules.items()
                  if host_bytes or recomputed_names or kept_bytes >= 0.01 * self.predicted["saved"]]
        return "\n".join(lines)


def library_call_ms(step_nodes, plan_answer):
    """Milliseconds of the nodes that are not fused, also of those computed again, with the gaps after them."""
    recomputed_fields = [step_nodes.node_fields[i] for i in plan_answer["recomputed"]]
    return sum(fields["ns"] for fields in [*step_nodes.node_fields, *recomputed_fields] if fields["kind"] == "kernel") / 1e6


def summarize_modules(step_nodes, plan_answer):
    """{module: [bytes saved, bytes of these on the host, [names of library calls that are recomputed]]}."""
    entry_by_module, offloaded_numbers = {}, {number for number, _, _ in plan_answer["offloaded"]}

    def entry_of(node_number):
        return entry_by_module.setdefault(module_path_of(step_nodes.nodes[node_number]), [0, 0, []])

    for number in plan_answer["saved"]:
        entry_of(number)[0] += step_nodes.node_fields[number]["bytes"]
        entry_of(number)[1] += step_nodes.node_fields[number]["bytes"] if number in offloaded_numbers else 0
    for number in plan_answer["recomputed"]:
        if step_nodes.node_fields[number]["kind"] == "kernel":
            entry_of(number)[2].append(operator_name(step_nodes.nodes[number]))
    return entry_by_module


def size_text(byte_count):
    return f"{byte_count / 2**30:.2f} GiB" if byte_count >= 2**30 // 10 else f"{byte_count / 2**20:.2f} MiB"
