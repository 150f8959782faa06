"""Which pieces of memory to hold so that PyTorch's caching allocator puts the tensors of a step at the addresses that a packing of their
lifetimes names.

The allocator takes the smallest free piece that is large enough. Under that rule a step needs 12 to 29 % more memory than its tensors;
packed by their lifetimes (`umbench pack`) they need 0 to 14 % more. So before an allocation, pieces that the allocator would rather take
are held, until the piece with the wanted address is its choice. All this is tried on a model of the allocator (arena.Pieces); requests are
as arena.requests_of has them."""

import math
import subprocess
import tempfile

from .planner import program

MIB = 2**20
LARGE = MIB           # larger allocations use the pool that is placed here
MAX_HELD = 40        # maximum number of pieces held before one allocation
ROUNDINGS = (512, MIB)  # roundings of the packed sizes, since each leaves other gaps
FEW = 40              # number of pieces that need not be reduced; each costs CPU time in every step
TRIALS = 600          # trials of holding fewer pieces


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
    placed = {int(key): int(address) for key, address in (line.split(",") for line in done.stdout.split())}
    return placed, max((placed[key] + sizes[key] for key in placed), default=0)


def count_satisfied(requests, changes, pieces):
    """How many requests, in order, find room in `pieces` before one does not. `changes`: of what is held, {point: (keys to release, {key:
    bytes to take})}; they are made before the first allocation at their point of the step."""
    at, held, last = {}, {}, None
    for number, (is_taken, key, size, point) in enumerate(requests):
        if not is_taken:
            pieces.give(at.pop(key), size)
            continue
        if point != last:
            for passed in range(-1 if last is None else last, point):
                if passed + 1 in changes and not apply_change(pieces, held, *changes[passed + 1]):
                    return number
            last = point
        at[key] = pieces.take(size)
        if at[key] is None:
            return number
    return len(requests)


def apply_change(pieces, held, released, taken):
    """Makes one change of what is held, {key: (address, bytes)}: releases, then takes. Whether there was room."""
    for key in released:
        if key in held:
            pieces.give(*held.pop(key))
    for key, size in taken.items():
        address = pieces.take(size)
        if address is None:
            return False
        held[key] = (address, size)
    return True


def find_holds(requests, pieces, begin, room):
    """(changes, 0): changes of what is held with which all requests find room in `pieces`, of which the one from address `begin` has `room`
    bytes. (None, bytes) where none were found: what `room` lacks for the best packing."""
    if count_satisfied(requests, {}, pieces.copy()) == len(requests):
        return {}, 0
    for elsewhere in ({}, in_other_pieces(requests, pieces, begin)):
        best, least = packed(requests, pieces, begin, room, elsewhere)
        if best is not None:
            return at_fewer_points(best, Trials(requests, pieces, 2 * TRIALS)), 0
    return None, max(0, least - room) if least < math.inf else 0


def packed(requests, pieces, begin, room, elsewhere):
    """(changes or None, bytes of the best packing) where tensors of `elsewhere`, {key: address}, lie in pieces other than the one from
    `begin`. The changes take no pieces that can be left out one by one."""
    lengths, best, least = {key: size for is_taken, key, size, _ in requests if is_taken}, None, math.inf
    for rounding in ROUNDINGS:
        wanted, size = addresses([request for request in requests if request[1] not in elsewhere], rounding)
        least = min(least, size or math.inf)
        if not wanted or size > room + 2 * rounding:
            continue
        end = max(wanted[key] + lengths[key] for key in wanted)
        for turned in (wanted, {key: end - wanted[key] - lengths[key] for key in wanted}):
            wanted_here = Targets(requests, {key: begin + address for key, address in turned.items()} | elsewhere, begin, begin + room)
            changes = steered(requests, wanted_here, pieces.copy())
            if changes is not None and count_satisfied(requests, changes, pieces.copy()) == len(requests):
                best = min(best or changes, fewer(changes, Trials(requests, pieces, TRIALS)), key=count_taken)
        if best is not None and count_taken(best) <= FEW:
            break
    return best, least


def in_other_pieces(requests, pieces, begin):
    """{key: address} of tensors for which pieces other than the one from `begin` have room. Tensors that take the most bytes times requests
    choose first; two that are alive together share no piece."""
    taken_at, alive, found = {}, {}, {}
    for number, (is_taken, key, size, _) in enumerate(requests):
        if is_taken:
            taken_at[key] = number
        else:
            alive[key] = size, taken_at[key], number
    by_weight = sorted(alive, key=lambda key: alive[key][0] * (alive[key][2] - alive[key][1]), reverse=True)
    for length, address in sorted(pieces.free, reverse=True):
        here = []
        for key in by_weight if address != begin else ():
            size, first, last = alive[key]
            if key not in found and size <= length and all(last < other_first or other_last < first for other_first, other_last in here):
                found[key] = address
                here.append((first, last))
    return found


def count_taken(changes):
    """How many pieces are taken in a step."""
    return sum(len(taken) for _, taken in changes.values())


def fewer(changes, trials):
    """The changes without pieces that are not needed."""
    length = max(1, len(changes) // 2)
    while changes:
        points = sorted(changes)
        for begin in range(0, len(points), length):
            run = points[begin:begin + length]
            if any(changes[point][1] for point in run):
                changes = trials.better(changes, changes | {point: (changes[point][0], {}) for point in run})
        if length == 1:
            break
        length = max(1, length // 2)
    return without_empty(changes)


def at_fewer_points(changes, trials):
    """The changes made at fewer points of the step, and without pieces that are not needed if so."""
    changes = merge_changes(changes, trials)
    for point in sorted(changes):
        for key in list(changes[point][1]):
            released, taken = changes[point]
            changes = trials.better(changes, changes | {point: (released, {other: size for other, size in taken.items() if other != key})})
    return merge_changes(without_empty(changes), trials)


class Trials:
    """Tries changes on a model of the allocator, at most `limit` times."""

    def __init__(self, requests, pieces, limit):
        self.requests, self.pieces, self.left = requests, pieces, limit

    def better(self, changes, others):
        """`others` if all requests find room with them, else `changes`."""
        self.left -= 1
        return others if self.left >= 0 and count_satisfied(self.requests, others, self.pieces.copy()) == len(self.requests) else changes


def without_empty(changes):
    """The changes without releases of what is not held, and without points where nothing changes."""
    held, found = set(), {}
    for point in sorted(changes):
        released, taken = tuple(key for key in changes[point][0] if key in held), changes[point][1]
        held = held.difference(released) | taken.keys()
        if released or taken:
            found[point] = released, taken
    return found


def merge_changes(changes, trials):
    """Makes neighbouring changes at one of their two points, where all requests still find room."""
    points = sorted(changes)
    second = points.pop() if points else None
    for first in reversed(points):
        (released, taken), (released_then, taken_then) = changes[first], changes[second]
        passing = taken.keys() & set(released_then)
        both = (*released, *(key for key in released_then if key not in passing)), {key: size for key, size in (taken | taken_then).items() if key not in passing}
        others = {point: change for point, change in changes.items() if point not in (first, second)}
        for point in (first, second):
            tried = trials.better(changes, others | {point: both})
            if tried is not changes:
                changes, second = tried, point
                break
        else:
            second = first
    return changes


class Targets:
    """The address that each tensor shall have, within `begin` and `end`; the numbers of the requests that take it and give it back."""

    def __init__(self, requests, addresses, begin, end):
        self.at, self.begin, self.end = addresses, begin, end
        self.size, self.taken_at, self.given_at = {}, {}, {}
        for number, (is_taken, key, size, _) in enumerate(requests):
            if is_taken:
                self.taken_at[key], self.size[key] = number, size
            else:
                self.given_at[key] = number

    def settle(self, key, address, now):
        """Notes that a tensor lies at `address`, not where it was wanted. Tensors of requests after `now` that were wanted there move
        elsewhere."""
        self.at[key], end = address, address + self.size[key]
        displaced = [other for other in self._beside(key) if self.taken_at[other] > now and self.at[other] < end and address < self.at[other] + self.size[other]]
        for other in sorted(displaced, key=self.size.get, reverse=True):
            self._move(other)

    def _beside(self, key):
        """Tensors that are there at the same time."""
        return [other for other in self.at if other != key and self.taken_at[other] < self.given_at[key] and self.taken_at[key] < self.given_at[other]]

    def _move(self, key):
        """To the nearest place that is free all the time, if there is one."""
        size, old, places, at = self.size[key], self.at[key], [], self.begin
        beside = ((self.at[other], self.at[other] + self.size[other]) for other in self._beside(key))
        for begin, end in sorted(span for span in beside if self.begin <= span[0] < self.end) + [(self.end, self.end)]:
            if begin - at >= size:
                place = min(max(old, at), begin - size)
                if 0 < place - at <= LARGE:  # such a small gap cannot be held
                    place = at
                elif 0 < begin - size - place <= LARGE:
                    place = begin - size
                places.append(place)
            at = max(at, end)
        self.at[key] = min(places, key=lambda place: abs(place - old), default=old)


class AllocatorState:
    """What is free, where tensors lie, {key: address}, and what is held, {key: (address, bytes)}. last_placed: {key: address} of the last
    group."""

    def __init__(self, pieces, at, held):
        self.pieces, self.at, self.held, self.last_placed = pieces, at, held, {}

    def copy(self):
        return AllocatorState(self.pieces.copy(), dict(self.at), dict(self.held))

    def release(self, keys):
        for key in keys:
            self.pieces.give(*self.held.pop(key))


def steered(requests, wanted, pieces):
    """Changes of what is held so that as many tensors as can be have the wanted addresses; None where one finds no room."""
    state, changes, now = AllocatorState(pieces, {}, {}), {}, -1
    final = max((request[3] for request in requests), default=0)
    for group in grouped_by_point(requests):
        point, best = group[0][3] if group[0][0] else None, None
        for choose_pieces in (hold_nothing,) if point in (None, -1, final) else RULES:
            tried = try_rule(group, wanted.at, state, choose_pieces)
            best = tried if tried and (best is None or tried[0] < best[0]) else best
            if best and best[0][0] == 0:
                break
        if best is None:
            return None
        (misplaced, _), change, state = best
        now += len(group)
        if misplaced:
            for key, address in state.last_placed.items():
                wanted.settle(key, address, now)
        if any(change):
            changes[point] = change
    return changes


def grouped_by_point(requests):
    """Yields runs of requests: the allocations at one point of the step, and what is given back before the next allocation at another."""
    group, point = [], None
    for request in requests:
        if request[0] and request[3] != point:
            if group:
                yield group
            group, point = [], request[3]
        group.append(request)
    if group:
        yield group


def try_rule(group, wanted, state, choose_pieces):
    """Takes the pieces of one rule, then the group's requests, on a copy of the state: ((tensors elsewhere than wanted, pieces taken), the
    change of what is held, the state after the group); None where one finds no room."""
    state = state.copy()
    held_before = set(state.held)
    taken = choose_pieces(state, [(wanted[key], size) for is_taken, key, size, _ in group if is_taken])
    if taken is None:
        return None
    change = tuple(held_before - set(state.held)), {}
    for address, size in taken:
        key = address, size, group[0][3]
        state.held[key] = (address, size)
        change[1][key] = size
    misplaced = 0
    for is_taken, key, size, _ in group:
        if is_taken:
            state.at[key] = state.last_placed[key] = state.pieces.take(size)
            if state.at[key] is None:
                return None
            misplaced += state.at[key] != wanted[key]
        else:
            state.pieces.give(state.at.pop(key), size)
    return (misplaced, len(taken)), change, state


def hold_nothing(state, spans):
    """Releases all that is held."""
    state.release(list(state.held))
    return []


def hold_more(state, spans):
    """Releases what lies in the first span, and holds also the pieces that the allocator would rather take."""
    begin, size = spans[0]
    state.release([key for key, (address, length) in state.held.items() if address < begin + size and begin < address + length])
    return take_preferred(state.pieces, spans[0])


def hold_others(state, spans):
    """Releases all that is held, and holds the pieces that the allocator would rather take."""
    state.release(list(state.held))
    return take_preferred(state.pieces, spans[0])


def take_preferred(pieces, span):
    """Takes the pieces that the allocator would rather take than the one with the span, and what is free before the span: [(address,
    bytes)]."""
    (target, size), held = span, []
    while len(held) < MAX_HELD:
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


def hold_all_else(state, spans):
    """Holds all free memory outside of the spans: for an operator that allocates more than once."""
    if len(spans) < 2:
        return None
    state.release(list(state.held))
    pieces, held, left = state.pieces, [], []
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


RULES = (hold_more, hold_others, hold_all_else, hold_nothing)
