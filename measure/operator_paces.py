#!/usr/bin/env python3
"""Which share of the roofline's pace operators kept, from measured records: writes them into a machine file.

    UMBENCH=build/umbench measure/operator_paces.py --machine m.json --precision bf16 --precision tf32 RECORDS.jsonl ...

Each record with the times of its operators (`engines`) counts once a cell's network, its `device` or smallest ratio
first. A share is the roofline's time of all operators of a kind over what they took beyond a launch each;
convolutions are told apart by the height of their filters. Operators are timed one by one, between two events each:
where the record is `device`, whose iterations hold nothing else, their times are scaled to add up to its median.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

from umbench import load  # noqa: E402

RATES = {"fp32": "fp32_flops_per_s", "tf32": "tf32_flops_per_s", "bf16": "bf16_flops_per_s"}
CHANNELS_OF_TILE = 96  # as simulator/roofline.cpp has it
FILTER = {"convolution": ("in", 1), "convolution_backward_data": ("in", 0), "convolution_backward_filter": ("out", 0)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", metavar="RECORDS.jsonl")
    parser.add_argument("--machine", required=True, metavar="FILE.json")
    parser.add_argument("--precision", action="append", choices=RATES, help="leave out the others")
    wanted = parser.parse_args()
    text = Path(wanted.machine).read_text(encoding="utf-8")
    machine = json.loads(text)
    machine["operators"] = percents_of_roofline(record_of_each_network(load.read_records(wanted.records), wanted.precision or list(RATES)), machine)
    if not machine["operators"]:
        raise load.TooLittle("no record has the times of whole operators")
    Path(wanted.machine).write_text(json.dumps(machine, indent=indent_of(text), ensure_ascii=False) + "\n", encoding="utf-8")
    for pace in machine["operators"]:
        print(pace["precision"], pace["kind"], pace.get("filter", ""), f"{pace['percent']} %")


def indent_of(text):
    """The indentation of the file's first member, so that writing changes nothing else."""
    member = text.partition("\n")[2]
    return len(member) - len(member.lstrip(" ")) or 2


def record_of_each_network(records, precisions):
    """A record for each network and precision: that of `device`, else of the lowest ratio."""
    found = {}
    for record in sorted(records, key=lambda r: (r["strategy"] != "device", r["ratio"] or 0)):
        if record["engines"] and record["outcome"] == "ok" and record["precision"] in precisions:
            found.setdefault((record["network"], record["batch"], record["fusion"], record["precision"]), record)
    return found.values()


def percents_of_roofline(records, machine):
    """For each kind of operator, the percent of the roofline's rate that it reached."""
    ideal, taken = defaultdict(float), defaultdict(float)
    for record in records:
        kinds = operators_of_network(record)
        rate = machine[RATES[record["precision"]]]
        scale = share_in_an_iteration(record)
        for engine in record["engines"]:
            kind, padding = kinds.get(engine["op"], (None, 1))
            if kind is None or engine["flops"] is None or not rate:
                continue
            products = kind[0].startswith(("convolution", "linear"))
            flops_per_s = rate if products else machine["fp32_flops_per_s"]
            ideal[record["precision"], *kind] += max(engine["flops"] * padding / flops_per_s, engine["bytes"] / machine["device_bytes_per_s"])
            taken[record["precision"], *kind] += max(engine["time_ns"] * scale - machine["launch_ns"], 1) / 1e9
    return [{"kind": kind, "precision": precision} | ({"filter": height} if height else {}) |
            {"percent": min(max(round(100 * ideal[precision, kind, height] / taken[precision, kind, height]), 1), 1000)}
            for precision, kind, height in sorted(ideal)]


def share_in_an_iteration(record):
    """Time of an iteration over the sum of its operators timed one by one; 1 where copies are in it, too."""
    alone = sum(engine["time_ns"] for engine in record["engines"])
    return load.steady_ns(record) / alone if record["strategy"] == "device" else 1.0


def operators_of_network(record):
    """{operator: ((kind, height of its filter or 0), times that tiles repeat its arithmetic)} of the record's network."""
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "graph.json"
        knobs = [word for name, value in (record.get("network_knobs") or {}).items() for word in ("--set", f"{name}={value}")]
        subprocess.run([os.environ.get("UMBENCH", "build/umbench"), "plan", "--network", record["network"], "--batch",
                        str(record["batch"]), "--pass", record["pass"], "--fusion", record["fusion"], "--precision",
                        record["precision"], "--memory-order", record["memory_order"], *knobs, "--strategy", "device",
                        "--backend", "sim:h200", "--graph", graph, "--out", Path(folder) / "plan.json"],
                       check=True, stdout=subprocess.DEVNULL)
        built = json.loads(graph.read_text(encoding="utf-8"))
    shapes = {tensor["name"]: tensor["shape"] for tensor in built["tensors"]}
    found = {}
    for op in built["ops"]:
        side, place = FILTER.get(op["kind"], (None, None))
        height, padding = (shapes[op[side][place]][2] if side else 0), 1
        if side and record["precision"] != "fp32" and op.get("groups", 1) == 1:
            padding = max(1, CHANNELS_OF_TILE / shapes[op["out"][0]][0 if op["kind"].endswith("filter") else 1])
        found[op["name"]] = (op["kind"], height), padding
    return found


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
