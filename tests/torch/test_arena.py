"""Memory mapped for a step, tried on the model of PyTorch's allocator."""

import pytest

torch = pytest.importorskip("torch")

from placed_steps import MIB, make_requests  # noqa: E402
from umbench.torch import arena, placing, private  # noqa: E402


def test_the_smallest_piece_that_is_large_enough_is_taken():
    pieces = arena.FreePieces([(100, 0), (60, 0), (0, 5), (80, 2**40)])
    first = pieces.take(50)
    assert 100 + arena.PAGE_BYTES == first  # in the piece of 60
    assert pieces.take(70) == 0      # in the piece of 100: the last one could grow
    assert pieces.take(90) is None
    before = pieces.copy()
    assert pieces.take(80) == 160 + 2 * arena.PAGE_BYTES and before.piece_for(80) == (80, 160 + 2 * arena.PAGE_BYTES)
    pieces.give_back(first, 50)
    assert pieces.take(60) == first and before.take(60) == 160 + 2 * arena.PAGE_BYTES  # the piece is whole again; the copy has the other only


def arena_with_free_pieces(monkeypatch, requests, *piece_sizes_mib):
    """An arena whose memory is mapped as free pieces of these sizes in MiB."""
    monkeypatch.setattr(private, "free_bytes_and_growths", lambda device, stream: [(size * MIB, 0) for size in piece_sizes_mib])
    found = arena.Arena(torch.device("cuda", 0), 2**30)
    found.requests = requests
    return found


def test_tensors_find_room_only_in_suitable_mapped_pieces(monkeypatch):
    requests = make_requests(48, 24, -48, 96)
    for pieces, has_room in (((168,), True), ((90, 78), False), ((100, 72), True)):
        found = arena_with_free_pieces(monkeypatch, requests, *pieces)
        assert found._find_holds() is has_room and (found.holds is not None) is has_room


def test_room_is_left_for_small_allocations_whose_peak_was_reset(monkeypatch):
    told = {"reserved_bytes": {"small_pool": {"current": 20 * MIB, "peak": 50 * MIB}, "all": {"current": 300 * MIB}, "large_pool": {"current": 280 * MIB}},
            "num_alloc_retries": 0}
    monkeypatch.setattr(private, "allocator_statistics", lambda device: told)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 0.5)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: type("Device", (), {"total_memory": 1600 * MIB}))
    found = arena.Arena(torch.device("cuda", 0), 2**30)
    assert found.mappable_bytes() == 470 * MIB
    told["reserved_bytes"]["small_pool"]["peak"] = 20 * MIB
    assert found.mappable_bytes() == 470 * MIB


def test_memory_is_kept_until_too_many_steps_in_a_row_were_disturbed(monkeypatch):
    monkeypatch.setattr(arena, "MAX_REMAPS", 2)
    found = arena.Arena(torch.device("cuda", 0), 2**30)
    found.holds, found.has_fitted, times = placing.HoldingFollower([], {}), True, []
    monkeypatch.setattr(found, "map_memory", lambda: times.append(1) or True)
    for mapped, has_stopped in (((1, 0), False), ((1, 0), False), ((0, 0), False), ((1, 0), False), ((1, 0), False), ((1, 0), True)):
        monkeypatch.setattr(found, "_reserved_bytes_and_retries", lambda mapped=mapped: mapped)
        found.remap_if_needed()
        assert found.has_run_out_of_remaps() is has_stopped
    assert len(times) == 4
    never = arena.Arena(torch.device("cuda", 0), 2**30)
    never.remap_if_needed()
    assert not never.has_run_out_of_remaps()


class FakeDevice:
    """A device that is made up: `small`: bytes reserved for small allocations; taken: by other processes; pages: that were mapped, each time."""

    total_memory = 2**30

    def __init__(self, monkeypatch):
        self.small, self.large, self.taken, self.pages = 0, 0, False, []
        monkeypatch.setattr(private, "allocator_statistics", lambda device: self.allocator_statistics())
        monkeypatch.setattr(private, "free_bytes_and_growths", lambda device, stream: [(self.large, 0)])
        for name, value in (("get_per_process_memory_fraction", 1.0), ("get_device_properties", self), ("memory_reserved", 0),
                            ("current_stream", type("Stream", (), {"cuda_stream": 0})), ("empty_cache", None)):
            monkeypatch.setattr(torch.cuda, name, lambda *device, value=value: value)
        monkeypatch.setattr(torch, "empty", self.allocate)

    def allocator_statistics(self):
        small, large = ({"current": size, "peak": size} for size in (self.small, self.large))
        return {"reserved_bytes": {"small_pool": small, "large_pool": large, "all": small}, "num_alloc_retries": 0}

    def allocate(self, byte_count, **other_options):
        if self.taken:
            raise torch.OutOfMemoryError
        self.pages.append(byte_count // arena.PAGE_BYTES)
        self.large = byte_count


def fake_device_and_mapped_arena(monkeypatch, budget_bytes):
    device, found = FakeDevice(monkeypatch), arena.Arena(torch.device("cuda", 0), budget_bytes)
    found.requests, found.points = make_requests(48, 24, -48, 96), [0, 1, 2, 3]
    assert found.map_memory() and found.note_whether_step_fitted() and found.holds.changes
    return device, found


def test_memory_that_another_process_took_is_mapped_once_it_is_back(monkeypatch):
    device, found = fake_device_and_mapped_arena(monkeypatch, 13 * arena.PAGE_BYTES)
    changes, device.taken, device.large = found.holds.changes, True, 0
    found.remap_if_needed()
    assert found.holds is None and not found.has_run_out_of_remaps()
    device.taken = False
    found.remap_if_needed()
    assert found.holds.changes is changes and not found.has_run_out_of_remaps()


def test_memory_that_another_process_holds_is_no_mapping(monkeypatch):
    device, found = fake_device_and_mapped_arena(monkeypatch, 13 * arena.PAGE_BYTES)
    device.taken = True
    assert not found.map_memory() and not found.map_memory() and (found.mappings, found.refusals) == (1, 2)
    device.taken = False
    assert found.map_memory() and (found.mappings, found.refusals) == (2, 0)


def test_as_much_memory_is_mapped_again_where_small_allocations_have_grown(monkeypatch):
    device, found = fake_device_and_mapped_arena(monkeypatch, 11 * arena.PAGE_BYTES + 5 * MIB)
    for grown, pages in ((0, 10), (arena.PAGE_BYTES, 10), (2 * arena.PAGE_BYTES, 9)):
        device.small, device.large = grown, 0
        found.remap_if_needed()
        assert device.pages[-1] == pages and (found.holds is None) is (pages < 10)


def test_requests_are_the_large_ones_of_the_stream_that_has_most():
    def make_event(action, address, size, stream=0):
        return {"action": action, "addr": address, "size": size, "stream": stream}

    mark = make_event("alloc", 4, placing.MARK_BYTES)
    events = [make_event("alloc", 1, 2 * MIB + 1), mark, make_event("alloc", 2, MIB), make_event("alloc", 3, 5 * MIB, stream=7), make_event("free_requested", 1, 2 * MIB + 1),
              make_event("free_completed", 1, 2 * MIB + 1), mark, make_event("alloc", 1, 3 * MIB), make_event("free_completed", 9, 4 * MIB)]
    assert arena.most_used_stream_handle(events) == arena.most_used_stream_handle([]) == 0
    assert arena.allocation_requests_of(events, 0) == [
        (True, 0, 2 * MIB + 512, -1), (False, 0, 2 * MIB + 512, 0), (True, 7, 3 * MIB, 1), (False, 7, 3 * MIB, 1)]


@pytest.mark.parametrize("other_sizes, points", [((), [5, 6]), ((placing.MARK_BYTES,), [])])
def test_points_are_dropped_if_something_else_allocates_the_size_of_a_mark(monkeypatch, other_sizes, points):
    def make_event(action, address, size):
        return {"action": action, "addr": address, "size": size, "stream": 0}

    told, found = record_history_calls(monkeypatch), arena.Arena(torch.device("cuda", 0), 2**30)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(private, "read_current_stream_handle", lambda gpu: 0)
    monkeypatch.setattr(private, "take_bytes", lambda size, stream: 1)
    monkeypatch.setattr(private, "give_bytes", lambda address: None)
    found.begin_recording()
    for point in (5, 6):
        placing.reach_point(point)
    found.begin_step()  # as another model's: it leaves the marks alone
    events = [make_event("alloc", 1, size) for size in (*other_sizes, placing.MARK_BYTES, placing.MARK_BYTES, 2 * MIB)]
    monkeypatch.setattr(private, "recorded_allocator_events", lambda device: events)
    assert found.finish_recording() and found.points == points
    assert [request[3] for request in found.requests] == [len(points) - 1] * 2
    assert told[0]["enabled"] is None and not placing.is_marking()


def test_requests_of_the_two_passes_are_told_from_others():
    found = arena.Arena(torch.device("cuda", 0), 2**30)
    assert found.requests_of_passes() is None
    found.points = [placing.FORWARD_POINTS[0], 7, placing.FORWARD_POINTS[1], placing.BACKWARD_POINTS[0], 8, placing.BACKWARD_POINTS[1]]
    in_forward, in_backward = [(True, 1, 40, 0), (True, 2, 10, 1)], [(True, 4, 60, 4)]
    between, after = [(True, 3, 5, 2), (False, 3, 5, 2), (True, 5, 6, 2)], [(True, 6, 7, 5), (False, 6, 7, 5)]
    freed = [(False, 1, 40, 4), (False, 5, 6, 4)]
    found.requests = [(True, 0, 9, -1), (False, 0, 9, -1), *in_forward, *between, *in_backward, *freed, *after, (False, 2, 10, 5), (False, 4, 60, 5)]
    assert found.requests_of_passes() == ([*in_forward, *in_backward, freed[0], (False, 2, 10, 5), (False, 4, 60, 5)], 9)
    found.points *= 2
    assert found.requests_of_passes() is None


def test_free_memory_is_that_of_the_stream_outside_pools_of_graphs(monkeypatch):
    def make_segment(address, size, stream=0, **other_fields):
        blocks = [{"address": address, "size": 4, "state": "active_allocated"}, {"address": address + 4, "size": size - 4, "state": "inactive"}]
        return {"device": 0, "stream": stream, "segment_type": "large", "is_expandable": True, "segment_pool_id": (0, 0), "address": address,
                "total_size": size, "blocks": blocks} | other_fields

    segments = [make_segment(500, 50), make_segment(100, 10), make_segment(130, 20, stream=7), make_segment(90, 8, segment_pool_id=(0, 1)), make_segment(80, 6, device=1),
                make_segment(70, 6, segment_type="small")]
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda include_traces: segments)
    device = torch.device("cuda", 0)
    assert private.free_bytes_and_growths(device, 0) == [(6, 390), (46, 2**40)] and private.first_page_address(device, 0) == 100
    assert private.free_bytes_and_growths(device, 7) == [(16, 2**40)] and private.first_page_address(device, 7) == 130


def record_history_calls(monkeypatch, is_recording=False):
    """A list of the options with which recording of allocations is begun and ended from now on, the last ones first."""
    told = [{"enabled": is_recording or None}]
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **how: told.insert(0, how))
    monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: told[0]["enabled"] is not None)
    return told


def test_recording_begins_anew_and_ends_after_an_error(monkeypatch):
    told, found = record_history_calls(monkeypatch), arena.Arena(torch.device("cuda", 0), 2**30)
    found.begin_recording()
    assert found.recording and told[0]["enabled"] == "all" and told[0]["clear_history"]

    def raise_error(device):
        raise RuntimeError

    monkeypatch.setattr(private, "recorded_allocator_events", raise_error)
    with pytest.raises(RuntimeError):
        found.finish_recording()
    assert not found.recording and told[0]["enabled"] is None
    found.cancel_recording()
    assert len(told) == 3


def test_a_history_that_the_user_records_goes_on(monkeypatch):
    told, found = record_history_calls(monkeypatch, is_recording=True), arena.Arena(torch.device("cuda", 0), 2**30)
    found.begin_recording()
    assert not found.finish_recording() and told == [{"enabled": True}]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_memory_on_a_gpu_is_found_again_and_not_outgrown():
    """In a process of its own: settings of the allocator hold from its first allocation on."""
    import subprocess
    import sys
    code = """
import torch
from umbench.torch import arena, placing, private
private.configure_allocator()
device = torch.device("cuda", 0)
here = torch.ones(30 << 20, dtype=torch.uint8, device=device)
def step():
    \"\"\"Best fit puts the second tensor in the middle of 144 MiB; the third finds room where it lies at an end.\"\"\"
    held = []
    for point, size in enumerate((48, 24, None, 96)):
        if point in placing.called_at:
            placing.reach_point(point)
        if size is None:
            del held[0]
        else:
            held.append(torch.empty(size << 20, dtype=torch.uint8, device=device))
found = arena.Arena(device, 184 << 20)
found.begin_recording(); step(); assert found.finish_recording()
assert found.map_memory() and len(found.holds), (found.mappable_bytes(), found.holds)
for _ in range(3): found.begin_step(); step()
assert found.note_whether_step_fitted(), (found._reserved_bytes_and_retries(), found.reserved, found.retries)
assert torch.cuda.memory_reserved() <= 184 << 20
torch.cuda.empty_cache()
found.remap_if_needed()
found.begin_step(); step()
assert found.note_whether_step_fitted() and found.mappings == 2
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_backward_pass_is_noted_when_it_has_ended():
    ended, x = [], torch.ones(3, requires_grad=True)

    def raise_error(gradient):
        raise ArithmeticError

    failing = (2 * x).sum()
    assert private.call_after_backward({"loss": failing}, lambda: ended.append("failing"))
    failing.register_hook(raise_error)
    with pytest.raises(ArithmeticError):
        failing.backward()
    loss = x.square()
    assert private.call_after_backward((loss, 3), lambda: ended.append(x.grad.clone()))
    loss.sum().backward()
    assert len(ended) == 1 and torch.equal(ended[0], torch.full((3,), 2.0))
    assert not private.call_after_backward((3, x.detach()), None)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_step_whose_backward_pass_fails_is_not_the_one_that_is_measured():
    import umbench.torch

    def raise_error(gradient):
        raise ArithmeticError

    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU())]
    model = umbench.torch.fit(torch.nn.Sequential(*layers).cuda(), budget="2GiB", effort=0.01)
    x, call = torch.randn(4096, 1024, device="cuda"), model._compiled_call_impl

    def run_step():
        model(x).square().mean().backward()
        return call.steps

    assert run_step() == 1
    loss = model(x).square().mean()
    loss.register_hook(raise_error)
    with pytest.raises(ArithmeticError):
        loss.backward()
    assert private.is_recording_allocations() and not model.plan.settled
    del loss
    assert run_step() == 2 and model.plan.measured is None
    run_step()
    assert model.plan.settled and model.plan.measured and not private.is_recording_allocations()
