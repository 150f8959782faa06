"""Steps replayed as CUDA graphs, on made-up graphs that run on the CPU."""

import contextlib
import gc
from types import SimpleNamespace as Made

import pytest

torch = pytest.importorskip("torch")

import umbench.torch as umt  # noqa: E402
from umbench.torch import cuda_graphs, placing, private  # noqa: E402


class FakeGraph:
    """As torch.cuda.CUDAGraph: `kernels` are functions that write the memory of the recorded run again."""

    recorded = None

    def __init__(self):
        self.kernels = []

    def capture_begin(self, pool, capture_error_mode):
        FakeGraph.recorded = self

    def capture_end(self):
        FakeGraph.recorded = None

    def replay(self):
        for kernel in self.kernels:
            kernel()


MEMORY = []  # stays mapped, as a pool does


def compute_and_record(function, *operands):
    """The result of a function, as kernels compute it: at once, and in each replay."""
    made = function(*operands)
    if FakeGraph.recorded:
        FakeGraph.recorded.kernels.append(lambda: made.copy_(function(*operands)))
        MEMORY.append(made.detach())
    return made


class FakeArena:
    """The arena of a step whose tensors are all small."""

    def __init__(self):
        self.device, self.points, self.mapped = torch.device("cpu"), [*placing.FORWARD_POINTS, *placing.BACKWARD_POINTS], 0

    def requests_of_passes(self):
        return [], 0

    def mappable_bytes(self):
        return 3 * cuda_graphs.PAGE_BYTES

    def map_memory(self):
        self.mapped += 1
        return True

    def begin_step(self):
        pass


class TwoPassModel(torch.nn.Module):
    """mean((x w)^2), in two passes as Inductor compiles them, run by a StepGraphs."""

    def __init__(self):
        super().__init__()
        self.weight, self.arena, self.graphs, self.launches = torch.nn.Parameter(torch.arange(1.0, 5.0)), FakeArena(), cuda_graphs.StepGraphs(umt.Plan(1)), []
        self.graphs.result_count = 1
        passes = self.graphs.wrap_pass(self.run_forward, False), self.graphs.wrap_pass(self.run_backward, True)

        class Step(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, weight):
                loss, *saved = passes[0]([x, weight])
                ctx.save_for_backward(*saved)
                return loss

            @staticmethod
            def backward(ctx, gradient):
                return None, *passes[1]([*ctx.saved_tensors, gradient])

        self.step = Step

    def run_forward(self, inputs):
        x, weight = inputs
        inputs.clear()
        self.launches.append("forward")
        product = compute_and_record(lambda x, weight: x * weight, x, weight)
        return compute_and_record(lambda product: product.square().mean(), product), product, x

    def run_backward(self, inputs):
        product, x, gradient = inputs
        inputs.clear()
        self.launches.append("backward")
        return (compute_and_record(lambda product, x, gradient: (2 / product.numel()) * gradient * (product * x).sum(0), product, x, gradient),)

    def forward(self, x):
        if torch.is_grad_enabled():
            self.graphs.begin_step(self.arena, self)
        return self.step.apply(x, self.weight)


@pytest.fixture
def model(monkeypatch):
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda *device: None)
    for name in ("memory_allocated", "memory_reserved"):
        monkeypatch.setattr(torch.cuda, name, lambda device: 0)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Made(cuda_stream=1))
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(private, "free_cublas_workspaces", lambda: None)
    monkeypatch.setattr(cuda_graphs, "allocate_cublas_workspaces", lambda device: None)
    monkeypatch.setattr(cuda_graphs, "use_cublas", lambda device: None)
    monkeypatch.setattr(cuda_graphs, "is_on_gpu", lambda each: isinstance(each, torch.Tensor))
    yield TwoPassModel()
    placing.set_follower(None)
    MEMORY.clear()


def random_batch(seed):
    MEMORY.append(torch.randn(3, 4, generator=torch.Generator().manual_seed(seed)))
    return MEMORY[-1]


def expected_loss_and_gradient(model, batch_tensor):
    """(loss, gradient) by PyTorch."""
    weight = model.weight.detach().requires_grad_()
    loss = (batch_tensor * weight).square().mean()
    return loss.detach(), *torch.autograd.grad(loss, weight)


def check_step(model, batch_tensor):
    loss = model(batch_tensor)
    loss.backward()
    torch.testing.assert_close((loss.detach(), model.weight.grad), expected_loss_and_gradient(model, batch_tensor))
    return loss.detach()


def train(model, step_count, first_seed=0, repeated_batch=None):
    """Runs steps with other batches or the same one, and checks loss and gradient of each. Returns the losses, which must stay."""
    kept = []
    for seed in range(first_seed, first_seed + step_count):
        kept.append(check_step(model, random_batch(seed) if repeated_batch is None else repeated_batch))
        with torch.no_grad():
            model.weight -= 0.1 * model.weight.grad
        model.weight.grad = None
    return kept


def test_steps_that_are_alike_are_replayed_with_other_batches_and_weights(model):
    losses = train(model, 10)
    assert (model.graphs.state == "replayed" and not model.graphs.plan.launched_because
            and model.graphs.replay_count == 10 - cuda_graphs.MIN_LIKE_STEPS - 1)
    assert len(model.launches) == 2 * (cuda_graphs.MIN_LIKE_STEPS + 1)  # the first steps, and the recording
    assert len({loss.item() for loss in losses}) == 10 and model.graphs.plan.is_replayed


def test_gradients_that_add_up_are_not_written_over(model):
    train(model, 6)
    launched = len(model.launches)
    x, y = random_batch(20), random_batch(21)
    model(x).backward()
    model(y).backward()
    torch.testing.assert_close(model.weight.grad, expected_loss_and_gradient(model, x)[1] + expected_loss_and_gradient(model, y)[1])
    assert len(model.launches) == launched + 2 and model.graphs.state == "launched"
    model.weight.grad = None
    train(model, 12, 30)
    assert model.graphs.state == "replayed"


def test_gradients_stay_after_the_pool_is_dropped(model):
    train(model, 6)
    x = random_batch(20)
    model(x).backward()
    model.graphs.drop_recordings()
    gc.collect()
    assert model.graphs.state == "launched"
    torch.testing.assert_close(model.weight.grad, expected_loss_and_gradient(model, x)[1])


def test_two_forward_passes_before_a_backward_pass_have_their_own_tensors(model):
    train(model, 6)
    x, y = random_batch(20), random_batch(21)
    first, second = model(x), model(y)
    for loss, given in ((second, y), (first, x)):
        loss.backward()
        torch.testing.assert_close((loss.detach(), model.weight.grad), expected_loss_and_gradient(model, given))
        model.weight.grad = None


def test_a_step_with_gradients_of_the_last_is_no_reason_to_record(model):
    for seed in range(8):
        model(random_batch(seed)).backward()
    assert model.graphs.state == "launched" and len(model.launches) == 16


def test_a_parameter_that_moves_is_found(model):
    train(model, 6)
    model.weight.data = model.weight.data.clone() * 2
    train(model, 2, 10)
    assert model.graphs.state == "launched"


def test_a_batch_that_stays_where_it_is_is_not_copied_until_it_moves(model):
    x = random_batch(0)
    for turn in range(3):
        train(model, 5, repeated_batch=x)
        x.copy_(random_batch(1 + turn))  # as data loaders do that fill one piece of memory
    forward = model.graphs.passes[0]
    assert model.graphs.state == "replayed" and not forward.recorded.copied and len(model.launches) == 2 * (cuda_graphs.MIN_LIKE_STEPS + 1)
    train(model, 20, 10)
    assert model.graphs.state == "replayed" and list(forward.recorded.copied) == [0]


def fail_while_recording(launch, message):
    """A launch of a pass that raises RuntimeError while the pass is recorded, and else does what `launch` does."""
    def launch_or_fail(inputs):
        if FakeGraph.recorded:
            inputs.clear()
            raise RuntimeError(message)
        return launch(inputs)

    return launch_or_fail


def test_a_pass_that_cannot_be_recorded_is_launched(model):
    model.graphs.passes[1].launch = fail_while_recording(model.run_backward, "operation not permitted\nwhen stream is capturing")
    train(model, 8)
    assert model.graphs.state == "launched" and model.graphs.plan.launched_because == "a pass cannot be recorded: RuntimeError: operation not permitted"
    assert not any(each.recorded for each in model.graphs.passes)


def test_a_forward_pass_that_cannot_be_recorded_is_launched_in_memory_mapped_anew(model):
    model.graphs.passes[0].launch = fail_while_recording(model.run_forward, "no")
    train(model, 8)
    assert model.arena.mapped == 1 and model.graphs.plan.launched_because.endswith("RuntimeError: no")


def test_steps_without_places_in_a_pool_keep_their_memory(model, monkeypatch):
    monkeypatch.setattr(cuda_graphs.steering, "find_holds", lambda *given: (None, 0))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: pytest.fail("gives memory back"))
    train(model, 8)
    assert model.graphs.state == "launched" and "no places are found" in model.graphs.plan.launched_because


def test_a_budget_without_room_for_a_pool_is_told(model):
    model.arena.mappable_bytes = lambda: 0
    train(model, 8)
    assert model.graphs.state == "launched" and model.graphs.plan.launched_because == "the budget leaves no room for a pool"


def test_a_model_compiled_for_two_shapes_is_launched(model):
    for is_backward in (False, True):
        model.graphs.wrap_pass(None, is_backward)
    train(model, 8)
    assert model.graphs.state == "launched" and "compiled more than once" in model.graphs.plan.launched_because


def test_a_step_without_known_passes_is_launched(model):
    model.arena.requests_of_passes = lambda: None
    train(model, 8)
    assert model.graphs.state == "launched" and "more than one forward" in model.graphs.plan.launched_because


def test_a_pass_that_is_refused_tells_why(model, monkeypatch):
    monkeypatch.setattr(torch, "empty_like", lambda each: torch.empty(each.shape).mT)
    train(model, 8)
    assert model.graphs.state == "launched" and model.graphs.plan.launched_because == "elements of an input overlap or have gaps"


@pytest.mark.parametrize("error", [AttributeError, NameError, TypeError])
def test_a_fault_of_the_program_during_a_recording_is_raised(model, error):
    usual = model.run_forward

    def fails(inputs):
        if FakeGraph.recorded:
            raise error
        return usual(inputs)

    model.graphs.passes[0].launch = fails
    with pytest.raises(error):
        train(model, 8)


def test_a_pool_beyond_the_budget_is_given_up(model, monkeypatch):
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 2)
    train(model, 8)
    assert model.graphs.state == "launched" and model.graphs.plan.launched_because == "the pool exceeds the budget"


def test_recordings_become_rare_where_few_steps_are_alike(model):
    recordings = []
    for turn in range(4):
        begun = len(model.launches)
        while model.graphs.state != "replayed":
            train(model, 1)
        recordings.append((len(model.launches) - begun) // 2)
        model.graphs.drop_recordings()
    assert recordings == sorted(recordings) and recordings[-1] > 2 * recordings[0]


def test_what_a_recording_allocates_is_placed_with_the_tensors():
    mib = 2**20
    requests = [(True, 1, 4 * mib, 0), (True, 2, 8 * mib, 3), (False, 1, 4 * mib, 3), (False, 2, 8 * mib, 4)]
    found = cuda_graphs.with_recorded_tensors(requests, 32 * mib, [100, 5 * mib + 1], 1, 3)
    first, second, batch = [(is_taken, -1, 32 * mib, point) for is_taken, point in ((True, -1), (False, 1))], \
        [(is_taken, -2, 32 * mib, point) for is_taken, point in ((True, 3), (False, 4))], [(is_taken, -3, 5 * mib + 512, point) for is_taken, point in ((True, -1), (False, 4))]
    assert found == [batch[0], first[0], requests[0], first[1], second[0], *requests[1:3], batch[1], second[1], requests[3]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_on_a_gpu_is_replayed_within_its_budget():
    """In a process of its own: settings of the allocator hold from its first allocation on."""
    import subprocess
    import sys
    code = """
import copy, torch
import umbench.torch as umt
from umbench.torch.bench import models

torch.manual_seed(0)
exact = models.GPT2(4, 1024, 16, 16384, 512).cuda()
batches = [torch.randint(8, (16, 512), device="cuda") for _ in range(12)]  # few words, which are learned in some steps

class Mean(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        with torch.autocast("cuda", torch.bfloat16):
            return torch.nn.functional.cross_entropy(self.body(x).flatten(0, 1), x.flatten())

def train(model):
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.02), []
    for x in batches:
        optimizer.zero_grad()
        losses.append(model(x))
        losses[-1].backward()
        optimizer.step()
    return torch.stack([loss.detach() for loss in losses])

plain = Mean(copy.deepcopy(exact))
run = torch.compile(plain)
run.parameters = plain.parameters
torch.cuda.reset_peak_memory_stats()
wanted = train(run)
peak = torch.cuda.max_memory_allocated() - sum(p.numel() * 4 for p in exact.parameters())
del run, plain
torch._dynamo.reset()
torch.cuda.empty_cache()
model = umt.fit(Mean(exact), budget=int(0.6 * peak), cuda_graphs=True)
losses = train(model)
print(model.plan)
assert model.plan.within and model.plan.is_replayed, model.plan.launched_because
print(losses, wanted)
assert wanted[-1] < wanted[0] - 2
torch.testing.assert_close(losses, wanted, rtol=2e-2, atol=0)
assert torch.cuda.memory_reserved() <= model.plan.budget
with torch.no_grad():
    model(batches[0])  # needs the memory of the pool, where gradients still are
assert not model.plan.is_replayed
torch.cuda.empty_cache()
assert train(model)[-1] < losses[-1] and model.plan.is_replayed
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
