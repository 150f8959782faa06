"""Holds pieces of memory while a compiled step runs, so that PyTorch's caching allocator places its tensors at the addresses of
steering.py.

Inductor's code calls reach_point(number) ahead of an allocation whose number is in `called_at`: a step has hundreds, and the CPU may be what
binds it. Holding pieces changes only the addresses of tensors. A step that allocates differently is still correct, but needs more
memory."""

import torch

from . import private

FORWARD_POINTS, BACKWARD_POINTS = (-4, -3), (-2, -1)  # numbers of the points where each pass begins and ends
MARK_BYTES = 7  # bytes: an allocation of this size is a mark of reach_point() among the allocator's events

_follower = None  # whose at_point() reach_point() calls
called_at = ()   # numbers of the allocations before which it is called


def reach_point(point_number):
    """Called by Inductor's code right before an allocation, and where a pass begins and ends. `point_number`: of this place."""


ignore_point = reach_point


def reach_pass_point(point_number):
    """A pass begins or ends."""
    if point_number in called_at:
        reach_point(point_number)


def set_follower(follower):
    """Makes reach_point() call at_point() of `follower`. With None it calls nothing."""
    global _follower, called_at, reach_point
    if _follower is not None:
        _follower.end()
    _follower, called_at, reach_point = (None, (), ignore_point) if follower is None else (follower, follower.called_at, follower.at_point)


def remove_follower(follower):
    """Makes reach_point() call nothing if `follower` is the current follower."""
    if _follower is follower:
        set_follower(None)


def is_marking():
    """Whether the current follower is a MarkingFollower."""
    return isinstance(_follower, MarkingFollower)


class MarkingFollower:
    """A follower, as set_follower() takes it, that marks the points of a step among the allocator's events. `points`: their numbers, in order."""

    called_at = range(FORWARD_POINTS[0], 2**62)  # all points

    def __init__(self):
        self.points = []

    def at_point(self, point_number):
        """Records the number, and marks this point of the step among the allocator's events."""
        self.points.append(point_number)
        private.give_bytes(private.take_bytes(MARK_BYTES, private.read_current_stream_handle(torch.cuda.current_device())))

    def end(self):
        pass


class HoldingFollower:
    """A follower that holds pieces of memory during parts of each step. `point_numbers`: of a step, in order. `hold_changes`: {index of
    a number: (keys of pieces to release, {key: bytes of a piece to take})}. At the last number all
    pieces are released."""

    def __init__(self, point_numbers, hold_changes, stream_handle=0):
        self.changes, self.stream, self.held = hold_changes, stream_handle, {}
        self.called_at = {point_numbers[point_index] for point_index in hold_changes} | set(point_numbers[-1:]) if hold_changes else set()
        changes_at_points = [(point, *hold_changes.get(point_index, ((), {})))
                             for point_index, point in enumerate(point_numbers) if point in self.called_at]
        self.steps = [(point, released_keys, tuple(taken_bytes.items())) for point, released_keys, taken_bytes in changes_at_points]
        self.begin_step()

    def begin_step(self):
        self.end()
        self.coming = self.steps[::-1]

    def at_point(self, point_number):
        """Changes the held pieces at a point. If points come in an unexpected order, releases all pieces until the next step."""
        if not self.coming:
            return
        expected_point, released_keys, keys_and_bytes = self.coming.pop()
        if point_number != expected_point:
            self.coming = []
        elif released_keys or keys_and_bytes:
            self._change_held_pieces(released_keys, keys_and_bytes)
        if not self.coming:
            self.end()

    def _change_held_pieces(self, released_keys, keys_and_bytes):
        address_of_key, give, take = self.held, private.give_bytes, private.take_bytes
        for key in released_keys:
            if key in address_of_key:
                give(address_of_key.pop(key))
        try:
            for key, size in keys_and_bytes:
                address_of_key[key] = take(size, self.stream)
        except torch.OutOfMemoryError:
            self.coming = []

    def end(self):
        """Releases all pieces."""
        while self.held:
            private.give_bytes(self.held.popitem()[1])

    def __len__(self):
        """The number of pieces that are taken in a step."""
        return sum(len(taken_bytes_by_key) for _, taken_bytes_by_key in self.changes.values())
