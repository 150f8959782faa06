"""Simulates the saving of a hint: runs the launches that used one allocation with faults alone and with the hint. The simulator is the
program that UMBENCH_PROGRAM names, which `umbench explain` sets. Without a program or a corresponding strategy nothing is simulated, and
the rules estimate the saving.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from umbench import load
from umbench.trace import graph

# {key of a rule: strategy that gives such hints for all tensors of a network}
STRATEGY_BY_RULE = {"prefetch_missing": "managed_prefetch", "prefetch_wrong_way": "managed_prefetch", "ping_pong": "managed_prefetch",
                    "read_mostly_missing": "read_mostly_weights"}
STRATEGY_BY_FAULTS = "managed"
MAX_OPERATORS = 2_000  # a network with more operators takes seconds
RATIO = 0.5         # the ratio of a run in which everything fits


def saving_ns(process, rule_key, allocation, costs):
    """The nanoseconds that the rule's strategy saves in the counted part of the run; None if nothing was simulated."""
    umbench_path = os.environ.get("UMBENCH_PROGRAM")
    if not umbench_path or rule_key not in STRATEGY_BY_RULE or allocation.number is None:
        return None
    try:
        network = graph.network_of_process(process, costs, allocation)
    except load.TooLittle:
        return None
    if len(network.operators) > MAX_OPERATORS:
        return None
    with tempfile.TemporaryDirectory() as folder:
        network_file = Path(folder) / "allocation.json"
        network_file.write_text(network.as_json(), encoding="utf-8")
        times_ns = [_simulate(umbench_path, network_file, strategy, costs.name) for strategy in (STRATEGY_BY_FAULTS, STRATEGY_BY_RULE[rule_key])]
    return None if None in times_ns else times_ns[0] - times_ns[1]


def _simulate(umbench_path, network_file, strategy, machine_name):
    """The time of the first simulated iteration in ns; None if the simulator failed."""
    record_file = network_file.with_suffix(f".{strategy}.jsonl")
    finished = subprocess.run([umbench_path, "run", "--network", str(network_file), "--strategy", strategy,
                               "--ratio", str(RATIO), "--backend", f"sim:{machine_name}",
                               "--iterations", "1", "--out", str(record_file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if finished.returncode != 0:
        return None
    lines = record_file.read_text(encoding="utf-8").splitlines()
    return json.loads(lines[-1])["samples_ns"][0]
