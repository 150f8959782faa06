"""Holds pieces of memory while a compiled step runs, so that PyTorch's caching allocator places its tensors at the addresses of
steering.py.

Inductor's code calls reach_point(number) ahead of an allocation whose number is in `called_at`: a step has hundreds, and the CPU may be what
binds it. Holding pieces changes only the addresses of tensors. A step that allocates differently is still correct, but needs more
memory."""

import torch

from . import private

FORWARD, BACKWARD = (-4, -3), (-2, -1)  # numbers of the points where each pass begins and ends
MARK = 7  # bytes: an allocation of this size is a mark of reach_point() among the allocator's events

_follower = None  # whose at_point() reach_point() calls
called_at = ()   # numbers of the allocations before which it is called


def reach_point(point_number):
    """Called by Inductor's code right before an allocation, and where a pass begins and ends. `point_number`: of this place."""


ignored = reach_point


def reach_pass_point(point_number):
    """A pass begins or ends."""
    if point_number in called_at:
        reach_point(point_number)


def set_follower(follower):
    """Makes reach_point() call at_point() of `follower`. With None it calls nothing."""
    global _follower, called_at, reach_point
    if _follower is not None:
        _follower.end()
    _follower, called_at, reach_point = (None, (), ignored) if follower is None else (follower, follower.called_at, follower.at_point)


def remove_follower(follower):
    """Makes reach_point() call nothing if `follower` is the current follower."""
    if _follower is follower:
        set_follower(None)


def is_marking():
    """Whether the current follower is a MarkingFollower."""
    return isinstance(_follower, MarkingFollower)


class MarkingFollower:
    """A follower, as set_follower() takes it, that marks the points of a step among the allocator's events. `points`: their numbers, in order."""

    called_at = range(FORWARD[0], 2**62)  # all points

    def __init__(self):
        self.points = []

    def at_point(self, point_number):
        """Records the number, and marks this point of the step among the allocator's events."""
        self.points.append(point_number)
        private.give_bytes(private.take_bytes(MARK, private.raw_stream(torch.cuda.current_device())))

    def end(self):
        pass


class HoldingFollower:
    """A follower that holds pieces of memory during parts of each step. `point_numbers`: of a step, in order. `hold_changes`: {index of
    a number: (keys of pieces to release, {key: bytes of a piece to take})}. At the last number all
    pieces are released."""

    def __init__(self, point_numbers, hold_changes, stream_number=0):
        self.changes, self.stream, self.held = hold_changes, stream_number, {}
        self.called_at = {point_numbers[index] for index in hold_changes} | set(point_numbers[-1:]) if hold_changes else set()
        steps = [(point, *hold_changes.get(index, ((), {}))) for index, point in enumerate(point_numbers) if point in self.called_at]
        self.steps = [(point, released, tuple(taken.items())) for point, released, taken in steps]
        self.begin_step()

    def begin_step(self):
        self.end()
        self.coming = self.steps[::-1]

    def at_point(self, point_number):
        """Changes the held pieces at a point. If points come in an unexpected order, releases all pieces until the next step."""
        if not self.coming:
            return
        expected, released, taken = self.coming.pop()
        if point_number != expected:
            self.coming = []
        elif released or taken:
            self._change_held_pieces(released, taken)
        if not self.coming:
            self.end()

    def _change_held_pieces(self, released_keys, keys_and_bytes):
        held, give, take = self.held, private.give_bytes, private.take_bytes
        for key in released_keys:
            if key in held:
                give(held.pop(key))
        try:
            for key, size in keys_and_bytes:
                held[key] = take(size, self.stream)
        except torch.OutOfMemoryError:
            self.coming = []

    def end(self):
        """Releases all pieces."""
        while self.held:
            private.give_bytes(self.held.popitem()[1])

    def __len__(self):
        """The number of pieces that are taken in a step."""
        return sum(len(taken) for _, taken in self.changes.values())
