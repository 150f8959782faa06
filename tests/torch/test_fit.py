"""fit() on the CPU: the graphs that run are those that were planned, and the gradients are those of the unplanned model, bit for bit."""

import copy
import gc
import importlib
import weakref

import pytest

torch = pytest.importorskip("torch")

import umbench.torch as umt  # noqa: E402
from umbench.torch import chunks, micro, placing, planner, private  # noqa: E402
from umbench.torch.bench import models  # noqa: E402

try:
    planner.program_path()
except umt.NoPlan:
    pytest.skip("the program umbench is not built", allow_module_level=True)

nn = torch.nn


class Recurrent(nn.Module):
    """A long short-term memory, cell by cell."""

    def __init__(self, width=32):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(width, width), nn.Linear(width, 1)

    def forward(self, x):
        state = (torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0]))
        for i in range(x.shape[1]):
            state = self.cell(x[:, i], state)
        return self.head(state[0]).square().mean()


class Perceptron(nn.Sequential):
    def __init__(self):
        super().__init__(*[layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())], nn.Linear(64, 1))

    def forward(self, x):
        return super().forward(x).square().mean()


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = models.ResNet((1, 1, 1, 1), 8, 10)

    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.body(x), labels)


class LanguageModel(nn.Module):
    """A small GPT, whose first and last weights are one, with or without dropout."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.body = models.GPT2(3, 32, 2, 101, 48, dropout)

    def forward(self, x):
        return nn.functional.cross_entropy(self.body(x).flatten(0, 1), x.flatten())


MODELS = {
    "perceptron": (Perceptron, lambda: (torch.randn(512, 64),)),
    "convolutions": (Convolutions, lambda: (torch.randn(4, 3, 64, 64), torch.randint(10, (4,)))),
    "transformer block": (lambda: MeanSquare(models.TransformerBlock(32, 4, False, 0.1)), lambda: (torch.randn(8, 40, 32),)),
    "recurrent": (Recurrent, lambda: (torch.randn(256, 8, 32),)),
    "tied weights": (LanguageModel, lambda: (torch.randint(101, (4, 48)),)),
    "dropout": (lambda: LanguageModel(0.2), lambda: (torch.randint(101, (4, 48)),)),
}


class MeanSquare(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return self.body(x).square().mean()


def model_and_inputs(model_name):
    torch.manual_seed(0)
    factory, inputs = MODELS[model_name]
    return factory().train(), inputs()


def run_step(model, inputs):
    """Runs a forward and a backward pass; returns the loss."""
    torch.manual_seed(1)
    loss = model(*inputs)
    loss.backward()
    return loss.detach()


def fit_to_share_of_peak(model, inputs, share_of_peak, tier="pinned", backend="aot_eager", **options):
    """(`model` fitted to a budget, the budget), which is the peak of PyTorch's own choice times `share_of_peak`."""
    probe = umt.fit(copy.deepcopy(model), budget="1TiB", backend="aot_eager", effort=0.003)
    run_step(probe, inputs)
    budget = int(probe.plan.unplanned["peak"] * share_of_peak)
    return umt.fit(model, budget=budget, tier=tier, backend=backend, effort=0.01, **options), budget


@pytest.mark.parametrize("share_of_peak", (1.05, 0.7))
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_the_unplanned_model(name, share_of_peak):
    model, inputs = model_and_inputs(name)
    plain = copy.deepcopy(model)
    unplanned = run_step(torch.compile(plain, backend="aot_eager"), inputs)
    model, budget = fit_to_share_of_peak(model, inputs, share_of_peak)
    try:
        planned = run_step(model, inputs)
    except umt.NoPlan as refusal:
        least = model.plan.min_budget()
        assert share_of_peak < 0.8 and "the least found is" in str(refusal) and least > budget
        model = umt.fit(model_and_inputs(name)[0], budget=int(least * 1.01), backend="aot_eager", effort=0.01)
        planned = run_step(model, inputs)
    same = torch.equal if model.plan.chunks == 1 else torch.allclose
    assert same(planned, unplanned)
    for own, other in zip(plain.parameters(), model.parameters()):
        assert same(own.grad, other.grad)
    for own, other in zip(plain.buffers(), model.buffers()):
        assert torch.equal(own, other)
    assert model.plan.differences == []
    assert model.plan.bound <= model.plan.predicted["peak"] <= model.plan.budget


class LossUnderAutocast(nn.Module):
    """Products in bfloat16."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        with torch.autocast(x.device.type, torch.bfloat16):
            return nn.functional.cross_entropy(self.body(x).flatten(0, 1), x.flatten())


@pytest.mark.parametrize("device, batch, share_of_peak, gpt2_arguments", [
    ("cpu", 4, 0.9, (1, 32, 2, 101, 48)),
    pytest.param("cuda", 32, 0.75, (4, 512, 8, 8192, 256), marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))])
def test_gradients_by_inductor_are_no_further_from_float32_than_without_a_plan(device, batch, share_of_peak, gpt2_arguments, monkeypatch):
    points = []
    monkeypatch.setattr(placing, "reach_pass_point", points.append)
    torch.manual_seed(0)
    exact, x = models.GPT2(*gpt2_arguments).to(device), torch.randint(gpt2_arguments[3], (batch, gpt2_arguments[4]), device=device)
    plain, model = LossUnderAutocast(copy.deepcopy(exact)), LossUnderAutocast(copy.deepcopy(exact))
    nn.functional.cross_entropy(exact(x).flatten(0, 1), x.flatten()).backward()
    run_step(torch.compile(plain), (x,))
    model, _ = fit_to_share_of_peak(model, (x,), share_of_peak, backend="inductor", cuda_graphs=True)
    run_step(model, (x,))
    assert points == [*placing.FORWARD_POINTS, *placing.BACKWARD_POINTS]
    assert device == "cuda" or "launched: the model is on the CPU" in str(model.plan)

    def gradient_error(half_precision_model):
        return sum((own.grad - other.grad).square().sum() for own, other in zip(half_precision_model.body.parameters(), exact.parameters())).sqrt()

    assert model.plan.recomputed and gradient_error(model) < 1.05 * gradient_error(plain), (gradient_error(model), gradient_error(plain))


def test_a_forward_pass_out_of_memory_is_planned_again_with_more_slack(monkeypatch):
    model, inputs = model_and_inputs("perceptron")
    model, _ = fit_to_share_of_peak(model, inputs, 1.2)
    run_step(model, inputs)
    call, failed = model._compiled_call_impl, []

    def fails_once(*arguments, **options):
        failed.append(1)
        raise torch.OutOfMemoryError("too little")

    call.run = fails_once
    run_step(model, inputs)
    assert failed == [1] and model.plan.plans == 2 and model.plan.more_slack > 0


def test_the_same_bits_cut_nothing():
    model, inputs = model_and_inputs("tied weights")
    plain = copy.deepcopy(model)
    unplanned = run_step(torch.compile(plain, backend="aot_eager"), inputs)
    probe = umt.fit(copy.deepcopy(model), budget="1TiB", backend="aot_eager", effort=0.003)
    run_step(probe, inputs)
    model = umt.fit(model, budget=int(probe.plan.unplanned["peak"] * 0.8), bits="same", backend="aot_eager", effort=0.01)
    assert torch.equal(run_step(model, inputs), unplanned) and model.plan.chunks == 1
    for own, other in zip(plain.parameters(), model.parameters()):
        assert torch.equal(own.grad, other.grad)
    assert "in another order" in refusal_text(lambda: umt.fit(model_and_inputs("perceptron")[0], budget="1GiB", bits="same", micro_batches=2))
    for effort in (0, -1, float("nan"), 1e9):
        assert "not above 0" in refusal_text(lambda: umt.fit(model_and_inputs("perceptron")[0], budget="1GiB", effort=effort))
    assert "'rounding', 'same'" in refusal_text(lambda: umt.fit(model_and_inputs("perceptron")[0], budget="1GiB", bits=8))


@pytest.mark.parametrize("is_head_frozen", (False, True))
def test_a_loss_over_many_words_is_cut_where_that_saves_memory(is_head_frozen, monkeypatch):
    over, in_place = [], chunks.overwrite_sums

    def sum_and_count(graph):
        sums = len(graph.graph.find_nodes(op="call_function", target=torch.ops.umbench.add_product.default))
        in_place(graph)
        over.append((sums, len(graph.graph.find_nodes(op="call_function", target=torch.ops.umbench.add_product_.default))))

    monkeypatch.setattr(chunks, "overwrite_sums", sum_and_count)

    class WordLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.head = nn.Linear(16, 16), nn.Linear(16, 3000)

        def forward(self, x, labels):
            return nn.functional.cross_entropy(self.head(self.hidden(x).relu()).flatten(0, 1), labels.flatten())

    torch.manual_seed(0)
    model, inputs = WordLoss(), (torch.randn(4, 64, 16), torch.randint(3000, (4, 64)))
    inputs[1][0, :7] = -100
    model.head.weight.requires_grad_(not is_head_frozen)
    plain = copy.deepcopy(model)
    unplanned = run_step(plain, inputs)
    model, _ = fit_to_share_of_peak(model, inputs, 0.6)
    planned = run_step(model, inputs)
    assert model.plan.chunks > 1 and "shares of its rows" in str(model.plan)
    torch.testing.assert_close(planned, unplanned)
    for own, other in zip(plain.parameters(), model.parameters()):
        torch.testing.assert_close(own.grad, other.grad)
    assert over[-2:] == [(0, 0) if is_head_frozen else (model.plan.chunks, model.plan.chunks - 1), (0, 0)]


def test_the_rows_of_a_loss_are_counted_after_all_its_shares():
    """The kernel that divides by the count runs where the count is made, and all shares before it."""
    def loss(hidden, weight, labels):
        return chunks.linear_loss_in_shares(hidden, weight, None, labels, -100, 4)

    graph = torch.fx.experimental.proxy_tensor.make_fx(loss)(torch.randn(8, 4), torch.randn(6, 4), torch.randint(6, (8,)))
    targets = [node.target for node in graph.graph.nodes]
    last_product = max(i for i, target in enumerate(targets) if target is torch.ops.aten.mm.default)
    (count,) = (i for i, node in enumerate(graph.graph.nodes) if node.target is torch.ops.aten.sum.default and node.meta["val"].dtype == torch.int64)
    assert count > last_product


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("uses_autocast", (False, True))
def test_a_loss_on_a_gpu_is_summed_over_the_sum_so_far(uses_autocast):
    class WordLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.head = nn.Linear(256, 256), nn.Linear(256, 16000)

        def forward(self, x, labels):
            with torch.autocast("cuda", torch.bfloat16, enabled=uses_autocast):
                return nn.functional.cross_entropy(self.head(self.hidden(x).relu()), labels)

    torch.manual_seed(0)
    model, inputs = WordLoss().cuda(), (torch.randn(8192, 256, device="cuda"), torch.randint(16000, (8192,), device="cuda"))
    plain = copy.deepcopy(model)
    unplanned = run_step(plain, inputs)
    model = umt.fit(model, budget="1GiB", effort=0.01)
    for _ in range(2):
        model.zero_grad()
        planned = run_step(model, inputs)
    assert model.plan.chunks > 1
    torch.testing.assert_close(planned, unplanned, rtol=1e-2 if uses_autocast else 1e-5, atol=0)
    for own, other in zip(plain.parameters(), model.parameters()):
        assert (own.grad - other.grad).norm() < (2e-2 if uses_autocast else 1e-4) * own.grad.norm()


def test_less_memory_computes_more_again():
    model, inputs = model_and_inputs("perceptron")
    plenty, _ = fit_to_share_of_peak(copy.deepcopy(model), inputs, 1.2, tier=None)
    tight, _ = fit_to_share_of_peak(model, inputs, 0.7, tier=None)
    for each in (plenty, tight):
        run_step(each, inputs)
    assert not any(name.startswith("addmm") for name in plenty.plan.recomputed)
    assert any(name.startswith("addmm") for name in tight.plan.recomputed)
    assert tight.plan.predicted["saved"] < plenty.plan.predicted["saved"]


def test_statistics_are_updated_once():
    model, inputs = model_and_inputs("convolutions")
    model, _ = fit_to_share_of_peak(model, inputs, 0.8)
    run_step(model, inputs)
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert norms and all(norm.num_batches_tracked == 1 for norm in norms)


def test_the_plan_tells_what_each_module_does():
    model, inputs = model_and_inputs("perceptron")
    model, _ = fit_to_share_of_peak(model, inputs, 0.7, tier=None)
    assert "when the first batch arrives" in str(model.plan)
    run_step(model, inputs)
    told = str(model.plan)
    assert "predicted peak" in told and "computes again addmm" in told


def refusal_text(call):
    with pytest.raises(umt.NoPlan) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_refuses_in_one_line():
    model, _ = model_and_inputs("perceptron")
    for budget in ("much", "1.2.3GiB", 0, -1, None, True, float("inf"), float("nan")):
        assert "no size" in refusal_text(lambda: umt.fit(model, budget=budget))
    assert "not a" in refusal_text(lambda: umt.fit(3, budget="1GiB"))
    assert "'pinned', 'managed'" in refusal_text(lambda: umt.fit(model, budget="1GiB", tier="disk"))
    assert "one GPU" in refusal_text(lambda: umt.fit(nn.DataParallel(model), budget="1GiB"))
    assert "'inductor', 'aot_eager'" in refusal_text(lambda: umt.fit(model, budget="1GiB", backend="eager"))
    for options in ({"backend": "aot_eager"}, {"tier": "managed"}, {"micro_batches": 2}):
        assert "cuda_graphs=True takes" in refusal_text(lambda: umt.fit(model, budget="1GiB", cuda_graphs=True, **options))
    for parts in (0, 1.5, "many", True):
        assert "whole number" in refusal_text(lambda: umt.fit(model, budget="1GiB", micro_batches=parts))
    for optimizer in ("NoSuch", torch.optim.LBFGS):
        assert "is not known" in refusal_text(lambda: umt.fit(model, budget="1GiB", optimizer=optimizer))


def test_refuses_graph_breaks():
    class GraphBreak(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            y = self.layer(x).sum()
            return y if y.item() > 0 else -y

    assert "no single graph" in refusal_text(lambda: umt.fit(GraphBreak(), budget="1GiB", backend="aot_eager")(torch.randn(2, 4)))


class ValueDependentRows(nn.Module):
    """Works on as many rows as are positive."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x[x[:, 0] > 0]).sum()


def test_refuses_to_run_within_a_wrapper(monkeypatch):
    """Whose buckets and shards are not planned for, also where it is put around a fitted model."""
    model, inputs = model_and_inputs("perceptron")
    model = umt.fit(model, budget="1GiB", backend="aot_eager")
    monkeypatch.setattr(nn.parallel.DistributedDataParallel, "_active_ddp_module", object())
    assert "one GPU" in refusal_text(lambda: model(*inputs))


@pytest.fixture
def one_process_group():
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.parametrize("wrapper_name", ("DistributedDataParallel", "fully_shard", "FullyShardedDataParallel"))
def test_refuses_wrappers_around_a_model_and_around_a_fitted_one(wrapper_name, one_process_group):
    def wrap(model):
        from torch.distributed import device_mesh, fsdp

        if wrapper_name == "fully_shard":
            return fsdp.fully_shard(model, mesh=device_mesh.init_device_mesh("cpu", (1,)))
        return nn.parallel.DistributedDataParallel(model) if wrapper_name[0] == "D" else fsdp.FullyShardedDataParallel(model, device_id=torch.device("cpu"))

    (model, inputs), (other, _) = model_and_inputs("perceptron"), model_and_inputs("perceptron")
    wanted = "DTensor" if wrapper_name == "fully_shard" else wrapper_name
    assert wanted in refusal_text(lambda: umt.fit(wrap(model), budget="1GiB"))
    told = refusal_text(lambda: wrap(umt.fit(other, budget="1GiB", backend="aot_eager"))(*inputs))
    assert ("FSDP" if wrapper_name[0] == "F" else wanted) in told


def test_refuses_sizes_that_are_not_fixed():
    model, inputs = model_and_inputs("perceptron")
    torch._dynamo.mark_dynamic(inputs[0], 0)
    assert "fixed shapes" in refusal_text(lambda: umt.fit(model, budget="1GiB", backend="aot_eager")(*inputs))
    assert "fixed shapes" in refusal_text(lambda: umt.fit(ValueDependentRows(), budget="1GiB", backend="aot_eager")(torch.randn(8, 4)))


def test_takes_inputs_of_a_model_that_was_compiled_for_several_sizes():
    model, inputs = model_and_inputs("perceptron")
    torch._dynamo.maybe_mark_dynamic(inputs[0], 0)
    run_step(umt.fit(model, budget="1GiB", backend="aot_eager", effort=0.003), inputs)
    assert model.plan.plans == 1


def test_refuses_tensor_subclasses():
    class Subclass(torch.Tensor):
        pass

    model, inputs = model_and_inputs("perceptron")
    assert "input 0 is a Subclass" in refusal_text(lambda: umt.fit(model, budget="1GiB", backend="aot_eager")(inputs[0].as_subclass(Subclass)))
    model[0].register_buffer("scale", torch.ones(1).as_subclass(Subclass))
    assert "0.scale is a Subclass" in refusal_text(lambda: umt.fit(model, budget="1GiB"))


def test_refuses_what_fits_nowhere_with_the_least_budget():
    model, inputs = model_and_inputs("perceptron")
    told = refusal_text(lambda: run_step(umt.fit(model, budget="100KiB", backend="aot_eager", effort=0.01), inputs))
    assert "no plan within 0.10 MiB" in told and "the least found is" in told and "none is below" in told


def test_this_release_has_what_fit_uses():
    assert private.missing_names() == []


class FakeArena:
    """An arena that needs no GPU and lays out nothing until `fails` is used up."""

    fails = lacking = refusals = 0

    def __init__(self, device, budget_bytes):
        self.recording, self.mappings = None, 0

    begin_recording = cancel_recording = begin_step = remap_if_needed = lambda self: None
    given_up = False

    def stop_placing(self):
        self.given_up = True

    has_run_out_of_remaps = lambda self: False  # noqa: E731

    def finish_recording(self):
        return True

    def total_reserved_bytes(self):
        return 0

    def map_memory(self):
        FakeArena.fails -= 1
        return FakeArena.fails < 0

    def note_whether_step_fitted(self):
        return True


def test_plans_again_where_the_measured_peak_is_above_the_budget(monkeypatch):
    from umbench.torch import plan as plans

    fit_file = importlib.import_module("umbench.torch.fit")
    model, inputs = model_and_inputs("perceptron")
    probe, _ = fit_to_share_of_peak(copy.deepcopy(model), inputs, 1.2)
    run_step(probe, inputs)
    predicted = probe.plan.predicted["peak"]
    measured = [predicted + 100_000, predicted - 1000]
    monkeypatch.setattr(plans, "MIN_SLACK_BYTES", 0)
    monkeypatch.setattr(fit_file, "allocate_cublas_workspaces", lambda device: None)
    monkeypatch.setattr(fit_file.PlanningCompiler, "is_on_gpu", lambda self: True)
    monkeypatch.setattr(fit_file, "Arena", FakeArena)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: measured.pop(0))
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: measured[0])
    model = umt.fit(model, budget=predicted, backend="aot_eager", effort=0.01)
    for _ in range(6):
        run_step(model, inputs)
    assert model.plan.plans == 2 and model.plan.settled and not measured
    assert "after 2 plans" in str(model.plan) and model.plan.within and "within the budget" in str(model.plan)


def test_a_batch_in_parts_has_the_gradients_of_the_whole():
    model, inputs = model_and_inputs("perceptron")
    plain = copy.deepcopy(model)
    unplanned = run_step(plain, inputs)
    probe, _ = fit_to_share_of_peak(copy.deepcopy(model), inputs, 1.2, tier=None)
    run_step(probe, inputs)
    least = refusal_text(lambda: run_step(umt.fit(copy.deepcopy(model), budget=1, tier=None, backend="aot_eager", effort=0.01), inputs))
    assert "the least found is" in least
    budget = int(probe.plan.unplanned["peak"] * 0.45)
    model = umt.fit(model, budget=budget, tier=None, micro_batches="auto", backend="aot_eager", effort=0.01)
    planned = run_step(model, inputs)
    assert model.plan.micro_batches > 1 and model.plan.predicted["peak"] <= budget
    assert f"in {model.plan.micro_batches} parts" in str(model.plan) and model.plan.plans == 1
    torch.testing.assert_close(planned, unplanned)
    for own, other in zip(plain.parameters(), model.parameters()):
        torch.testing.assert_close(own.grad, other.grad)


def test_no_more_shares_of_a_loss_are_tried_where_these_need_no_less_memory(monkeypatch):
    fit_file, tried = importlib.import_module("umbench.torch.fit"), []

    def compile_shares(self, graph, inputs):
        tried.append(self.share_count)
        self.plan.predicted = {"peak": {2: 100, 4: 90, 8: 95, 16: 50}[self.share_count]}
        raise planner.NoRoom(f"{self.share_count} shares")

    monkeypatch.setattr(chunks, "share_counts_to_try", lambda graph, budget: [2, 4, 8, 16])
    monkeypatch.setattr(fit_file.PlanningCompiler, "compile_in_shares", compile_shares)
    model, _ = model_and_inputs("perceptron")
    planning = fit_file.PlanningCompiler(model, umt.Plan(2**30), None, None, "rounding", "aot_eager", 1)
    graph = torch.fx.symbolic_trace(nn.ReLU())
    assert refusal_text(lambda: planning.compile(graph, ())) == "4 shares" and tried == [2, 4, 8]


# By numbers of parts, milliseconds of the plan and without one.
@pytest.mark.parametrize("ms_by_part_count, expected_counts_or_error", (
    ({1: (5, 3), 2: (4, 3), 4: (6, 5)}, [2, 4, 8, 16]), ({1: (100, 60), 2: (89, 70), 4: (79, 70), 8: (75, 70)}, [4, 8, 16]),
    ({1: (5, 3), 2: (6, 5)}, [1, 2, 4, 8, 16]), ({1: (100, 60), 2: (91, 60)}, [1, 2, 4, 8, 16]), ({1: (100, 90)}, [1, 2, 4, 8, 16]),
    ({1: umt.NoPlan("refused")}, "refused"), ({1: (9, 3), 2: planner.NoRoom("small")}, [1, 2, 4, 8, 16]),
    ({1: planner.NoRoom("small"), 2: (9, 3), 4: (8, 3), 8: umt.NoPlan("no 8 equal parts")}, [4, 8, 16]),
    ({count: planner.NoRoom("small") for count in micro.PART_COUNTS}, "small")))
def test_a_batch_is_cut_where_that_takes_less_time(ms_by_part_count, expected_counts_or_error):
    def predict_ms(part_count):
        if isinstance(ms_by_part_count[part_count], Exception):
            raise ms_by_part_count[part_count]
        return ms_by_part_count[part_count]

    if isinstance(expected_counts_or_error, str):
        assert expected_counts_or_error in refusal_text(lambda: micro.part_counts_to_try(predict_ms))
    else:
        assert micro.part_counts_to_try(predict_ms) == expected_counts_or_error


@pytest.mark.parametrize("share_of_peak, expected_parts, expected_calls", ((1.2, 1, 1), (0.45, 2, 2)))
def test_few_plans_are_made_to_choose_a_number_of_parts(monkeypatch, share_of_peak, expected_parts, expected_calls):
    model, inputs = model_and_inputs("perceptron")
    probe, _ = fit_to_share_of_peak(copy.deepcopy(model), inputs, 1.2, tier=None)
    run_step(probe, inputs)
    asked, run = [], planner.subprocess.run
    monkeypatch.setattr(planner.subprocess, "run", lambda words, **named: asked.append(words) or run(words, **named))
    planner.ask_program.cache_clear()
    model = umt.fit(model, budget=int(probe.plan.unplanned["peak"] * share_of_peak), tier=None, micro_batches="auto", backend="aot_eager", effort=0.01)
    run_step(model, inputs)
    assert model.plan.micro_batches == expected_parts and len(asked) == expected_calls


def test_a_batch_that_the_chosen_number_does_not_divide_takes_fewer_parts(monkeypatch):
    model, inputs = model_and_inputs("perceptron")
    plain = copy.deepcopy(model)
    monkeypatch.setattr(micro, "part_counts_to_try", lambda predict: [4, 8, 16])
    model = umt.fit(model, budget="1GiB", micro_batches="auto", backend="aot_eager", effort=0.01)
    for rows, expected_parts in ((8, 4), (6, 2), (3, 1)):
        for each in (plain, model):
            each.zero_grad()
            run_step(each, (inputs[0][:rows],))
        assert model.plan.micro_batches == expected_parts
        for own, other in zip(plain.parameters(), model.parameters()):
            torch.testing.assert_close(own.grad, other.grad)


def test_no_number_of_parts_is_chosen_where_planning_fails(monkeypatch):
    def raise_no_plan(predict):
        raise umt.NoPlan("too large")

    model, inputs = model_and_inputs("perceptron")
    model = umt.fit(model, budget="1GiB", micro_batches="auto", backend="aot_eager", effort=0.01)
    with monkeypatch.context() as patched:
        patched.setattr(micro, "part_counts_to_try", raise_no_plan)
        assert "too large" in refusal_text(lambda: run_step(model, inputs))
    run_step(model, inputs)
    assert model.plan.micro_batches == 1


def test_parts_take_the_time_to_add_their_gradients_too():
    fit_file = importlib.import_module("umbench.torch.fit")
    model, _ = model_and_inputs("perceptron")
    planning = fit_file.PlanningCompiler(model, umt.Plan(2**30), None, None, "rounding", "aot_eager", 1)
    planning.bytes_per_ns, planning.plan.predicted, planning.plan.unplanned = 2, {"ms": 1.0}, {"ms": 0.5}
    once = sum(4 * p.numel() for p in model.parameters()) / 2 / 1e6  # to read all gradients
    assert (planning.predicted_and_unplanned_ms(1) == (1, 0.5)
            and planning.predicted_and_unplanned_ms(4) == pytest.approx((4 + (3 * 3 + 2) * once, 2 + (3 * 3 + 2) * once)))


def test_of_graphs_that_compute_the_same_the_fastest_that_fits_is_taken():
    def choose(**peak_and_ns):
        def plan(graph):
            peak, ns = peak_and_ns[graph]
            return graph, {"plan": {"peak": peak, "ns": ns}, "begin": graph, "bound": peak - 1}

        graph, (model_and_inputs, answer) = fit_file.fastest_of(list(peak_and_ns), plan, 10)
        assert graph == model_and_inputs and answer["begin"] == next(iter(peak_and_ns)) and answer["bound"] == min(peak for peak, _ in peak_and_ns.values()) - 1
        return graph

    fit_file = importlib.import_module("umbench.torch.fit")
    assert choose(plain=(9, 5), anew=(4, 6)) == "plain" and choose(plain=(9, 5), anew=(10, 4)) == "anew"
    assert choose(plain=(11, 5), anew=(10, 6)) == "anew" and choose(plain=(12, 6), anew=(13, 5)) == "plain"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_a_batch_is_cut_where_it_has_no_plan_otherwise():
    torch.manual_seed(0)
    held = torch.cuda.memory_allocated()  # by other tests
    model = MeanSquare(nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(512, 4096), nn.GELU(), nn.Linear(4096, 512))])).cuda()
    inputs = (torch.randn(16384, 512, device="cuda"),)
    plain = copy.deepcopy(model)
    unplanned = run_step(torch.compile(plain), inputs)
    model = umt.fit(model, budget=held + 520 * 2**20, tier=None, micro_batches="auto", effort=0.02)
    for _ in range(5):
        model.zero_grad()
        planned = run_step(model, inputs)
    assert model.plan.micro_batches > 1 and model.plan.within
    torch.testing.assert_close(planned, unplanned)
    for own, other in zip(plain.parameters(), model.parameters()):
        torch.testing.assert_close(own.grad, other.grad, rtol=1e-3, atol=1e-6)


def test_backward_passes_of_parts_use_no_other_thread():
    model, inputs = model_and_inputs("perceptron")
    may_use_others = []
    next(model.parameters()).register_hook(lambda gradient: may_use_others.append(torch._C._is_multithreading_enabled()))
    micro.run_in_parts(model, model, 2, inputs, {})
    assert may_use_others == [False, False] and torch._C._is_multithreading_enabled()


def test_parts_are_refused_where_they_change_what_is_computed():
    model, inputs = model_and_inputs("convolutions")
    assert "statistics of its batch" in refusal_text(lambda: umt.fit(model, budget="1GiB", micro_batches=2))
    model, inputs = model_and_inputs("perceptron")
    assert "no 3 equal parts" in refusal_text(lambda: run_step(umt.fit(model, budget="1GiB", micro_batches=3, backend="aot_eager"), inputs))


def record_lowered_graphs(monkeypatch):
    """A list to which each graph is appended that Inductor lowers from now on."""
    lowering, graphs = importlib.import_module("torch._inductor.graph").GraphLowering, []
    run = lowering.run

    def record_and_run(self, *inputs):
        graphs.append(self)
        return run(self, *inputs)

    monkeypatch.setattr(lowering, "run", record_and_run)
    return graphs


def test_a_convolution_that_is_computed_again_keeps_its_strides(monkeypatch):
    graphs = record_lowered_graphs(monkeypatch)
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, groups=8), models.ConvNeXtBlock(8), models.ConvNeXtBlock(8))
    model = MeanSquare(body).to(memory_format=torch.channels_last)
    inputs = (torch.randn(4, 8, 24, 24).to(memory_format=torch.channels_last),)
    fit_file = importlib.import_module("umbench.torch.fit")
    usual = fit_file.ask_planner

    def ask_and_save_no_convolution(step, *arguments):
        answer = usual(step, *arguments)
        answer["plan"]["saved"] = [i for i in answer["plan"]["saved"] if not step.nodes[i].name.startswith("convolution")]
        return answer

    monkeypatch.setattr(fit_file, "ask_planner", ask_and_save_no_convolution)
    run_step(umt.fit(model, budget="1GiB", tier=None, effort=0.003), inputs)
    assert [graph.is_backward for graph in graphs] == [False, True]
    assert all(graph.module.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default) for graph in graphs)
    for graph in graphs:
        assert graph.layout_opt and not any(private.is_contiguous_image(node.meta.get("val")) for node in graph.nodes_prefer_channels_last)


def test_gradients_of_branches_are_stored_once(monkeypatch):
    """Inductor would keep both branches' gradients and add them up in each reader."""
    graphs = record_lowered_graphs(monkeypatch)
    torch.manual_seed(0)
    model = MeanSquare(nn.Sequential(*(models.ConvNeXtBlock(8) for _ in range(3))))
    run_step(umt.fit(model, budget="1GiB", tier=None, effort=0.003), (torch.randn(4, 8, 24, 24),))
    backward = next(graph for graph in graphs if graph.is_backward)
    told = {node for node in backward.module.graph.nodes if node.meta.get("umbench_store")}
    assert told and told <= {buffer.get_origin_node() for buffer in backward.buffers}


def test_a_pass_is_compiled_without_collections_on_one_stack_and_outside_of_the_tracing_mode(monkeypatch):
    import gc
    import resource

    from torch._inductor import compile_fx
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    found, usual = [], compile_fx.compile_fx_inner

    def go_deep(depth):
        return go_deep(depth - 1) if depth else 0

    def page_faults_of_deep_calls():
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        for _ in range(500):
            go_deep(250)
        return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before

    def compile_pass(*arguments, **options):
        found.append((gc.isenabled(), _get_current_dispatch_mode(), page_faults_of_deep_calls() < 250))
        return usual(*arguments, **options)

    monkeypatch.setattr(compile_fx, "compile_fx_inner", compile_pass)
    run_step(umt.fit(MeanSquare(nn.Linear(8, 8)), budget="1GiB", tier=None, effort=0.003), (torch.randn(4, 8),))
    assert found == [(False, None, True)] * 2 and gc.isenabled()


def test_the_planner_refuses_a_node_that_names_a_later_one():
    from types import SimpleNamespace as Made

    fields = {"kind": "kernel", "inputs": [], "shifted": [10**9], "pace": 1}
    fields |= dict.fromkeys(("bytes", "elements", "ns", "workspace", "family"), 0)
    fields |= dict.fromkeys(("forward", "resident", "repeatable", "widens", "over_first", "forward_result", "backward_result"), False)
    with pytest.raises(umt.NoPlan, match="shifted.*names no earlier node"):
        planner.ask_planner(Made(node_fields=[fields]), 1, 0, {"bytes": 1, "link": 1}, True, [], 0.001)


def test_memory_is_kept_for_the_next_kernel_alone():
    from types import SimpleNamespace as Line

    from torch._inductor.codegen.wrapper import AllocateLine

    usual = AllocateLine.should_reuse_buffer
    with private.free_unread_memory():
        keeps = [AllocateLine.should_reuse_buffer(Line(scheduler_node_index=at), Line(scheduler_node_index=3), 64) for at in (4, 5)]
    assert keeps == [True, False] and AllocateLine.should_reuse_buffer is usual


def test_code_stays_on_a_gpu_between_operators_with_tensors_of_the_host():
    from types import SimpleNamespace as Made

    from torch._inductor.codegen.wrapper import PythonWrapperCodegen as Wrapper

    wrapper = Made(lines=[], last_seen_device_guard_index=None)
    wrapper.writeline = lambda line: wrapper.lines.append(line)
    usual = Wrapper.codegen_device_guard_enter
    with private.single_device_guard():
        for device in (0, 0, 1):
            Wrapper.codegen_device_guard_enter(wrapper, device)
            wrapper.lines.append("copy")
            Wrapper.codegen_device_guard_exit(wrapper)
    told = [type(line).__name__[:5] if line != "copy" else line for line in wrapper.lines]
    assert told == ["Enter", "copy", "copy", "ExitD", "Enter", "copy", "ExitD"] and Wrapper.codegen_device_guard_enter is usual


def test_kernels_of_fitted_models_that_have_run_are_launched_straight(monkeypatch):
    from types import SimpleNamespace as Made

    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    def make_kernel(launchers, dumps_arguments=False):
        made = object.__new__(CachingAutotuner)
        vars(made).update(launchers=launchers, dump_launch_params=dumps_arguments, dump_launch_tensors=False)
        return made

    def launch(*arguments, stream):
        return arguments, stream

    ours = Made(umbench_placing=None, ran=make_kernel([launch]), tuned=make_kernel([launch, launch]), never_ran=make_kernel([]), dumped=make_kernel([launch], dumps_arguments=True))
    others = Made(ran=make_kernel([launch]))
    monkeypatch.setattr(PyCodeCache, "modules", [ours, others])
    private.skip_launch_checks()
    assert ours.ran.run(1, 2, stream=3) == ((1, 2), 3)
    assert not any("run" in vars(each) for each in (ours.tuned, ours.never_ran, ours.dumped, others.ran))


def test_workspaces_of_products_count_where_there_are_products():
    from types import SimpleNamespace as Made

    fit_file = importlib.import_module("umbench.torch.fit")
    model, _ = model_and_inputs("perceptron")
    planning = fit_file.PlanningCompiler(model, umt.Plan(2**30), None, None, "rounding", "aot_eager", 1)
    planning.allocated_bytes, planning.workspace_bytes = 40, 60
    bytes_with = [planning.base_bytes(Made(nodes=[Made(op="call_function", target=target)])) for target in
                  (torch.ops.aten.convolution.default, torch.ops.aten.addmm.default)]
    assert bytes_with == [40, 100]
    planning.plan.micro_batches = 2
    sum_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    bytes_with = [planning.base_bytes(Made(nodes=[Made(op="call_function", target=target)])) for target in
                  (torch.ops.aten.convolution.default, torch.ops.aten.addmm.default)]
    assert bytes_with == [40 + sum_bytes, 70 + sum_bytes]


def test_states_of_an_optimizer_count_once_and_for_all_plans(monkeypatch):
    """Its first step makes them, after the first plan."""
    from types import SimpleNamespace as Made

    fit_file = importlib.import_module("umbench.torch.fit")
    model, _ = model_and_inputs("perceptron")
    wanted = 2 * sum(p.numel() * p.element_size() for p in model.parameters())
    states = []
    monkeypatch.setattr(fit_file, "gpu_states_of", lambda optimizer: states)
    monkeypatch.setattr(private, "free_cublas_workspaces", lambda: None)
    for already in (0, wanted):
        states[:] = [torch.zeros(already, dtype=torch.uint8)]
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device, already=already: 40 + already)
        planning = fit_file.PlanningCompiler(model, umt.Plan(2**30), "AdamW", None, "rounding", "aot_eager", 1)
        planning.measure_memory_before_plan()
        for held in (already, wanted):
            states[:] = [torch.zeros(held, dtype=torch.uint8)]
            assert planning.base_bytes(Made(nodes=[])) == 40 + wanted


def test_a_fitted_model_that_is_gone_does_not_count_as_memory_before_the_plan(monkeypatch):
    model, _ = model_and_inputs("perceptron")
    planning = importlib.import_module("umbench.torch.fit").PlanningCompiler(model, umt.Plan(2**30), None, None, "rounding", "aot_eager", 1)
    gc.disable()
    try:
        other = weakref.ref(umt.fit(model_and_inputs("perceptron")[0], budget="1GiB", backend="aot_eager"))
        monkeypatch.setattr(private, "free_cublas_workspaces", lambda: None)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 40 if other() is None else 70)
        assert torch.cuda.memory_allocated(None) == 70
        planning.measure_memory_before_plan()
    finally:
        gc.enable()
    assert (planning.allocated_bytes, planning.workspace_bytes) == (40, 0)


def pretend_gpu(monkeypatch, arena_class, **results_by_function):
    """Makes fit() take the CPU for a GPU. `results_by_function`: of functions of torch.cuda."""
    fit_file = importlib.import_module("umbench.torch.fit")
    monkeypatch.setattr(fit_file, "allocate_cublas_workspaces", lambda device: None)
    monkeypatch.setattr(fit_file.PlanningCompiler, "is_on_gpu", lambda self: True)
    monkeypatch.setattr(fit_file, "Arena", arena_class)
    for name in ("reset_peak_memory_stats", "synchronize", "memory_allocated", "max_memory_allocated", "max_memory_reserved"):
        monkeypatch.setattr(torch.cuda, name, lambda *device, value=results_by_function.get(name, 0): value)


def test_plans_again_with_more_slack_where_no_memory_can_be_mapped(monkeypatch):
    model, inputs = model_and_inputs("perceptron")
    pretend_gpu(monkeypatch, FakeArena, max_memory_allocated=2**26, max_memory_reserved=2**41)
    monkeypatch.setattr(FakeArena, "fails", 1)
    monkeypatch.setattr(FakeArena, "lacking", 2**36)
    model = umt.fit(model, budget="1TiB", backend="aot_eager", effort=0.003)
    for _ in range(8):
        run_step(model, inputs)
    foreseen = 2**26 - model.plan.tried[0][0]
    assert model.plan.plans == 2 and model.plan.more_slack == 2**36 - foreseen and model.plan.settled and model.plan.within


@pytest.mark.parametrize(("bytes_over_prediction", "bytes_lacking", "expected_slack"), [(0, 5, 20), (0, 50, 50), (100, 90, 0), (100, 105, 20), (100, 150, 50)])
def test_the_next_plan_leaves_what_memory_lacked_and_it_does_not_foresee(bytes_over_prediction, bytes_lacking, expected_slack, monkeypatch):
    from types import SimpleNamespace as Made

    fit_file = importlib.import_module("umbench.torch.fit")
    monkeypatch.setattr(importlib.import_module("umbench.torch.plan"), "MIN_SLACK_BYTES", 0)
    plan = umt.Plan(1000)
    plan.predicted, plan.measured = {"peak": 1000}, {"peak": 1000 + bytes_over_prediction}
    call = Made(arena=Made(mappings=0, refusals=0, map_memory=lambda: False, lacking=bytes_lacking), plan=plan, start_over=lambda: None, MAX_MAPPINGS=3, MAX_PLANS=4)
    fit_file.FittedCall.map_memory_or_replan(call)
    assert plan.more_slack == expected_slack


class ArenaBesideOthers(FakeArena):
    """An arena for whose memory other processes leave no room in `fails` steps."""

    def map_memory(self):
        self.refusals = 0 if super().map_memory() else self.refusals + 1
        return self.refusals == 0

    def note_whether_step_fitted(self):
        return not self.refusals


@pytest.mark.parametrize(("steps_refused", "is_within"), [(3, True), (99, False)])
def test_a_plan_stays_while_other_processes_hold_the_memory(steps_refused, is_within, monkeypatch):
    model, inputs = model_and_inputs("perceptron")
    pretend_gpu(monkeypatch, ArenaBesideOthers, max_memory_allocated=2**26, max_memory_reserved=2**41)
    monkeypatch.setattr(FakeArena, "fails", steps_refused)
    model = umt.fit(model, budget="1TiB", backend="aot_eager", effort=0.003)
    for _ in range(30):
        run_step(model, inputs)
    assert model.plan.plans == 1 and model.plan.settled and model.plan.within is is_within
    assert ("a hard cap at the budget may fail: other processes hold the memory" in str(model.plan)) is not is_within


def test_a_step_whose_backward_pass_fails_is_not_the_one_that_is_measured(monkeypatch):
    def raise_error(gradient):
        raise ArithmeticError

    model, inputs = model_and_inputs("perceptron")
    pretend_gpu(monkeypatch, FakeArena, max_memory_allocated=2**26, max_memory_reserved=2**26)
    model = umt.fit(model, budget="1TiB", backend="aot_eager", effort=0.003)
    run_step(model, inputs)
    loss = model(*inputs)
    loss.register_hook(raise_error)
    with pytest.raises(ArithmeticError):
        loss.backward()
    run_step(model, inputs)
    assert model.plan.measured is None
    run_step(model, inputs)
    assert model.plan.measured["peak"] == 2**26 and model.plan.settled


def test_settles_where_no_backward_pass_ever_comes(monkeypatch):
    model, inputs = model_and_inputs("perceptron")
    pretend_gpu(monkeypatch, FakeArena, max_memory_allocated=2**26, max_memory_reserved=2**26)
    model = umt.fit(model, budget="1TiB", backend="aot_eager", effort=0.003)
    for _ in range(7):
        model(*inputs)
    assert model.plan.settled


def test_says_where_more_is_reserved_than_the_budget(monkeypatch):
    model, inputs = model_and_inputs("perceptron")
    pretend_gpu(monkeypatch, FakeArena, max_memory_allocated=2**26, max_memory_reserved=2**41)
    monkeypatch.setattr(FakeArena, "fails", 100)
    model = umt.fit(model, budget="1TiB", backend="aot_eager", effort=0.003)
    with pytest.warns(UserWarning, match="reserves 2048.00 GiB, more than the budget of 1024.00 GiB"):
        for _ in range(12):
            run_step(model, inputs)
    assert model.plan.settled and model.plan.within is False and "a hard cap at the budget may fail" in str(model.plan)
    assert model._compiled_call_impl.arena.given_up


def test_says_once_that_memory_is_no_longer_mapped(monkeypatch):
    class StoppedArena(FakeArena):
        has_run_out_of_remaps = lambda self: True  # noqa: E731

    model, inputs = model_and_inputs("perceptron")
    pretend_gpu(monkeypatch, StoppedArena, max_memory_allocated=2**26, max_memory_reserved=2**41)
    monkeypatch.setattr(FakeArena, "fails", 0)
    model = umt.fit(model, budget="1TiB", backend="aot_eager", effort=0.003)
    for _ in range(4):
        run_step(model, inputs)
    assert model.plan.settled and model.plan.within
    with pytest.warns(UserWarning, match="could not be mapped again") as told:
        for _ in range(2):
            run_step(model, inputs)
    assert len([each for each in told if "be mapped again" in str(each.message)]) == 1 and model.plan.within is False


def test_the_bound_holds_without_what_was_measured():
    """After a peak above the prediction the next plan allows for as much; no other plan has to."""
    model, inputs = model_and_inputs("perceptron")
    model, _ = fit_to_share_of_peak(model, inputs, 1.2)
    run_step(model, inputs)
    bound = model.plan.bound
    model.plan.unforeseen[1] = 50_000
    torch._dynamo.reset()
    model._compiled_call_impl.start_over()
    run_step(model, inputs)
    assert model.plan.bound == bound


def test_a_step_that_fails_is_recorded_anew(monkeypatch):
    """The second forward pass fails once: recording has ended, and the next step alone is recorded."""
    recorded = []

    class RecordingArena(FakeArena):
        def begin_recording(self):
            recorded.append("begins")

        def cancel_recording(self):
            recorded.append("ends")

        def finish_recording(self):
            recorded.append("is read")
            return True

    model, inputs = model_and_inputs("perceptron")
    pretend_gpu(monkeypatch, RecordingArena, max_memory_allocated=2**26)
    model = umt.fit(model, budget="1TiB", backend="aot_eager", effort=0.003)
    run_step(model, inputs)
    call = model._compiled_call_impl
    usual = call.run

    def raise_error(*arguments, **options):
        raise ValueError("once")

    call.run = raise_error
    with pytest.raises(ValueError, match="once"):
        run_step(model, inputs)
    assert recorded == ["begins", "ends"]
    call.run = usual
    run_step(model, inputs)
    assert not model.plan.settled
    run_step(model, inputs)
    assert recorded == ["begins", "ends", "begins", "is read"] and model.plan.settled and model.plan.plans == 1


def test_refuses_parameters_on_several_devices():
    model, _ = model_and_inputs("perceptron")
    model[2].to("meta")
    assert "parameters are on cpu, meta" in refusal_text(lambda: umt.fit(model, budget="1GiB"))


def test_a_cell_waits_for_the_peak_that_its_budget_is_a_share_of():
    from umbench.torch.bench.__main__ import Bench

    plain, fit, other = (("a", "plain", None, None, None), ("a", "fit", None, 2, "pinned"), ("b", "fit", None, 2, "pinned"))
    bench = Bench("", {"b": 10})
    assert bench.having_known_budgets([plain, fit, other]) == [plain, other] and bench.having_known_budgets([fit]) == [fit]
    bench.peaks["a"] = 8
    assert bench.having_known_budgets([fit, other]) == [fit, other] and bench.way_value_of(fit) == 4


def test_cells_that_are_none_are_refused():
    from umbench.torch.bench import __main__ as bench

    assert bench.parse_cell("unet/3/managed") == ["unet", "3", "managed"] and bench.parse_cell("unet/blocks/2") == ["unet", "blocks", "2"]
    for text in ("unet", "unknown/2", "unet/blocks", "unet/much"):
        with pytest.raises((ValueError, bench.argparse.ArgumentTypeError)):
            bench.parse_cell(text)
    assert [bench.parse_micro_batches(text) for text in ("2", "auto")] == ["2", "auto"]
    for text in ("0", "many"):
        with pytest.raises((ValueError, bench.argparse.ArgumentTypeError)):
            bench.parse_micro_batches(text)
