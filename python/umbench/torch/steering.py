"""Which pieces of memory to hold so that PyTorch's caching allocator puts the tensors of a step at the addresses that a packing of their lifetimes names.

The allocator takes the smallest free piece that is large enough. Under that rule a step needs 12 to 29 % more memory than its tensors; packed by
their lifetimes (`umbench pack`) they need 0 to 14 % more. So before an allocation, pieces that the allocator would rather take are held, until
the piece with the wanted address is its choice. All this is tried on a model of the allocator (arena.Pieces); requests are as arena.requests_of has them."""

import math
import subprocess
import tempfile

from .planner import program

MIB = 2**20
LARGE = MIB           # above it allocations share the pool that is laid out here
MOST_HELD = 40        # pieces before one allocation
ROUNDINGS = (512, MIB)  # of the sizes that are packed: others leave other gaps
FEW = 40              # pieces that need not be made fewer: each one that is taken costs the CPU time in each step
TRIALS = 600          # of holding less


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


def count_served(requests, changes, pieces):
    """Counts the requests that find room in `pieces`, one after the other, with the changes of what is held (as Holds has them)."""
    at, held, last = {}, {}, None
    for number, (is_taken, key, size, point) in enumerate(requests):
        if not is_taken:
            pieces.give(at.pop(key), size)
            continue
        if point != last:
            for passed in range(-1 if last is None else last, point):
                if passed + 1 in changes and not changed(pieces, held, *changes[passed + 1]):
                    return number
            last = point
        at[key] = pieces.take(size)
        if at[key] is None:
            return number
    return len(requests)


def changed(pieces, held, let_go, taken):
    """Changes what is held, {key: (address, bytes)}. Whether there was room."""
    for key in let_go:
        if key in held:
            pieces.give(*held.pop(key))
    for key, size in taken.items():
        address = pieces.take(size)
        if address is None:
            return False
        held[key] = (address, size)
    return True


def find_holds(requests, pieces, begin, room):
    """(changes, bytes): of what is held, so that all requests find room in `pieces`, of which the one from `begin` has `room` bytes; None where none
    were found, and then how many bytes the best packing lacks."""
    if count_served(requests, {}, pieces.copy()) == len(requests):
        return {}, 0
    for elsewhere in ({}, in_other_pieces(requests, pieces, begin)):
        best, least = packed(requests, pieces, begin, room, elsewhere)
        if best is not None:
            return at_fewer_points(best, Served(requests, pieces, 2 * TRIALS)), 0
    return None, max(0, least - room) if least < math.inf else 0


def packed(requests, pieces, begin, room, elsewhere):
    """The same before pieces are joined, with tensors that lie in other pieces, {key: address}."""
    lengths, best, least = {key: size for is_taken, key, size, _ in requests if is_taken}, None, math.inf
    for rounding in ROUNDINGS:
        wanted, size = addresses([request for request in requests if request[1] not in elsewhere], rounding)
        least = min(least, size or math.inf)
        if not wanted or size > room + 2 * rounding:
            continue
        end = max(wanted[key] + lengths[key] for key in wanted)
        for turned in (wanted, {key: end - wanted[key] - lengths[key] for key in wanted}):
            wanted_here = Wanted(requests, {key: begin + address for key, address in turned.items()} | elsewhere, begin, begin + room)
            changes = steered(requests, wanted_here, pieces.copy())
            if changes is not None and count_served(requests, changes, pieces.copy()) == len(requests):
                best = min(best or changes, fewer(changes, Served(requests, pieces, TRIALS)), key=pieces_in)
        if best is not None and pieces_in(best) <= FEW:
            break
    return best, least


def in_other_pieces(requests, pieces, begin):
    """{key: address} of tensors that find room, one at a time, in pieces other than the one from `begin`, those first that take most for longest."""
    born, alive, found = {}, {}, {}
    for number, (is_taken, key, size, _) in enumerate(requests):
        if is_taken:
            born[key] = number
        else:
            alive[key] = size, born[key], number
    by_weight = sorted(alive, key=lambda key: alive[key][0] * (alive[key][2] - alive[key][1]), reverse=True)
    for length, address in sorted(pieces.free, reverse=True):
        here = []
        for key in by_weight if address != begin else ():
            size, first, last = alive[key]
            if key not in found and size <= length and all(last < other_first or other_last < first for other_first, other_last in here):
                found[key] = address
                here.append((first, last))
    return found


def pieces_in(changes):
    """How many pieces are taken in a step."""
    return sum(len(taken) for _, taken in changes.values())


def fewer(changes, served):
    """Without pieces that are not needed."""
    length = max(1, len(changes) // 2)
    while changes:
        points = sorted(changes)
        for begin in range(0, len(points), length):
            run = points[begin:begin + length]
            if any(changes[point][1] for point in run):
                changes = served.better(changes, changes | {point: (changes[point][0], {}) for point in run})
        if length == 1:
            break
        length = max(1, length // 2)
    return without_idle(changes)


def at_fewer_points(changes, served):
    """The same at fewer points, without single pieces that are not needed then."""
    changes = joined(changes, served)
    for point in sorted(changes):
        for key in list(changes[point][1]):
            let_go, taken = changes[point]
            changes = served.better(changes, changes | {point: (let_go, {other: size for other, size in taken.items() if other != key})})
    return joined(without_idle(changes), served)


class Served:
    """Tries changes on a model of the allocator, at most `trials` times."""

    def __init__(self, requests, pieces, trials):
        self.requests, self.pieces, self.trials = requests, pieces, trials

    def better(self, changes, others):
        """`others` if all requests find room with them."""
        self.trials -= 1
        return others if self.trials >= 0 and count_served(self.requests, others, self.pieces.copy()) == len(self.requests) else changes


def without_idle(changes):
    """Without letting go of what is not held, and without points where nothing changes."""
    held, found = set(), {}
    for point in sorted(changes):
        let_go, taken = tuple(key for key in changes[point][0] if key in held), changes[point][1]
        held = held.difference(let_go) | taken.keys()
        if let_go or taken:
            found[point] = let_go, taken
    return found


def joined(changes, served):
    """Each change together with the one before or behind it, where that serves as well."""
    points = sorted(changes)
    second = points.pop() if points else None
    for first in reversed(points):
        (gone, taken), (gone_then, taken_then) = changes[first], changes[second]
        passing = taken.keys() & set(gone_then)
        both = (*gone, *(key for key in gone_then if key not in passing)), {key: size for key, size in (taken | taken_then).items() if key not in passing}
        others = {point: change for point, change in changes.items() if point not in (first, second)}
        for point in (first, second):
            tried = served.better(changes, others | {point: both})
            if tried is not changes:
                changes, second = tried, point
                break
        else:
            second = first
    return changes


class Wanted:
    """The address that each tensor shall have, within `begin` and `end`."""

    def __init__(self, requests, addresses, begin, end):
        self.at, self.begin, self.end = addresses, begin, end
        self.size, self.born, self.dies = {}, {}, {}
        for number, (is_taken, key, size, _) in enumerate(requests):
            if is_taken:
                self.born[key], self.size[key] = number, size
            else:
                self.dies[key] = number

    def settle(self, key, address, now):
        """A tensor lies elsewhere than wanted. Those that come after the request `now` in its place get another."""
        self.at[key], end = address, address + self.size[key]
        in_its_place = [other for other in self._beside(key) if self.born[other] > now and self.at[other] < end and address < self.at[other] + self.size[other]]
        for other in sorted(in_its_place, key=self.size.get, reverse=True):
            self._move(other)

    def _beside(self, key):
        """Tensors that are there at the same time."""
        return [other for other in self.at if other != key and self.born[other] < self.dies[key] and self.born[key] < self.dies[other]]

    def _move(self, key):
        """To the nearest place that is free all the time, if there is one."""
        size, old, places, at = self.size[key], self.at[key], [], self.begin
        beside = ((self.at[other], self.at[other] + self.size[other]) for other in self._beside(key))
        for begin, end in sorted(span for span in beside if self.begin <= span[0] < self.end) + [(self.end, self.end)]:
            if begin - at >= size:
                place = min(max(old, at), begin - size)
                if 0 < place - at <= LARGE:  # which cannot be held
                    place = at
                elif 0 < begin - size - place <= LARGE:
                    place = begin - size
                places.append(place)
            at = max(at, end)
        self.at[key] = min(places, key=lambda place: abs(place - old), default=old)


class State:
    """What is free, where tensors lie, {key: address}, and what is held, {key: (address, bytes)}. last_placed: {key: address} of the last group."""

    def __init__(self, pieces, at, held):
        self.pieces, self.at, self.held, self.last_placed = pieces, at, held, {}

    def copy(self):
        return State(self.pieces.copy(), dict(self.at), dict(self.held))

    def let_go(self, keys):
        for key in keys:
            self.pieces.give(*self.held.pop(key))


def steered(requests, wanted, pieces):
    """Changes of what is held so that as many tensors as can be have the wanted addresses; None where one finds no room."""
    state, changes, now = State(pieces, {}, {}), {}, -1
    final = max((request[3] for request in requests), default=0)
    for group in grouped(requests):
        point, best = group[0][3] if group[0][0] else None, None
        for way in (hold_nothing,) if point in (None, -1, final) else WAYS:
            tried = try_way(group, wanted.at, state, way)
            best = tried if tried and (best is None or tried[0] < best[0]) else best
            if best and best[0][0] == 0:
                break
        if best is None:
            return None
        (astray, _), change, state = best
        now += len(group)
        if astray:
            for key, address in state.last_placed.items():
                wanted.settle(key, address, now)
        if any(change):
            changes[point] = change
    return changes


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


def try_way(group, wanted, state, way):
    """((tensors elsewhere than wanted, pieces taken), the change of what is held, the state behind the group); None without room."""
    state = state.copy()
    held_before = set(state.held)
    taken = way(state, [(wanted[key], size) for is_taken, key, size, _ in group if is_taken])
    if taken is None:
        return None
    change = tuple(held_before - set(state.held)), {}
    for address, size in taken:
        key = address, size, group[0][3]
        state.held[key] = (address, size)
        change[1][key] = size
    astray = 0
    for is_taken, key, size, _ in group:
        if is_taken:
            state.at[key] = state.last_placed[key] = state.pieces.take(size)
            if state.at[key] is None:
                return None
            astray += state.at[key] != wanted[key]
        else:
            state.pieces.give(state.at.pop(key), size)
    return (astray, len(taken)), change, state


def hold_nothing(state, spans):
    state.let_go(list(state.held))
    return []


def hold_more(state, spans):
    """Holds what is held already, but for what lies in the first span, and the pieces that the allocator would rather take."""
    begin, size = spans[0]
    state.let_go([key for key, (address, length) in state.held.items() if address < begin + size and begin < address + length])
    return take_preferred(state.pieces, spans[0])


def hold_anew(state, spans):
    state.let_go(list(state.held))
    return take_preferred(state.pieces, spans[0])


def take_preferred(pieces, span):
    """Takes the pieces that the allocator would rather take than the one with the span, and what is free before the span: [(address, bytes)]."""
    (target, size), held = span, []
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


def hold_all_else(state, spans):
    """Holds all that is free but the spans: for an operator that allocates more than once."""
    if len(spans) < 2:
        return None
    state.let_go(list(state.held))
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


WAYS = (hold_more, hold_anew, hold_all_else, hold_nothing)
