"""Six small networks of other people's libraries, and of LSTM layers, go through `umbench export` with every parameter."""

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", minversion="2.9")

ROOT = Path(__file__).resolve().parents[2]
EXPORTED = ROOT / "tests/networks/exported"
sys.path.insert(0, str(ROOT / "benchmarks"))

import torch_zoo  # noqa: E402
from umbench.torch import convert, export, liveness  # noqa: E402

TINY = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100}


def regnet():
    return torch_zoo.torchvision_model("regnet_y_400mf", 2, 32)


def gpt2():
    return torch_zoo.gpt2(2, 16, n_layer=2, n_embd=32, n_head=4, vocab_size=100)


def t5():
    return torch_zoo.t5(2, 16, num_layers=2, d_model=32, d_ff=64, d_kv=8, num_heads=4, vocab_size=100)


def llama():
    return torch_zoo.llama(2, 16, **TINY)


def mixtral():
    return torch_zoo.mixtral(2, 16, **TINY)


def lstm():
    return torch_zoo.lstm(2, 8, 100, 16, 2)


@pytest.mark.parametrize(("model", "library"), [(regnet, "torchvision"), (gpt2, "transformers"), (t5, "transformers"),
                                                (llama, "transformers"), (mixtral, "transformers"), (lstm, "torch")])
def test_every_parameter_is_there_and_has_its_gradient(model, library):
    pytest.importorskip(library)
    wanted = {name.removeprefix("model."): p.numel() * p.element_size() for name, p in model()[0].named_parameters()}
    graph = convert.convert_model(model).document
    sizes = {use: {t["name"]: liveness.tensor_bytes(t) for t in graph["tensors"] if t["use"] == use} for use in ("parameter", "parameter_gradient")}
    found = {name.removeprefix("model."): size for name, size in sizes["parameter"].items()}
    assert {name: found.get(name) for name in wanted} == wanted
    assert {name.removeprefix("model."): size for name, size in sizes["parameter_gradient"].items()} == {
        f"{name}.grad": size for name, size in wanted.items()}
    assert liveness.peak_and_operator_of(graph)[0] > 2 * sum(wanted.values())


def test_experts_multiply_each_row_by_two_of_their_matrices():
    pytest.importorskip("transformers")
    graph = convert.convert_model(mixtral).document
    experts = [op for op in graph["ops"] if op["kind"] == "opaque" and "grouped_mm" in op["label"] and op["name"].startswith("model.model.layers.0.")]
    rows, wide, inner = 2 * 16 * 2, TINY["hidden_size"], TINY["intermediate_size"]
    forward = 2 * rows * wide * (2 * inner + inner)
    assert sum(op["flops"] for op in experts) == 3 * forward and all(op["products"] for op in experts)


@pytest.mark.parametrize("name", ["vgg16", "resnet50"])
def test_networks_are_exported_as_those_that_were_kept(name):
    """tests/harness/interface_networks.py holds the kept ones within 2 % of the catalogue's."""
    pytest.importorskip("torchvision")
    made = convert.convert_model(export.load_function(f"{EXPORTED / 'models.py'}:{name}"), form="eager").document
    kept = json.loads((EXPORTED / f"{name}.json").read_text(encoding="utf-8"))
    assert liveness.peak_and_operator_of(made)[0] == liveness.peak_and_operator_of(kept)[0]
    assert [op["kind"] for op in made["ops"]] == [op["kind"] for op in kept["ops"]]
