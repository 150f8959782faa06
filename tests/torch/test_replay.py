"""Replayed steps have the gradients of launched ones. On a CPU a graph is what runs the compiled code again on the same memory."""

import copy
import ctypes
import gc
import itertools

import pytest

torch = pytest.importorskip("torch")

import test_fit  # noqa: E402

from umbench.torch import private, replay  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def tensor_at(tensor):
    memory = tensor.untyped_storage()
    flat = torch.frombuffer((ctypes.c_uint8 * memory.nbytes()).from_address(memory.data_ptr()), dtype=tensor.dtype)
    return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


class Replays(replay.Replays):
    """Of a CPU."""

    def is_here(self, x):
        return True

    def laid_pool(self):
        return "a pool"

    def record(self, run, inputs):
        given = [tensor_at(x) if isinstance(x, torch.Tensor) and x.numel() else x for x in inputs]
        results = run(inputs)
        self.held = getattr(self, "held", []) + [results]
        runs = itertools.count()

        def again():
            if next(runs) == 0:
                return  # it has run, over its own inputs
            for old, new in zip(results, run(list(given))):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)

        return again, [tensor_at(x) if isinstance(x, torch.Tensor) else x for x in results]


@pytest.fixture
def fitted(monkeypatch):
    """(a model whose steps are replayed, the same unplanned, its inputs)."""
    test_fit.on_made_up_gpu(monkeypatch, test_fit.LaidOut, max_memory_allocated=2**26, max_memory_reserved=2**26)
    monkeypatch.setattr(private, "tensor_at", tensor_at)
    monkeypatch.setattr(replay, "Replays", Replays)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    test_fit.LaidOut.device = None
    model, inputs = test_fit.made("perceptron")
    plain = copy.deepcopy(model)
    return test_fit.umt.fit(model, budget="1TiB", tier=None, effort=0.003, cuda_graphs=True), plain, inputs


def compare(model, plain, inputs):
    for each in (model, plain):
        each.zero_grad()
    torch.testing.assert_close(test_fit.trained(model, inputs), test_fit.trained(plain, inputs))
    same_gradients(model, plain)


def same_gradients(model, plain):
    for own, other in zip(plain.parameters(), model.parameters()):
        assert (own.grad - other.grad).norm() < 1e-4 * own.grad.norm()


def replays_of(model):
    return model._compiled_call_impl.planning.replays


def test_replayed_steps_have_the_gradients_of_the_plain_ones(fitted):
    model, plain, inputs = fitted
    for factor in (1, 2, 3, 4, 5, 6):
        compare(model, plain, (inputs[0] * factor,))
    assert replays_of(model).state == replay.REPLAYS and not replays_of(model).refusal


@pytest.mark.parametrize("what", ("gradients", "loss", "parameter", "shape"))
def test_steps_are_launched_again_where_a_graph_would_write_over_something(fitted, what):
    model, plain, inputs = fitted
    for _ in range(5):
        compare(model, plain, inputs)
    assert replays_of(model).state == replay.REPLAYS
    if what == "loss":
        model.zero_grad()
        kept = model(*inputs)
    if what == "parameter":
        for each in (model, plain):
            each[0].weight.data = each[0].weight.data.clone()
    if what == "shape":
        inputs = (inputs[0][:256],)
    with pytest.warns(UserWarning, match="no longer replayed"):
        if what == "gradients":
            for each in (model, plain):
                test_fit.trained(each, inputs)
            same_gradients(model, plain)
        else:
            for _ in range(3 if what == "shape" else 1):
                compare(model, plain, inputs)
    if what == "loss":
        model.zero_grad()
        plain.zero_grad()
        kept.backward()
        test_fit.trained(plain, inputs)
        same_gradients(model, plain)
    compare(model, plain, inputs)
    assert replays_of(model).state == replay.OFF


def test_what_cannot_be_recorded_is_launched(fitted, monkeypatch):
    model, plain, inputs = fitted

    def refuses(self, run, inputs):
        raise RuntimeError("operation not permitted")

    monkeypatch.setattr(Replays, "record", refuses)
    for _ in range(3):
        compare(model, plain, inputs)
    with pytest.warns(UserWarning, match="operation not permitted"):
        for _ in range(3):
            compare(model, plain, inputs)


def test_graphs_are_refused_where_they_cannot_be():
    model, _ = test_fit.made("perceptron")
    for options in ({"backend": "aot_eager"}, {"micro_batches": 2}):
        assert "cuda_graphs" in test_fit.refusal(lambda: test_fit.umt.fit(model, budget="1GiB", cuda_graphs=True, **options))


@needs_gpu
@pytest.mark.parametrize("tier", (None, "pinned", "managed"))
def test_replayed_steps_on_a_gpu_have_the_bits_of_launched_ones(tier, monkeypatch):
    from umbench.torch import planner

    monkeypatch.setattr(planner, "COPY_NS", 0)
    monkeypatch.setattr(planner, "COPY_DRAG", {"pinned": 0, "managed": 0.2})
    private.lose_less_memory()
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.empty_cache()
    held = torch.cuda.memory_allocated()
    torch.manual_seed(0)
    start = test_fit.Mean(torch.nn.Sequential(*[layer for _ in range(8) for layer in (torch.nn.Linear(2048, 2048), torch.nn.GELU())]))
    inputs = (torch.randn(8192, 2048, device="cuda"),)
    model = test_fit.umt.fit(start.cuda(), budget=held + (700 if tier else 900) * 2**20, effort=0.1, tier=tier, cuda_graphs=True)
    wanted = None
    for number in range(8):
        model.zero_grad()
        loss = test_fit.trained(model, inputs)
        found = [loss.cpu(), *(p.grad.cpu() for p in model.parameters())]
        wanted = wanted or found
        assert all(map(torch.equal, wanted, found)), number
    assert replays_of(model).state == replay.REPLAYS, replays_of(model).refusal
    assert bool(model.plan.offloaded) == bool(tier)
    assert torch.cuda.memory_reserved() <= model.plan.budget
