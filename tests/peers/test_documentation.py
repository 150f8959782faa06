"""Tables of the documentation that a program can check."""

import json
import re
import subprocess

import conftest
import pytest

LEVELS = ("none", "fused", "lean")
NETWORKS = {"AlexNet, 512": ("alexnet", 512), "VGG-16, 64": ("vgg16", 64), "ResNet-50, 128": ("resnet50", 128)}
TERMS = ("parameters", "parameter_gradients", "activations", "activation_gradients", "inputs")


def memory_of(binary, folder, network, batch, level, precision):
    out = folder / f"{network}_{level}_{precision}.jsonl"
    done = subprocess.run([binary, "run", "--network", network, "--batch", str(batch), "--fusion", level, "--precision",
                           precision, "--strategy", "device", "--backend", "sim:h200", "--iterations", "1", "--out",
                           str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text().splitlines()[-1])["memory"]


def documented_rows():
    """{(network and batch, level): figures} of the table of footprints."""
    text = (conftest.ROOT / "results/levels.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([\w-]+, \d+) \| `(\w+)` \| ([\d |]+) \|$", text, re.MULTILINE)
    return {(network, level): [int(figure) for figure in figures.split("|")] for network, level, figures in found}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("level", LEVELS)
def test_footprints_are_what_umbench_says(network, level, umbench_binary, tmp_path):
    fp32, bf16 = (memory_of(umbench_binary, tmp_path, *NETWORKS[network], level, p) for p in ("fp32", "bf16"))
    figures = [fp32["terms"][f"{term}_bytes"] for term in TERMS] + [fp32["footprint_bytes"], bf16["footprint_bytes"]]
    figures = [round(figure / 2**20) for figure in figures]
    written = documented_rows()[network, level]
    close = 0.01 * figures[-2]  # packing may find a little more room, and move the peak
    assert len(written) == len(figures) and max(abs(a - b) for a, b in zip(written, figures)) <= close, (
        f"| {network} | `{level}` | {' | '.join(map(str, figures))} |")
