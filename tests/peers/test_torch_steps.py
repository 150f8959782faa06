"""What needs PyTorch but no GPU; skipped where it is not installed."""

import functools

import architectures as nets
import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
import torch_steps as steps  # noqa: E402

SMALL = [nets.Conv("conv1", 3, 4, 7, 4, 3, False), nets.Norm("bn1", 4), nets.Relu(), nets.Pool(3, 2, 1),
         nets.Residual((nets.Conv("a", 4, 8, 3, 2, 1), nets.Relu()), (nets.Conv("b", 4, 8, 1, 2, 0),)),
         nets.GlobalPool(), nets.Flatten(), nets.Linear("fc", 8, 1000)]


@pytest.mark.parametrize("network", nets.NETWORK_NAMES)
def test_modules_have_the_described_parameters(network):
    layers = nets.layers_of(network)
    with torch.device("meta"):
        module, parameters = steps.build_module(layers)
    assert {name: tuple(p.shape) for name, p in parameters.items()} == nets.parameter_extents(layers)
    assert len(list(module.parameters())) == len(parameters)


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """A folder as umbench writes it, of values and gradients that PyTorch computed in double precision."""
    monkeypatch.setattr(nets, "layers_of", lambda network: SMALL)
    step = steps.Step("small", 2, "fp64", "nchw", "cpu")

    def save_array(array_name, tensor, shape):
        numpy.save(tmp_path / f"{array_name}.npy", tensor.detach().numpy().astype("i4" if array_name == "labels" else "f4").reshape(shape))

    save_array("data", step.data, (2, 3, 224, 224))
    save_array("labels", step.labels, (2, 1, 1, 1))
    for name, parameter in step.parameters.items():
        save_array(name, parameter, (*parameter.shape, 1, 1, 1)[:4] if parameter.dim() > 1 else (1, -1, 1, 1))
    step.load_values(tmp_path)  # as rounded to fp32
    save_array("loss", step(), (1, 1, 1, 1))
    for name, parameter in step.parameters.items():
        save_array(nets.gradient_name(name), parameter.grad, (*parameter.shape, 1, 1, 1)[:4] if parameter.dim() > 1 else (1, -1, 1, 1))
    return tmp_path


def task(folder, **changes):
    return {"network": "small", "batch": 2, "precision": "fp32", "order": "nchw", "values": str(folder),
            "reference": None, "device": "cpu"} | changes


@pytest.mark.parametrize("order", ["nchw", "nhwc"])
def test_equal_gradients_are_found_equal(exported, order):
    found = steps.compare_gradients(task(exported, order=order, reference="fp64"))
    assert found["to_pytorch"]["worst"] < 1e-4 and found["umbench_loss"] == pytest.approx(found["pytorch_loss"], rel=1e-5)
    assert found["umbench_to_reference"]["worst"] < 1e-6


def test_a_wrong_gradient_is_named(exported):
    wrong = numpy.load(exported / "a.dw.npy")
    numpy.save(exported / "a.dw.npy", wrong * 1.5)
    found = steps.compare_gradients(task(exported))["to_pytorch"]
    assert found["worst_tensor"] == "a.w" and found["worst"] == pytest.approx(0.5, rel=1e-3)


def test_a_reference_that_cannot_run_is_a_reason(exported, monkeypatch):
    compute_pytorch_gradients = steps.compute_pytorch_gradients

    def too_large(task, precision, *rest):
        if precision == "fp64":
            raise MemoryError("too large")
        return compute_pytorch_gradients(task, precision, *rest)

    monkeypatch.setattr(steps, "compute_pytorch_gradients", too_large)
    found = steps.compare_gradients(task(exported, reference="fp64"))
    assert found["reference_reason"] == "MemoryError: too large" and found["to_pytorch"]["worst"] < 1e-4


def test_what_is_not_finite_is_worst(exported):
    wrong = numpy.load(exported / "fc.db.npy")
    wrong[0, 0] = numpy.nan
    numpy.save(exported / "fc.db.npy", wrong)
    found = steps.compare_gradients(task(exported))["to_pytorch"]
    assert (found["worst"], found["worst_tensor"]) == (None, "fc.b") and found["median"] < 1e-4


@pytest.fixture
def without_a_gpu(monkeypatch):
    """time_ways() on the CPU: what asks CUDA gets made-up answers, and capturing fails."""
    monkeypatch.setattr(nets, "layers_of", lambda network: SMALL)
    monkeypatch.setattr(steps, "Step", functools.partial(steps.Step, device="cpu"))
    monkeypatch.setattr(steps, "_milliseconds_of_calls", lambda call, samples: [float(call() is not None)] * samples)
    for name, answer in (("synchronize", None), ("reset_peak_memory_stats", None), ("empty_cache", None),
                         ("max_memory_allocated", 4096)):
        monkeypatch.setattr(torch.cuda, name, lambda answer=answer: answer)
    monkeypatch.setattr(torch.cuda, "Stream", lambda: 1 / 0)


def test_a_way_that_fails_leaves_the_other_ones(without_a_gpu):
    found = steps.time_ways({"network": "small", "batch": 2, "precision": "fp32", "order": "nhwc", "warmup": 1,
                             "samples": 3, "compile_mode": "default", "ways": ["eager", "graph"]})
    assert found == {"eager": {"ms": 1.0, "samples_ms": [1.0] * 3, "peak_bytes": 4096},
                     "graph": {"reason": "ZeroDivisionError: division by zero"}}


def test_ways_of_compiling_compile_once(without_a_gpu, monkeypatch):
    compiled = []
    monkeypatch.setattr(steps, "compile_loss_of", lambda step, mode: compiled.append(mode))
    found = steps.time_ways({"network": "small", "batch": 2, "precision": "fp32", "order": "nchw", "warmup": 1,
                             "samples": 1, "compile_mode": "default", "ways": ["compile", "compile_graph"]})
    assert compiled == ["default"] and found["compile"]["ms"] == 1.0 and "reason" in found["compile_graph"]


@pytest.mark.parametrize("precision, kind", [("fp32", torch.float32), ("tf32", torch.float32), ("bf16", torch.bfloat16),
                                             ("fp64", torch.float64)])
def test_a_step_is_of_its_precision(monkeypatch, precision, kind):
    monkeypatch.setattr(nets, "layers_of", lambda network: SMALL)
    step = steps.Step("small", 2, precision, "nhwc", "cpu")
    with torch.backends.mkldnn.flags(enabled=False):  # which lacks some bf16 gradients
        step()
    assert torch.backends.cudnn.allow_tf32 == torch.backends.cuda.matmul.allow_tf32 == (precision == "tf32")
    assert step.data.dtype == kind and step.data.is_contiguous(memory_format=torch.channels_last)
    whole = torch.float64 if precision == "fp64" else torch.float32
    assert {p.grad.dtype for p in step.parameters.values()} == {whole}, "parameters and gradients are never bf16"
