"""What a fitted model does with its activations."""

from .step import is_view, module_of, name_of

# Of the budget, left to the caching allocator's unused pieces.
SLACK = 0.02


class Plan:
    """budget, usable: bytes. Empty until the first batch.

    saved, recomputed: names of nodes; differences: those that PyTorch treated otherwise. predicted: {"peak": bytes, "ms": float}; unplanned: the same of PyTorch's own choice."""

    def __init__(self, budget):
        self.budget, self.usable = budget, int(budget * (1 - SLACK))
        self.saved, self.recomputed, self.modules, self.differences = [], [], {}, None
        self.predicted = self.unplanned = self.measured = None
        self.base_bytes, self.seconds = 0, 0.0

    def take(self, step, answer, base_bytes):
        made, own = answer["plan"], answer["begin"]
        self.base_bytes = base_bytes
        self.saved = [step.nodes[i].name for i in made["saved"]]
        self.recomputed = [step.nodes[i].name for i in made["recomputed"]]
        self.predicted = {"peak": made["peak"], "ms": made["ns"] / 1e6, "saved": made["saved_bytes"], "forward_peak": made["forward_peak"],
                          "evaluations": made["evaluations"]}
        self.unplanned = {"peak": own["peak"], "ms": own["ns"] / 1e6, "saved": own["saved_bytes"]}
        self.modules = by_module(step, made)
        self.peak_at = step.nodes[made["peak_node"]].name if made["peak_node"] >= 0 else ""

    def compare(self, forward, backward):
        """Notes where PyTorch's two graphs save or compute again something else than was planned."""
        given = {node.name for node in backward.graph.find_nodes(op="placeholder") if not node.name.startswith(("primals", "tangents"))}
        ran = [{node.name for node in graph.graph.nodes if node.op == "call_function" and not is_view(node)} for graph in (forward, backward)]
        self.differences = sorted(given ^ set(self.saved)) + sorted((ran[0] & ran[1]) ^ set(self.recomputed))

    def least_budget(self):
        return int(self.predicted["peak"] / (1 - SLACK)) + 1

    def __str__(self):
        if self.predicted is None:
            return f"budget {in_gib(self.budget)}: planned when the first batch arrives"
        lines = [f"budget {in_gib(self.budget)}: predicted peak {in_gib(self.predicted['peak'])} and {self.predicted['ms']:.1f} ms; "
                 f"unplanned {in_gib(self.unplanned['peak'])} and {self.unplanned['ms']:.1f} ms"]
        lines += [f"  {module or 'the model'}: keeps {in_gib(kept)}" + (f", computes again {', '.join(again)}" if again else "")
                  for module, (kept, again) in self.modules.items()]
        return "\n".join(lines)


def by_module(step, made):
    """{module: (bytes kept, kernels computed again)}."""
    found = {}
    for i in made["saved"]:
        kept, again = found.setdefault(module_of(step.nodes[i]), (0, []))
        found[module_of(step.nodes[i])] = (kept + step.rows[i]["bytes"], again)
    for i in made["recomputed"]:
        if step.rows[i]["kind"] == "kernel":
            found.setdefault(module_of(step.nodes[i]), (0, []))[1].append(name_of(step.nodes[i]))
    return found


def in_gib(size):
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 // 10 else f"{size / 2**20:.2f} MiB"
