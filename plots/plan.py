"""Draws a plan file: when each large tensor is on the device, on the host, or dropped to be computed again.

Takes the two files that `umbench plan -o PLAN.json --graph GRAPH.json` writes.
"""

import sys

from umbench.graph_files import tensor_bytes
from umbench.plots.common import GIB, Parser, load, pyplot, save, use_style

# {state: (label, colour, hatch)}
STATES = {"kept": ("on the device", "#C8C8C8", ""), "moved": ("moved to the host", "#E69F00", "////"),
          "gone": ("given up, computed again", "#009E73", "....")}


def main():
    parser = Parser("plan", __doc__)
    parser.add_argument("plan", help="plan file")
    parser.add_argument("graph", help="graph file of the same network")
    parser.add_argument("--out", default=".", help="folder (.)")
    parser.add_argument("--name", default="plan", help="of the figure (plan)")
    parser.add_argument("--tensors", type=int, default=24, help="how many, those of most bytes times operators (24)")
    parser.add_argument("--format", default="svg", help="svg, png or pdf (svg)")
    options = parser.parse_args()
    use_style()
    save(figure_of(load.read_json(options.plan), load.read_json(options.graph), options.tensors), options.out, options.name, [options.format])


def tensor_states(plan, graph):
    """({tensor: {batch range: [(state, begin, end)]}}, number of computed operators). Times count the operators computed since the iteration
    began."""
    ops = {op["name"]: op for op in graph["ops"]}
    shapes = {tensor["name"]: tensor["shape"] for tensor in graph["tensors"]}
    images = plan["network"]["batch"]
    inputs = {tensor["name"] for tensor in graph["tensors"] if tensor["use"] in ("input", "label", "parameter")}
    state_of, begun_at, touched_until, found = {}, {}, {}, {}
    computed = 0

    def enter_state(key, state, begin):
        if key in state_of and begun_at[key] < begin:
            found.setdefault(key, []).append((state_of[key], begun_at[key], begin))
        state_of[key], begun_at[key] = state, begin

    def key_of_tensor(tensor_name, part):
        """(tensor, its batch range), by which states are kept."""
        batch_range = (part or {}).get("batch")
        return (tensor_name, tuple(batch_range) if batch_range and shapes[tensor_name][0] == images else (0, shapes[tensor_name][0]))

    def keys_of_action(action):
        key = key_of_tensor(action["what"], action.get("part"))
        return [key] if key in state_of or "part" in action else [k for k in state_of if k[0] == action["what"]] or [key]

    always_on_device = {name for name in inputs if plan["homes"][name] == "device"}
    for action in plan["actions"]:
        if action["do"] == "compute":
            op = ops[action["what"]]
            for name in op["in"] + op["out"]:
                key = key_of_tensor(name, action.get("part"))
                if state_of.get(key) != "kept":
                    enter_state(key, "kept", 0 if name in always_on_device and key not in state_of else computed)
                touched_until[key] = computed + 1
            computed += 1
        elif action["do"] in ("prefetch", "evict", "discard"):
            for key in keys_of_action(action):
                if action["do"] == "discard":
                    enter_state(key, "gone", touched_until.get(key, computed))
                else:
                    enter_state(key, "kept" if action["do"] == "prefetch" else "moved", computed)
    for key, state in list(state_of.items()):
        if state == "kept":
            enter_state(key, "end", computed if key[0] in always_on_device else touched_until.get(key, computed))
    tensors = {}
    for (name, batch_range), spans in found.items():
        tensors.setdefault(name, {})[batch_range] = spans
    return tensors, computed


def figure_of(plan, graph, tensor_count):
    states, computes = tensor_states(plan, graph)
    sizes = {tensor["name"]: tensor_bytes(tensor) for tensor in graph["tensors"]}

    def bytes_times_operators(name):
        return sizes[name] * max(spans[-1][2] - spans[0][1] for spans in states[name].values())

    largest = sorted(states, key=lambda name: -bytes_times_operators(name))[:tensor_count]
    shown = [tensor["name"] for tensor in graph["tensors"] if tensor["name"] in largest]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.2 * len(shown)), layout="constrained")
    for row, name in enumerate(shown):
        parts = sorted(states[name])
        for i, part in enumerate(parts):
            for state, begin, end in states[name][part]:
                _, colour, hatch = STATES[state]
                axes.barh(row - 0.4 + 0.8 * (i + 0.5) / len(parts), end - begin, 0.8 / len(parts), begin, color=colour, hatch=hatch,
                          edgecolor="white", linewidth=0.2)
    axes.set_yticks(range(len(shown)), [f"{name}  {sizes[name] / 1e6:.0f} MB" for name in shown], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, computes)
    axes.set_xlabel("operators computed since the iteration began")
    what = plan["network"]
    axes.set_title(f"{plan['strategy']} for {what['name']}, batch {what['batch']}, {what['precision']}, within "
                   f"{plan['budget_bytes'] / GIB:.2f} GiB (1 / {plan['ratio']:g} of what everything takes)")
    boxes = [pyplot.Rectangle((0, 0), 1, 1, facecolor=colour, hatch=hatch, edgecolor="white")
             for _, colour, hatch in STATES.values()]
    axes.legend(boxes, [label for label, _, _ in STATES.values()], fontsize=8, loc="upper center",
                bbox_to_anchor=(0.5, -0.55 / (0.2 * len(shown))), ncol=3, frameon=False)
    return figure


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "plan"))
