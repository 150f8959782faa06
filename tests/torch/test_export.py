"""umbench export on models whose graph can be told by hand. Skipped where there is no PyTorch 2.9 or later."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", minversion="2.9")

ROOT = Path(__file__).resolve().parents[2]
MODELS = """
import torch
from torch import nn


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(0.1), nn.Linear(32, 4)), (torch.randn(8, 16),)


def cnn():
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
              nn.Linear(8, 5)]
    return nn.Sequential(*layers), (torch.randn(4, 3, 16, 16),)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen.add_(x.mean(0))
        return self.layer(x).square().sum()


def counting():
    return Counting(), (torch.randn(4, 3),)


class Mobile(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.deep = nn.Conv2d(3, 8, (3, 1), padding=(1, 0)), nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.act, self.fc = nn.ReLU6(), nn.Linear(16, 4)

    def forward(self, x):
        x = self.act(self.wide(x))
        x = nn.functional.avg_pool2d(torch.cat([x, self.deep(x)], 1), 3, 2, 1)
        return self.fc(x.mean((2, 3)))


def mobile():
    return Mobile(), (torch.randn(4, 3, 16, 16),)


class Shared(nn.Module):
    # Layers copied from one, an embedding that is also the last layer's weights, a mask, parameters that nothing reads, a dict.

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
        self.last, self.spare = nn.Linear(16, 50, bias=False), nn.Linear(3, 3)
        self.last.weight = self.embedding.weight

    def forward(self, x, mask):
        y = self.encoder(self.embedding(x), src_key_padding_mask=mask)
        return {"hidden": y, "logits": self.last(y.mean(1))}


def shared():
    return Shared(), (torch.randint(0, 50, (4, 6)), torch.zeros(4, 6, dtype=torch.bool))


class Fixed(Counting):
    def forward(self, x):
        return self.layer(x + torch.zeros(4, 3)).square().sum()


def fixed():
    return Fixed(), (torch.randn(4, 3),)


class Asks(Counting):
    def forward(self, x):
        return self.layer(x).sum() if x.sum() > 0 else self.layer(-x).sum()


def asks():
    return Asks(), (torch.randn(4, 3),)


def frozen():
    return nn.Linear(3, 3).requires_grad_(False), (torch.randn(4, 3),)


def wide():
    return nn.Linear(3, 3), (torch.randn(4, 5),)


def double():
    return nn.Linear(3, 3).double(), (torch.randn(4, 3).double(),)


def named():
    return nn.Linear(3, 3), {"input": torch.randn(4, 3)}


def broken():
    raise OSError("no such weights")


def nothing():
    return 1
"""


@pytest.fixture
def export(tmp_path):
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")

    def run(name, *options):
        command = [sys.executable, ROOT / "python/start.py", "export", f"models.py:{name}", "-o", "out.json", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done, json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) if done.returncode == 0 else None

    return run


def by_name(graph, of="ops"):
    return {entry["name"]: entry for entry in graph[of]}


def test_what_umbench_knows_is_mapped(export):
    done, graph = export("cnn", "--as", "eager")
    assert done.returncode == 0, done.stderr
    assert [op["kind"] for op in graph["ops"]] == [
        "convolution", "batch_norm", "relu", "max_pool", "global_average_pool", "linear", "softmax_cross_entropy",
        "softmax_cross_entropy_backward", "linear_backward_data", "linear_backward_filter", "bias_backward", "global_average_pool_backward",
        "max_pool_backward", "relu_backward", "batch_norm_backward", "convolution_backward_filter", "bias_backward"]
    tensors = by_name(graph, "tensors")
    assert tensors["0.weight"] == {"name": "0.weight", "shape": [8, 3, 3, 3], "use": "parameter"}
    assert tensors["6.weight"]["shape"] == [5, 8, 1, 1] and tensors["labels"]["use"] == "label"
    gradients = {name for name, t in tensors.items() if t.get("use") == "parameter_gradient"}
    assert gradients == {f"{layer}.{what}.grad" for layer in "016" for what in ("weight", "bias")}
    assert "100.0 % of the bytes" in done.stdout


def test_what_networks_since_2015_need_is_mapped(export):
    done, graph = export("mobile", "--as", "eager")
    assert done.returncode == 0, done.stderr
    assert {op["kind"] for op in graph["ops"]} == {
        "convolution", "relu", "concat", "average_pool", "global_average_pool", "linear", "softmax_cross_entropy",
        "softmax_cross_entropy_backward", "linear_backward_data", "linear_backward_filter", "bias_backward", "global_average_pool_backward",
        "average_pool_backward", "concat_backward", "convolution_backward_data", "convolution_backward_filter", "add", "relu_backward"}
    ops = by_name(graph)
    assert ops["deep"]["groups"] == 8 and "groups" not in ops["wide"] and ops["wide"]["pad"] == [1, 0]
    apart = next(op for op in graph["ops"] if op["kind"] == "concat_backward")
    shapes = {name: tensor["shape"] for name, tensor in by_name(graph, "tensors").items()}
    assert [shapes[name] for name in apart["out"]] == [[4, 8, 16, 16]] * 2 and shapes[apart["in"][0]] == [4, 16, 16, 16]
    assert ops["avg_pool2d"]["count_include_pad"] is True
    assert all(op.get("capped") for op in graph["ops"] if op["kind"].startswith("relu"))


def test_the_rest_is_opaque_and_says_how_it_is_cut(export):
    done, graph = export("mlp", "--as", "eager")
    assert done.returncode == 0, done.stderr
    ops = by_name(graph)
    norm = ops["2.backward"]
    assert norm["label"] == "native_layer_norm_backward" and norm["cut"]["out"] == ["part", "sum", "sum"]
    assert ops["1:gelu"]["alias"] == {"input": 0, "output": 0} and ops["1:gelu"]["cut"] == {"in": ["part"], "out": ["part"]}
    assert ops["1:gelu"]["bytes"] == 2 * 8 * 32 * 4
    assert ops["3:native_dropout"]["repeatable"] is False and ops["3:native_dropout"]["cut"]["in"] == ["part"]
    assert all("duration_ns" not in op for op in graph["ops"])


def test_what_a_model_changes_is_written_in_place(export):
    done, graph = export("counting", "--machine", "h200")
    assert done.returncode == 0, done.stderr
    update = by_name(graph)["seen.update"]
    assert update["out"] == ["seen"] and "seen" in update["in"] and update["repeatable"] is False
    assert all(op["duration_ns"] > 0 for op in graph["ops"] if op["kind"] == "opaque")


def test_inference_has_no_gradients(export):
    done, graph = export("mlp", "--inference")
    assert done.returncode == 0, done.stderr
    assert {t.get("use", "activation") for t in graph["tensors"]} == {"input", "parameter", "activation", "output"}


def test_times_are_measured(export):
    done, graph = export("mlp", "--measure", "cpu")
    assert done.returncode == 0, done.stderr
    assert all(op["duration_ns"] > 0 for op in graph["ops"] if op["kind"] == "opaque")


@pytest.mark.parametrize("arguments, words", [(["nothing"], "torch.nn.Module"), (["none"], "no function none"),
                                              (["mlp", "--name", "A b"], "--name"), (["mlp", "--machine", "none"], "none")])
def test_bad_input_is_one_line(export, arguments, words):
    done, _ = export(*arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and words in done.stderr, done.stderr


def test_layers_may_be_copied_shared_and_unused(export):
    done, graph = export("shared")
    assert done.returncode == 0 and not done.stderr, done.stderr
    gradients = {t["name"] for t in graph["tensors"] if t.get("use") == "parameter_gradient"}
    assert {"embedding.weight.grad", "encoder.layers.1.linear1.weight.grad"} <= gradients and "last.weight.grad" not in gradients
    assert not any("spare" in t["name"] for t in graph["tensors"])
    (total,) = [op for op in graph["ops"] if op["out"] == ["embedding.weight.grad"]]
    assert total["kind"] == "add" and len(total["in"]) == 2


def test_a_model_of_one_batch_size_is_not_cut(export):
    done, graph = export("fixed")
    assert done.returncode == 0 and "nothing may be cut along the batch: with twice the batch the model fails" in done.stdout
    assert not any("cut" in op for op in graph["ops"])


@pytest.mark.parametrize(("model", "told"), [
    ("asks", "depends on values of its tensors"), ("frozen", "no parameter requires a gradient; give --inference"),
    ("wide", "the model fails on its example inputs: RuntimeError"), ("double", "weight holds float64, for which umbench has no type"),
    ("named", "example input 1 is a dict, not a tensor"), ("broken", "the function fails: OSError: no such weights"),
    ("nothing", "the function returns something else than (model, inputs)")])
def test_what_cannot_be_exported_is_told_in_one_line(export, model, told):
    done, _ = export(model)
    assert done.returncode == 2 and told in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not done.stdout
