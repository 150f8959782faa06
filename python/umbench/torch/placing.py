"""Where PyTorch's caching allocator puts the tensors of a step: at the addresses that a packing of their lifetimes names.

The allocator takes the smallest free piece that is large enough. Under that rule a step needs 12 to 29 % more memory than its tensors; packed by
their lifetimes (`umbench pack`) they need 0 to 9 % more. So before an allocation, pieces that the allocator would rather take are
held, until the piece with the wanted address is its choice. Inductor's code calls before() ahead of each allocation. What is
held changes where tensors lie, nothing else: a step that goes another way stays right, and needs more memory."""

import bisect
import subprocess
import tempfile

import torch

from . import private
from .planner import program

MIB = 2**20
LARGE = MIB           # above it allocations share the pool that is laid out here
MARK = 7              # bytes: an allocation of this size is a mark of before() among the allocator's events
MOST_HELD = 40        # pieces before one allocation
ROUNDINGS = (512, MIB, 2 * MIB, 65536)  # of the sizes that are packed: others leave other gaps
TRIALS = 200          # of holding less


_follows = None       # what before() tells


def before(point):
    """Inductor's code is about to allocate. point: the number of this place in the code."""
    if _follows is not None:
        _follows.at(point)


def follow(follower):
    """What before() tells from now on: a Marks, a Holds, or None."""
    global _follows
    if _follows is not None:
        _follows.end()
    _follows = follower


class Marks:
    """Marks points among the allocator's events. points: their numbers, in order."""

    def __init__(self):
        self.points = []

    def at(self, point):
        self.points.append(point)
        private.bytes_of_device(MARK)

    def end(self):
        pass


class Holds:
    """Holds pieces of memory in each step. points: numbers of the step's points, in order; sizes: {index of a point: bytes of each piece}."""

    def __init__(self, points, sizes):
        self.points, self.sizes = points, sizes
        self.known, self.held, self.next = set(points), [], 0

    def begin(self):
        self.held, self.next = [], 0

    def at(self, point):
        """Points of other graphs count for nothing. Behind one that comes out of order, nothing is held."""
        if self.held:
            self.held = []
        if self.next < len(self.points) and point == self.points[self.next]:
            sizes = self.sizes.get(self.next)
            self.next += 1
            if sizes:
                try:
                    for size in sizes:
                        self.held.append(private.bytes_of_device(size))
                except torch.OutOfMemoryError:
                    self.held, self.next = [], len(self.points)
        elif point in self.known:
            self.next = len(self.points)

    def end(self):
        self.held = []


def addresses(requests, rounding):
    """{key: bytes from the first address}, and the bytes of all, from the packer of the umbench program. Sizes are rounded up."""
    begins, sizes, ends = {}, {}, {}
    for number, (is_taken, key, size, _) in enumerate(requests):
        if is_taken:
            begins[key], sizes[key] = number, -(-size // rounding) * rounding
        else:
            ends[key] = number
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.writelines(f"{key},{sizes[key]},{begins[key]},{ends[key]}\n" for key in begins)
        file.flush()
        done = subprocess.run([program(), "pack", file.name, "--packer", "searched", "--addresses"], capture_output=True, text=True)
    if done.returncode != 0:
        return {}, 0
    found = {int(key): int(address) for key, address in (line.split(",") for line in done.stdout.split())}
    return found, max((found[key] + sizes[key] for key in found), default=0)


def served(requests, sizes, pieces):
    """Counts the requests that find room in `pieces`, one after the other, where before each point's the given sizes are held."""
    at, held, last = {}, [], None
    for number, (is_taken, key, size, point) in enumerate(requests):
        if not is_taken:
            pieces.give(at.pop(key), size)
            continue
        if point != last:
            for address, bytes_held in held:
                pieces.give(address, bytes_held)
            held, last = [], point
            for bytes_held in sizes.get(point, ()):
                address = pieces.take(bytes_held)
                if address is None:
                    return number
                held.append((address, bytes_held))
        at[key] = pieces.take(size)
        if at[key] is None:
            return number
    return len(requests)


def found(requests, pieces, begin, room):
    """Sizes to hold, {point: bytes of each piece}, with which all requests find room in `pieces`, of which the one from `begin` has `room` bytes;
    None where none were found."""
    if served(requests, {}, pieces.copy()) == len(requests):
        return {}
    lengths = {key: size for is_taken, key, size, _ in requests if is_taken}
    for rounding in ROUNDINGS:
        wanted, size = addresses(requests, rounding)
        if not wanted or size > room + 2 * rounding:
            continue
        end = max(wanted[key] + lengths[key] for key in wanted)
        for turned in (wanted, {key: end - wanted[key] - lengths[key] for key in wanted}):
            sizes = steered(requests, {key: begin + address for key, address in turned.items()}, pieces.copy())
            if sizes is not None and served(requests, sizes, pieces.copy()) == len(requests):
                return fewer(requests, sizes, pieces)
    return None


def fewer(requests, sizes, pieces):
    """Without those that are not needed: each piece held costs the CPU some 2 us a step."""
    points, trials = sorted(sizes), TRIALS
    length = max(1, len(points) // 2)
    while points and trials > 0:
        begin = 0
        while begin < len(points) and trials > 0:
            rest = points[:begin] + points[begin + length:]
            trials -= 1
            if served(requests, {point: sizes[point] for point in rest}, pieces.copy()) == len(requests):
                points = rest
            else:
                begin += length
        if length == 1:
            break
        length = max(1, length // 2)
    return {point: sizes[point] for point in points}


def steered(requests, wanted, pieces):
    """Sizes to hold so that as many tensors as can be have the wanted addresses; None where one finds no room."""
    at, sizes, groups = {}, {}, [list(group) for group in grouped(requests)]
    final = max((request[3] for request in requests), default=0)
    for group in groups:
        point = next((request[3] for request in group if request[0]), None)
        best = None
        for way in WAYS[:1] if point in (None, -1, final) else WAYS:
            tried = trial(group, wanted, pieces, at, way)
            best = tried if tried and (best is None or tried[0] < best[0]) else best
            if best and best[0][0] == 0:
                break
        if best is None:
            return None
        _, held, pieces, at = best
        if held:
            sizes[point] = held
    return sizes


def grouped(requests):
    """Requests up to the last that is taken for one point, and what is given back behind it."""
    group, point = [], None
    for request in requests:
        if request[0] and request[3] != point:
            if group:
                yield group
            group, point = [], request[3]
        group.append(request)
    if group:
        yield group


def trial(group, wanted, pieces, at, hold):
    """(tensors elsewhere than wanted and pieces held, sizes held, pieces behind the group, addresses of what is held then); None without room."""
    pieces, at = pieces.copy(), dict(at)
    taken = [(key, size) for is_taken, key, size, _ in group if is_taken]
    held = hold(pieces, [(wanted[key], size) for key, size in taken])
    if held is None:
        return None
    astray = 0
    for is_taken, key, size, _ in group:
        if is_taken:
            at[key] = pieces.take(size)
            if at[key] is None:
                return None
            astray += at[key] != wanted[key]
        else:
            pieces.give(at.pop(key), size)
    for address, size in held:
        pieces.give(address, size)
    return (astray, len(held)), [size for _, size in held], pieces, at


def nothing(pieces, spans):
    return []


def rivals(pieces, spans):
    """Holds the pieces that the allocator would rather take than the one with the first span, and what is free before that span."""
    if not spans:
        return []
    (target, size), held = spans[0], []
    while len(held) < MOST_HELD:
        choice = pieces.best(size)
        if choice is None:
            return None
        length, address = choice
        if address <= target and target + size <= address + length:
            gap = target - address
            if gap <= LARGE:
                return held
            length, address = pieces.best(gap) if pieces.best(gap)[1] != address else (gap, address)
        if pieces.best(length)[1] != address:
            return None
        pieces.take(length)
        held.append((address, length))
    return None


def all_else(pieces, spans):
    """Holds all that is free but the spans: for an operator that allocates more than once."""
    if len(spans) < 2:
        return None
    held, left = [], []
    for length, begin in [piece for piece in pieces.free if piece[0] > LARGE]:
        at, cuts = begin, []
        for span, size in sorted(spans):
            first, last = max(span, at), min(span + size, begin + length)
            if first < last:
                cuts += [(at, first - at, held)] * (first > at) + [(first, last - first, left)]
                at = last
        cuts += [(at, begin + length - at, held)] * (begin + length > at)
        for number, (address, size, into) in enumerate(cuts):
            if size <= LARGE:
                if number < len(cuts) - 1:
                    return None
                continue
            if pieces.best(size) is None or pieces.best(size)[1] != address:
                return None
            pieces.take(size)
            into.append((address, size))
    for address, size in left:
        pieces.give(address, size)
    return held


WAYS = (nothing, rivals, all_else)
