"""What --measure makes of the times of operators. The times themselves need a GPU."""

import pytest

torch = pytest.importorskip("torch", minversion="2.9")

from torch import nn  # noqa: E402
from umbench.torch import convert, measuring, rates  # noqa: E402

LAYERS, LIBRARY, GENERATED, LAUNCH = 4, {"ns": 40_000, "workspace": 512, "host_ns": 7_000}, 1_000, 20_000


class Times:
    """As measuring.Times, of a GPU on which all operators of a kind take the same time."""

    def __init__(self):
        self.layouts = set()

    def of_node(self, node, channels_last):
        self.layouts.add(channels_last)
        return LIBRARY

    def of_bytes(self, size):
        return GENERATED

    def generated_launch(self):
        return LAUNCH

    def keep(self):
        pass


def perceptron():
    return nn.Sequential(*[layer for _ in range(LAYERS) for layer in (nn.Linear(64, 64), nn.ReLU())]), (torch.randn(32, 64),)


def images():
    return nn.Sequential(nn.Conv2d(128, 128, 3, padding=1), nn.Conv2d(128, 256, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten()), (torch.randn(2, 128, 8, 8),)


def test_products_take_what_was_measured_and_other_kernels_their_bytes():
    made = convert.of_model(perceptron)
    host_ns = measuring.set_durations(made, Times())
    products = [op for op in made.document["ops"] if op["label"] in ("addmm", "mm")]
    others = [op for op in made.document["ops"] if op not in products]
    assert len(products) == 3 * LAYERS - 1 and others
    assert all(op["duration_ns"] == LIBRARY["ns"] + measuring.BETWEEN_KERNELS_NS and op["workspace_bytes"] == 512 for op in products)
    assert all(op["duration_ns"] == GENERATED + measuring.BETWEEN_KERNELS_NS * made.launches.get(op["name"], 1) for op in others)
    assert {op["name"]: host_ns[op["name"]] for op in products} == {op["name"]: LIBRARY["host_ns"] for op in products}
    assert all(host_ns[op["name"]] == LAUNCH * made.launches.get(op["name"], 1) for op in others)


def test_short_kernels_wait_for_their_launches():
    made = convert.of_model(perceptron)
    host_ns = measuring.set_durations(made, Times())
    alone = sum(op["duration_ns"] for op in made.document["ops"])
    rates.wait_for_launches(made, host_ns)
    waited = sum(op["duration_ns"] for op in made.document["ops"])
    assert alone < waited and waited >= sum(host_ns.values())


def test_images_are_measured_as_they_are_laid_out():
    for form, wanted in (("compile", True), ("eager", False)):
        times = Times()
        measuring.set_durations(convert.of_model(images, form=form), times)
        assert times.layouts <= {wanted} and (form == "eager" or times.layouts)


def test_launches_of_a_compiled_step_are_timed():
    assert measuring.launching_ns(lambda: sum(range(100_000)), torch.device("cpu")) > measuring.launching_ns(lambda: None, torch.device("cpu"))
