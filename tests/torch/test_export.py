"""umbench export on models whose graph can be told by hand. Skipped where there is no PyTorch 2.9 or later."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", minversion="2.9")

ROOT = Path(__file__).resolve().parents[2]

import jsonschema  # noqa: E402
from umbench import load, model_arguments  # noqa: E402
from umbench.torch import export as model_export  # noqa: E402
from umbench.torch import liveness  # noqa: E402

SCHEMA = json.loads((ROOT / "results/graph.schema.json").read_text(encoding="utf-8"))
MODELS = """
import logging

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


def halves():
    return nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 4)).to(torch.bfloat16), (torch.randn(8, 16, dtype=torch.bfloat16),)


def huge():
    layers = nn.Sequential(*[nn.Linear(65536, 65536) for _ in range(3)])
    return layers.half(), (torch.randn(8, 65536).half(),)


def by_default():
    torch.set_default_dtype(torch.bfloat16)
    try:
        return nn.Linear(16, 4), (torch.randn(8, 16),)
    finally:
        torch.set_default_dtype(torch.float32)


class Deep(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.body = nn.ModuleList([nn.Linear(3, 3), Calls(function)])

    def forward(self, x):
        return self.body[1](self.body[0](x))


def deep():
    return Deep(lambda y: y.sum() if y.sum() > 0 else -y.sum()), (torch.randn(4, 3),)


def deep_wide():
    model = Deep(torch.sum)
    model.body[1].layer = nn.Linear(5, 3)
    return model, (torch.randn(4, 3),)


def on_meta():
    with torch.device("meta"):
        return nn.Linear(16, 4), (torch.randn(8, 16),)


def on_cuda():
    return nn.Linear(16, 4, device="cuda").cuda(), (torch.randn(8, 16, device="cuda"),)


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.qkv, self.last = nn.Embedding(1000, 64), nn.Linear(64, 192), nn.Linear(64, 1000, bias=False)
        self.last.weight = self.embedding.weight
        self.dropout = 0.1

    def forward(self, tokens, mask=None):
        x = self.embedding(tokens)
        q, k, v = self.qkv(x).view(*tokens.shape, 3, 4, 16).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, mask, self.dropout, is_causal=mask is None)
        logits = self.last(x + y.transpose(1, 2).reshape(x.shape)).float()
        return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def attends():
    return Attends().to(torch.bfloat16), (torch.randint(0, 1000, (4, 128)),)


def trained_mask():
    model = Attends()
    model.bias = nn.Parameter(torch.zeros(1, 1, 128, 128))
    model.forward = lambda tokens: Attends.forward(model, tokens, model.bias)
    return model, (torch.randint(0, 1000, (4, 128)),)


def expanded_mask():
    return Attends(), (torch.randint(0, 1000, (4, 128)), torch.ones(4, 1, 1, 1, dtype=torch.bool).expand(4, 1, 128, 128))


def masked():
    return Attends(), (torch.randint(0, 1000, (4, 128)), torch.ones(128, 128, dtype=torch.bool))


class Rotated(Attends):
    # Queries are put together along their heads, so places lie closer together than heads do.

    def forward(self, tokens, mask):
        x = self.embedding(tokens)
        q, k, v = self.qkv(x).view(*tokens.shape, 3, 4, 16).permute(2, 0, 3, 1, 4)
        q = torch.cat([q[..., :8].neg(), q[..., 8:]], -1)
        y = nn.functional.scaled_dot_product_attention(q, k, v, mask)
        return self.last(y.transpose(1, 2).reshape(x.shape)).float().logsumexp(-1).mean()


def rotated():
    return Rotated().to(torch.bfloat16), (torch.randint(0, 1000, (4, 128)), torch.ones(4, 1, 128, 128, dtype=torch.bool))


def adapted():
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 4, bias=False), nn.Linear(4, 64, bias=False))
    model[0].requires_grad_(False)
    return model, (torch.randn(8, 64),)


class Silu(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        return nn.functional.silu(self.layer(x))


def silu():
    return Silu(), (torch.randn(8, 64),)


class Casts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(64, 64), nn.LayerNorm(64)

    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.norm(self.layer(x))


def casts():
    return Casts(), (torch.randn(8, 64),)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x).argmax()


def counts():
    return Counts(), (torch.randn(4, 3),)


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.layer, self.function = nn.Linear(3, 3), function

    def forward(self, x):
        return self.function(self.layer(x))


def dynamic():
    return Calls(lambda y: y[y > 0].sum()), (torch.randn(4, 3),)


def reads():
    return Calls(lambda y: y.sum() * float(y.mean())), (torch.randn(4, 3),)


def lists():
    return Calls(lambda y: y.sum() * len(y.detach().flatten().tolist())), (torch.randn(4, 3),)


def numbers():
    return Calls(lambda y: y.sum() * float(y.detach().numpy().max())), (torch.randn(4, 3),)


def breaks():
    def function(y):
        torch._dynamo.graph_break()
        return y.sum()
    return Calls(function), (torch.randn(4, 3),)


def warns():
    def function(y):
        logging.getLogger("model").warning("not traced")
        return y.sum()
    return Calls(function), (torch.randn(4, 3),)


class Rejects(nn.Linear):
    def reset_parameters(self):
        nn.init.trunc_normal_(self.weight, std=0.02)  # torch 2.15 draws until no value lies outside


def rejects():
    return Rejects(3, 3, bias=False), (torch.randn(4, 3),)


def images(*layers):
    return nn.Sequential(*layers).to(torch.bfloat16), (torch.randn(2, 128, 8, 8, dtype=torch.bfloat16),)


def narrows():
    return images(nn.Conv2d(128, 256, 3, padding=1), nn.Conv2d(256, 128, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def grouped():
    return images(nn.Conv2d(128, 128, 1), nn.Conv2d(128, 128, 3, padding=1, groups=4), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Doubles(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)

    def forward(self, x):
        y = self.one(x)
        return self.two(y + y).sum()


def doubles():
    return Doubles(), (torch.randn(4, 16),)


def ends():
    return images(nn.Conv2d(128, 128, 3, padding=1), nn.Conv2d(128, 256, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def long_rows():
    return nn.Sequential(nn.Linear(1101, 32, bias=False), nn.Linear(32, 2001)), (torch.randn(64, 1101),)


def widens():
    return images(nn.Conv2d(128, 128, 3, padding=1), nn.Conv2d(128, 256, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Again(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = (nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)) for _ in range(2))

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint
        return checkpoint(self.two, checkpoint(self.one, x, use_reentrant=True), use_reentrant=False)


def again():
    return Again(), (torch.randn(4, 16),)


def wrapped():
    return torch.compile(nn.DataParallel(Again())), (torch.randn(4, 16),)


def selective():
    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

    class Selective(nn.Linear):
        def forward(self, x):
            return checkpoint(super().forward, x, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts([]))

    return Selective(16, 16), (torch.randn(2, 16),)


def flexible():
    from torch.nn.attention.flex_attention import flex_attention

    class Flexible(nn.Linear):
        def forward(self, x):
            y = super().forward(x)[:, None]
            return flex_attention(y, y, y).mean()

    return Flexible(16, 16), (torch.randn(2, 128, 16),)


def double():
    return nn.Linear(3, 3).double(), (torch.randn(4, 3).double(),)


def empty():
    return nn.Linear(3, 3), (torch.randn(0, 3),)


def named():
    return nn.Linear(3, 3), {"input": torch.randn(4, 3)}


def broken():
    raise OSError("no such weights")


def nothing():
    return 1
"""


class ExportResult:
    def __init__(self, returncode, stdout, stderr):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


@pytest.fixture
def export(tmp_path, monkeypatch, capfd):
    """Runs `umbench export` in this process, since loading PyTorch takes longer than most exports."""
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run_export(model_function_name, *options):
        given = [f"models.py:{model_function_name}", "-o", "out.json", *options]
        try:
            code = load.report_errors(lambda: model_export.main(model_arguments.parse_export(given)), "umbench")
        except SystemExit as left:
            code = left.code
        told = capfd.readouterr()
        written = tmp_path / "out.json"
        assert written.exists() == (code == 0)
        graph = json.loads(written.read_text(encoding="utf-8")) if code == 0 else None
        if graph:
            jsonschema.validate(graph, SCHEMA)
            written.unlink()
        return ExportResult(code, told.out, told.err), graph

    return run_export


def entries_by_name(graph, list_name="ops"):
    return {entry["name"]: entry for entry in graph[list_name]}


def test_what_umbench_knows_is_mapped(export):
    done, graph = export("cnn", "--as", "eager")
    assert done.returncode == 0, done.stderr
    assert [op["kind"] for op in graph["ops"]] == [
        "convolution", "batch_norm", "relu", "max_pool", "global_average_pool", "linear", "softmax_cross_entropy",
        "softmax_cross_entropy_backward", "linear_backward_data", "linear_backward_filter", "bias_backward", "global_average_pool_backward",
        "max_pool_backward", "relu_backward", "batch_norm_backward", "convolution_backward_filter", "bias_backward"]
    assert all(":" in op["name"] or op["name"].startswith("loss") for op in graph["ops"])  # the module, and the node
    tensors = entries_by_name(graph, "tensors")
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
    ops = entries_by_name(graph)
    assert ops["deep:convolution_1"]["groups"] == 8 and "groups" not in ops["wide:convolution"] and ops["wide:convolution"]["pad"] == [1, 0]
    apart = next(op for op in graph["ops"] if op["kind"] == "concat_backward")
    shapes = {name: tensor["shape"] for name, tensor in entries_by_name(graph, "tensors").items()}
    assert [shapes[name] for name in apart["out"]] == [[4, 8, 16, 16]] * 2 and shapes[apart["in"][0]] == [4, 16, 16, 16]
    assert ops["avg_pool2d"]["count_include_pad"] is True
    assert all(op.get("capped") for op in graph["ops"] if op["kind"].startswith("relu"))


def test_the_rest_is_opaque_and_says_how_it_is_cut(export):
    done, graph = export("mlp", "--as", "eager")
    assert done.returncode == 0, done.stderr
    ops = entries_by_name(graph)
    norm = ops["2:native_layer_norm_backward"]
    assert norm["label"] == "native_layer_norm_backward" and norm["cut"]["out"] == ["part", "sum", "sum"]
    assert ops["1:gelu"]["alias"] == {"input": 0, "output": 0} and ops["1:gelu"]["cut"] == {"in": ["part"], "out": ["part"]}
    assert ops["1:gelu"]["bytes"] == 2 * 8 * 32 * 4
    assert ops["3:native_dropout"]["repeatable"] is False and ops["3:native_dropout"]["cut"]["in"] == ["part"]
    assert all("duration_ns" not in op for op in graph["ops"])


def test_a_step_is_no_shorter_than_its_launches(export):
    _, graph = export("mlp", "--machine", "h200")
    _, waits = export("mlp", "--machine", "h200", "--launch", "1ms")
    _, same = export("mlp", "--machine", "h200", "--launch", "10ns")
    took, quick, slow = (sum(op["duration_ns"] for op in each["ops"]) for each in (graph, same, waits))
    assert took < quick < took + 1000 and slow >= len(graph["ops"]) * 1_000_000
    assert all(late["duration_ns"] > op["duration_ns"] for late, op in zip(waits["ops"], graph["ops"]))
    done, _ = export("mlp", "--launch", "1ms")
    assert done.returncode == 2 and "--launch wants --machine or --measure" in done.stderr


def test_what_a_model_changes_is_written_in_place(export):
    done, graph = export("counting", "--machine", "h200", "--as", "eager")
    assert done.returncode == 0, done.stderr
    update = entries_by_name(graph)["seen.update"]
    assert update["out"] == ["seen"] and "seen" in update["in"] and update["repeatable"] is False
    assert all(op["duration_ns"] > 0 for op in graph["ops"] if op["kind"] == "opaque")


def test_inference_has_no_gradients(export):
    done, graph = export("mlp", "--inference")
    assert done.returncode == 0, done.stderr
    assert {t.get("use", "activation") for t in graph["tensors"]} == {"input", "parameter", "activation", "output"}


@pytest.mark.parametrize("arguments, expected_words", [(["nothing"], "torch.nn.Module"), (["none"], "no function none"),
                                              (["mlp", "--name", "A b"], "--name"), (["mlp", "--machine", "none"], "none")])
def test_bad_input_is_one_line(export, arguments, expected_words):
    done, _ = export(*arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and expected_words in done.stderr, done.stderr


def test_layers_may_be_copied_shared_and_unused(export):
    done, graph = export("shared", "--as", "eager")
    assert done.returncode == 0 and not done.stderr, done.stderr
    gradients = {t["name"] for t in graph["tensors"] if t.get("use") == "parameter_gradient"}
    assert {"embedding.weight.grad", "encoder.layers.1.linear1.weight.grad"} <= gradients and "last.weight.grad" not in gradients
    assert not any("spare" in t["name"] for t in graph["tensors"])
    (total,) = [op for op in graph["ops"] if op["out"] == ["embedding.weight.grad"]]
    assert total["kind"] == "add" and len(total["in"]) == 2


def test_a_model_of_one_batch_size_is_not_cut(export):
    done, graph = export("fixed", "--as", "eager")
    assert done.returncode == 0 and "nothing may be cut along the batch: with twice the batch the model fails" in done.stdout
    assert not any("cut" in op for op in graph["ops"])


@pytest.mark.parametrize(("model", "expected_text"), [
    ("asks", "depend on values of its tensors"), ("frozen", "no parameter requires a gradient; give --inference"),
    ("wide", "the model fails on its example inputs: RuntimeError"),
    ("deep", "in module body.1 the model's operators depend on values"), ("deep", "put torch.where in place of such an if"),
    ("deep_wide", "in module body.1.layer RuntimeError"),
    ("dynamic", "depend on values of its tensors"), ("reads", "depend on values of its tensors"), ("lists", "depend on values of its tensors"),
    ("numbers", "the model fails on its example inputs"), ("breaks", "the model has no single graph: Call to `torch._dynamo.graph_break()`"),
    ("warns", "the model has no single graph: "), ("warns", "torch.compile(fullgraph=True)"),
    ("named", "example input 1 is a dict, not a tensor"), ("broken", "the function fails: OSError: no such weights"),
    ("selective", "checkpointing that selects operators is not traced"), ("flexible", "the model calls flex_attention, which is not traced"),
    ("empty", "example input 1 is empty ([0, 3])"), ("nothing", "the function returns something else than (model, inputs)")])
def test_what_cannot_be_exported_is_told_in_one_line(export, model, expected_text):
    done, _ = export(model)
    assert done.returncode == 2 and expected_text in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not done.stdout


def test_eager_models_have_no_graphs_to_break(export):
    done, graph = export("breaks", "--as", "eager")
    assert done.returncode == 0 and graph["ops"]


def test_eager_operators_have_no_64_bit_floats(export):
    done, _ = export("double", "--as", "eager")
    assert done.returncode == 2 and "weight holds float64, for which umbench has no type" in done.stderr


# --- as torch.compile runs it ---

def test_generated_kernels_are_joined_and_what_is_inside_takes_no_memory(export):
    _, graph = export("mlp")
    labels = [op["label"] for op in graph["ops"]]
    assert labels[0] == "addmm" and labels.count("addmm") == 2 and labels.count("mm") == 3
    norm = next(op for op in graph["ops"] if "rsqrt" in op["label"])
    assert "erf" in norm["label"]  # GELU, normalisation and dropout in one kernel
    kept = [t for t in graph["tensors"] if t["shape"] == [8, 32, 1, 1] and t["use"] == "activation"]
    assert len(kept) == 3 and sorted(t["type"] for t in kept) == ["f32", "f32", "u8"]  # of the layer, of dropout, its mask


def test_names_are_those_of_modules_and_nodes(export):
    _, graph = export("mlp")
    assert {"0.weight", "0:addmm", "4.weight.grad", "labels"} <= {t["name"] for t in graph["tensors"]}
    assert {"0:addmm", "4:addmm_1", "4:mm"} <= {op["name"] for op in graph["ops"]}


def test_silu_has_one_kernel_back(export):
    _, graph = export("silu", "--as", "eager")
    assert [op["label"] for op in graph["ops"] if "label" in op] == ["silu", "silu_backward"]


@pytest.mark.parametrize("form", ["compile", "eager"])
@pytest.mark.parametrize(("model", "kind"), [("attends", "cudnn"), ("rotated", "cudnn"), ("masked", "efficient")])
def test_attention_is_one_operator_without_a_matrix_of_places(export, form, model, kind):
    done, graph = export(model, "--as", form)
    assert done.returncode == 0, done.stderr
    found = [op["label"] for op in graph["ops"] if "scaled_dot_product" in op.get("label", "")]
    assert found == [f"_scaled_dot_product_{kind}_attention", f"_scaled_dot_product_{kind}_attention_backward"]
    rows = [t for t in graph["tensors"] if liveness.tensor_bytes(t) == 4 * 4 * 128 * 128 * liveness.SIZES[t.get("type", "f32")]]
    assert not rows  # batch x heads x places x places


def test_the_result_of_attention_lies_as_the_query_does(export):
    _, graph = export("rotated")
    (attention,) = [op for op in graph["ops"] if op["label"] == "_scaled_dot_product_cudnn_attention"]
    (copy,) = [op for op in graph["ops"] if attention["out"][0] in op["in"] and op["label"] == "clone"]
    assert any(copy["out"][0] in op["in"] for op in graph["ops"] if op["label"] == "mm")  # by heads and places, for the product behind it


@pytest.mark.parametrize("model", ["trained_mask", "expanded_mask"])
def test_attention_is_plain_with_a_mask_that_fused_kernels_do_not_take(export, model):
    done, graph = export(model)
    assert done.returncode == 0, done.stderr
    labels = [op["label"] for op in graph["ops"]]
    assert not any("scaled_dot_product" in label for label in labels) and labels.count("bmm") == 6
    rows = [t for t in graph["tensors"] if liveness.tensor_bytes(t) >= 4 * 4 * 128 * 128 * 4]
    assert rows  # batch x heads x places x places


def test_tied_parameters_are_one(export):
    _, graph = export("attends")
    (weight,) = [t for t in graph["tensors"] if t["use"] == "parameter" and t["shape"][:2] == [1000, 64]]
    (gradient,) = [t for t in graph["tensors"] if t["use"] == "parameter_gradient" and t["shape"][:2] == [1000, 64]]
    assert weight["name"] == "embedding.weight" and gradient["name"] == "embedding.weight.grad"
    (sums,) = [op["label"] for op in graph["ops"] if gradient["name"] in op["out"]]
    assert sums == "addmm"  # of the last layer's and the embedding's, so the gradient of the logits lives until there


def test_a_product_that_is_doubled_is_added_by_a_kernel_of_its_own(export):
    done, graph = export("doubles")
    assert done.returncode == 0, done.stderr
    assert not any("addmm" in op.get("label", "") for op in graph["ops"])


def test_logits_are_not_kept_in_float32(export):
    _, graph = export("attends")
    wide = [t for t in graph["tensors"] if liveness.tensor_bytes(t) >= 4 * 127 * 1000 * 4]
    assert not wide, wide


@pytest.mark.parametrize(("form", "product"), [("compile", "addmm"), ("eager", "linear")])
@pytest.mark.parametrize("model", ["again", "wrapped"])
def test_checkpointed_regions_are_computed_again(export, form, product, model):
    _, graph = export(model, "--as", form)
    modules = [".".join(op["name"].partition(":")[0].split(".")[:2]) for op in graph["ops"] if op.get("label", op["kind"]) == product]
    assert modules[:4] == ["one.0", "one.2", "two.0", "two.2"] and [m for m in modules[4:] if m.endswith("0")] == ["two.0", "one.0"]


def test_frozen_parameters_have_no_gradients(export):
    _, graph = export("adapted", "--optimizer", "adamw")
    assert {t["name"] for t in graph["tensors"] if t["use"] == "parameter_gradient"} == {"1.weight.grad", "2.weight.grad"}
    assert {t["name"] for t in graph["tensors"] if t["use"] == "state"} == {
        f"{layer}.weight.{kind}" for layer in "12" for kind in ("exp_avg", "exp_avg_sq")}


@pytest.mark.parametrize(("optimizer", "states"), [("none", 0), ("sgd", 0), ("momentum", 1), ("adamw", 2)])
@pytest.mark.parametrize("step", ["foreach", "fused", "each"])
def test_the_optimizer_adds_states_and_a_step(export, optimizer, states, step):
    _, graph = export("halves", "--optimizer", optimizer, "--step", step)
    size = {use: sum(liveness.tensor_bytes(t) for t in graph["tensors"] if t["use"] == use) for use in ("parameter", "state")}
    assert size["state"] == states * size["parameter"]
    steps = [op for op in graph["ops"] if op["label"].startswith(f"{optimizer} ")]
    assert len(steps) == (0 if optimizer == "none" else 6 if step == "each" else 1)
    written = [name for op in steps for name in op["out"]]
    assert len(written) == len(set(written)) == (6 * (1 + states) if steps else 0)


@pytest.mark.parametrize(("optimizer", "states"), [("sgd", 0), ("momentum", 1), ("adamw", 2)])
@pytest.mark.parametrize("form", ["compile", "eager"])
def test_a_fused_step_is_computed(export, form, optimizer, states):
    _, graph = export("cnn", "--as", form, "--optimizer", optimizer, "--step", "fused")
    parameters = {t["name"]: t["shape"] for t in graph["tensors"] if t.get("use") == "parameter"}
    trained = [t["name"].removesuffix(".grad") for t in graph["tensors"] if t.get("use") == "parameter_gradient"]
    (step,) = [op for op in graph["ops"] if op["kind"] == "optimizer_step"]
    counters = int(optimizer == "adamw")
    assert step["moments"] == states and step["in"][0] in trained and step["in"][1] == step["in"][0] + ".grad"
    assert len(step["in"]) == len(trained) * (2 + states) + counters and len(step["out"]) == len(trained) * (1 + states) + counters
    assert all(t["shape"] == parameters[t["name"].rpartition(".")[0]] for t in graph["tensors"] if t.get("use") == "state" and not t["name"].endswith("count"))


@pytest.mark.parametrize("model", ["halves", "huge", "by_default", "on_meta", "on_cuda"])
def test_conversions_and_devices_take_no_memory(export, model):
    import resource
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done, graph = export(model)
    assert done.returncode == 0, done.stderr
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB: `huge` has 24 GiB of parameters
    wanted = {"halves": "bf16", "huge": "bf16", "by_default": "bf16"}.get(model, "f32")
    assert {t["type"] for t in graph["tensors"] if t["use"] == "parameter"} == {wanted}


def test_autocast_is_that_of_cuda(export):
    _, graph = export("casts")
    of = {t["name"]: t["type"] for t in graph["tensors"]}
    assert of["layer:addmm"] == "bf16" and of["layer.weight"] == "f32"
    assert "f32" in {t["type"] for t in graph["tensors"] if t["shape"][:2] == [8, 64] and t["use"] == "activation"}  # LayerNorm's result


def test_a_loss_is_a_floating_point_number(export):
    done, _ = export("counts")
    assert done.returncode == 2 and "int64" in done.stderr and len(done.stderr.splitlines()) == 1


def test_positions_of_maxima_are_computed_where_they_are_read(export):
    _, graph = export("cnn")
    (pool,) = [op for op in graph["ops"] if {"max_pool2d_with_indices_backward", "scatter_add"} & set(op["label"].split())]  # the latter since 2.15
    assert "_low_memory_max_pool_offsets_to_indices" in pool["label"]


def test_causal_attention_multiplies_half(export):
    _, graph = export("attends")
    _, whole = export("masked")
    flops = [[op["flops"] for op in g["ops"] if "attention" in op["label"]] for g in (graph, whole)]
    assert [2 * f for f in flops[0]] == flops[1] and flops[1][0] == 4 * 4 * 4 * 128 * 128 * 16


@pytest.mark.parametrize(("model", "copied"), [("narrows", True), ("grouped", True), ("widens", False)])
def test_convolutions_without_channels_last_are_copied(export, model, copied):
    _, graph = export(model)
    (forward,) = [op for op in graph["ops"] if op["label"] == "convolution" and op["name"].startswith("1:")]
    size = {t["name"]: liveness.tensor_bytes(t) for t in graph["tensors"]}
    touched = sum(size[name] for name in forward["in"] + forward["out"] if not name.endswith("bias"))
    assert forward.get("workspace_bytes", 0) == (touched if copied else 0)


def test_gradients_take_the_place_of_what_was_saved_where_they_are_read_element_by_element(export):
    _, graph = export("mlp")
    tensors = {t["name"]: t for t in graph["tensors"]}
    written = [(op["in"][op["alias"]["input"]], op["out"][op["alias"]["output"]]) for op in graph["ops"] if "alias" in op]
    assert any(tensors[old]["use"] == "activation" and tensors[new]["use"] == "activation_gradient" for old, new in written)


def test_what_convolutions_want_with_channels_last_is_copied_once_and_saved(export):
    _, graph = export("widens")
    copies = {op["in"][0]: op["out"][0] for op in graph["ops"] if op["label"] == "clone"}
    assert copies == {name: name + ".channels_last" for name in ("0.weight", "1.weight", "data")}
    last, first = [op for op in graph["ops"] if op["label"] == "convolution_backward"]
    assert copies["1.weight"] in last["in"] and copies["data"] not in last["in"]
    assert {copies["0.weight"], copies["data"]} < set(first["in"])


def test_the_gradient_of_the_last_convolution_is_copied_where_it_lies_as_traced(export):
    _, graph = export("ends")
    size = {t["name"]: liveness.tensor_bytes(t) for t in graph["tensors"]}
    last, first = [op for op in graph["ops"] if op["label"] == "convolution_backward"]
    (gradient,) = [name for name in last["in"] if "where" in name]
    assert last["workspace_bytes"] == size[gradient] and "workspace_bytes" not in first
    (relu,) = [op for op in graph["ops"] if op["name"].startswith("2:")]
    assert "alias" not in relu  # in another order than what it reads


def test_long_rows_are_padded(export):
    _, graph = export("long_rows")
    rows = {t["name"]: t["shape"][1] for t in graph["tensors"] if t["shape"][0] == 64 and t["shape"][1] > 2000}
    assert set(rows.values()) == {2016} and len(rows) >= 2, rows  # of 2,001 elements: to 128 bytes
    given = {t["name"]: t["shape"] for t in graph["tensors"] if t["name"] in ("data", "0.weight", "0.weight.grad")}
    assert given == {"data": [64, 1101, 1, 1], "0.weight": [32, 1101, 1, 1], "0.weight.grad": [32, 1101, 1, 1]}


def test_values_of_weights_are_not_drawn(export):
    assert export("rejects")[0].returncode == 0
