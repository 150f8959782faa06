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
MAX_SMALL_BYTES = MIB       # larger allocations use the pool whose tensors are placed here
MAX_HELD_PIECES = 40        # maximum number of pieces held before one allocation
ROUNDINGS = (512, MIB)  # multiples to which packed sizes are rounded; each leads to other gaps
FEW_HELD_PIECES = 40         # number of pieces that need not be reduced; each costs CPU time in every step
MAX_TRIALS = 600          # maximum number of trials to hold fewer pieces


def pack_tensors(requests, rounding):
    """({key: bytes from the first address}, bytes of the whole packing) from the packer of the umbench program; ({}, 0) if it fails. Sizes are
    rounded up to multiples of `rounding`."""
    taken_at_request, size_of_key, freed_at_request = {}, {}, {}
    for request_number, (is_taken, key, size, _) in enumerate(requests):
        if is_taken:
            taken_at_request[key], size_of_key[key] = request_number, -(-size // rounding) * rounding
        else:
            freed_at_request[key] = request_number
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.writelines(f"{key},{size_of_key[key]},{taken_at_request[key]},{freed_at_request[key]}\n" for key in taken_at_request)
        file.flush()
        process = subprocess.run([program_path(), "pack", file.name, "--packer", "searched", "--addresses"], capture_output=True, text=True)
    if process.returncode != 0:
        return {}, 0
    offset_of_key = {int(key): int(offset) for key, offset in (line.split(",") for line in process.stdout.split())}
    return offset_of_key, max((offset_of_key[key] + size_of_key[key] for key in offset_of_key), default=0)


def count_requests_with_room(requests, hold_changes, free_pieces):
    """The number of requests, in order, that find room in `free_pieces` before the first that does not. `hold_changes`: {point: (keys of held pieces to
    release, {key: bytes of a piece to hold})}; they are made before the first allocation at their point of the step."""
    address_of_key, held_pieces, last_point = {}, {}, None
    for request_number, (is_taken, key, size, point) in enumerate(requests):
        if not is_taken:
            free_pieces.give_back(address_of_key.pop(key), size)
            continue
        if point != last_point:
            for previous_point in range(-1 if last_point is None else last_point, point):
                if previous_point + 1 in hold_changes and not apply_hold_change(free_pieces, held_pieces, *hold_changes[previous_point + 1]):
                    return request_number
            last_point = point
        address_of_key[key] = free_pieces.take(size)
        if address_of_key[key] is None:
            return request_number
    return len(requests)


def apply_hold_change(free_pieces, held_pieces, released_keys, taken_bytes_by_key):
    """Makes one change of the held pieces, {key: (address, bytes)}: releases keys, then takes {key: bytes}. Returns whether there was room."""
    for key in released_keys:
        if key in held_pieces:
            free_pieces.give_back(*held_pieces.pop(key))
    for key, size in taken_bytes_by_key.items():
        address = free_pieces.take(size)
        if address is None:
            return False
        held_pieces[key] = (address, size)
    return True


def find_holds(requests, free_pieces, largest_piece_address, largest_piece_bytes):
    """Finds which pieces to hold at which points so that all requests fit into `free_pieces`. Returns (changes of the held pieces, 0), or
    (None, bytes that the largest piece lacks for the best packing found; 0 if none was found)."""
    if count_requests_with_room(requests, {}, free_pieces.copy()) == len(requests):
        return {}, 0
    for fixed_addresses in ({}, addresses_in_other_pieces(requests, free_pieces, largest_piece_address)):
        hold_changes, packed_bytes = hold_changes_for_best_packing(requests, free_pieces, largest_piece_address, largest_piece_bytes, fixed_addresses)
        if hold_changes is not None:
            return merge_to_fewer_points(hold_changes, HoldChangeTrials(requests, free_pieces, 2 * MAX_TRIALS)), 0
    return None, max(0, packed_bytes - largest_piece_bytes) if packed_bytes < math.inf else 0


def hold_changes_for_best_packing(requests, free_pieces, largest_piece_address, largest_piece_bytes, fixed_addresses):
    """Packs the tensors, except those of `fixed_addresses`, {key: address}, into the largest free piece. Returns (the fewest changes of held pieces
    found with which the allocator places all tensors so, or None; bytes of the smallest packing, infinite if there is none)."""
    size_of_key, best_changes, least_packed_bytes = {key: size for is_taken, key, size, _ in requests if is_taken}, None, math.inf
    for rounding in ROUNDINGS:
        wanted_offsets, packed_bytes = pack_tensors([request for request in requests if request[1] not in fixed_addresses], rounding)
        least_packed_bytes = min(least_packed_bytes, packed_bytes or math.inf)
        if not wanted_offsets or packed_bytes > largest_piece_bytes + 2 * rounding:
            continue
        packing_end = max(wanted_offsets[key] + size_of_key[key] for key in wanted_offsets)
        for offset_of_key in (wanted_offsets, {key: packing_end - wanted_offsets[key] - size_of_key[key] for key in wanted_offsets}):
            targets = TargetAddresses(requests, {key: largest_piece_address + offset for key, offset in offset_of_key.items()} | fixed_addresses,
                                      largest_piece_address, largest_piece_address + largest_piece_bytes)
            changes = hold_changes_for_targets(requests, targets, free_pieces.copy())
            if changes is not None and count_requests_with_room(requests, changes, free_pieces.copy()) == len(requests):
                best_changes = min(best_changes or changes, without_unneeded_holds(changes, HoldChangeTrials(requests, free_pieces, MAX_TRIALS)),
                                   key=count_held_pieces)
        if best_changes is not None and count_held_pieces(best_changes) <= FEW_HELD_PIECES:
            break
    return best_changes, least_packed_bytes


def addresses_in_other_pieces(requests, free_pieces, largest_piece_address):
    """{key: address} of tensors for which pieces other than the largest have room. Tensors with the most bytes times requests of their
    lifetime choose first. Two that are alive together share no piece."""
    taken_at_request, size_and_lifetime_of_key, address_of_key = {}, {}, {}
    for request_number, (is_taken, key, size, _) in enumerate(requests):
        if is_taken:
            taken_at_request[key] = request_number
        else:
            size_and_lifetime_of_key[key] = size, taken_at_request[key], request_number
    keys_by_weight = sorted(size_and_lifetime_of_key,
                            key=lambda key: size_and_lifetime_of_key[key][0] * (size_and_lifetime_of_key[key][2] - size_and_lifetime_of_key[key][1]),
                            reverse=True)
    for piece_bytes, address in sorted(free_pieces.free, reverse=True):
        lifetimes_in_piece = []
        for key in keys_by_weight if address != largest_piece_address else ():
            size, taken_request, freed_request = size_and_lifetime_of_key[key]
            if (key not in address_of_key and size <= piece_bytes
                    and all(freed_request < other_taken_request or other_freed_request < taken_request
                            for other_taken_request, other_freed_request in lifetimes_in_piece)):
                address_of_key[key] = address
                lifetimes_in_piece.append((taken_request, freed_request))
    return address_of_key


def count_held_pieces(hold_changes):
    """The number of pieces that are held in a step."""
    return sum(len(taken_bytes_by_key) for _, taken_bytes_by_key in hold_changes.values())


def without_unneeded_holds(hold_changes, trials):
    """The changes without held pieces that are not needed, found by trials."""
    points_per_run = max(1, len(hold_changes) // 2)
    while hold_changes:
        points = sorted(hold_changes)
        for first_index in range(0, len(points), points_per_run):
            points_of_run = points[first_index:first_index + points_per_run]
            if any(hold_changes[point][1] for point in points_of_run):
                hold_changes = trials.alternative_if_it_fits(hold_changes,
                                                             hold_changes | {point: (hold_changes[point][0], {}) for point in points_of_run})
        if points_per_run == 1:
            break
        points_per_run = max(1, points_per_run // 2)
    return without_empty_changes(hold_changes)


def merge_to_fewer_points(hold_changes, trials):
    """The changes merged to fewer points of the step, and then without pieces that are not needed."""
    hold_changes = merge_neighbouring_changes(hold_changes, trials)
    for point in sorted(hold_changes):
        for key in list(hold_changes[point][1]):
            released_keys, taken_bytes_by_key = hold_changes[point]
            other_taken_bytes = {other_key: size for other_key, size in taken_bytes_by_key.items() if other_key != key}
            hold_changes = trials.alternative_if_it_fits(hold_changes, hold_changes | {point: (released_keys, other_taken_bytes)})
    return merge_neighbouring_changes(without_empty_changes(hold_changes), trials)


class HoldChangeTrials:
    """Tries changes of the held pieces on a model of the allocator, at most `max_trials` times."""

    def __init__(self, requests, free_pieces, max_trials):
        self.requests, self.pieces, self.left = requests, free_pieces, max_trials

    def alternative_if_it_fits(self, hold_changes, alternative):
        """`alternative` if all requests find room with it, else `hold_changes`; these also after the last trial."""
        self.left -= 1
        return alternative if self.left >= 0 and count_requests_with_room(self.requests, alternative, self.pieces.copy()) == len(self.requests) else hold_changes


def without_empty_changes(hold_changes):
    """The changes without releases of pieces that are not held, and without points where nothing changes."""
    held_keys, nonempty_changes = set(), {}
    for point in sorted(hold_changes):
        released_keys, taken_bytes_by_key = tuple(key for key in hold_changes[point][0] if key in held_keys), hold_changes[point][1]
        held_keys = held_keys.difference(released_keys) | taken_bytes_by_key.keys()
        if released_keys or taken_bytes_by_key:
            nonempty_changes[point] = released_keys, taken_bytes_by_key
    return nonempty_changes


def merge_neighbouring_changes(hold_changes, trials):
    """The changes with neighbours merged at one of their two points, wherever all requests still find room."""
    points = sorted(hold_changes)
    later_point = points.pop() if points else None
    for earlier_point in reversed(points):
        earlier_released_keys, earlier_taken_bytes = hold_changes[earlier_point]
        later_released_keys, later_taken_bytes = hold_changes[later_point]
        keys_taken_then_released = earlier_taken_bytes.keys() & set(later_released_keys)
        merged_change = ((*earlier_released_keys, *(key for key in later_released_keys if key not in keys_taken_then_released)),
                         {key: size for key, size in (earlier_taken_bytes | later_taken_bytes).items() if key not in keys_taken_then_released})
        other_changes = {point: change for point, change in hold_changes.items() if point not in (earlier_point, later_point)}
        for point in (earlier_point, later_point):
            tried_changes = trials.alternative_if_it_fits(hold_changes, other_changes | {point: merged_change})
            if tried_changes is not hold_changes:
                hold_changes, later_point = tried_changes, point
                break
        else:
            later_point = earlier_point
    return hold_changes


class TargetAddresses:
    """The wanted address of each tensor, between two addresses, and the numbers of the requests that take and give back its memory."""

    def __init__(self, requests, address_of_key, begin_address, end_address):
        self.at, self.begin, self.end = address_of_key, begin_address, end_address
        self.size, self.taken_at, self.given_at = {}, {}, {}
        for request_number, (is_taken, key, size, _) in enumerate(requests):
            if is_taken:
                self.taken_at[key], self.size[key] = request_number, size
            else:
                self.given_at[key] = request_number

    def record_placement(self, key, address, request_number):
        """Notes that a tensor is at `address` instead of its wanted address. Wanted addresses there of tensors that are requested after request
        number `request_number` move elsewhere."""
        self.at[key], end_address = address, address + self.size[key]
        displaced_keys = [other_key for other_key in self._alive_with(key)
                          if self.taken_at[other_key] > request_number
                          and self.at[other_key] < end_address and address < self.at[other_key] + self.size[other_key]]
        for other_key in sorted(displaced_keys, key=self.size.get, reverse=True):
            self._move_target(other_key)

    def _alive_with(self, key):
        """Keys of the other tensors that are alive at the same time."""
        return [other_key for other_key in self.at
                if other_key != key and self.taken_at[other_key] < self.given_at[key] and self.taken_at[key] < self.given_at[other_key]]

    def _move_target(self, key):
        """Moves the wanted address of a tensor to the nearest place that is free during its lifetime, if there is such a place."""
        size, old_address, candidate_addresses, gap_begin = self.size[key], self.at[key], [], self.begin
        neighbour_spans = ((self.at[other_key], self.at[other_key] + self.size[other_key]) for other_key in self._alive_with(key))
        for span_begin, span_end in sorted(span for span in neighbour_spans if self.begin <= span[0] < self.end) + [(self.end, self.end)]:
            if span_begin - gap_begin >= size:
                candidate = min(max(old_address, gap_begin), span_begin - size)
                if 0 < candidate - gap_begin <= MAX_SMALL_BYTES:  # such a small gap cannot be held
                    candidate = gap_begin
                elif 0 < span_begin - size - candidate <= MAX_SMALL_BYTES:
                    candidate = span_begin - size
                candidate_addresses.append(candidate)
            gap_begin = max(gap_begin, span_end)
        self.at[key] = min(candidate_addresses, key=lambda candidate: abs(candidate - old_address), default=old_address)


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
    state, changes, last_request_number = AllocatorState(free_pieces, {}, {}), {}, -1
    last_point = max((request[3] for request in requests), default=0)
    for group in groups_by_point(requests):
        point, best_trial = group[0][3] if group[0][0] else None, None
        for choose_pieces in (hold_nothing,) if point in (None, -1, last_point) else RULES:
            trial = try_rule(group, targets.at, state, choose_pieces)
            best_trial = trial if trial and (best_trial is None or trial[0] < best_trial[0]) else best_trial
            if best_trial and best_trial[0][0] == 0:
                break
        if best_trial is None:
            return None
        (misplaced_count, _), change, state = best_trial
        last_request_number += len(group)
        if misplaced_count:
            for key, address in state.last_placed.items():
                targets.record_placement(key, address, last_request_number)
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
    held_keys_before = set(state.held)
    taken_pieces = choose_pieces(state, [(target_addresses[key], size) for is_taken, key, size, _ in request_group if is_taken])
    if taken_pieces is None:
        return None
    hold_change = tuple(held_keys_before - set(state.held)), {}
    for address, size in taken_pieces:
        key = address, size, request_group[0][3]
        state.held[key] = (address, size)
        hold_change[1][key] = size
    misplaced_count = 0
    for is_taken, key, size, _ in request_group:
        if is_taken:
            state.at[key] = state.last_placed[key] = state.pieces.take(size)
            if state.at[key] is None:
                return None
            misplaced_count += state.at[key] != target_addresses[key]
        else:
            state.pieces.give_back(state.at.pop(key), size)
    return (misplaced_count, len(taken_pieces)), hold_change, state


def hold_nothing(state, addresses_and_sizes):
    """Releases all held pieces. As for all of RULES, `addresses_and_sizes` is the wanted [(address, bytes)] of a group's allocations; returns the
    pieces that it takes in the same form, or None if it cannot."""
    state.release_held(list(state.held))
    return []


def hold_preferred_too(state, addresses_and_sizes):
    """Releases the held pieces that overlap the first span, and takes the pieces that the allocator would choose before that span."""
    wanted_address, wanted_size = addresses_and_sizes[0]
    state.release_held([key for key, (held_address, held_size) in state.held.items()
                        if held_address < wanted_address + wanted_size and wanted_address < held_address + held_size])
    return take_pieces_preferred_to(state.pieces, *addresses_and_sizes[0])


def hold_only_preferred(state, addresses_and_sizes):
    """Holds only the pieces that the allocator would choose before the first span: releases all others."""
    state.release_held(list(state.held))
    return take_pieces_preferred_to(state.pieces, *addresses_and_sizes[0])


def take_pieces_preferred_to(free_pieces, target_address, byte_count):
    """Takes all pieces that the allocator would choose for `byte_count` bytes before the memory at `target_address`, and what is free before
    that address in its piece. Returns them as [(address, bytes)]; None if that cannot be done."""
    taken_pieces = []
    while len(taken_pieces) < MAX_HELD_PIECES:
        size_and_address = free_pieces.piece_for(byte_count)
        if size_and_address is None:
            return None
        piece_bytes, piece_address = size_and_address
        if piece_address <= target_address and target_address + byte_count <= piece_address + piece_bytes:
            gap_bytes = target_address - piece_address
            if gap_bytes <= MAX_SMALL_BYTES:
                return taken_pieces
            piece_bytes, piece_address = (free_pieces.piece_for(gap_bytes) if free_pieces.piece_for(gap_bytes)[1] != piece_address
                                          else (gap_bytes, piece_address))
        if free_pieces.piece_for(piece_bytes)[1] != piece_address:
            return None
        free_pieces.take(piece_bytes)
        taken_pieces.append((piece_address, piece_bytes))
    return None


def hold_all_outside(state, addresses_and_sizes):
    """Takes all free memory outside of the spans, for operators that allocate more than once."""
    if len(addresses_and_sizes) < 2:
        return None
    state.release_held(list(state.held))
    pieces, pieces_to_hold, pieces_to_give_back = state.pieces, [], []
    for piece_bytes, piece_address in [piece for piece in pieces.free if piece[0] > MAX_SMALL_BYTES]:
        cut_begin, cuts = piece_address, []
        for wanted_address, size in sorted(addresses_and_sizes):
            overlap_begin, overlap_end = max(wanted_address, cut_begin), min(wanted_address + size, piece_address + piece_bytes)
            if overlap_begin < overlap_end:
                cuts += ([(cut_begin, overlap_begin - cut_begin, pieces_to_hold)] * (overlap_begin > cut_begin)
                         + [(overlap_begin, overlap_end - overlap_begin, pieces_to_give_back)])
                cut_begin = overlap_end
        cuts += [(cut_begin, piece_address + piece_bytes - cut_begin, pieces_to_hold)] * (piece_address + piece_bytes > cut_begin)
        for cut_number, (address, size, destination_list) in enumerate(cuts):
            if size <= MAX_SMALL_BYTES:
                if cut_number < len(cuts) - 1:
                    return None
                continue
            if pieces.piece_for(size) is None or pieces.piece_for(size)[1] != address:
                return None
            pieces.take(size)
            destination_list.append((address, size))
    for address, size in pieces_to_give_back:
        pieces.give_back(address, size)
    return pieces_to_hold


RULES = (hold_preferred_too, hold_only_preferred, hold_all_outside, hold_nothing)
