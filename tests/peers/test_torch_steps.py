"""What needs PyTorch but no GPU; skipped where it is not installed."""

import architectures as nets
import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
import torch_steps as steps  # noqa: E402

SMALL = [nets.Conv("conv1", 3, 4, 7, 4, 3, False), nets.Norm("bn1", 4), nets.Relu(), nets.Pool(3, 2, 1),
         nets.Residual((nets.Conv("a", 4, 8, 3, 2, 1), nets.Relu()), (nets.Conv("b", 4, 8, 1, 2, 0),)),
         nets.GlobalPool(), nets.Flatten(), nets.Linear("fc", 8, 1000)]


@pytest.mark.parametrize("network", nets.NAMES)
def test_modules_have_the_described_parameters(network):
    layers = nets.layers_of(network)
    with torch.device("meta"):
        module, parameters = steps.build(layers)
    assert {name: tuple(p.shape) for name, p in parameters.items()} == nets.all_parameters(layers)
    assert len(list(module.parameters())) == len(parameters)


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """A folder as umbench writes it, of values and gradients that PyTorch computed in double precision."""
    monkeypatch.setattr(nets, "layers_of", lambda network: SMALL)
    step = steps.Step("small", 2, "fp64", "nchw", "cpu")

    def save(name, value, shape):
        numpy.save(tmp_path / f"{name}.npy", value.detach().numpy().astype("i4" if name == "labels" else "f4").reshape(shape))

    save("data", step.data, (2, 3, 224, 224))
    save("labels", step.labels, (2, 1, 1, 1))
    for name, parameter in step.parameters.items():
        save(name, parameter, (*parameter.shape, 1, 1, 1)[:4] if parameter.dim() > 1 else (1, -1, 1, 1))
    step.load(tmp_path)  # as rounded to fp32
    save("loss", step(), (1, 1, 1, 1))
    for name, parameter in step.parameters.items():
        save(nets.gradient_name(name), parameter.grad, (*parameter.shape, 1, 1, 1)[:4] if parameter.dim() > 1 else (1, -1, 1, 1))
    return tmp_path


def task(folder, **changes):
    return {"network": "small", "batch": 2, "precision": "fp32", "order": "nchw", "values": str(folder),
            "reference": None, "device": "cpu"} | changes


@pytest.mark.parametrize("order", ["nchw", "nhwc"])
def test_equal_gradients_are_found_equal(exported, order):
    found = steps.compare(task(exported, order=order, reference="fp64"))
    assert found["to_pytorch"]["worst"] < 1e-4 and found["umbench_loss"] == pytest.approx(found["pytorch_loss"], rel=1e-5)
    assert found["umbench_to_reference"]["worst"] < 1e-6


def test_a_wrong_gradient_is_named(exported):
    wrong = numpy.load(exported / "a.dw.npy")
    numpy.save(exported / "a.dw.npy", wrong * 1.5)
    found = steps.compare(task(exported))["to_pytorch"]
    assert found["worst_tensor"] == "a.w" and found["worst"] == pytest.approx(0.5, rel=1e-3)


def test_a_reference_that_cannot_run_is_a_reason(exported, monkeypatch):
    gradients_of = steps.gradients_of

    def too_large(task, precision, *rest):
        if precision == "fp64":
            raise MemoryError("too large")
        return gradients_of(task, precision, *rest)

    monkeypatch.setattr(steps, "gradients_of", too_large)
    found = steps.compare(task(exported, reference="fp64"))
    assert found["reference_reason"] == "MemoryError: too large" and found["to_pytorch"]["worst"] < 1e-4


def test_what_is_not_finite_is_worst(exported):
    wrong = numpy.load(exported / "fc.db.npy")
    wrong[0, 0] = numpy.nan
    numpy.save(exported / "fc.db.npy", wrong)
    found = steps.compare(task(exported))["to_pytorch"]
    assert (found["worst"], found["worst_tensor"]) == (None, "fc.b") and found["median"] < 1e-4
