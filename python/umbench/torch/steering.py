"""Chooses pieces of memory to hold so that PyTorch's caching allocator puts the tensors of a step at the addresses of a packing of their
lifetimes.

The allocator takes the smallest free piece that is large enough. By that rule a step needs 12 to 29 % more memory than its tensors; packed by
their lifetimes (`umbench pack`) they need 0 to 14 % more. So pieces that the allocator would choose instead of the wanted address are held
during an allocation. This is tried on a model of the allocator (arena.FreePieces). arena.allocation_requests_of() returns `requests`."""

import math
import subprocess
import tempfile

from .planner import program_path

MIB = 2**20
MAX_SMALL = MIB       # larger allocations use the pool whose tensors are placed here
MAX_HELD = 40        # maximum number of pieces held before one allocation
ROUNDINGS = (512, MIB)  # multiples to which packed sizes are rounded; each leads to other gaps
FEW_HELD = 40         # number of pieces that need not be reduced; each costs CPU time in every step
TRIALS = 600          # maximum number of trials to hold fewer pieces


def pack_tensors(requests, rounding):
    """({key: bytes from the first address}, bytes of the whole packing) from the packer of the umbench program; ({}, 0) if it fails. Sizes are
    rounded up to multiples of `rounding`."""
    begins, sizes, ends = {}, {}, {}
    for number, (is_taken, key, size, _) in enumerate(requests):
        if is_taken:
            begins[key], sizes[key] = number, -(-size // rounding) * rounding
        else:
            ends[key] = number
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.writelines(f"{key},{sizes[key]},{begins[key]},{ends[key]}\n" for key in begins)
        file.flush()
        done = subprocess.run([program_path(), "pack", file.name, "--packer", "searched", "--addresses"], capture_output=True, text=True)
    if done.returncode != 0:
        return {}, 0
    placed = {int(key): int(address) for key, address in (line.split(",") for line in done.stdout.split())}
    return placed, max((placed[key] + sizes[key] for key in placed), default=0)


def count_requests_with_room(requests, hold_changes, free_pieces):
    """The number of requests, in order, that find room in `free_pieces` before the first that does not. `hold_changes`: {point: (keys of held pieces to
    release, {key: bytes of a piece to hold})}; they are made before the first allocation at their point of the step."""
    at, held, last = {}, {}, None
    for number, (is_taken, key, size, point) in enumerate(requests):
        if not is_taken:
            free_pieces.give_back(at.pop(key), size)
            continue
        if point != last:
            for passed in range(-1 if last is None else last, point):
                if passed + 1 in hold_changes and not apply_hold_change(free_pieces, held, *hold_changes[passed + 1]):
                    return number
            last = point
        at[key] = free_pieces.take(size)
        if at[key] is None:
            return number
    return len(requests)


def apply_hold_change(free_pieces, held_pieces, released_keys, bytes_to_take):
    """Makes one change of the held pieces, {key: (address, bytes)}: releases keys, then takes {key: bytes}. Returns whether there was room."""
    for key in released_keys:
        if key in held_pieces:
            free_pieces.give_back(*held_pieces.pop(key))
    for key, size in bytes_to_take.items():
        address = free_pieces.take(size)
        if address is None:
            return False
        held_pieces[key] = (address, size)
    return True


def find_holds(requests, free_pieces, largest_address, largest_bytes):
    """Finds which pieces to hold at which points so that all requests fit into `free_pieces`. Returns (changes of the held pieces, 0), or
    (None, bytes that the largest piece lacks for the best packing found; 0 if none was found)."""
    if count_requests_with_room(requests, {}, free_pieces.copy()) == len(requests):
        return {}, 0
    for fixed_addresses in ({}, addresses_in_other_pieces(requests, free_pieces, largest_address)):
        changes, packed = hold_changes_for_best_packing(requests, free_pieces, largest_address, largest_bytes, fixed_addresses)
        if changes is not None:
            return merge_to_fewer_points(changes, Trials(requests, free_pieces, 2 * TRIALS)), 0
    return None, max(0, packed - largest_bytes) if packed < math.inf else 0


def hold_changes_for_best_packing(requests, free_pieces, largest_address, largest_bytes, fixed_addresses):
    """Packs the tensors, except those of `fixed_addresses`, {key: address}, into the largest free piece. Returns (the fewest changes of held pieces
    found with which the allocator places all tensors so, or None; bytes of the smallest packing, infinite if there is none)."""
    lengths, best, least = {key: size for is_taken, key, size, _ in requests if is_taken}, None, math.inf
    for rounding in ROUNDINGS:
        wanted, size = pack_tensors([request for request in requests if request[1] not in fixed_addresses], rounding)
        least = min(least, size or math.inf)
        if not wanted or size > largest_bytes + 2 * rounding:
            continue
        end = max(wanted[key] + lengths[key] for key in wanted)
        for positions in (wanted, {key: end - wanted[key] - lengths[key] for key in wanted}):
            wanted_here = TargetAddresses(requests, {key: largest_address + address for key, address in positions.items()} | fixed_addresses, largest_address, largest_address + largest_bytes)
            changes = hold_changes_for_targets(requests, wanted_here, free_pieces.copy())
            if changes is not None and count_requests_with_room(requests, changes, free_pieces.copy()) == len(requests):
                best = min(best or changes, without_unneeded_holds(changes, Trials(requests, free_pieces, TRIALS)), key=count_held_pieces)
        if best is not None and count_held_pieces(best) <= FEW_HELD:
            break
    return best, least


def addresses_in_other_pieces(requests, free_pieces, largest_address):
    """{key: address} of tensors for which pieces other than the largest have room. Tensors with the most bytes times requests of their
    lifetime choose first. Two that are alive together share no piece."""
    taken_at, alive, found = {}, {}, {}
    for number, (is_taken, key, size, _) in enumerate(requests):
        if is_taken:
            taken_at[key] = number
        else:
            alive[key] = size, taken_at[key], number
    by_weight = sorted(alive, key=lambda key: alive[key][0] * (alive[key][2] - alive[key][1]), reverse=True)
    for length, address in sorted(free_pieces.free, reverse=True):
        here = []
        for key in by_weight if address != largest_address else ():
            size, first, last = alive[key]
            if key not in found and size <= length and all(last < other_first or other_last < first for other_first, other_last in here):
                found[key] = address
                here.append((first, last))
    return found


def count_held_pieces(hold_changes):
    """The number of pieces that are held in a step."""
    return sum(len(taken) for _, taken in hold_changes.values())


def without_unneeded_holds(hold_changes, trials):
    """The changes without held pieces that are not needed, found by trials."""
    length = max(1, len(hold_changes) // 2)
    while hold_changes:
        points = sorted(hold_changes)
        for begin in range(0, len(points), length):
            run = points[begin:begin + length]
            if any(hold_changes[point][1] for point in run):
                hold_changes = trials.alternative_if_it_fits(hold_changes, hold_changes | {point: (hold_changes[point][0], {}) for point in run})
        if length == 1:
            break
        length = max(1, length // 2)
    return without_empty_changes(hold_changes)


def merge_to_fewer_points(hold_changes, trials):
    """The changes merged to fewer points of the step, and then without pieces that are not needed."""
    hold_changes = merge_neighbouring_changes(hold_changes, trials)
    for point in sorted(hold_changes):
        for key in list(hold_changes[point][1]):
            released, taken = hold_changes[point]
            hold_changes = trials.alternative_if_it_fits(hold_changes, hold_changes | {point: (released, {other: size for other, size in taken.items() if other != key})})
    return merge_neighbouring_changes(without_empty_changes(hold_changes), trials)


class Trials:
    """Tries changes of the held pieces on a model of the allocator, at most `max_trials` times."""

    def __init__(self, requests, free_pieces, max_trials):
        self.requests, self.pieces, self.left = requests, free_pieces, max_trials

    def alternative_if_it_fits(self, hold_changes, alternative):
        """`alternative` if all requests find room with it, else `hold_changes`; these also after the last trial."""
        self.left -= 1
        return alternative if self.left >= 0 and count_requests_with_room(self.requests, alternative, self.pieces.copy()) == len(self.requests) else hold_changes


def without_empty_changes(hold_changes):
    """The changes without releases of pieces that are not held, and without points where nothing changes."""
    held, found = set(), {}
    for point in sorted(hold_changes):
        released, taken = tuple(key for key in hold_changes[point][0] if key in held), hold_changes[point][1]
        held = held.difference(released) | taken.keys()
        if released or taken:
            found[point] = released, taken
    return found


def merge_neighbouring_changes(hold_changes, trials):
    """The changes with neighbours merged at one of their two points, wherever all requests still find room."""
    points = sorted(hold_changes)
    second = points.pop() if points else None
    for first in reversed(points):
        (released, taken), (released_then, taken_then) = hold_changes[first], hold_changes[second]
        passing = taken.keys() & set(released_then)
        both = (*released, *(key for key in released_then if key not in passing)), {key: size for key, size in (taken | taken_then).items() if key not in passing}
        others = {point: change for point, change in hold_changes.items() if point not in (first, second)}
        for point in (first, second):
            tried = trials.alternative_if_it_fits(hold_changes, others | {point: both})
            if tried is not hold_changes:
                hold_changes, second = tried, point
                break
        else:
            second = first
    return hold_changes


class TargetAddresses:
    """The wanted address of each tensor, between two addresses, and the numbers of the requests that take and give back its memory."""

    def __init__(self, requests, addresses, begin_address, end_address):
        self.at, self.begin, self.end = addresses, begin_address, end_address
        self.size, self.taken_at, self.given_at = {}, {}, {}
        for number, (is_taken, key, size, _) in enumerate(requests):
            if is_taken:
                self.taken_at[key], self.size[key] = number, size
            else:
                self.given_at[key] = number

    def record_placement(self, key, address, request_number):
        """Notes that a tensor is at `address` instead of its wanted address. Wanted addresses there of tensors that are requested after request
        number `request_number` move elsewhere."""
        self.at[key], end = address, address + self.size[key]
        displaced = [other for other in self._alive_with(key) if self.taken_at[other] > request_number and self.at[other] < end and address < self.at[other] + self.size[other]]
        for other in sorted(displaced, key=self.size.get, reverse=True):
            self._move_target(other)

    def _alive_with(self, key):
        """Keys of the other tensors that are alive at the same time."""
        return [other for other in self.at if other != key and self.taken_at[other] < self.given_at[key] and self.taken_at[key] < self.given_at[other]]

    def _move_target(self, key):
        """Moves the wanted address of a tensor to the nearest place that is free during its lifetime, if there is such a place."""
        size, old, places, at = self.size[key], self.at[key], [], self.begin
        beside = ((self.at[other], self.at[other] + self.size[other]) for other in self._alive_with(key))
        for begin, end in sorted(span for span in beside if self.begin <= span[0] < self.end) + [(self.end, self.end)]:
            if begin - at >= size:
                place = min(max(old, at), begin - size)
                if 0 < place - at <= MAX_SMALL:  # such a small gap cannot be held
                    place = at
                elif 0 < begin - size - place <= MAX_SMALL:
                    place = begin - size
                places.append(place)
            at = max(at, end)
        self.at[key] = min(places, key=lambda place: abs(place - old), default=old)


class AllocatorState:
    """The free pieces, the addresses of tensors, {key: address}, and the held pieces, {key: (address, bytes)}. last_placed: {key: address} of
    the last group of requests."""

    def __init__(self, free_pieces, address_of_key, held_pieces):
        self.pieces, self.at, self.held, self.last_placed = free_pieces, address_of_key, held_pieces, {}

    def copy(self):
        return AllocatorState(self.pieces.copy(), dict(self.at), dict(self.held))

    def release_held(self, keys):
        for key in keys:
            self.pieces.give_back(*self.held.pop(key))


def hold_changes_for_targets(requests, targets, free_pieces):
    """{point: change of the held pieces} with which as many tensors as possible get the wanted addresses; None if a group of requests finds
    no room."""
    state, changes, now = AllocatorState(free_pieces, {}, {}), {}, -1
    final = max((request[3] for request in requests), default=0)
    for group in groups_by_point(requests):
        point, best = group[0][3] if group[0][0] else None, None
        for choose_pieces in (hold_nothing,) if point in (None, -1, final) else RULES:
            tried = try_rule(group, targets.at, state, choose_pieces)
            best = tried if tried and (best is None or tried[0] < best[0]) else best
            if best and best[0][0] == 0:
                break
        if best is None:
            return None
        (misplaced, _), change, state = best
        now += len(group)
        if misplaced:
            for key, address in state.last_placed.items():
                targets.record_placement(key, address, now)
        if any(change):
            changes[point] = change
    return changes


def groups_by_point(requests):
    """Yields groups of requests: the allocations at one point of the step, and the frees before the first allocation at the next point."""
    group, point = [], None
    for request in requests:
        if request[0] and request[3] != point:
            if group:
                yield group
            group, point = [], request[3]
        group.append(request)
    if group:
        yield group


def try_rule(request_group, target_addresses, state, choose_pieces):
    """Holds the pieces that one rule chooses, then makes the group's requests, on a copy of the state. Returns ((number of tensors elsewhere
    than wanted, number of pieces taken), the change of the held pieces, the state after the group); None if a request finds no room."""
    state = state.copy()
    held_before = set(state.held)
    taken = choose_pieces(state, [(target_addresses[key], size) for is_taken, key, size, _ in request_group if is_taken])
    if taken is None:
        return None
    change = tuple(held_before - set(state.held)), {}
    for address, size in taken:
        key = address, size, request_group[0][3]
        state.held[key] = (address, size)
        change[1][key] = size
    misplaced = 0
    for is_taken, key, size, _ in request_group:
        if is_taken:
            state.at[key] = state.last_placed[key] = state.pieces.take(size)
            if state.at[key] is None:
                return None
            misplaced += state.at[key] != target_addresses[key]
        else:
            state.pieces.give_back(state.at.pop(key), size)
    return (misplaced, len(taken)), change, state


def hold_nothing(state, wanted_spans):
    """Releases all held pieces. As for all of RULES, `wanted_spans` is the wanted [(address, bytes)] of a group's allocations; returns the pieces that
    it takes in the same form, or None if it cannot."""
    state.release_held(list(state.held))
    return []


def hold_preferred_too(state, wanted_spans):
    """Releases the held pieces that overlap the first span, and takes the pieces that the allocator would choose before that span."""
    begin, size = wanted_spans[0]
    state.release_held([key for key, (address, length) in state.held.items() if address < begin + size and begin < address + length])
    return take_pieces_preferred_to(state.pieces, *wanted_spans[0])


def hold_only_preferred(state, wanted_spans):
    """Holds only the pieces that the allocator would choose before the first span: releases all others."""
    state.release_held(list(state.held))
    return take_pieces_preferred_to(state.pieces, *wanted_spans[0])


def take_pieces_preferred_to(free_pieces, target_address, byte_count):
    """Takes all pieces that the allocator would choose for `byte_count` bytes before the memory at `target_address`, and what is free before
    that address in its piece. Returns them as [(address, bytes)]; None if that cannot be done."""
    held = []
    while len(held) < MAX_HELD:
        choice = free_pieces.piece_for(byte_count)
        if choice is None:
            return None
        length, address = choice
        if address <= target_address and target_address + byte_count <= address + length:
            gap = target_address - address
            if gap <= MAX_SMALL:
                return held
            length, address = free_pieces.piece_for(gap) if free_pieces.piece_for(gap)[1] != address else (gap, address)
        if free_pieces.piece_for(length)[1] != address:
            return None
        free_pieces.take(length)
        held.append((address, length))
    return None


def hold_all_outside(state, wanted_spans):
    """Takes all free memory outside of the spans, for operators that allocate more than once."""
    if len(wanted_spans) < 2:
        return None
    state.release_held(list(state.held))
    pieces, held, left = state.pieces, [], []
    for length, begin in [piece for piece in pieces.free if piece[0] > MAX_SMALL]:
        at, cuts = begin, []
        for wanted, size in sorted(wanted_spans):
            first, last = max(wanted, at), min(wanted + size, begin + length)
            if first < last:
                cuts += [(at, first - at, held)] * (first > at) + [(first, last - first, left)]
                at = last
        cuts += [(at, begin + length - at, held)] * (begin + length > at)
        for number, (address, size, into) in enumerate(cuts):
            if size <= MAX_SMALL:
                if number < len(cuts) - 1:
                    return None
                continue
            if pieces.piece_for(size) is None or pieces.piece_for(size)[1] != address:
                return None
            pieces.take(size)
            into.append((address, size))
    for address, size in left:
        pieces.give_back(address, size)
    return held


RULES = (hold_preferred_too, hold_only_preferred, hold_all_outside, hold_nothing)
