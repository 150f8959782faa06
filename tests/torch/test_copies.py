"""Offloaded tensors: copies that are as late as they may be leave the gradients right, and the operators that see to this are needed."""

import contextlib
import copy
import ctypes
import gc
import importlib
import os
import types
import weakref

import pytest

torch = pytest.importorskip("torch")

import test_fit  # noqa: E402

from umbench.torch import copies, copy_streams, planner  # noqa: E402

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(autouse=True)
def make_copies_cost_nothing(monkeypatch):
    """Plans offload what they may."""
    monkeypatch.setattr(planner, "COPY_OVERHEAD_NS", 0)
    monkeypatch.setattr(planner, "KERNEL_SLOWDOWN_BESIDE_COPY", {"pinned": 0, "managed": 0.2})


def gradients_of(model):
    return [p.grad for p in model.parameters()]


@pytest.mark.parametrize("name", ("perceptron", "convolutions", "transformer block"))
def test_offloading_changes_no_bits(name):
    model, inputs = test_fit.model_and_inputs(name)
    plain = copy.deepcopy(model)
    unplanned = test_fit.run_step(torch.compile(plain, backend="aot_eager"), inputs)
    model, _ = test_fit.fit_to_share_of_peak(model, inputs, 0.75)
    for _ in range(2):
        model.zero_grad()
        assert torch.equal(test_fit.run_step(model, inputs), unplanned) or name == "convolutions"
    assert model.plan.offloaded and model.plan.differences == []
    assert "wait on the host" in str(model.plan) and "of it on the host" in str(model.plan)
    assert sum(away for _, away, _ in model.plan.modules.values()) == model.plan.offloaded_bytes
    assert copies.unfinished_slot_numbers() == []
    for own, other in zip(gradients_of(plain), gradients_of(model)):
        assert torch.equal(own, other)


def test_copies_of_managed_memory_are_told_to_slow_kernels_down():
    model, inputs = test_fit.model_and_inputs("perceptron")
    times = []
    for tier in ("pinned", "managed"):
        fitted, _ = test_fit.fit_to_share_of_peak(copy.deepcopy(model), inputs, 0.75, tier=tier)
        test_fit.run_step(fitted, inputs)
        times.append(fitted.plan.predicted["ms"])
    assert times[0] < times[1]


def test_a_second_forward_pass_before_the_backward_pass_takes_memory_of_its_own():
    model, inputs = test_fit.model_and_inputs("perceptron")
    plain = copy.deepcopy(model)
    model, _ = test_fit.fit_to_share_of_peak(model, inputs, 0.75)
    other = (inputs[0] * 2,)
    for _ in range(2):
        for each in (plain, model):
            each.zero_grad()
            first, second = each(*inputs), each(*other)
            (first + 3 * second).backward()
    assert model.plan.offloaded
    for own, other in zip(gradients_of(plain), gradients_of(model)):
        torch.testing.assert_close(own, other)


def test_a_batch_of_another_size_is_planned_by_itself():
    model, inputs = test_fit.model_and_inputs("perceptron")
    plain = copy.deepcopy(model)
    model, _ = test_fit.fit_to_share_of_peak(model, inputs, 0.75)
    shorter = (inputs[0][:320],)
    for batch in (inputs, shorter, inputs, shorter):
        for each in (plain, model):
            each.zero_grad()
            test_fit.run_step(each, batch)
        for own, other in zip(gradients_of(plain), gradients_of(model)):
            torch.testing.assert_close(own, other)
    with torch._dynamo.config.patch(recompile_limit=2):
        assert "more than 2 shapes" in test_fit.refusal_text(lambda: model(inputs[0][:100]))


def copy_to_host_and_back(source, slot, layout_tensor):
    """(the tensor on the host, the tensor that comes back, in the strides of `layout_tensor`)."""
    copies.set_layout_of_copy_back(slot, layout_tensor)
    host = torch.ops.umbench.copy_out(source, slot)
    torch.ops.umbench.finish_copy(source, host, slot, True)
    back = torch.ops.umbench.copy_back(host, slot)
    torch.ops.umbench.finish_copy(host, back, slot, False)
    return host, back


def test_a_tensor_with_gaps_takes_memory_of_its_own():
    slab = copies.HostSlab([64, 64], "pinned", None)
    gaps, dense = torch.arange(64.0).as_strided((4, 4), (16, 1)), torch.arange(16.0).reshape(4, 4).t()
    for source, slot in ((gaps, slab.slots[0]), (dense, slab.slots[1])):
        host, back = copy_to_host_and_back(source, slot, source)
        assert torch.equal(back, source) and back.stride() == source.stride()
        assert (host.untyped_storage().nbytes() == slab.memory.nbytes) == (source is dense)
    slab.close()


def test_a_slot_is_free_again_where_the_backward_pass_does_not_come():
    source, slab = torch.arange(16.0), copies.HostSlab([64], "pinned", None)
    copies.set_layout_of_copy_back(slab.slots[0], source)
    abandoned = torch.ops.umbench.copy_out(source, slab.slots[0])
    torch.ops.umbench.finish_copy(source, abandoned, slab.slots[0], True)
    home = abandoned.data_ptr()
    assert copy_to_host_and_back(source, slab.slots[0], source)[0].data_ptr() != home
    del abandoned
    assert copy_to_host_and_back(source, slab.slots[0], source)[0].data_ptr() == home
    slab.close()


def test_a_backward_pass_whose_model_is_gone_is_refused_in_one_line():
    source, slab = torch.arange(16.0), copies.HostSlab([64], "pinned", None)
    copies.set_layout_of_copy_back(slab.slots[0], source)
    host = torch.ops.umbench.copy_out(source, slab.slots[0])
    slab.close()
    with pytest.raises(RuntimeError, match="keep the model until the pass has run"):
        torch.ops.umbench.copy_back(host, slab.slots[0])


def test_a_tensor_comes_back_in_the_strides_that_were_traced():
    source = torch.arange(24.0).reshape(2, 3, 4)
    slab = copies.HostSlab([96], "pinned", None)
    _, back = copy_to_host_and_back(source.permute(2, 0, 1), slab.slots[0], source.permute(2, 0, 1).contiguous())
    assert torch.equal(back, source.permute(2, 0, 1)) and back.is_contiguous() and copies.unfinished_slot_numbers() == []
    slab.close()


def test_a_tensor_that_inductor_lays_out_anew_comes_back_in_its_strides():
    """In one copy: as long as it was turned on the device as well, it took memory twice."""
    source, slab = torch.arange(24.0).reshape(2, 3, 4), copies.HostSlab([96], "pinned", None)
    slot, part = slab.slots[0], copies._slots[slab.slots[0]]
    turned = source.permute(2, 0, 1).contiguous()
    copies.set_layout_of_copy_back(slot, turned)

    @torch.compile(backend="inductor", fullgraph=True, options={"fx_graph_cache": False})  # a graph of the cache asks nobody
    def forward(x):
        made = (x.permute(2, 0, 1) * 2).contiguous()
        host = torch.ops.umbench.copy_out(made, slot)
        torch.ops.umbench.finish_copy(made, host, slot, True)
        return host

    back = torch.ops.umbench.copy_back(forward(source), slot)
    torch.ops.umbench.finish_copy(part.host, back, slot, False)
    assert part.stride != turned.stride() and part.same_strides and torch.equal(back, 2 * turned)
    slab.close()


class ImmediateCopies:
    """Copies at once, between addresses of the CPU."""

    def begin_copy(self, target_address, source_address, byte_count, done_event):
        ctypes.memmove(target_address, source_address, byte_count)

    def make_current_stream_wait(self, done_event):
        pass


def test_a_backward_pass_that_fails_leaves_nothing_to_the_next():
    source, slab = torch.arange(24.0).reshape(2, 3, 4), copies.HostSlab([96], "pinned", None)
    slot, part = slab.slots[0], copies._slots[slab.slots[0]]
    part.streams, part.done = dict.fromkeys((True, False), ImmediateCopies()), dict.fromkeys((True, False))
    turned = source.permute(2, 0, 1)
    copies.set_layout_of_copy_back(slot, turned.contiguous())
    host = torch.ops.umbench.copy_out(turned, slot)
    torch.ops.umbench.finish_copy(turned, host, slot, True)
    landed = weakref.ref(torch.ops.umbench.copy_back(host, slot))  # and no finish_copy
    del host
    for _ in range(2):
        assert torch.equal(copy_to_host_and_back(turned, slot, turned.contiguous())[1], turned)
    assert landed() is None and not part.unfinished
    slab.close()


def trace_with_input_names(function, input_names):
    """The GraphModule of a function, whose inputs have these names and 16 elements."""
    with torch._subclasses.FakeTensorMode():
        made = torch.fx.experimental.proxy_tensor.make_fx(function)(*[torch.empty(16) for _ in input_names])
    for node, name in zip(made.graph.find_nodes(op="placeholder"), input_names):
        node.name = name
    return made


def test_what_is_read_first_comes_back_first():
    forward = trace_with_input_names(lambda x: (x.sum(), x.sin(), x.cos()), ["x"])
    backward = trace_with_input_names(lambda early, late, gradient: (gradient.neg() + late, late * early), ["sin", "cos", "gradient"])
    slab = copies.HostSlab([64, 64], "pinned", None)
    copies.insert_copies(forward, backward, 1, [("sin", None, "neg"), ("cos", None, "neg")], slab)
    begun = backward.graph.find_nodes(op="call_function", target=torch.ops.umbench.copy_back.default)
    assert [node.args[0].name for node in begun] == ["cos", "sin"]
    assert [node.next.target for node in begun] == [torch.ops.umbench.copy_back.default, torch.ops.aten.neg.default]
    slab.close()


@pytest.mark.parametrize("backend", ("aot_eager", "inductor"))
def test_a_model_that_is_no_longer_used_leaves_no_memory(backend):
    model, inputs = test_fit.model_and_inputs("perceptron")
    model, _ = test_fit.fit_to_share_of_peak(model, inputs, 0.72, backend=backend)
    test_fit.run_step(model, inputs)
    slots = [slot for slab in model._compiled_call_impl.planning.slabs for slot in slab.slots]
    gone = weakref.ref(model)
    assert slots and set(slots) <= set(copies._slots)
    del model
    gc.collect()
    assert gone() is None and set(slots).isdisjoint(copies._slots)


def test_copies_are_waited_for_on_the_gpu_that_made_them(monkeypatch):
    waited, slab = [], copies.HostSlab([64], "pinned", None)
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    slab.gpu_number = 1
    slab.close()
    assert waited == [1]


def test_the_driver_is_called_with_the_gpu_as_the_current_one(monkeypatch):
    """The handle of a default stream, 0, is that of the current GPU."""
    now, calls = [0], []

    @contextlib.contextmanager
    def make_current(gpu_number):
        before, now[0] = now[0], gpu_number
        yield
        now[0] = before

    monkeypatch.setattr(torch.cuda, "current_device", lambda: now[0])
    monkeypatch.setattr(torch.cuda, "device", make_current)
    monkeypatch.setattr(copy_streams.private, "read_current_stream_handle", lambda gpu: 0)
    line = object.__new__(copy_streams.CopyStream)
    line.gpu_number, line.managed, line.handle, line.ready = 1, False, 11, 12
    line.record = line.wait = line.copy = lambda *given: calls.append((now[0], *given)) or 0
    line.begin_copy(1000, 2000, 64, 13)
    line.make_current_stream_wait(13)
    assert calls == [(1, 12, 0), (1, 11, 12, 0), (1, 1000, 2000, 64, 11), (1, 13, 11), (1, 0, 13, 0)] and now == [0]


def test_what_the_driver_refuses_is_named(monkeypatch):
    def get_error_name(error_code, name_pointer):
        name_pointer._obj.value = b"CUDA_ERROR_ILLEGAL_ADDRESS" if error_code == 700 else None

    monkeypatch.setattr(copy_streams.ctypes, "CDLL", lambda library: types.SimpleNamespace(cuGetErrorName=get_error_name))
    copy_streams.raise_if_error(0)
    with pytest.raises(RuntimeError, match=r"a copy, or a kernel before it, failed: CUDA_ERROR_ILLEGAL_ADDRESS \(700\)"):
        copy_streams.raise_if_error(700)
    with pytest.raises(RuntimeError, match=r"an unknown error \(12345\)"):
        copy_streams.raise_if_error(12345)


def test_every_saved_tensor_can_be_offloaded(monkeypatch):
    """Masks, positions and statistics, too, in whatever strides Inductor likes them."""
    layers = torch.nn.Conv2d(3, 8, 3, bias=False), torch.nn.MaxPool2d(3, 2, 1), torch.nn.Conv2d(8, 8, 1, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU()
    torch.manual_seed(0)
    model, inputs = test_fit.MeanSquare(torch.nn.Sequential(*layers)), (torch.randn(2, 3, 16, 16),)
    plain = copy.deepcopy(model)
    test_fit.run_step(plain, inputs)
    fit_file = importlib.import_module("umbench.torch.fit")
    usual = fit_file.ask_planner

    def ask_and_offload_all(*arguments):
        answer = usual(*arguments)
        answer["plan"]["offloaded"] = [(i, None, None) for i in answer["plan"]["saved"]]
        return answer

    monkeypatch.setattr(fit_file, "ask_planner", ask_and_offload_all)
    memory, graphs = importlib.import_module("torch._inductor.memory"), test_fit.record_lowered_graphs(monkeypatch)
    monkeypatch.setattr(memory, "reorder_for_peak_memory", None)  # the order of the graphs is the plan's
    model = test_fit.umt.fit(model, budget="1GiB", effort=0.003)
    test_fit.run_step(model, inputs)
    assert len(graphs) == 2 and len(model.plan.offloaded) > 4 and model.plan.differences == []
    for own, other in zip(gradients_of(plain), gradients_of(model)):
        torch.testing.assert_close(own, other)


def make_copies_late(monkeypatch):
    """Copies that nothing waits for, made when they are read, as a slow copy on a GPU could be, while Inductor gives the source's memory away."""
    usual, out_now, late = copies._insert_copy_out, copies.copy_out, {}

    def copy_out_late(source, slot):
        host = out_now(source, slot)
        late[slot] = source
        copies._slots[slot].unfinished.clear()
        return host

    def copy_back_late(host, slot):
        size, stride, *_ = copies._slots[slot].back
        return host.copy_(copies._as_flat(late.pop(slot))).clone().as_strided(size, stride)

    def copy_out_without_wait(graph, *rest):
        host = usual(graph, *rest)
        for node in graph.find_nodes(op="call_function", target=torch.ops.umbench.finish_copy.default):
            graph.erase_node(node)
        return host

    monkeypatch.setattr(copies, "_insert_copy_out", copy_out_without_wait)
    monkeypatch.setattr(copies, "copy_out", copy_out_late)
    monkeypatch.setattr(copies, "copy_back", copy_back_late)
    monkeypatch.setattr(copies, "finish_copy", lambda source, copy, slot, is_out: None)


@pytest.mark.parametrize("waits", (True, False))
def test_inductor_writes_over_what_is_copied_unless_the_copy_is_waited_for(waits, monkeypatch):
    model, inputs = test_fit.model_and_inputs("perceptron")
    plain = copy.deepcopy(model)
    test_fit.run_step(plain, inputs)
    model, _ = test_fit.fit_to_share_of_peak(model, inputs, 0.72, backend="inductor")
    if not waits:
        make_copies_late(monkeypatch)
    test_fit.run_step(model, inputs)
    assert model.plan.offloaded
    right = all(torch.allclose(own, other, rtol=1e-3, atol=1e-7) for own, other in zip(gradients_of(plain), gradients_of(model)))
    assert right == waits


@needs_gpu
def test_managed_memory_on_a_gpu_is_copied_whole():
    from umbench.torch import kernel_copies

    memory, free = copies.allocate_managed(1 << 20)
    for size in (8, 4104, 1 << 20):
        source, back = torch.randint(256, (size,), dtype=torch.uint8, device="cuda"), torch.zeros(size, dtype=torch.uint8, device="cuda")
        kernel_copies.copy_bytes(memory.data_ptr(), source.data_ptr(), size)
        kernel_copies.copy_bytes(back.data_ptr(), memory.data_ptr(), size)
        assert torch.equal(source, back)
    free()


@pytest.mark.parametrize("device, tier, cycles", [("cpu", "pinned", 0), *[pytest.param("cuda", tier, cycles, marks=needs_gpu)
                                                                          for tier in ("pinned", "managed") for cycles in (0, 2_000_000)]])
def test_tensors_come_back_unchanged(device, tier, cycles, monkeypatch):
    """Two forward passes before the backward pass of the first, three times; dense, in other strides, with gaps, and of an odd number of bytes."""
    monkeypatch.setitem(copy_streams.DELAY, "cycles", cycles)
    made = torch.arange(2.0**20, device=device)
    sources = [made.view(1024, 1024), made.view(1024, 1024).t(), made.view(1024, 1024)[:, :512], made.to(torch.uint8)[:4099]]
    slab = copies.HostSlab([source.numel() * source.element_size() for source in sources], tier, 0 if device == "cuda" else None)
    for source, slot in zip(sources, slab.slots):
        copies.set_layout_of_copy_back(slot, source if source is not sources[1] else source.contiguous())
        for times in (1, 2, 3):
            given = [torch.empty_strided(source.shape, source.stride(), dtype=source.dtype, device=device).copy_(source * factor)
                     for factor in (times, times + 1)]
            wanted, hosts = [each.clone() for each in given], []
            for each in given:
                hosts.append(torch.ops.umbench.copy_out(each, slot))
                torch.ops.umbench.finish_copy(each, hosts[-1], slot, True)
                each.zero_()
            for each, host in zip(wanted, hosts):
                back = torch.ops.umbench.copy_back(host, slot)
                torch.ops.umbench.finish_copy(host, back, slot, False)
                assert torch.equal(back, each)
            assert hosts[0].data_ptr() != hosts[1].data_ptr() and not copies._slots[slot].is_awaited
            assert (copies._slots[slot].host is None) == (source is sources[2])
    assert copies.unfinished_slot_numbers() == []
    slab.close()


@needs_gpu
@pytest.mark.parametrize("tier", ("pinned", "managed"))
@pytest.mark.parametrize("cycles", (0, 20_000_000))
def test_slow_copies_on_a_gpu_leave_the_gradients(cycles, tier, monkeypatch):
    monkeypatch.setitem(copy_streams.DELAY, "cycles", cycles)
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()  # by other tests
    torch.manual_seed(0)
    start = test_fit.MeanSquare(torch.nn.Sequential(*[layer for _ in range(8) for layer in (torch.nn.Linear(2048, 2048), torch.nn.GELU())]))
    inputs = (torch.randn(8192, 2048, device="cuda"),)
    plain = copy.deepcopy(start).cuda()
    test_fit.run_step(torch.compile(plain), inputs)
    wanted = [grad.cpu() for grad in gradients_of(plain)]
    peak = torch.cuda.max_memory_allocated()
    del plain
    torch.cuda.empty_cache()
    model = test_fit.umt.fit(start.cuda(), budget=held + int(0.6 * (peak - held)), effort=0.1, tier=tier)
    test_fit.run_step(model, inputs)
    assert model.plan.offloaded
    for own, other in zip(wanted, gradients_of(model)):
        torch.testing.assert_close(own, other.cpu(), rtol=1e-3, atol=1e-6)
