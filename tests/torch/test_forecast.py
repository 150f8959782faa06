"""The table of `umbench fit`: no GPU, no step that runs."""

import pytest

pytest.importorskip("torch", minversion="2.9")

import test_fit  # noqa: E402, F401  skips where the program umbench is not built
import test_zoo  # noqa: E402

from umbench import model_arguments  # noqa: E402
from umbench.torch import convert, forecast, liveness  # noqa: E402

MODEL = """
import torch
from torch import nn

def perceptron():
    return nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())], nn.Linear(64, 8)), (torch.randn(512, 64),)
"""


def test_the_table_tells_which_batch_fits(tmp_path, capsys):
    file = tmp_path / "small.py"
    file.write_text(MODEL, encoding="utf-8")
    forecast.main(model_arguments.fit([f"{file}:perceptron", "--budget", "140MiB", "--batch", "512", "131072", "--effort", "0.01"]))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["512", "yes"], ["131072", "no"]]
    assert lines[-1] == "largest batch that fits: 512"


@pytest.mark.parametrize(("model", "library", "most"), [("regnet", "torchvision", 0.03), ("gpt2", "transformers", 0.05), ("mixtral", "transformers", 0.03)])
def test_nodes_and_kernels_take_the_same_memory(model, library, most):
    """fit plans over the nodes of the joint graph, export writes the kernels of its two parts. The nodes know no products that are added, as the gradients of
    GPT-2's tied weights, and no order that counts what kernels hold."""
    pytest.importorskip(library)
    options = model_arguments.fit([f"{test_zoo.__file__}:{model}", "--budget", "1TiB", "--effort", "0.001"])
    _, answer, _ = forecast.planned(options, 2**40, 1)
    nodes, kernels = answer["begin"]["peak"] - forecast.LIBRARY_BYTES, liveness.peak_of(convert.of_model(getattr(test_zoo, model)).document)[0]
    assert abs(nodes / kernels - 1) < most
