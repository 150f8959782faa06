"""The plan of a fitted model for its activations."""

import warnings

from . import copies
from .operators import is_view, operator_name
from .values import module_path_of

# Slack for unused pieces of the caching allocator on a GPU (arena.py): a share of the budget within limits.
SLACK, MIN_SLACK, MAX_SLACK = 0.05, 48 * 2**20, 768 * 2**20


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
        self.usable = self.budget - min(max(int(self.budget * SLACK), MIN_SLACK), MAX_SLACK) - self.more_slack

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
        return self.measured["peak"] > self.usable + MIN_SLACK // 4

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

    def store_answer(self, step, answer, base_bytes, share_count=1):
        """Stores the planner's answer for a Step."""
        made, own = answer["plan"], answer["begin"]
        self.chunks = share_count
        self.base_bytes, self.bound = base_bytes, answer["bound"]
        self.saved = [step.nodes[i].name for i in made["saved"]]
        self.offloaded = [step.nodes[i].name for i, _, _ in made["offloaded"]]
        self.offloaded_bytes = sum(step.node_fields[i]["bytes"] for i, _, _ in made["offloaded"])
        self.recomputed = [step.nodes[i].name for i in made["recomputed"]]
        self.predicted = {"peak": made["peak"], "ms": made["ns"] / 1e6, "saved": made["saved_bytes"], "forward_peak": made["forward_peak"],
                          "evaluations": made["evaluations"], "library_ms": library_call_ms(step, made)}
        self.unplanned = {"peak": own["peak"], "ms": own["ns"] / 1e6, "saved": own["saved_bytes"]}
        self.modules = summarize_modules(step, made)
        self.peak_at = step.nodes[made["peak_node"]].name if made["peak_node"] >= 0 else ""

    def store_differences(self, forward, backward):
        """Sets `differences` to the names of nodes that PyTorch's two graphs save, recompute or offload unlike the plan."""
        given = {node.name for node in backward.graph.find_nodes(op="placeholder") if not node.name.startswith(("primals", "tangents"))}
        ran = [{node.name for node in graph.graph.nodes if node.op == "call_function" and not is_view(node)} for graph in (forward, backward)]
        ran = [{name for name in names if not name.startswith(("copy_out", "copy_back", "finish_copy"))} for names in ran]
        self.differences = (sorted(given ^ set(self.saved)) + sorted((ran[0] & ran[1]) ^ set(self.recomputed))
                            + sorted(copies.names_copied_back(backward) ^ set(self.offloaded)))

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
        lines += [f"  {module or 'the model'}: keeps {size_text(kept)}" + (f", {size_text(away)} of it on the host" if away else "")
                  + (f", computes again {', '.join(again)}" if again else "")
                  for module, (kept, away, again) in self.modules.items() if away or again or kept >= 0.01 * self.predicted["saved"]]
        return "\n".join(lines)


def library_call_ms(step, plan_answer):
    """Milliseconds of the nodes that are not fused, also of those computed again, with the gaps after them."""
    again = [step.node_fields[i] for i in plan_answer["recomputed"]]
    return sum(fields["ns"] for fields in [*step.node_fields, *again] if fields["kind"] == "kernel") / 1e6


def summarize_modules(step, plan_answer):
    """{module: [bytes saved, bytes of these on the host, [names of library calls that are recomputed]]}."""
    found, away = {}, {i for i, _, _ in plan_answer["offloaded"]}

    def entry_of(node_number):
        return found.setdefault(module_path_of(step.nodes[node_number]), [0, 0, []])

    for i in plan_answer["saved"]:
        entry_of(i)[0] += step.node_fields[i]["bytes"]
        entry_of(i)[1] += step.node_fields[i]["bytes"] if i in away else 0
    for i in plan_answer["recomputed"]:
        if step.node_fields[i]["kind"] == "kernel":
            entry_of(i)[2].append(operator_name(step.nodes[i]))
    return found


def size_text(byte_count):
    return f"{byte_count / 2**30:.2f} GiB" if byte_count >= 2**30 // 10 else f"{byte_count / 2**20:.2f} MiB"
