"""Holds pieces of memory while a compiled step runs, so that PyTorch's caching allocator places its tensors at the addresses of
steering.py.

Inductor's code calls before(number) ahead of an allocation whose number is in `called_at`: a step has hundreds, and the CPU may be what
binds it. Holding pieces changes only the addresses of tensors. A step that allocates differently is still correct, but needs more
memory."""

import torch

from . import private

FORWARD, BACKWARD = (-4, -3), (-2, -1)  # numbers of the points where each pass begins and ends
MARK = 7  # bytes: an allocation of this size is a mark of before() among the allocator's events

_follower = None  # the Marks or Holds whose at() before() calls
called_at = ()   # numbers of the allocations before which it is called


def before(point):
    """Called by Inductor's code right before an allocation. `point`: the number of this place in the code."""


ignored = before


def at_point(point):
    """A pass begins or ends."""
    if point in called_at:
        before(point)


def follow(follower):
    """Makes before() call at() of `follower`, a Marks or a Holds. With None it calls nothing."""
    global _follower, called_at, before
    if _follower is not None:
        _follower.end()
    _follower, called_at, before = (None, (), ignored) if follower is None else (follower, follower.called_at, follower.at)


def stop_following(follower):
    """Makes before() call nothing if `follower` is the current follower."""
    if _follower is follower:
        follow(None)


def marks():
    """Whether the current follower is a Marks."""
    return isinstance(_follower, Marks)


class Marks:
    """A follower that marks the points of a step among the allocator's events. `points`: numbers of the points, in order."""

    called_at = range(FORWARD[0], 2**62)  # all points

    def __init__(self):
        self.points = []

    def at(self, point):
        """Records the point, and marks it among the allocator's events."""
        self.points.append(point)
        private.give_bytes(private.take_bytes(MARK, private.raw_stream(torch.cuda.current_device())))

    def end(self):
        pass


class Holds:
    """A follower that holds pieces of memory during parts of each step. `points`: numbers of the step's points, in order. `changes`: {index of a
    point: (keys of pieces to release, {key: bytes of a piece to take})}. `stream`: the allocator's number of the stream. At the last point all
    pieces are released."""

    def __init__(self, points, changes, stream=0):
        self.changes, self.stream, self.held = changes, stream, {}
        self.called_at = {points[index] for index in changes} | set(points[-1:]) if changes else set()
        steps = [(point, *changes.get(index, ((), {}))) for index, point in enumerate(points) if point in self.called_at]
        self.steps = [(point, released, tuple(taken.items())) for point, released, taken in steps]
        self.begin()

    def begin(self):
        self.end()
        self.coming = self.steps[::-1]

    def at(self, point):
        """Changes the held pieces at a point. If points come in an unexpected order, releases all pieces until the next step."""
        if not self.coming:
            return
        expected, released, taken = self.coming.pop()
        if point != expected:
            self.coming = []
        elif released or taken:
            self._change(released, taken)
        if not self.coming:
            self.end()

    def _change(self, released, taken):
        held, give, take = self.held, private.give_bytes, private.take_bytes
        for key in released:
            if key in held:
                give(held.pop(key))
        try:
            for key, size in taken:
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
