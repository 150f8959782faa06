"""Maps memory in such a way that all tensors of a training step fit and the step never requests more from the device.

PyTorch's caching allocator takes the smallest free piece that is large enough. What is free at the peak lies in many pieces, so a step
maps 12 to 29 % more than it uses. Under a hard cap the allocator first gives back free pages. That takes as long as the step, happens in
each step, and fails if the pieces end within pages. But all steps are alike. Arena records the allocations of a step, maps all memory of
the budget as one piece, and finds, on a model of the allocator (c10/cuda/CUDACachingAllocator.cpp: get_free_block), which pieces must be
held at which points so that all tensors fit."""

import bisect
import contextlib
import gc
import weakref

import torch

from . import placing, private, steering
from .placing import MARK_BYTES
from .steering import MAX_SMALL_BYTES

MIB = 2**20
PAGE_BYTES = 12 * MIB       # bytes that the allocator maps at a time (private.ALLOCATOR_SETTINGS)
GRAIN_BYTES = 512           # allocations are multiples of these bytes
MAX_REMAPS = 20        # maximum number of successive steps before which memory is mapped again
SPARE_PAGES = 1             # pages that small allocations may take before memory is mapped again


class FreePieces:
    """A model of the allocator's free memory. `sizes_and_growths`: [(bytes, bytes by which the piece could grow)]. Addresses are those of the model, which
    has gaps between the pieces."""

    def __init__(self, sizes_and_growths):
        self.free, self.size_at, self.begin_of, self.growth = [], {}, {}, {}
        address = 0
        for byte_count, growth in sizes_and_growths:
            if byte_count:
                self._add(address, byte_count)
                self.growth[address + byte_count] = growth
                address += byte_count + PAGE_BYTES

    def copy(self):
        pieces_copy = FreePieces(())
        pieces_copy.free = list(self.free)
        pieces_copy.size_at = dict(self.size_at)
        pieces_copy.begin_of = dict(self.begin_of)
        pieces_copy.growth = self.growth
        return pieces_copy

    def piece_for(self, byte_count):
        """(bytes, address) of the piece that the allocator takes, or None if none is large enough. The bytes by which a piece could grow
        count as its size."""
        index = bisect.bisect_left(self.free, (byte_count, 0))
        if index == len(self.free):
            return None
        while index + 1 < len(self.free) and self._size_with_growth(self.free[index + 1]) < self._size_with_growth(self.free[index]):
            index += 1
        return self.free[index]

    def take(self, byte_count):
        """Takes memory; returns its address, or None if no piece is large enough."""
        piece = self.piece_for(byte_count)
        if piece is None:
            return None
        piece_bytes, address = piece
        self._remove(piece_bytes, address)
        if piece_bytes > byte_count:
            self._add(address + byte_count, piece_bytes - byte_count)
        return address

    def give_back(self, address, byte_count):
        """Gives memory at an address back, and joins it with free neighbours."""
        if address in self.begin_of:
            previous_address = self.begin_of[address]
            byte_count += self.size_at[previous_address]
            self._remove(self.size_at[previous_address], previous_address)
            address = previous_address
        if address + byte_count in self.size_at:
            next_bytes = self.size_at[address + byte_count]
            self._remove(next_bytes, address + byte_count)
            byte_count += next_bytes
        self._add(address, byte_count)

    def _size_with_growth(self, size_and_address):
        byte_count, address = size_and_address
        return byte_count + self.growth.get(address + byte_count, 0)

    def _add(self, address, byte_count):
        bisect.insort(self.free, (byte_count, address))
        self.size_at[address], self.begin_of[address + byte_count] = byte_count, address

    def _remove(self, byte_count, address):
        del self.free[bisect.bisect_left(self.free, (byte_count, address))]
        del self.size_at[address], self.begin_of[address + byte_count]


def most_used_stream_handle(allocator_events):
    """The number of the stream with the most allocations among the allocator's events; 0 if there are none."""
    stream_handles = [event["stream"] for event in allocator_events if event["action"] == "alloc"]
    return max(set(stream_handles), key=stream_handles.count, default=0)


def allocation_requests_of(allocator_events, stream_handle):
    """[(is allocation, key, bytes, point_index)] of a step's large allocations and frees on a stream, from the allocator's events.
    `point_index` is the number of earlier marks minus one. Allocations that outlive the step are freed at its end."""
    requests, key_and_size_at_address, point_index = [], {}, -1
    for event_number, event in enumerate(allocator_events):
        byte_count = -(-event["size"] // GRAIN_BYTES) * GRAIN_BYTES
        if event["action"] == "alloc" and event["size"] == MARK_BYTES:
            point_index += 1
        elif event["action"] == "alloc" and event["stream"] == stream_handle and byte_count > MAX_SMALL_BYTES:
            key_and_size_at_address[event["addr"]] = (event_number, byte_count)
            requests.append((True, event_number, byte_count, point_index))
        elif event["action"] == "free_completed" and event["addr"] in key_and_size_at_address:
            requests.append((False, *key_and_size_at_address.pop(event["addr"]), point_index))
    return requests + [(False, *key_and_size, point_index) for key_and_size in key_and_size_at_address.values()]


def end_recording(marking_follower):
    private.set_recording_allocations(False)
    placing.remove_follower(marking_follower)


class Arena:
    """The memory of one device in which a step's tensors are placed. `budget_bytes`: those that may be reserved in total.

    Order of calls: begin_recording() before a step and finish_recording() after it, or cancel_recording() if the step fails. map_memory() and
    begin_step() before the next step, and note_whether_step_fitted() after it. remap_if_needed() and begin_step() before each later step. stop_placing() ends the placing of tensors."""

    def __init__(self, device, budget_bytes):
        self.device, self.budget = device, budget_bytes
        self.requests, self.points, self.holds = [], [], None
        self.changes = {}  # changes of the held pieces, as find_holds() last found them
        self.pages, self.has_fitted = 0, False  # mapped pages, and whether a step has fitted into them
        self.pages_needed = 0  # pages into which a step has fitted; 0 if none has yet
        self.mappings = 0  # how often memory was mapped
        self.refusals = 0  # how often in a row the device had no memory to map, since other processes held it
        self.remaps = 0  # number of successive steps before which memory was mapped again
        self.recording, self.stream = None, 0  # the stream of the step, by the allocator's name
        self.small = 0  # largest number of bytes reserved by small allocations, stored here since a measurement of the peak resets PyTorch's count
        self.lacking = 0  # bytes that the best packing of the step needs in addition to the mapped memory
        self.reserved = self.retries = 0  # the values of _reserved_bytes_and_retries() right after the memory was mapped

    def begin_recording(self):
        """Begins to record a step, unless the user records the allocator's history."""
        if private.is_recording_allocations():
            gc.collect()  # an arena that no longer exists ends its recording when it is collected
        if not private.is_recording_allocations():
            private.set_recording_allocations(True)
            self.marks = placing.MarkingFollower()
            self.recording = weakref.finalize(self, end_recording, self.marks)
            self.recording.atexit = False
            placing.set_follower(self.marks)

    def finish_recording(self):
        """Ends recording and keeps the step's requests. Returns False if the step was not recorded."""
        if not self.recording:
            return False
        try:
            events = private.recorded_allocator_events(self.device)
        finally:
            self.cancel_recording()
        self.stream = most_used_stream_handle(events)
        self.requests, self.points = allocation_requests_of(events, self.stream), self.marks.points
        # another allocation has the size of a mark
        if sum(event["action"] == "alloc" and event["size"] == MARK_BYTES for event in events) != len(self.points):
            self.requests, self.points = [(*request[:3], -1) for request in self.requests], []
        return True

    def requests_of_passes(self):
        """(requests of the recorded step's forward and backward pass, the most bytes that its other large tensors take at once); None if there were
        other passes or if they are not known."""
        indices_of_pass_ends = [index for index, point in enumerate(self.points) if point < 0]
        if [self.points[index] for index in indices_of_pass_ends] != [*placing.FORWARD_POINTS, *placing.BACKWARD_POINTS]:
            return None
        keys_of_passes, requests_inside, outside_bytes, most_outside_bytes = set(), [], 0, 0
        for request in self.requests:
            is_taken, key, size, point_index = request
            if (is_taken and (indices_of_pass_ends[0] <= point_index < indices_of_pass_ends[1]
                              or indices_of_pass_ends[2] <= point_index < indices_of_pass_ends[3])):
                keys_of_passes.add(key)
            if key in keys_of_passes:
                requests_inside.append(request)
            else:
                outside_bytes += size if is_taken else -size
                most_outside_bytes = max(most_outside_bytes, outside_bytes)
        return requests_inside, most_outside_bytes

    def cancel_recording(self):
        """Ends recording, if there is any, and keeps nothing."""
        if self.recording:
            self.recording()
            self.recording = None

    def mappable_bytes(self):
        """Bytes that may be mapped in addition to those in use, without the small allocations of a step."""
        statistics = private.allocator_statistics(self.device)
        small_pool = statistics["reserved_bytes"]["small_pool"]
        self.small = max(self.small, small_pool["peak"])
        allowed_bytes = torch.cuda.get_per_process_memory_fraction(self.device) * torch.cuda.get_device_properties(self.device).total_memory
        return int(min(self.budget, allowed_bytes)) - statistics["reserved_bytes"]["all"]["current"] - (self.small - small_pool["current"])

    def map_memory(self):
        """Maps one piece for the stream of the step: as many pages as a step has fitted into, at first all that the budget allows but SPARE_PAGES.
        Returns whether the recorded step fits."""
        self.holds = None
        placing.set_follower(None)
        is_current = torch.cuda.current_stream(self.device).cuda_stream == self.stream
        with contextlib.nullcontext() if is_current else torch.cuda.stream(private.stream_with_handle(self.stream, self.device)):
            torch.cuda.empty_cache()
            allowed_pages = self.mappable_bytes() // PAGE_BYTES
            self.pages = min(allowed_pages, self.pages_needed or allowed_pages - SPARE_PAGES)
            self.refusals = 0 if self.pages < 1 or self._map_pages() else self.refusals + 1
            if self.pages < 1 or self.refusals:
                return False
        self.mappings += 1
        self.reserved, self.retries = self._reserved_bytes_and_retries()
        return self._find_holds()

    def _map_pages(self):
        """Makes the allocator map the pages. Returns whether there was memory for them."""
        try:
            torch.empty(self.pages * PAGE_BYTES, dtype=torch.uint8, device=self.device)
        except torch.OutOfMemoryError:
            return False  # another process has taken the memory
        return True

    def _find_holds(self):
        """Finds which pieces to hold so that the recorded step fits into the mapped memory, first those held before. Returns whether it fits."""
        free_pieces = FreePieces(private.free_bytes_and_growths(self.device, self.stream))
        changes = self.changes
        if steering.count_requests_with_room(self.requests, changes, free_pieces.copy()) < len(self.requests):
            largest_bytes, largest_address = max(free_pieces.free, default=(0, 0))
            changes, self.lacking = steering.find_holds(self.requests, free_pieces, largest_address, largest_bytes)
        if changes is None:
            return False
        self.changes, self.holds = changes, placing.HoldingFollower(self.points, changes, self.stream)
        return True

    def begin_step(self):
        """Begins a step. While another model's step is recorded, this one's tensors are not placed."""
        if self.holds is not None and not placing.is_marking():
            self.holds.begin_step()
            placing.set_follower(self.holds)

    def note_whether_step_fitted(self):
        """Notes and returns whether the step since map_memory() found room for all its large tensors, within the budget."""
        reserved_bytes, retry_count = self._reserved_bytes_and_retries()
        self.has_fitted = retry_count == self.retries and reserved_bytes <= self.reserved and self.total_reserved_bytes() <= self.budget
        self.pages_needed = self.pages if self.has_fitted else 0
        return self.has_fitted

    def total_reserved_bytes(self):
        return torch.cuda.memory_reserved(self.device)

    def remap_if_needed(self):
        """Maps the memory again if the allocator's cache was emptied or its free memory was taken. If another process holds the device's
        memory meanwhile, later steps try again, at most MAX_REMAPS in a row."""
        if not self.has_fitted:
            return
        if self.holds is not None and self._reserved_bytes_and_retries() == (self.reserved, self.retries):
            self.remaps = 0
        elif self.remaps < MAX_REMAPS:
            self.remaps += 1
            self.map_memory()
        else:
            self.stop_placing()

    def stop_placing(self):
        """Ends the placing of tensors; later steps may then need more memory."""
        self.holds = None
        placing.set_follower(None)

    def has_run_out_of_remaps(self):
        """Whether a step has fitted into the memory before, but the last MAX_REMAPS have not."""
        return self.has_fitted and self.holds is None and self.remaps == MAX_REMAPS

    def _reserved_bytes_and_retries(self):
        """(bytes reserved for large allocations, how often the allocator gave memory back to find some)."""
        statistics = private.allocator_statistics(self.device)
        self.small = max(self.small, statistics["reserved_bytes"]["small_pool"]["peak"])
        return statistics["reserved_bytes"]["large_pool"]["current"], statistics["num_alloc_retries"]
