"""Reads SQLite exports of Nsight Systems as traces (`nsys export --type sqlite` of a run with Unified Memory events).

Tables and columns: the SQLite schema reference of Nsight Systems' user guide. Migrations of Unified Memory are in the table of copies, with
copyKind 11 (to a GPU), 12 (to the host) or 13 (between GPUs), and a migrationCause as in CUPTI.
"""

import sqlite3
from bisect import bisect_right
from collections import Counter, defaultdict
from pathlib import Path

from umbench import load
from umbench.trace.reader import BLOCK, EVERY_GRANULE, GRANULE, Allocation, TracePiece, TracedProcess, Range, Stretch

MAGIC = b"SQLite format 3\x00"
TO_GPU, TO_HOST, BETWEEN = 11, 12, 13
CAUSES = ("unknown", "user", "demand", "tree", "eviction", "counter")
WRITE_ACCESSES = (2, 3)  # access types that are writes or atomics
MEMORY = {0: "pageable", 1: "pinned", 2: "device", 3: "other", 4: "managed", 5: "device", 6: "managed"}
ALLOCATED = 0    # memoryOperationType
MAX_GAP_NS = 10_000_000
NS_PER_SECOND = 1_000_000_000


def is_sqlite(path):
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False  # the reader of traces will report the reason


def read_export(path):
    """[TracedProcess] of an export. Throws BadInput."""
    try:
        with sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True) as database:
            database.row_factory = sqlite3.Row
            return _read(path, _NsysExport(database))
    except sqlite3.Error as error:
        raise load.BadInput(f"{path}: no export of Nsight Systems ({error}); nsys export --type sqlite writes one") from error
    except KeyError as error:
        raise load.BadInput(f"{path}: an export of Nsight Systems without the column {error}") from error


class _NsysExport:
    def __init__(self, database):
        self.database = database
        self.tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        self.names = dict(database.execute("SELECT id, value FROM StringIds")) if "StringIds" in self.tables else {}

    def rows(self, table, sql_clause=""):
        """The rows of a table as dictionaries, since exports of different versions lack different columns."""
        if table not in self.tables:
            return []
        return [dict(row) for row in self.database.execute(f"SELECT * FROM {table} {sql_clause}")]


def _process_number(row):
    """The process's number in a row's globalPid."""
    return (row.get("globalPid") or 0) >> 24 & 0xFFFFFF


def _read(path, export):
    copies = export.rows("CUPTI_ACTIVITY_KIND_MEMCPY")
    kernels = export.rows("CUPTI_ACTIVITY_KIND_KERNEL")
    if not copies and not kernels:
        raise load.BadInput(f"{path}: an export of Nsight Systems without CUDA activities; record with nsys profile --trace=cuda")
    gpu_faults, cpu_faults = export.rows("CUDA_UM_GPU_PAGE_FAULT_EVENTS"), export.rows("CUDA_UM_CPU_PAGE_FAULT_EVENTS")
    processes = {}
    for number in sorted({_process_number(row) for row in (*kernels, *copies, *gpu_faults, *cpu_faults)}):
        own = [[row for row in rows if _process_number(row) == number] for rows in (kernels, copies, gpu_faults, cpu_faults)]
        processes[number] = _read_process(path, export, number, *own)
    return list(processes.values())


def _read_process(path, export, process_number, kernels, copies, gpu_faults, cpu_faults):
    process = TracedProcess({"process": process_number, "program": [Path(path).name], "tool": "nsys"})
    start_ns = min(row["start"] for row in (*kernels, *copies, *gpu_faults, *cpu_faults))
    for gpu in export.rows("TARGET_INFO_GPU"):
        process.gpus[gpu.get("id", 0)] = {"gpu": gpu.get("id", 0), "name": gpu.get("name", ""), "bytes": gpu.get("totalMemory", 0)}
    if "CUDA_UM_GPU_PAGE_FAULT_EVENTS" not in export.tables:
        process.lacking.append("faults of GPUs: record with nsys profile --cuda-um-gpu-page-faults=true")
    if "CUDA_UM_CPU_PAGE_FAULT_EVENTS" not in export.tables:
        process.lacking.append("faults of the CPU: record with nsys profile --cuda-um-cpu-page-faults=true")
    process.lacking.append("prefetch and advice calls: only umbench trace records their arguments")
    _add_allocations(process, export, process_number, start_ns)
    for row in export.rows("NVTX_EVENTS"):
        if row.get("end") and row["end"] > row["start"]:
            process.ranges.append(Range(row["start"] - start_ns, row["end"] - start_ns, row.get("text") or export.names.get(row.get("textId"), "")))
    process.pieces, process.stretches_without_moves = _pieces_and_stretches_without_moves(export, start_ns, kernels, copies, gpu_faults, cpu_faults)
    process.end = max([piece.end for piece in process.pieces] + [stretch.end for stretch in process.stretches_without_moves] + [0])
    return process


def _add_allocations(process, export, process_number, start_ns):
    alive = {}
    rows = [row for row in export.rows("CUDA_GPU_MEMORY_USAGE_EVENTS", "ORDER BY start") if _process_number(row) == process_number]
    if not rows:
        process.lacking.append("allocations: record with nsys profile --cuda-memory-usage=true")
    for row in rows:
        if row["memoryOperationType"] == ALLOCATED:
            alive[row["address"]] = len(process.allocations)
            process.allocations.append(Allocation(len(process.allocations), row["start"] - start_ns, None, row["address"], row["bytes"],
                                                  row.get("deviceId"), MEMORY.get(row["memKind"], "other"), ()))
        elif row["address"] in alive:
            at = alive.pop(row["address"])
            process.allocations[at] = process.allocations[at]._replace(until=row["start"] - start_ns)


class _PieceSums:
    """Adds up the events of one launch, or of one stretch outside launches, by quantity and block."""

    def __init__(self):
        self.sums, self.masks = defaultdict(Counter), Counter()
        self.begin = self.end = None
        self.waiting = self.batches = self.records = self.waited_until = 0
        self.place = None

    def add(self, quantity, begin, end, address, byte_count, fault_count=None):
        self.begin = begin if self.begin is None else min(begin, self.begin)
        self.end = max(end, self.end or 0)
        self.records += 1
        last = address + max(byte_count, 1)
        while address < last:
            block = address // BLOCK
            until = min(last, (block + 1) * BLOCK)
            self.sums[quantity][block] += fault_count if fault_count is not None else until - address
            first, final = (address - block * BLOCK) // GRANULE, (until - 1 - block * BLOCK) // GRANULE
            self.masks[block] |= ((1 << (final - first + 1)) - 1) << first
            address = until

    def add_fault_batch(self, begin, end):
        if end > self.waited_until:
            self.waiting += end - max(begin, self.waited_until)
            self.waited_until = end
            self.batches += 1

    def block_runs(self):
        return {name: [(block, 1, amount) for block, amount in sorted(blocks.items())] for name, blocks in self.sums.items()}

    def granule_masks(self):
        return [(block, 1, mask) for block, mask in sorted(self.masks.items()) if mask not in (0, EVERY_GRANULE)]

    def as_piece(self, kind, start_ns, begin=None, end=None, name=None, launch=None, gpu=None):
        begin, end = (self.begin, self.end) if begin is None else (begin, end)
        return TracePiece(kind, begin - start_ns, end - start_ns, name, launch, gpu, self.waiting, self.batches, self.records, self.block_runs(), self.granule_masks(), self.place)


def _sorted_events(export, copies, gpu_faults, cpu_faults):
    """[(begin, end, quantity, address, bytes, faults, gpu, place)] sorted by begin; gpu is None for events of the host and prefetches."""
    events = []
    for row in copies:
        kind = row.get("copyKind")
        if kind not in (TO_GPU, TO_HOST, BETWEEN):
            continue
        cause = row.get("migrationCause") or 0
        cause = CAUSES[cause] if cause < len(CAUSES) else CAUSES[0]
        name = "in_peer" if kind == BETWEEN else f"{'in' if kind == TO_GPU else 'out'}_{cause}"
        is_of_no_kernel = name in ("in_user", "out_user", "out_demand", "out_tree", "out_unknown", "out_counter")
        events.append((row["start"], row["end"], name, row["virtualAddress"], row["bytes"], None, None if is_of_no_kernel else row.get("deviceId"), None))
    for row in gpu_faults:
        name = "gpu_write_faults" if row.get("faultAccessType") in WRITE_ACCESSES else "gpu_read_faults"
        events.append((row["start"], row.get("end") or row["start"], name, row["address"], 0, row.get("numberOfPageFaults") or 1, row["deviceId"], None))
    for row in cpu_faults:
        place = export.names.get(row.get("CpuInstruction"))
        events.append((row["start"], row["start"], "cpu_read_faults", row["address"], 0, 1, None, place))
    return sorted(events, key=lambda event: event[0])


def _pieces_and_stretches_without_moves(export, start_ns, kernels, copies, gpu_faults, cpu_faults):
    """([TracePiece], [Stretch]) of a process. `start_ns` is the time of its first event, from which times count."""
    launches = defaultdict(list)  # GPU: [[begin, end, name, number of the launch, its _PieceSums]]
    numbers = Counter()
    for row in sorted(kernels, key=lambda row: row["start"]):
        name = export.names.get(row.get("demangledName"), "kernel")
        launches[row["deviceId"]].append([row["start"], row["end"], name, numbers[row["deviceId"], name], _PieceSums()])
        numbers[row["deviceId"], name] += 1
    begins = {gpu: [launch[0] for launch in of_gpu] for gpu, of_gpu in launches.items()}
    outside_kernels = []
    for event in _sorted_events(export, copies, gpu_faults, cpu_faults):
        begin, end, name, address, amount, count, gpu, _ = event
        launch = _running_launch(launches.get(gpu), begins.get(gpu), begin)
        if launch is None:
            outside_kernels.append(event)
            continue
        launch[4].add(name, begin, end, address, amount, count)
        if name.startswith("gpu_"):
            launch[4].add_fault_batch(begin, end)
    pieces = [launch[4].as_piece("kernel", start_ns, *launch[:4], gpu) for gpu, of_gpu in launches.items() for launch in of_gpu if launch[4].sums]
    begins_of_moving_kernels = sorted(launch[0] for of_gpu in launches.values() for launch in of_gpu if launch[4].sums)
    pieces += _pieces_outside_kernels(outside_kernels, begins_of_moving_kernels, start_ns)
    return sorted(pieces, key=lambda piece: piece.begin), _stretches_without_moves(launches, start_ns)


def _running_launch(launches, begins, time):
    """The launch that runs at a time, or None. `begins` are those of `launches`."""
    for number in range(bisect_right(begins, time) - 1, -1, -1) if launches else ():
        if launches[number][1] >= time:
            return launches[number]
        if launches[number][1] < time - NS_PER_SECOND:
            break
    return None


def _pieces_outside_kernels(events, begins_of_moving_kernels, start_ns):
    """[TracePiece] of events outside kernels: of the host, of prefetches and others. A piece ends where a kernel begins that moved something."""
    unfinished, pieces = {}, []
    for begin, end, name, address, amount, count, gpu, place in events:
        kind = "prefetched" if name.endswith("_user") else "other" if gpu is not None else "host"
        current = unfinished.get(kind)
        if current:
            following = bisect_right(begins_of_moving_kernels, current.begin)
            if (following < len(begins_of_moving_kernels) and begins_of_moving_kernels[following] <= begin) or begin > current.end + MAX_GAP_NS:
                pieces.append(current.as_piece(kind, start_ns))
                current = None
        if not current:
            current = unfinished[kind] = _PieceSums()
        current.add(name, begin, end, address, amount, count)
        current.place = current.place or place
    return pieces + [current.as_piece(kind, start_ns) for kind, current in unfinished.items()]


def _stretches_without_moves(launches, start_ns):
    """[Stretch] of launches that moved nothing, one for each GPU and second."""
    stretches = {}
    for gpu, of_gpu in launches.items():
        for begin, end, name, _, piece_sums in of_gpu:
            if not piece_sums.sums:
                stretch = stretches.setdefault((gpu, (begin - start_ns) // NS_PER_SECOND), [begin, end, defaultdict(lambda: [0, 0])])
                stretch[1] = max(stretch[1], end)
                stretch[2][name][0] += 1
                stretch[2][name][1] += end - begin
    return [Stretch(begin - start_ns, end - start_ns, gpu, [(name, *of) for name, of in kernels.items()], {})
            for (gpu, _), (begin, end, kernels) in stretches.items()]
