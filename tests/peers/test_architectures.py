"""The descriptions hold what umbench builds: same names, same extents."""

import json
import math
import subprocess

import architectures as nets
import pytest


def test_gradients_are_named_after_their_parameters():
    assert nets.gradient_name("conv1.w") == "conv1.dw"
    assert nets.gradient_name("layer1.0.downsample.1.scale") == "layer1.0.downsample.1.dscale"


@pytest.mark.parametrize("network", nets.NETWORK_NAMES)
def test_names_and_extents_are_umbenchs(network, umbench_binary, tmp_path):
    done = subprocess.run([umbench_binary, "plan", "--network", network, "--batch", "2", "--strategy", "device",
                           "--backend", "sim:h200", "--fusion", "lean", "--graph", tmp_path / "graph.json",
                           "-o", tmp_path / "plan.json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tensors = json.loads((tmp_path / "graph.json").read_text())["tensors"]
    theirs = {t["name"]: t["shape"] for t in tensors if t["use"] == "parameter"}
    ours = nets.parameter_extents(nets.layers_of(network))
    assert set(ours) == set(theirs)
    for name, shape in ours.items():
        assert math.prod(shape) == math.prod(theirs[name]), name
        if len(shape) == 4:
            assert list(shape) == list(theirs[name]), name
    gradients = {t["name"] for t in tensors if t["use"] == "parameter_gradient"}
    assert gradients == {nets.gradient_name(name) for name in ours}
    assert {"data", "labels", "loss"} <= {t["name"] for t in tensors}
