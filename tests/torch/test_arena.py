"""Memory laid out for a step, tried on the model of PyTorch's allocator."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from umbench.torch import arena, private  # noqa: E402

MIB = 2**20


def step(*changes):
    """Requests of so many MiB: +8 takes, -8 gives back the oldest of that size."""
    found, held = [], []
    for number, change in enumerate(changes):
        if change > 0:
            held.append((number, change * MIB))
            found.append((True, number, change * MIB))
        else:
            number, size = next(each for each in held if each[1] == -change * MIB)
            held.remove((number, size))
            found.append((False, number, size))
    return found + [(False, *each) for each in held]


def test_the_smallest_piece_that_is_large_enough_is_taken():
    pieces = arena.Pieces([100, 60, 80])
    first = pieces.take(50)
    assert 100 + arena.PAGE == first  # in the run of 60
    assert pieces.take(70) == 0      # in the run of 100: the last run could grow
    assert pieces.take(90) is None
    assert pieces.take(80) == 160 + 2 * arena.PAGE
    beside = arena.Pieces([80], [(70, 0)])
    assert beside.take(60) == 0 and beside.take(60) == 70 + arena.PAGE
    pieces.give(first, 50)
    assert pieces.take(60) == first  # the piece is whole again


def test_runs_lie_in_the_first_place_that_is_large_enough():
    page = arena.PAGE
    others = [(5, 30), (6, 10 * page), (7, 0), (8, 2**40)]
    assert arena.placed([4 * page, 7 * page, 3 * page], others) == [
        (5, 30), (6, page), (4 * page, page), (3 * page, page), (7, 0), (8, page), (7 * page, 2**40 - 8 * page)]
    assert arena.placed([page], [(7, 0)]) == [(7, 0), (0, page), (page, arena.TAIL - 2 * page)]


class Mapped(arena.Arena):
    """An arena whose mapping is scripted: it takes the given (address, bytes), counted from the first page."""

    def __init__(self, *told):
        self.told, self.asked = list(told), []

    def _behind_page(self, address):
        return address % arena.PAGE

    def _take(self, pages):
        address, size = self.told.pop(0)
        self.asked.append(pages)
        return SimpleNamespace(data_ptr=lambda: address, numel=lambda: size)


def test_a_run_begins_a_page_of_its_own():
    page = arena.PAGE
    free = Mapped((3 * page, 4 * page))
    assert free._take_apart(4, set(), []).data_ptr() == 3 * page and free.asked == [4]
    behind, gaps = Mapped((3 * page, 4 * page), (3 * page, page), (4 * page, 4 * page)), []
    assert behind._take_apart(4, {3 * page}, gaps).data_ptr() == 4 * page and len(gaps) == 1
    within = Mapped((7, 4 * page), (page + 5, page), (7, page), (page, 4 * page))  # another place is too small for the run
    assert within._take_apart(4, set(), []).data_ptr() == page and within.asked == [4, 1, 1, 4]


def test_what_was_mapped_is_looked_at(monkeypatch):
    found = arena.Arena(torch.device("cuda", 0), 2**30)
    found.requests, found.runs = step(48, 24, -48, 96), [14]
    for sizes, has_room in (([168], True), ([90, 78], False), ([100, 72], True)):
        monkeypatch.setattr(private, "free_pieces", lambda device, stream, sizes=sizes: [(size * MIB, 0) for size in sizes])
        assert found.has_room() is has_room
    found.runs = None
    assert not found.has_room()


def test_runs_are_kept_until_the_cache_was_emptied_too_often(monkeypatch):
    monkeypatch.setattr(arena, "MOST_KEPT", 2)
    found = arena.Arena(torch.device("cuda", 0), 2**30)
    found.runs, found.laid, found.held, laid = [14], 24, True, []
    monkeypatch.setattr(found, "_told", lambda: (1, 0))
    monkeypatch.setattr(found, "lay", lambda: laid.append(1))
    for times in (1, 2):
        found.keep()
        assert len(laid) == times and not found.has_given_up()
    found.keep()
    assert len(laid) == 2 and found.has_given_up()
    never = arena.Arena(torch.device("cuda", 0), 2**30)
    never.laid = 3
    assert not never.has_given_up()


def test_requests_are_the_large_ones_of_the_stream_that_has_most():
    def event(action, addr, size, stream=0):
        return {"action": action, "addr": addr, "size": size, "stream": stream}

    events = [event("alloc", 1, 2 * MIB + 1), event("alloc", 2, MIB), event("alloc", 3, 5 * MIB, stream=7), event("free_requested", 1, 2 * MIB + 1),
              event("free_completed", 1, 2 * MIB + 1), event("alloc", 1, 3 * MIB), event("free_completed", 9, 4 * MIB)]
    assert arena.main_stream(events) == arena.main_stream([]) == 0
    assert arena.requests_of(events, 0) == [(True, 0, 2 * MIB + 512), (False, 0, 2 * MIB + 512), (True, 5, 3 * MIB), (False, 5, 3 * MIB)]


def test_free_memory_is_that_of_the_stream_outside_pools_of_graphs(monkeypatch):
    def segment(address, size, stream=0, **others):
        blocks = [{"address": address, "size": 4, "state": "active_allocated"}, {"address": address + 4, "size": size - 4, "state": "inactive"}]
        return {"device": 0, "stream": stream, "segment_type": "large", "is_expandable": True, "segment_pool_id": (0, 0), "address": address,
                "total_size": size, "blocks": blocks} | others

    segments = [segment(500, 50), segment(100, 10), segment(130, 20, stream=7), segment(90, 8, segment_pool_id=(0, 1)), segment(80, 6, device=1),
                segment(70, 6, segment_type="small")]
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda include_traces: segments)
    device = torch.device("cuda", 0)
    assert private.free_pieces(device, 0) == [(6, 390), (46, 2**40)] and private.first_page(device, 0) == 100
    assert private.free_pieces(device, 7) == [(16, 2**40)] and private.first_page(device, 7) == 130


def histories(monkeypatch, is_on=False):
    """How recording of allocations is begun and ended from now on, the last of it first."""
    told = [{"enabled": is_on or None}]
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **how: told.insert(0, how))
    monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: told[0]["enabled"] is not None)
    return told


def test_recording_begins_anew_and_ends_after_an_error(monkeypatch):
    told, found = histories(monkeypatch), arena.Arena(torch.device("cuda", 0), 2**30)
    found.record()
    assert found.recording and told[0]["enabled"] == "all" and told[0]["clear_history"]

    def fails(device):
        raise RuntimeError

    monkeypatch.setattr(private, "allocations_so_far", fails)
    with pytest.raises(RuntimeError):
        found.recorded()
    assert not found.recording and told[0]["enabled"] is None
    found.close()
    assert len(told) == 3


def test_a_history_that_the_user_records_goes_on(monkeypatch):
    told, found = histories(monkeypatch, is_on=True), arena.Arena(torch.device("cuda", 0), 2**30)
    found.record()
    assert not found.recorded() and told == [{"enabled": True}]


def test_runs_hold_what_one_run_of_their_size_does_not():
    """A tensor of 96 MiB comes when 48 MiB are free on either side of one that stays."""
    requests = step(48, 24, -48, 96)
    assert arena.served(requests, [120 * MIB]) == 3 and arena.served(requests, [144 * MIB]) < len(requests) == arena.served(requests, [168 * MIB])
    runs, left = arena.runs_for(requests, 10, 10000)
    assert sum(runs) == 10 and arena.served(requests, [run * arena.PAGE for run in runs]) == len(requests)
    assert 0 < left < 10000
    assert arena.runs_for(requests, 9, 1000)[0] is None


def test_lengths_add_up_and_are_two_pages_at_least():
    lengths = arena._Lengths(40, [30 * MIB, 100 * MIB], __import__("random").Random(0))
    runs = [40]
    for _ in range(2000):
        runs = lengths.changed(runs) if len(runs) < 30 else lengths.anew()
        assert sum(runs) == 40 and min(runs) >= 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_runs_on_a_gpu_are_found_again_and_not_outgrown():
    """In a process of its own: settings of the allocator hold from its first allocation on."""
    import subprocess
    import sys
    code = """
import torch
from umbench.torch import arena, private
private.lose_less_memory()
device = torch.device("cuda", 0)
here = torch.ones(30 << 20, dtype=torch.uint8, device=device)
def step():
    a, b = (torch.empty(size << 20, dtype=torch.uint8, device=device) for size in (48, 24))
    del a
    c = torch.empty(96 << 20, dtype=torch.uint8, device=device)
found = arena.Arena(device, 172 << 20)
found.record(); step(); found.recorded()
assert found.find_runs(), found.room()
found.lay()
for _ in range(3): step()
assert found.undisturbed(), (found._told(), found.reserved, found.retries, found.runs)
assert torch.cuda.memory_reserved() <= 172 << 20
torch.cuda.empty_cache()
found.keep()
step()
assert found.undisturbed() and found.laid == 2
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_backward_pass_is_noted_when_it_has_ended():
    ended, x = [], torch.ones(3, requires_grad=True)

    def fails(gradient):
        raise ArithmeticError

    failing = (2 * x).sum()
    assert private.after_backward({"loss": failing}, lambda: ended.append("failing"))
    failing.register_hook(fails)
    with pytest.raises(ArithmeticError):
        failing.backward()
    loss = x.square()
    assert private.after_backward((loss, 3), lambda: ended.append(x.grad.clone()))
    loss.sum().backward()
    assert len(ended) == 1 and torch.equal(ended[0], torch.full((3,), 2.0))
    assert not private.after_backward((3, x.detach()), None)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_step_whose_backward_pass_fails_is_not_the_one_that_is_measured():
    import umbench.torch

    def fails(gradient):
        raise ArithmeticError

    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU())]
    model = umbench.torch.fit(torch.nn.Sequential(*layers).cuda(), budget="2GiB", effort=0.01)
    x, call = torch.randn(4096, 1024, device="cuda"), model._compiled_call_impl

    def step():
        model(x).square().mean().backward()
        return call.steps

    assert step() == 1
    loss = model(x).square().mean()
    loss.register_hook(fails)
    with pytest.raises(ArithmeticError):
        loss.backward()
    assert private.records_allocations() and not model.plan.settled
    del loss
    assert step() == 2 and model.plan.measured is None
    step()
    assert model.plan.settled and model.plan.measured and not private.records_allocations()
