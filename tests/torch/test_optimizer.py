"""The steps of torch.optim, and umbench's beside them.

tests/reference/torch_optimizers.json holds what torch.optim gives; the project's reference is held to it without PyTorch
(tests/reference/optimizers_test.cpp), and the kernel to the reference (tests/cuda).
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests/reference/torch_optimizers.json"
STATES = {"sgd": {}, "momentum": {"m": "momentum_buffer"}, "adamw": {"m": "exp_avg", "v": "exp_avg_sq"}}


def make_optimizer(optimizer_name, parameters):
    if optimizer_name == "adamw":
        return torch.optim.AdamW(parameters)
    return torch.optim.SGD(parameters, momentum=0.9 if optimizer_name == "momentum" else 0)


def weights_and_states_after(optimizer_name, weights, gradients):
    """Weights and states after a step with each of the gradients."""
    parameter = torch.nn.Parameter(torch.as_tensor(weights).clone())
    optimizer = make_optimizer(optimizer_name, [parameter])
    for gradient in gradients:
        parameter.grad = torch.as_tensor(gradient).clone()
        optimizer.step()
    state = optimizer.state[parameter]
    return {"w": parameter.detach()} | {short: state[long] for short, long in STATES[optimizer_name].items()}


def compute_kept_numbers():
    """The kept numbers, made again."""
    dice = torch.Generator().manual_seed(7)
    w, gradients = torch.randn(24, generator=dice), torch.randn(3, 24, generator=dice)
    cases = [{"optimizer": name, "after": {key: value.tolist() for key, value in weights_and_states_after(name, w, gradients).items()}} for name in STATES]
    return {"w": w.tolist(), "gradients": gradients.tolist(), "cases": cases}


def test_kept_numbers_are_those_of_torch():
    kept, again = json.loads(KEPT.read_text(encoding="utf-8")), compute_kept_numbers()
    assert kept["w"] == again["w"] and kept["gradients"] == again["gradients"]
    for one, other in zip(kept["cases"], again["cases"], strict=True):
        assert one["optimizer"] == other["optimizer"]
        assert one["after"].keys() == other["after"].keys()
        for key, values in one["after"].items():
            np.testing.assert_allclose(values, other["after"][key], rtol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("options", [["--precision", "fp32"], ["--precision", "bf16"], ["--precision", "bf16", "--masters"]], ids=" ".join)
@pytest.mark.parametrize("name", list(STATES))
def test_a_step_on_the_gpu_is_that_of_torch(name, options, tmp_path):
    def values_after_iteration(*more_options):
        folder = tmp_path / f"values{len(more_options)}"
        line = [os.environ.get("UMBENCH", "umbench"), "run", "--network", "resnet18_cifar", "--batch", "8", *options[:2], "--strategy", "device",
                "--backend", "cuda:0", "--iterations", "1", "--times-only", "--values", folder, *more_options]
        ran = subprocess.run(line, capture_output=True, text=True, check=False)
        if "not built" in ran.stderr or "without CUDA" in ran.stderr:
            pytest.skip(ran.stderr)
        assert ran.returncode == 0, ran.stderr
        return {path.stem: np.load(path) for path in folder.glob("*.npy")}

    before, after = values_after_iteration(), values_after_iteration("--optimizer", name, *options[2:])
    masters = "--masters" in options
    if name == "adamw":
        assert after["step.count"].item() == 1
    stepped_ones = 0
    for parameter in (key for key in before if key.rpartition(".")[0] + ".d" + key.rpartition(".")[2] in before):
        layer, _, own = parameter.rpartition(".")
        gradient = after[f"{layer}.d{own}"]
        wanted = weights_and_states_after(name, before[parameter], [gradient])
        found = {"w": after.get(f"{parameter}.master", after[parameter])} | {key: after[f"{parameter}.{key}"] for key in STATES[name]}
        for key, value in found.items():
            np.testing.assert_allclose(value, wanted[key].numpy(), rtol=2e-5 if key == "v" else 2e-6, atol=1e-7, err_msg=f"{parameter} {key}")
        if f"{parameter}.master" in after:
            rounded = torch.as_tensor(found["w"]).bfloat16().float().numpy()
            np.testing.assert_array_equal(after[parameter], rounded)
        stepped_ones += 1
    assert stepped_ones > 20
    assert any(key.endswith(".master") for key in after) == masters
