"""measure/operator_paces.py: the machine files that it wrote, made again from the records that they name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from umbench import load  # noqa: E402

STUDY = ROOT / "results/study"
MADE_FROM = {
    "h200": ["best_h200.jsonl", "hints_h200.jsonl", "hints_alexnet_h200.jsonl"],
    "h200-calibrated": ["hints_before_h200.jsonl"],
    "h100-sxm-80g": ["best_h100.jsonl"],
}
ADDED = ["../validation/in_core_h200.jsonl", "../validation/h200_host_3.jsonl"]  # to h200, of kinds and precisions that it lacked


def read_machine_file(name):
    return json.loads((ROOT / f"results/machines/{name}.json").read_text(encoding="utf-8"))


def recalibrated_operators(tmp_path, name, records):
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps(read_machine_file(name) | {"operators": []}), encoding="utf-8")
    subprocess.run([sys.executable, ROOT / "measure/operator_paces.py", "--machine", file, *(STUDY / r for r in records)],
                   check=True, stdout=subprocess.DEVNULL)
    return json.loads(file.read_text(encoding="utf-8"))["operators"]


@pytest.mark.parametrize("name", MADE_FROM)
def test_a_machine_file_keeps_what_its_records_say(tmp_path, name):
    paces = recalibrated_operators(tmp_path, name, MADE_FROM[name])
    if name == "h200":
        known = [{**pace, "percent": 0} for pace in paces]
        paces += [pace for pace in recalibrated_operators(tmp_path, name, ADDED) if {**pace, "percent": 0} not in known]
    kept = read_machine_file(name)["operators"]
    assert paces and all(pace in kept for pace in paces)
    if name != "h100-sxm-80g":  # it has h200's for the rest
        assert len(paces) == len(kept)


@pytest.mark.parametrize("machine, file, cell", [
    ("h200", "hints_h200.jsonl", ("vgg16", "fp32")), ("h200", "hints_h200.jsonl", ("vgg16", "tf32")),
    ("h200", "best_h200.jsonl", ("vgg16", "bf16")), ("h200", "best_h200.jsonl", ("resnet50", "bf16")),
    ("h200", "hints_alexnet_h200.jsonl", ("alexnet", "fp32")), ("h100-sxm-80g", "best_h100.jsonl", ("vgg16", "bf16"))])
def test_a_step_in_core_takes_what_was_measured(tmp_path, machine, file, cell):
    measured = next(r for r in load.read_records([STUDY / file])
                    if r["strategy"] == "device" and (r["network"], r["precision"]) == cell)
    out = tmp_path / "simulated.jsonl"
    subprocess.run([os.environ["UMBENCH"], "run", "--network", cell[0], "--batch", str(measured["batch"]), "--precision",
                    cell[1], "--fusion", measured["fusion"], "--strategy", "device", "--backend", f"sim:{machine}",
                    "--iterations", "2", "--out", out], check=True, stdout=subprocess.DEVNULL)
    simulated = load.steady_ns(load.read_records([out])[0])
    assert simulated == pytest.approx(load.steady_ns(measured), rel=0.1)


def test_operators_add_up_to_an_iteration_of_them_all(tmp_path):
    """Timed one by one, the many small ones of ResNet-50 take longer than in a row."""
    record = next(r for r in load.read_records([STUDY / "best_h200.jsonl"]) if r["strategy"] == "device" and r["network"] == "resnet50")
    slow = tmp_path / "slow.jsonl"
    line = next(li for li in (STUDY / "best_h200.jsonl").read_text(encoding="utf-8").splitlines() if f'"{record["key"]}"' in li)
    twice = json.loads(line)
    twice["engines"] = [engine | {"time_ns": 2 * engine["time_ns"]} for engine in twice["engines"]]
    head = (STUDY / "best_h200.jsonl").read_text(encoding="utf-8").splitlines()[0]
    slow.write_text(f"{head}\n{json.dumps(twice)}\n", encoding="utf-8")
    as_kept = recalibrated_operators(tmp_path, "h200", ["best_h200.jsonl"])
    doubled = recalibrated_operators(tmp_path, "h200", [slow])
    of_resnet = [pace for pace in doubled if pace["kind"] == "batch_norm"]
    assert of_resnet and all(pace in as_kept for pace in of_resnet)
