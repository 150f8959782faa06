"""Memory that is mapped so that a training step finds room in it and never asks the device for more.

PyTorch's caching allocator takes the smallest free piece that is large enough. What is free at the peak lies in many pieces, so a step
maps 5 to 17 % more than it uses. Under a hard cap the allocator first gives back pages that are free; that takes as long as the step,
comes again in the next, and fails in the end where the pieces end within pages. But steps repeat themselves. In a few runs of mapped
memory of the right lengths, with gaps between them, all tensors of the step find room. Arena records the allocations of a step, tries
lengths on a model of the allocator (c10/cuda/CUDACachingAllocator.cpp: get_free_block), and maps the runs."""

import bisect
import contextlib
import gc
import random
import weakref

import torch

from . import private

MIB = 2**20
PAGE = 12 * MIB       # that the allocator maps at a time (private.ALLOCATOR)
LARGE = MIB           # above it allocations share the pool that is laid out here
GRAIN = 512           # of allocations
TAIL = 2**40          # address space behind the last run
WORK = 3_000_000      # requests that a search serves: some 10 s
MOST_GAPS = 8         # pages that are left out before one run
MOST_KEPT = 40        # times that the runs are mapped again after somebody emptied the cache


def placed(runs, others):
    """The same of all pieces once `runs` are mapped: the allocator takes the first unmapped place that is large enough, and a page before
    each run stays unmapped. Places are those behind `others`, in order of their addresses, where the last of them may grow without end."""
    chains = [[piece] for piece in others] or [[(0, TAIL)]]
    for run in runs:
        chain = next(chain for chain in [*chains, None] if chain is None or chain[-1][1] >= run + PAGE)
        if chain is None:
            chains.append(chain := [(0, TAIL)])
        size, space = chain[-1]
        chain[-1:] = [(size, PAGE), (run, space - run - PAGE)]
    return [piece for chain in chains for piece in chain]


class Pieces:
    """Free pieces: those of `others`, (bytes, bytes that it could grow by), and some runs of memory that are mapped between and behind them."""

    def __init__(self, runs, others=()):
        self.free, self.size_at, self.begin_of, self.beyond = [], {}, {}, {}
        address = 0
        for size, beyond in placed(runs, others):
            if size:
                self._add(address, size)
                self.beyond[address + size] = beyond
                address += size + PAGE

    def take(self, size):
        """An address, None where no piece is large enough. What a piece could grow by counts as its size."""
        at = bisect.bisect_left(self.free, (size, 0))
        if at == len(self.free):
            return None
        while at + 1 < len(self.free) and self._grown(self.free[at + 1]) < self._grown(self.free[at]):
            at += 1
        found, address = self.free[at]
        self._remove(found, address)
        if found > size:
            self._add(address + size, found - size)
        return address

    def give(self, address, size):
        if address in self.begin_of:
            before = self.begin_of[address]
            size += self.size_at[before]
            self._remove(self.size_at[before], before)
            address = before
        if address + size in self.size_at:
            behind = self.size_at[address + size]
            self._remove(behind, address + size)
            size += behind
        self._add(address, size)

    def _grown(self, piece):
        size, address = piece
        return size + self.beyond.get(address + size, 0)

    def _add(self, address, size):
        bisect.insort(self.free, (size, address))
        self.size_at[address], self.begin_of[address + size] = size, address

    def _remove(self, size, address):
        del self.free[bisect.bisect_left(self.free, (size, address))]
        del self.size_at[address], self.begin_of[address + size]


def main_stream(events):
    """The stream of most allocations among the allocator's events, 0 where there are none."""
    streams = [event["stream"] for event in events if event["action"] == "alloc"]
    return max(set(streams), key=streams.count, default=0)


def requests_of(events, main):
    """[(is taken, key, bytes)] of a step's large allocations on the stream `main`, from the allocator's events. Those that the step
    leaves are freed at its end."""
    found, held = [], {}
    for number, event in enumerate(events):
        size = -(-event["size"] // GRAIN) * GRAIN
        if event["action"] == "alloc" and event["stream"] == main and size > LARGE:
            held[event["addr"]] = (number, size)
            found.append((True, number, size))
        elif event["action"] == "free_completed" and event["addr"] in held:
            found.append((False, *held.pop(event["addr"])))
    return found + [(False, *each) for each in held.values()]


def served(requests, runs, others=()):
    """Counts the requests, one after the other, that find room in `others` and in runs of the given bytes."""
    pieces, at = Pieces(runs, others), {}
    for number, (is_taken, key, size) in enumerate(requests):
        if not is_taken:
            pieces.give(at.pop(key), size)
            continue
        at[key] = pieces.take(size)
        if at[key] is None:
            return number
    return len(requests)


def runs_for(requests, pages, work, others=(), tried=()):
    """Lengths in pages, `pages` in all, of runs in which all requests find room, none of those `tried`; None where none were
    found. `work`: requests that may be served on the way. What is left of that, as well."""
    sizes = sorted({size for is_taken, _, size in requests if is_taken and size > PAGE // 2}) or [PAGE]
    search, most, best = _Lengths(pages, sizes, random.Random(len(tried))), -1, None
    runs = [pages]
    while pages >= 2:
        done = served(requests, [run * PAGE for run in runs], others)
        work -= done + 1
        if done == len(requests) and runs not in tried:
            return runs, work
        if done >= most:
            most, best = done, runs
        if work < 0:
            break
        runs = search.anew() if search.random.random() < 0.2 else search.changed(best)
    return None, work


class _Lengths:
    """Random lengths of runs, of two pages at least. `sizes`: bytes of what they are for."""

    def __init__(self, pages, sizes, source):
        self.pages, self.sizes, self.random = pages, sizes, source

    def one(self):
        if self.random.random() < 0.25:
            return self.random.randint(2, max(2, self.pages // 2))
        return max(2, -(-self.random.choice(self.sizes) * self.random.choice((1, 1, 1, 2, 2, 3, 3, 4, 6, 8)) // PAGE))

    def anew(self):
        runs = []
        for _ in range(self.random.choice((0, 1, 1, 2, 2, 3, 3, 4, 5, 6))):
            length = self.one()
            if sum(runs) + length <= self.pages - 2:
                runs.append(length)
        runs.append(self.pages - sum(runs))
        self.random.shuffle(runs)
        return runs

    def changed(self, runs):
        runs, way = list(runs), self.random.random()
        number = self.random.randrange(len(runs))
        if way < 0.35 and len(runs) > 1:
            other = self.random.randrange(len(runs))
            moved = min(self.random.choice((1, 1, 2, 3, 5, 8)), runs[number] - 2)
            runs[number] -= moved
            runs[other] += moved
        elif way < 0.55:
            length = self.one()
            if runs[number] >= length + 2:
                runs[number] -= length
                runs.insert(self.random.randrange(len(runs) + 1), length)
        elif way < 0.75 and len(runs) > 1:
            runs[number - 1] += runs.pop(number)
        else:
            self.random.shuffle(runs)
        return runs


class Arena:
    """The runs of one device. `budget`: bytes that may be reserved in all.

    record() before a step and recorded() behind it, or close() where it fails; find_runs() and lay(), until it has_room(), before the next,
    and undisturbed() behind that. keep() before each later step."""

    TRIES = 24  # of finding other runs

    def __init__(self, device, budget):
        self.device, self.budget = device, budget
        self.requests, self.runs, self.tried, self.laid = [], None, [], 0
        self.work, self.kept, self.held = WORK, 0, False  # work that is left for all searches
        self.recording, self.stream = None, 0  # the stream of the step, as the allocator names it
        self.reserved = self.retries = 0  # as _told() says right after the runs were mapped

    def record(self):
        """Leaves a history alone that the user records."""
        if private.records_allocations():
            gc.collect()  # ends what an arena began that is gone
        if not private.records_allocations():
            private.record_allocations(True)
            self.recording = weakref.finalize(self, private.record_allocations, False)
            self.recording.atexit = False

    def recorded(self):
        """Whether the step was recorded."""
        if not self.recording:
            return False
        try:
            events = private.allocations_so_far(self.device)
        finally:
            self.close()
        self.stream = main_stream(events)
        self.requests = requests_of(events, self.stream)
        return True

    def close(self):
        """Ends recording."""
        if self.recording:
            self.recording()
            self.recording = None

    def find_runs(self):
        """Whether there are runs, other ones than before, in which the recorded step finds room."""
        self.runs = None
        if len(self.tried) < self.TRIES:
            torch.cuda.empty_cache()
            others = private.free_pieces(self.device, self.stream)
            self.runs, self.work = runs_for(self.requests, self.room() // PAGE, self.work, others, self.tried)
            self.tried.append(self.runs)
        return self.runs is not None

    def room(self):
        """Bytes that may be mapped beside what is in use, but for a gap's page, and for the small allocations of a step."""
        told = private.allocator_statistics(self.device)
        small = told["reserved_bytes"]["small_pool"]
        allowed = torch.cuda.get_per_process_memory_fraction(self.device) * torch.cuda.get_device_properties(self.device).total_memory
        return int(min(self.budget, allowed)) - told["reserved_bytes"]["all"]["current"] - (small["peak"] - small["current"]) - PAGE

    def lay(self):
        """Maps the runs for the stream of the step. A run right behind another is taken again behind a page that is then unmapped."""
        self.laid += 1
        is_current = torch.cuda.current_stream(self.device).cuda_stream == self.stream
        with contextlib.nullcontext() if is_current else torch.cuda.stream(private.stream_of(self.stream, self.device)):
            self._map()
        self.reserved, self.retries = self._told()

    def _map(self):
        torch.cuda.empty_cache()
        held, ends, gaps = [], set(), []
        try:
            for run in self.runs:
                held.append(self._take_apart(run, ends, gaps))
                ends.add(held[-1].data_ptr() + held[-1].numel())
                gaps.clear()
                torch.cuda.empty_cache()
        except torch.OutOfMemoryError:
            self.runs = None  # somebody else has taken the room
        gaps.clear()
        held.clear()

    def _take_apart(self, run, ends, gaps):
        """Memory of a run that begins a page of its own and not where another ends: the allocator takes the first unmapped place that is
        large enough, with what is free before it. Pages left out are added to `gaps`."""
        made = self._take(run)
        while (made.data_ptr() in ends or self._behind_page(made.data_ptr())) and len(gaps) < MOST_GAPS:
            begin = made.data_ptr()
            del made
            gaps.append(self._take(1))
            while gaps[-1].data_ptr() != begin and len(gaps) < MOST_GAPS:
                gaps.append(self._take(1))
            made = self._take(run)
        return made

    def _behind_page(self, address):
        """Bytes from where the last page begins."""
        return (address - private.first_page(self.device, self.stream)) % PAGE

    def _take(self, pages):
        """Takes memory that ends where its last page ends. pages: their number."""
        made = torch.empty(pages * PAGE, dtype=torch.uint8, device=self.device)
        more = -self._behind_page(made.data_ptr() + made.numel()) % PAGE
        if more:
            del made
            made = torch.empty(pages * PAGE + more, dtype=torch.uint8, device=self.device)
        return made

    def has_room(self):
        """Whether the recorded step finds room in what was mapped, which others' memory may have kept from lying as was planned."""
        return self.runs is not None and served(self.requests, [], private.free_pieces(self.device, self.stream)) == len(self.requests)

    def undisturbed(self):
        """Whether the step since lay() found room for all its large tensors, within the budget."""
        reserved, retries = self._told()
        self.held = retries == self.retries and reserved <= self.reserved and self.reserved_in_all() <= self.budget
        return self.held

    def reserved_in_all(self):
        return torch.cuda.memory_reserved(self.device)

    def keep(self):
        """Maps the runs again where somebody has emptied the cache, or has taken what was free in them."""
        if self.runs is None or self._told() == (self.reserved, self.retries):
            return
        self.kept += 1
        if self.kept > MOST_KEPT:
            self.runs = None
        else:
            self.lay()

    def has_given_up(self):
        """Whether a step found room in the runs once, and they are no longer there."""
        return self.held and self.runs is None

    def _told(self):
        """Bytes reserved for large allocations, and how often the allocator gave memory back to find some."""
        told = private.allocator_statistics(self.device)
        return told["reserved_bytes"]["large_pool"]["current"], told["num_alloc_retries"]
