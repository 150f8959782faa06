"""What --measure makes of the times of operators. The times themselves need a GPU."""

import types

import pytest

torch = pytest.importorskip("torch", minversion="2.9")

from torch import nn  # noqa: E402
from umbench.torch import convert, generated, launches, measuring  # noqa: E402

LAYERS, LIBRARY, GENERATED, LAUNCH = 4, {"ns": 40_000, "workspace": 512}, 1_000, 20_000


class FakeTimes:
    """As measuring.OperatorTimes, of a GPU on which all operators of a kind take the same time."""

    def __init__(self):
        self.layouts = set()

    def cost_of_node(self, node, channels_last):
        self.layouts.add(channels_last)
        return LIBRARY

    def ns_of_copy(self, byte_count):
        return GENERATED

    def ns_of_kernel(self, kernel, byte_count, channels_last):
        assert kernel.is_generated and kernel.writes
        return GENERATED

    def save_to_file(self):
        pass


def perceptron():
    return nn.Sequential(*[layer for _ in range(LAYERS) for layer in (nn.Linear(64, 64), nn.ReLU())]), (torch.randn(32, 64),)


def table_lookups():
    class Tables(nn.Module):
        def __init__(self):
            super().__init__()
            self.small, self.large = nn.Embedding(16, 8), nn.Embedding(1 << 20, 8)

        def forward(self, positions):
            return (self.small(positions % 16) * self.large(positions)).sum()

    return Tables(), (torch.zeros(4, 64, dtype=torch.long),)


def convolutions():
    return nn.Sequential(nn.Conv2d(128, 128, 3, padding=1), nn.Conv2d(128, 256, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten()), (torch.randn(2, 128, 8, 8),)


def test_products_take_what_was_measured_and_other_kernels_their_bytes():
    made = convert.convert_model(perceptron)
    measuring.measure_durations(made, FakeTimes())
    products = [op for op in made.document["ops"] if op["label"] in ("addmm", "mm")]
    others = [op for op in made.document["ops"] if op not in products]
    assert len(products) == 3 * LAYERS - 1 and others
    assert all(op["duration_ns"] == LIBRARY["ns"] + measuring.BETWEEN_KERNELS_NS and op["workspace_bytes"] == 512 for op in products)
    assert all(op["duration_ns"] == GENERATED + measuring.BETWEEN_KERNELS_NS * made.launches.get(op["name"], 1) for op in others)


def times_without_gpu(cache_folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_folder))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "made up")
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2, 2))
    return measuring.OperatorTimes("cuda:0")


def test_errors_of_the_moment_are_not_kept(tmp_path, monkeypatch):
    times = times_without_gpu(tmp_path, monkeypatch)
    times.known = {"a": {"ns": 5}, "b": measuring.error_entry(torch.OutOfMemoryError("CUDA out of memory")), "copies": [[1, 2]],
                   "c": measuring.error_entry(RuntimeError("CUDA error: unknown")), "d": measuring.error_entry(ValueError("wants whole numbers"))}
    times.save_to_file()
    assert set(times_without_gpu(tmp_path, monkeypatch).known) == {"a", "copies", "d"}
    assert "OutOfMemoryError" in times.known["b"]["refused"]


def test_times_are_kept_by_one_process_at_a_time(tmp_path, monkeypatch):
    times, held = times_without_gpu(tmp_path, monkeypatch), []
    monkeypatch.setattr(measuring.fcntl, "flock", lambda file, how: held.append(how))
    replace = measuring.os.replace
    monkeypatch.setattr(measuring.os, "replace", lambda *names: (held.append(names[1]), replace(*names)))
    times.save_to_file()
    assert held == [measuring.fcntl.LOCK_EX, times.file] and not times.has_lock
    with times._hold_lock():
        times.save_to_file()
    assert held.count(measuring.fcntl.LOCK_EX) == 2


def test_generated_kernels_that_cannot_be_timed_are_told(tmp_path, monkeypatch):
    times, made = times_without_gpu(tmp_path, monkeypatch), convert.convert_model(perceptron)
    monkeypatch.setattr(generated, "is_worth_timing", lambda kernel, size: True)
    monkeypatch.setattr(times, "ns_of_copy", lambda size: 7)

    def raise_error(module, examples):
        raise ValueError("no such kernel")

    times.device = torch.device("cpu")
    monkeypatch.setattr(generated.private, "compile_kernel", raise_error)
    assert times.ns_of_kernel(next(iter(made.generated.values())), 1 << 20, True) == 7
    assert list(times.untimed.values()) == ["ValueError: no such kernel"]


def test_short_kernels_wait_for_their_launches():
    made = convert.convert_model(perceptron)
    measuring.measure_durations(made, FakeTimes())
    names = [op["name"] for op in made.document["ops"]]
    alone = {op["name"]: op["duration_ns"] for op in made.document["ops"]}
    taken = launches.add_launch_waits(made, LAUNCH)
    counts = (launches.RELATIVE_COST_BEFORE + launches.RELATIVE_COST_BETWEEN + launches.RELATIVE_COST_AFTER
              + sum(launches.relative_launch_cost(made, name) for name in names))
    assert taken == pytest.approx(LAUNCH * counts, rel=1e-6)
    waited = {op["name"]: op["duration_ns"] for op in made.document["ops"]}
    assert sum(waited.values()) == taken and all(waited[name] >= alone[name] for name in names)  # short kernels: the CPU binds the step
    assert waited[names[0]] == alone[names[0]] + LAUNCH * (launches.RELATIVE_COST_BEFORE + launches.RELATIVE_CALL_COSTS["addmm"])


def test_copies_of_a_convolution_are_launched_too():
    made = convert.convert_model(lambda: (nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.Flatten()).bfloat16(), (torch.randn(2, 64, 8, 8).bfloat16(),)))
    (name,) = [op["name"] for op in made.document["ops"] if op["label"] == "convolution"]
    assert launches.relative_launch_cost(made, name) == launches.RELATIVE_CALL_COSTS["convolution"] + 3 * launches.RELATIVE_COPY_COST


def test_long_kernels_hide_their_launches():
    made = convert.convert_model(perceptron)
    measuring.measure_durations(made, FakeTimes())
    alone = sum(op["duration_ns"] for op in made.document["ops"])
    assert (launches.add_launch_waits(made, 1) < 200
            and sum(op["duration_ns"] for op in made.document["ops"]) <= alone + launches.RELATIVE_COST_BEFORE + 2)


def test_sums_into_a_small_table_are_timed_at_positions_within_it():
    made = convert.convert_model(table_lookups)
    kernels = {at: kernel for kernel in made.generated.values() for at in [generated.SeparateKernel(kernel, torch.device("cpu")).positions] if at > 1}
    assert set(kernels) == {16, 1 << 20}
    assert not generated.is_worth_timing(kernels[1 << 20], 1 << 30)


@pytest.mark.parametrize(("table_shape", "dim", "expected_positions"), [((4096, 8), 1, 8), ((32, 8), 0, 32)])
def test_positions_lie_within_the_extent_that_they_go_along(table_shape, dim, expected_positions):
    graph = torch.fx.Graph()
    table, index, source = (graph.placeholder(name) for name in ("table", "index", "source"))
    adds = graph.call_function(torch.ops.aten.scatter_add.default, (table, dim, index, source))
    for node, value in ((table, torch.empty(table_shape)), (index, torch.zeros(4, 8, dtype=torch.long)), (source, torch.empty(4, 8)), (adds, torch.empty(table_shape))):
        node.meta["val"] = value
    kernel = types.SimpleNamespace(nodes=[adds], reads=[table, index, source], writes=[adds], is_generated=True)
    assert generated.SeparateKernel(kernel, torch.device("cpu")).positions == expected_positions and generated.is_worth_timing(kernel, 1 << 30)
    kernel.reads.remove(index)  # computed in the kernel
    assert not generated.is_worth_timing(kernel, 1 << 30)


def test_gradients_that_are_copied_come_on_top():
    def images():
        return nn.Sequential(nn.Conv2d(128, 256, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()), (torch.randn(2, 128, 8, 8),)

    made = convert.convert_model(images)
    measuring.measure_durations(made, FakeTimes())
    (backward,) = [op for op in made.document["ops"] if op["label"] == "convolution_backward"]
    assert backward["workspace_bytes"] == 512 + 2 * 256 * 8 * 8 * 4
    assert backward["duration_ns"] == LIBRARY["ns"] + GENERATED + measuring.BETWEEN_KERNELS_NS * made.launches[backward["name"]]


def test_images_are_measured_as_they_are_laid_out():
    for form, wanted in (("compile", True), ("eager", False)):
        times = FakeTimes()
        measuring.measure_durations(convert.convert_model(convolutions, form=form), times)
        assert times.layouts <= {wanted} and (form == "eager" or times.layouts)


def test_a_generated_kernel_computes_by_itself_what_it_computes_in_the_graph():
    made = convert.convert_model(perceptron)
    kernel = next(k for name, k in made.generated.items() if "relu" in name)
    alone = generated.SeparateKernel(kernel, torch.device("cpu"))
    (x,) = (torch.randn(value.shape) for value in alone.values)
    (y,) = torch.fx.GraphModule(nn.Module(), alone.graph)(x)
    assert torch.equal(y, x.relu())
    others = [generated.SeparateKernel(k, torch.device("cpu")) for name, k in made.generated.items() if "relu" in name]
    assert len({each.cache_key([v.stride() for v in each.values]) for each in others}) == 1 < len(others)


def test_kernels_of_a_constant_and_of_a_value_have_other_keys():
    graph, cpu = torch.fx.Graph(), torch.device("cpu")
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(4)
    sums = [graph.call_function(torch.ops.aten.add.Tensor, (x, other)) for other in (x, 0)]
    assert len({generated.SeparateKernel(types.SimpleNamespace(nodes=[y], reads=[x], writes=[y]), cpu).cache_key([(1,)]) for y in sums}) == 2


def test_the_load_is_recorded_once_and_is_long_only_after_a_rest(tmp_path, monkeypatch):
    class Graph:
        def __init__(self):
            self.replays = 0

        def replay(self):
            self.replays += 1

    class Event:
        def __init__(self, enable_timing):
            pass

        def record(self):
            pass

        def elapsed_time(self, end):
            return 1.0

    times, load, made = times_without_gpu(tmp_path, monkeypatch), Graph(), []
    for name, value in (("Event", Event), ("synchronize", lambda: None)):
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(times, "_record_cuda_graph", lambda calls: Graph())
    monkeypatch.setattr(times, "_record_load", lambda: made.append(load) or (load, ()))
    replays = []
    for rest_s in (0, 0, 2 * measuring.RESTS_AFTER_S):
        times.measured_at -= rest_s
        before = load.replays
        assert times._measure_ns([lambda: None]) == 1e6 / measuring.CALLS_PER_ROUND
        replays.append(load.replays - before)
    others = (measuring.ROUNDS - 1) * measuring.LOADS_BEFORE_ROUND
    assert (len(made) == 1
            and replays == [measuring.LOADS_AFTER_REST + others, measuring.LOADS_BEFORE_ROUND + others, measuring.LOADS_AFTER_REST + others])
    times.free_memory()
    times._measure_ns([lambda: None])
    assert len(made) == 2
