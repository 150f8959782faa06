"""What a plan does with a PyTorch model, module by module: what to compute again, to offload, to cut, to keep.

    python3 python/start.py torch.table PLAN.json

PLAN.json is of `umbench plan --network FILE.json -o PLAN.json`, FILE.json of `umbench export`.
"""

import json
import sys
from pathlib import Path

from umbench import load
from umbench.torch.liveness import size_of

COLUMNS = ("compute again", "offload", "cut", "keep")


def rows_of(plan):
    """{module: {column: bytes of activations}}; `cut` has the bytes that operators computed in parts write. A module computed again is
    one for torch.utils.checkpoint, one offloaded for torch.autograd.graph.save_on_cpu."""
    graph, actions = plan["network"]["graph"], plan["actions"]
    computed, parts, moved = {}, set(), {a["what"] for a in actions if a["do"] in ("prefetch", "evict")}
    for action in actions:
        if action["do"] == "compute":
            if "part" in action or "slice" in action:
                parts.add(action["what"])
            else:
                computed[action["what"]] = computed.get(action["what"], 0) + 1
    writer = {name: op["name"] for op in graph["ops"] for name in op["out"]}
    rows = {}
    for tensor in graph["tensors"]:
        if tensor.get("use", "activation") != "activation" or tensor["name"] not in writer:
            continue
        op, name = writer[tensor["name"]], tensor["name"]
        does = "cut" if op in parts else "compute again" if computed.get(op, 0) > 1 else "offload" if name in moved else "keep"
        row = rows.setdefault(module_of(name), dict.fromkeys(COLUMNS, 0))
        row[does] += size_of(tensor)
    return rows


def module_of(name):
    """layer1.0.bn1 of the tensor layer1.0.bn1:add_5; of a name without a module the name."""
    return name.partition(":")[0]


def text_of(rows):
    wide = max([len("module"), *map(len, rows)])
    lines = [f"{'module':{wide}}" + "".join(f"{column:>16}" for column in COLUMNS)]
    for module, row in rows.items():
        lines.append(f"{module:{wide}}" + "".join(f"{row[c] / 2**20:12.1f} MiB" if row[c] else f"{'':16}" for c in COLUMNS))
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 2:
        raise load.BadInput("wants a plan: torch.table PLAN.json")
    try:
        plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        rows = rows_of(plan)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise load.BadInput(f"{sys.argv[1]}: is no plan of `umbench plan -o` ({type(error).__name__}: {error})") from None
    print(text_of(rows), end="")


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
