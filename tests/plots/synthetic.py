"""Small record files in the format of results/record.schema.json. The figures in them are made up
and only ever used by these tests."""

import json
from pathlib import Path

STRATEGIES = ["device", "swap_all", "managed", "managed_advise", "managed_prefetch"]
RATIOS = [0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0]
GIB = 1024**3


def _measured_figures_text(machine_name):
    """'49 of 52 figures measured', as titles say of a machine file. Figures are its members that are numbers or lists of numbers."""
    found = json.loads((Path(__file__).resolve().parents[2] / f"results/machines/{machine_name}.json").read_text(encoding="utf-8"))
    members = [*found.items(), *found["uvm"].items()]
    figures = [v for name, v in members if name != "schema" and not isinstance(v, (str, bool, dict))]
    figures = [v for v in figures if not (isinstance(v, list) and v and isinstance(v[0], (str, dict)))]
    return f"{len(figures) - len(found['estimated'])} of {len(figures)} figures measured"


H200_MEASURED = _measured_figures_text("h200")


def environment():
    return {"kind": "environment", "schema": 1, "umbench": "0.1.0+unknown", "compiler": "made up", "cuda_backend": True,
            "created": "2026-01-01T00:00:00Z", "host": host(), "gpu": None, "nvidia_uvm": None}


def host(**changes):
    return {"os": None, "kernel": None, "cpu": "made up", "cores": 2, "memory_bytes": None, "cgroup_limit_bytes": None,
            "facts": {}, "facts_missing": {}} | changes


def gpu(**changes):
    return {"device": 0, "name": "made up", "driver": "580", "memory_bytes": 80 * GIB, "compute_capability": "9.0",
            "concurrent_managed_access": True, "pageable_memory_access": False, "cuda_driver": "13.0",
            "cuda_runtime": "13.0", "cudnn": "9.1.0", "facts": {}, "facts_missing": {}} | changes


def counters(**changes):
    """The counters of an iteration."""
    names = ("faults", "fault_batches", "remote_bytes", "fault_to_device_bytes", "prefetch_to_device_bytes", "copy_to_device_bytes", "driver_evict_bytes",
             "plan_evict_bytes", "copy_to_host_bytes", "evicted_blocks")
    return dict.fromkeys(names, 0) | changes


def gpu_state(**changes):
    names = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_mw", "pcie_generation", "pcie_width",
             "other_processes", "throttled_by")
    return dict.fromkeys(names) | changes


def observed(**changes):
    return {"host_cpu_ns": None, "energy_uj": None, "gpu_before": None, "gpu_after": None, "reason": None} | changes


def record(network="vgg16", strategy="managed", ratio=1.5, backend="sim:h200", outcome="ok", time_ns=None, **changes):
    batch = 64 if network == "vgg16" else 128
    device = backend.removeprefix("sim:")
    simulated = backend.startswith("sim:")
    mode = "simulated" if simulated else "capped"
    time_ns = time_ns or made_up_time_ns(strategy, ratio)
    footprint = 8 * GIB
    result = {
        "kind": "record", "schema": 1,
        "key": f"{network}/b{batch}/train/fused/fp32/{strategy}/x{ratio:.2f}/{mode}/{backend}",
        "network": network, "batch": batch, "pass": "train", "sgd": False, "network_knobs": {"insize": 224},
        "fusion": "fused", "precision": "fp32", "memory_order": "nchw",
        "workspace_cap_bytes": None if simulated else 2 * GIB, "strategy": strategy, "strategy_knobs": {}, "rules": None, "bits": "same", "ratio": ratio,
        "family": "device" if strategy == "device" else "explicit" if strategy == "swap_all" else "managed",
        "mode": mode, "backend": backend, "device": device, "figures": None, "figures_digest": None,
        "borrowed_figures": [], "iterations": 5, "outcome": outcome,
        "reason": None if outcome == "ok" else "made up",
        "samples_ns": [2 * time_ns] + [time_ns + step for step in range(4)] if outcome == "ok" else [],
        "counters": None, "counters_reason": None, "observed": observed(), "planning_ns": None, "bounds": None,
        "memory": {"footprint_bytes": footprint, "budget_bytes": int(footprint / ratio), "touched_bytes": None, "terms": {
            "parameters_bytes": GIB // 2, "parameter_gradients_bytes": GIB // 2, "activations_bytes": 5 * GIB,
            "activation_gradients_bytes": GIB, "inputs_bytes": GIB // 2, "workspace_bytes": GIB // 2,
            "fragmentation_bytes": 0},
            "device_arena_bytes": GIB, "managed_arena_bytes": 7 * GIB, "pinned_arena_bytes": 0,
            "peak_device_bytes": int(footprint / max(ratio, 1))},
        "compute_ns": 100_000_000, "digest": None, "loss": None, "simulated": simulated, "calibrated": False,
        "launch": None if simulated or outcome != "ok" else "cuda_graph", "engines": None, "timeline": None}
    return result | changes


def made_up_time_ns(strategy, ratio):
    over = max(0.0, ratio - 1.0)
    cost = {"device": 0.0, "swap_all": 0.6, "managed": 6.0 * over, "managed_advise": 4.0 * over,
            "managed_prefetch": 1.5 * over}
    return int(100_000_000 * (1.01 + cost.get(strategy, over)))


def outcome_of(strategy, ratio):
    if strategy == "device" and ratio > 1 or strategy == "swap_all" and ratio > 2:
        return "infeasible"
    return "ok"


def study(networks=("alexnet", "vgg16"), backends=("sim:h200", "sim:p100-pcie3-16g")):
    return [record(network, strategy, ratio, backend, outcome_of(strategy, ratio))
            for network in networks for backend in backends for strategy in STRATEGIES for ratio in RATIOS]


def timeline():
    spans, resident, at = [], [], 0
    for number in range(40):
        stall = 400_000 if number % 4 == 3 else 0
        spans.append({"lane": "compute", "name": f"conv{number}", "begin_ns": at, "end_ns": at + 1_000_000 + stall})
        spans.append({"lane": "to_device", "name": f"conv{number}.x", "begin_ns": at, "end_ns": at + 700_000})
        if number % 4 == 3:
            spans.append({"lane": "to_host", "name": f"conv{number}.y", "begin_ns": at + 200_000,
                          "end_ns": at + 1_200_000})
        at += 1_000_000 + stall
        resident.append({"at_ns": at, "bytes": min(number * GIB // 4, 5 * GIB) + GIB // 8 * (number % 3)})
    return {"iteration": 4, "spans": spans, "resident": resident}


def write_records(path, records, is_torn=False):
    text = "".join(json.dumps(entry) + "\n" for entry in [environment(), *records])
    if is_torn:
        text = text[:-40]
    path.write_text(text, encoding="utf-8")
    return path
