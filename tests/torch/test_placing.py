"""Where tensors of a step are put, on the model of PyTorch's allocator."""

import random

import pytest

torch = pytest.importorskip("torch")

from placed_steps import MIB, make_requests, random_requests  # noqa: E402
from umbench.torch import fit, placing, private, steering  # noqa: E402
from umbench.torch.arena import PAGE_BYTES, FreePieces  # noqa: E402


def peak_of(requests):
    held = most = 0
    for is_taken, _, size, _ in requests:
        held += size if is_taken else -size
        most = max(most, held)
    return most


def small_piece_and_one_of(byte_count):
    return FreePieces([(5 * MIB, 0), (byte_count, 2**40)])


def find_holds_within(requests, byte_count):
    return steering.find_holds(requests, small_piece_and_one_of(byte_count), 5 * MIB + PAGE_BYTES, byte_count)[0]


def test_a_tensor_is_put_where_a_later_one_finds_room():
    """Best fit puts the second tensor in the middle of 120 MiB, where 96 MiB no longer find room."""
    requests = make_requests(48, 24, -48, 96)
    assert steering.count_requests_with_room(requests, {}, small_piece_and_one_of(120 * MIB)) == 3 and find_holds_within(requests, 120 * MIB)
    assert find_holds_within(requests, 168 * MIB) == {} and find_holds_within(requests, 119 * MIB) is None
    assert steering.find_holds(requests, small_piece_and_one_of(110 * MIB), 5 * MIB + PAGE_BYTES, 110 * MIB) == (None, 10 * MIB)


def test_a_tensor_that_stays_lies_in_a_piece_beside_the_others():
    """Best fit puts the first there, which soon goes: the last finds no room where the second lies."""
    requests, pieces = make_requests(24, 24, -24, 72), FreePieces([(25 * MIB, 0), (72 * MIB, 2**40)])
    changes, _ = steering.find_holds(requests, pieces, 25 * MIB + PAGE_BYTES, 72 * MIB)
    assert steering.count_requests_with_room(requests, {}, pieces.copy()) == 3 and steering.count_requests_with_room(requests, changes, pieces) == len(requests)
    assert steering.find_holds(requests, FreePieces([(23 * MIB, 0), (72 * MIB, 2**40)]), 23 * MIB + PAGE_BYTES, 72 * MIB) == (None, 24 * MIB)


@pytest.mark.parametrize(("end_mib", "expected_mib"), [(60, 30), (40, 0)])
def test_tensors_in_other_pieces_take_no_room(end_mib, expected_mib):
    """The first lies at 0 instead of in another piece after the end; the second, wanted at 0, moves to the nearest place within."""
    wanted = steering.TargetAddresses(make_requests(30, 20, 8), {0: 90 * MIB, 1: 0, 2: 200 * MIB}, 0, end_mib * MIB)
    wanted.record_placement(0, 0, 0)
    assert wanted.at == {0: 0, 1: expected_mib * MIB, 2: 200 * MIB}


@pytest.mark.parametrize("seed", range(6))
def test_steps_find_room_in_less_than_best_fit_takes(seed):
    """What is found serves all requests and is no more than is needed. Half of what best fit wastes is got back at least."""
    requests = random_requests(random.Random(seed), 24)
    peak = peak_of(requests)
    alone = next(size for size in range(peak, 3 * peak, MIB) if steering.count_requests_with_room(requests, {}, small_piece_and_one_of(size)) == len(requests))
    size, changes = next((size, found) for size in range(peak, alone + 1, 2 * MIB) if (found := find_holds_within(requests, size)) is not None)
    assert steering.count_requests_with_room(requests, changes, small_piece_and_one_of(size)) == len(requests)
    assert alone == peak or size - peak <= (alone - peak) / 2, (peak / MIB, size / MIB, alone / MIB)
    taken = [point for point, change in changes.items() if change[1]]
    assert not taken or steering.count_requests_with_room(requests, {}, small_piece_and_one_of(size)) < len(requests)


class ChangesAcceptedBy:
    """Stands for the check of changes: takes those that `is_accepted` accepts."""

    def __init__(self, is_accepted):
        self.accepts = is_accepted

    def alternative_if_it_fits(self, changes, alternative):
        return alternative if self.accepts(alternative) else changes


def test_changes_come_together_where_that_serves_as_well():
    changes = {0: ((), {"a": 1}), 2: (("a",), {"b": 2}), 5: (("b",), {}), 7: ((), {"c": 3})}
    assert steering.merge_neighbouring_changes(changes, ChangesAcceptedBy(lambda _: False)) == changes
    assert steering.merge_neighbouring_changes(changes, ChangesAcceptedBy(lambda _: True)) == {0: ((), {"c": 3})}
    assert steering.merge_neighbouring_changes(changes, ChangesAcceptedBy(lambda others: 2 in others)) == {2: ((), {"c": 3})}
    assert steering.merge_neighbouring_changes(changes, ChangesAcceptedBy(lambda others: 7 in others)) == {7: ((), {"c": 3})}
    assert steering.merge_neighbouring_changes(changes, ChangesAcceptedBy(lambda others: len(others) > 2)) == {0: ((), {"a": 1}), 2: (("a",), {"b": 2}), 5: (("b",), {"c": 3})}


def test_only_held_memory_is_released():
    changes = {0: (("b",), {"a": 1}), 2: (("b",), {}), 5: (("a", "b"), {}), 6: (("a",), {"c": 3})}
    assert steering.without_empty_changes(changes) == {0: ((), {"a": 1}), 5: (("a",), {}), 6: ((), {"c": 3})}


def test_released_memory_is_free_again():
    changes = {0: ((), {"a": 48 * MIB}), 1: (("a", "gone"), {})}
    assert steering.count_requests_with_room(make_requests(48, 48), changes, small_piece_and_one_of(96 * MIB)) == 2 + 2
    assert steering.count_requests_with_room(make_requests(48, 48), {0: changes[0]}, small_piece_and_one_of(96 * MIB)) == 1
    assert steering.count_requests_with_room(make_requests(48, 48), {0: ((), {"a": 97 * MIB})}, small_piece_and_one_of(96 * MIB)) == 0


@pytest.mark.parametrize("third_mib, end_mib, expected_mib", [(40, 70, 15), (30, 90, 60), (30, 70, 10)])
def test_a_target_at_an_occupied_address_moves_to_the_nearest_free_one(third_mib, end_mib, expected_mib):
    """The first lies at 5 MiB instead of 0; the second, of 20 MiB, was to lie at 10."""
    wanted = steering.TargetAddresses(make_requests(10, 20, 30), {0: 0, 1: 10 * MIB, 2: third_mib * MIB}, 0, end_mib * MIB)
    wanted.record_placement(0, 5 * MIB, 0)
    assert wanted.at == {0: 5 * MIB, 1: expected_mib * MIB, 2: third_mib * MIB}
    wanted.record_placement(1, 0, 2)
    assert wanted.at == {0: 5 * MIB, 1: 0, 2: third_mib * MIB}  # it comes last of all


class FakeMemory:
    """Replaces memory of the device, up to `max_bytes`. `size_at`: {address: bytes} of the pieces that are held."""

    def __init__(self, monkeypatch, max_bytes=10**9):
        self.size_at, self.most, self.addresses = {}, max_bytes, iter(range(1000))
        monkeypatch.setattr(private, "take_bytes", self.take)
        monkeypatch.setattr(private, "give_bytes", self.size_at.pop)

    def take(self, byte_count, stream):
        assert stream == 7
        if sum(self.size_at.values()) + byte_count > self.most:
            raise torch.OutOfMemoryError
        address = next(self.addresses)
        self.size_at[address] = byte_count
        return address

    def sizes(self):
        return list(self.size_at.values())


def allocate(point):
    """As Inductor's code does."""
    if point in placing.called_at:
        placing.reach_point(point)


def test_pieces_are_held_from_point_to_point(monkeypatch):
    taken = FakeMemory(monkeypatch)
    found = placing.HoldingFollower([70, 71, 70, 71, 72, 73], {0: ((), {"a": 5, "b": 6}), 2: (("a",), {"c": 7}), 4: (("b",), {})}, 7)
    placing.set_follower(found)
    told = []
    for point in (70, 99, 71, 70, 71, 72, 73):  # 99 is of another graph
        allocate(point)
        told.append(taken.sizes())
    assert told == [[5, 6], [5, 6], [5, 6], [6, 7], [6, 7], [7], []] and len(found) == 3 and 71 not in placing.called_at
    found.begin_step()
    allocate(70)
    allocate(72)  # out of order
    assert taken.sizes() == []
    allocate(70)
    assert taken.sizes() == []
    found.begin_step()
    allocate(70)
    placing.set_follower(None)
    assert taken.sizes() == []
    allocate(70)
    assert taken.sizes() == []


def test_nothing_is_held_where_there_is_no_room(monkeypatch):
    taken = FakeMemory(monkeypatch, max_bytes=10)
    found = placing.HoldingFollower([1, 2, 3], {0: ((), {"a": 5, "b": 6}), 1: ((), {"c": 1})}, 7)
    for point in (1, 2, 3):
        found.at_point(point)
        assert taken.sizes() == []


def test_code_of_inductor_tells_its_points():
    """The same ones in each step, different ones within a step."""
    class RecordedPoints:
        called_at = range(10**9)

        def __init__(self):
            self.all = []

        def at_point(self, point_number):
            self.all.append(point_number)

        def end(self):
            pass

    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
    fit(model, budget="1GiB", effort=0.003)
    x, told = torch.randn(16, 8), []
    model(x).square().mean().backward()
    for _ in range(2):
        told.append(RecordedPoints())
        placing.set_follower(told[-1])
        model(x).square().mean().backward()
    placing.set_follower(None)
    assert told[0].all == told[1].all and len(set(told[0].all)) == len(told[0].all) >= 4
