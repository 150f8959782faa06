"""The table of `umbench fit`: no GPU, no step that runs."""

import importlib

import pytest

torch = pytest.importorskip("torch", minversion="2.9")

import test_fit  # noqa: E402, F401  skips where the program umbench is not built
import test_zoo  # noqa: E402

from umbench import load, model_arguments  # noqa: E402
from umbench.torch import capture, convert, export, forecast, layouts, liveness, private  # noqa: E402
from umbench.torch.costs import MachineCosts  # noqa: E402
from umbench.torch.plan import Plan  # noqa: E402
from umbench.torch.planner import NoPlan, ask_planner  # noqa: E402
from umbench.torch.step import step_and_pytorchs_choice  # noqa: E402

MODEL = """
import torch
from torch import nn

def perceptron():
    return nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())], nn.Linear(64, 8)), (torch.randn(512, 64),)

def convolution():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), nn.Conv2d(8, 8, 3)), (torch.randn(2, 3, 32, 32),)
"""


@pytest.mark.parametrize(("model", "expected_answer"), [("perceptron", "no"), ("convolution", "yes")])
def test_the_library_of_products_takes_memory_where_there_are_products(model, expected_answer, tmp_path, capsys):
    file = tmp_path / "small.py"
    file.write_text(MODEL, encoding="utf-8")
    forecast.main(model_arguments.parse_fit([f"{file}:{model}", "--budget", "100MiB", "--effort", "0.01"]))
    assert capsys.readouterr().out.splitlines()[1].split()[1] == expected_answer


def test_the_table_tells_which_batch_fits(tmp_path, capsys):
    file = tmp_path / "small.py"
    file.write_text(MODEL, encoding="utf-8")
    forecast.main(model_arguments.parse_fit([f"{file}:perceptron", "--budget", "140MiB", "--batch", "512", "131072", "--effort", "0.01"]))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["512", "yes"], ["131072", "no"]]
    assert lines[-1] == "largest batch that fits: 512"


SCALED = """
import torch
from torch import nn

class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.database = nn.Linear(24, 8)

    def forward(self, scale, x):
        return scale * self.database(x)

def scaled():
    return Scaled(), (torch.ones(()), torch.randn(6, 24))

def lone():
    return nn.Linear(24, 8), torch.randn(6, 24)

def unbatched():
    return Scaled(), (torch.ones(()), 2)
"""


@pytest.mark.parametrize("name", ["scaled", "lone"])
def test_the_batch_is_that_of_the_first_input_that_has_one(name, tmp_path, capsys):
    """Not the extent of a parameter whose name begins as those of inputs do."""
    file = tmp_path / "scaled.py"
    file.write_text(SCALED, encoding="utf-8")
    forecast.main(model_arguments.parse_fit([f"{file}:{name}", "--budget", "140MiB", "--batch", "6", "12", "--effort", "0.01"]))
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:3]] == [["6", "yes"], ["12", "yes"]]


def test_a_batch_can_only_be_set_where_an_example_input_has_one(tmp_path):
    file = tmp_path / "scaled.py"
    file.write_text(SCALED, encoding="utf-8")
    with pytest.raises(load.BadInput, match="unbatched gives no example input with a batch"):
        forecast.main(model_arguments.parse_fit([f"{file}:unbatched", "--budget", "140MiB", "--batch", "6"]))


@pytest.mark.parametrize(("model", "library", "max_error"), [("regnet", "torchvision", 0.03), ("gpt2", "transformers", 0.05), ("mixtral", "transformers", 0.03)])
def test_fit_and_export_tell_peaks_alike(model, library, max_error):
    pytest.importorskip(library)
    options = model_arguments.parse_fit([f"{test_zoo.__file__}:{model}", "--budget", "1TiB", "--effort", "0.001"])
    _, answer, *_ = forecast.plan_with_loss_shares(options, Plan(2**40), 1)
    nodes, kernels = answer["begin"]["peak"] - forecast.LIBRARY_BYTES, liveness.peak_and_operator_of(convert.convert_model(getattr(test_zoo, model)).document)[0]
    assert abs(nodes / kernels - 1) < max_error


WORDS = """
import torch
from torch import nn

class Words(nn.Module):
    def __init__(self, learns, tells_logits):
        super().__init__()
        self.hidden, self.head, self.tells_logits = nn.Linear(16, 16), nn.Linear(16, 4000), tells_logits
        self.head.weight.requires_grad_(learns)

    def forward(self, x, labels):
        logits = self.head(self.hidden(x).relu())
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits} if self.tells_logits else loss

def words(learns=True, tells_logits=False):
    return Words(learns, tells_logits), (torch.randn(4, 512, 16), torch.randint(4000, (4, 512)))

def frozen():
    return words(learns=False)

def told():
    return words(tells_logits=True)
"""


@pytest.mark.parametrize(("name", "expected_shares"), [("words", 2), ("frozen", 4), ("told", 1)])
def test_a_loss_is_cut_as_fit_cuts_it(name, expected_shares, tmp_path, monkeypatch, capsys):
    """Into as many shares, and the graph is the same, but for results beside the loss, which have gradients of their own."""
    file = tmp_path / "words.py"
    file.write_text(WORDS, encoding="utf-8")
    given = [f"{file}:{name}", "--budget", "200MiB", "--effort", "0.001"]
    step, *_, found = forecast.plan_with_loss_shares(model_arguments.parse_fit(given), Plan(200 * 2**20), 1)
    assert found == expected_shares

    def operator_targets(step):
        return [node.target for node in step.nodes if node.op == "call_function"]

    def compare_graphs(fit_step, *_):
        products = [sum(target == torch.ops.aten.mm.default for target in operator_targets(each)) for each in (fit_step, step)]
        assert products[0] == products[1] and (name == "told" or operator_targets(fit_step) == operator_targets(step))
        raise NoPlan("seen")

    monkeypatch.setattr(importlib.import_module("umbench.torch.fit"), "ask_planner", compare_graphs)
    model, inputs = export.load_function(f"{file}:{name}")()
    with pytest.raises(NoPlan, match="seen"):
        test_fit.umt.fit(model, budget="200MiB")(*inputs)
    forecast.main(model_arguments.parse_fit(given))
    assert (f"the loss in {expected_shares} shares of its rows" in capsys.readouterr().out) == (expected_shares > 1)


def round_to_allocator_block(byte_count):
    """A size rounded up to a multiple of 512 bytes."""
    return -(-byte_count // 512) * 512


@pytest.mark.parametrize(("model", "library", "max_error"), [("regnet", "torchvision", 0.01), ("gpt2", "transformers", 0.01), ("t5", "transformers", 0.01),
                                                        ("llama", "transformers", 0.01), ("mixtral", "transformers", 0.01), ("lstm", "torch", 0.04)])
def test_both_rules_of_fusion_take_the_same_memory(model, library, max_error, monkeypatch):
    """The planner's and kernels_of's, of the same two graphs in the same order. fit leaves images as they are traced; the nodes know no products that are added."""
    pytest.importorskip(library)
    joint = capture.capture_joint(getattr(test_zoo, model), compiled=True)
    private.remove_dead_and_repeated_nodes(joint.graph)
    costs = MachineCosts(export.read_machine("h100-sxm-80g"))
    step, begin = step_and_pytorchs_choice(joint.graph, joint.num_fwd_outputs, joint.static_input_numbers, costs)
    monkeypatch.setattr(liveness, "tensor_bytes", lambda tensor, plain=liveness.tensor_bytes: round_to_allocator_block(plain(tensor)))  # as the planner does
    base = sum(round_to_allocator_block(fields["bytes"]) for fields in step.node_fields if fields["resident"])
    nodes = ask_planner(step, 2**40, base, costs.rates, True, begin, 0.001)["begin"]
    primals = convert._names_and_roles_of_primals(joint.graph.graph, joint.static_input_numbers, joint.name_of_input)
    forward, backward = private.split_saving(joint.graph, [], step.names_of(begin),
                                             num_fwd_outputs=joint.num_fwd_outputs, static_lifetime_input_indices=list(joint.static_input_numbers))
    monkeypatch.setattr(layouts, "uses_channels_last", lambda graph: False)
    monkeypatch.setattr(layouts, "copied_bytes_per_kernel", lambda node: [])
    monkeypatch.setattr(convert, "in_running_order", lambda kernels, stays: list(kernels))
    monkeypatch.setattr(convert, "replace_sums_by_addmm", lambda graph: None)
    kernels = convert.convert_split(forward.graph, backward.graph, num_fwd_outputs=joint.num_fwd_outputs, names_and_roles=primals).document
    assert nodes["peak"] == pytest.approx(liveness.peak_and_operator_of(kernels)[0], rel=max_error)
    assert nodes["saved_bytes"] == pytest.approx(liveness.saved_bytes(kernels), rel=max_error)
