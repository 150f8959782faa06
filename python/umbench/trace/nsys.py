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
TO_GPU, TO_HOST, BETWEEN_GPUS = 11, 12, 13
CAUSES = ("unknown", "user", "demand", "tree", "eviction", "counter")
WRITE_ACCESSES = (2, 3)  # access types that are writes or atomics
MEMORY_KINDS = {0: "pageable", 1: "pinned", 2: "device", 3: "other", 4: "managed", 5: "device", 6: "managed"}
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
            return _processes_of_export(path, _NsysExport(database))
    except sqlite3.Error as error:
        raise load.BadInput(f"{path}: no export of Nsight Systems ({error}); nsys export --type sqlite writes one") from error
    except KeyError as error:
        raise load.BadInput(f"{path}: an export of Nsight Systems without the column {error}") from error


class _NsysExport:
    def __init__(self, database):
        self.database = database
        self.table_names = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        self.strings = dict(database.execute("SELECT id, value FROM StringIds")) if "StringIds" in self.table_names else {}

    def rows(self, table, sql_clause=""):
        """The rows of a table as dictionaries, since exports of different versions lack different columns."""
        if table not in self.table_names:
            return []
        return [dict(row) for row in self.database.execute(f"SELECT * FROM {table} {sql_clause}")]


def _process_number(row):
    """The process's number in a row's globalPid."""
    return (row.get("globalPid") or 0) >> 24 & 0xFFFFFF


def _processes_of_export(path, export):
    copies = export.rows("CUPTI_ACTIVITY_KIND_MEMCPY")
    kernels = export.rows("CUPTI_ACTIVITY_KIND_KERNEL")
    if not copies and not kernels:
        raise load.BadInput(f"{path}: an export of Nsight Systems without CUDA activities; record with nsys profile --trace=cuda")
    gpu_faults, cpu_faults = export.rows("CUDA_UM_GPU_PAGE_FAULT_EVENTS"), export.rows("CUDA_UM_CPU_PAGE_FAULT_EVENTS")
    processes = {}
    for process_number in sorted({_process_number(row) for row in (*kernels, *copies, *gpu_faults, *cpu_faults)}):
        rows_of_process = [[row for row in rows if _process_number(row) == process_number] for rows in (kernels, copies, gpu_faults, cpu_faults)]
        processes[process_number] = _read_process(path, export, process_number, *rows_of_process)
    return list(processes.values())


def _read_process(path, export, process_number, kernels, copies, gpu_faults, cpu_faults):
    process = TracedProcess({"process": process_number, "program": [Path(path).name], "tool": "nsys"})
    start_ns = min(row["start"] for row in (*kernels, *copies, *gpu_faults, *cpu_faults))
    for gpu in export.rows("TARGET_INFO_GPU"):
        process.gpus[gpu.get("id", 0)] = {"gpu": gpu.get("id", 0), "name": gpu.get("name", ""), "bytes": gpu.get("totalMemory", 0)}
    if "CUDA_UM_GPU_PAGE_FAULT_EVENTS" not in export.table_names:
        process.lacking.append("faults of GPUs: record with nsys profile --cuda-um-gpu-page-faults=true")
    if "CUDA_UM_CPU_PAGE_FAULT_EVENTS" not in export.table_names:
        process.lacking.append("faults of the CPU: record with nsys profile --cuda-um-cpu-page-faults=true")
    process.lacking.append("prefetch and advice calls: only umbench trace records their arguments")
    _add_allocations(process, export, process_number, start_ns)
    for row in export.rows("NVTX_EVENTS"):
        if row.get("end") and row["end"] > row["start"]:
            process.named_ranges.append(Range(row["start"] - start_ns, row["end"] - start_ns,
                                              row.get("text") or export.strings.get(row.get("textId"), "")))
    process.pieces, process.stretches_without_moves = _pieces_and_stretches_without_moves(export, start_ns, kernels, copies, gpu_faults, cpu_faults)
    process.end = max([piece.end for piece in process.pieces] + [stretch.end for stretch in process.stretches_without_moves] + [0])
    return process


def _add_allocations(process, export, process_number, start_ns):
    index_by_address = {}
    rows = [row for row in export.rows("CUDA_GPU_MEMORY_USAGE_EVENTS", "ORDER BY start") if _process_number(row) == process_number]
    if not rows:
        process.lacking.append("allocations: record with nsys profile --cuda-memory-usage=true")
    for row in rows:
        if row["memoryOperationType"] == ALLOCATED:
            index_by_address[row["address"]] = len(process.allocations)
            process.allocations.append(Allocation(len(process.allocations), row["start"] - start_ns, None, row["address"], row["bytes"],
                                                  row.get("deviceId"), MEMORY_KINDS.get(row["memKind"], "other"), ()))
        elif row["address"] in index_by_address:
            index = index_by_address.pop(row["address"])
            process.allocations[index] = process.allocations[index]._replace(until=row["start"] - start_ns)


class _PieceSums:
    """Adds up the events of one launch, or of one stretch outside launches, by quantity and block."""

    def __init__(self):
        self.sums, self.mask_by_block = defaultdict(Counter), Counter()
        self.begin_ns = self.end_ns = None
        self.waiting_ns = self.batches = self.records = self.waited_until_ns = 0
        self.place = None

    def add(self, quantity, begin_ns, end_ns, address, byte_count, fault_count=None):
        self.begin_ns = begin_ns if self.begin_ns is None else min(begin_ns, self.begin_ns)
        self.end_ns = max(end_ns, self.end_ns or 0)
        self.records += 1
        end_address = address + max(byte_count, 1)
        while address < end_address:
            block_number = address // BLOCK
            part_end = min(end_address, (block_number + 1) * BLOCK)
            self.sums[quantity][block_number] += fault_count if fault_count is not None else part_end - address
            first_granule, last_granule = (address - block_number * BLOCK) // GRANULE, (part_end - 1 - block_number * BLOCK) // GRANULE
            self.mask_by_block[block_number] |= ((1 << (last_granule - first_granule + 1)) - 1) << first_granule
            address = part_end

    def add_fault_batch(self, begin_ns, end_ns):
        if end_ns > self.waited_until_ns:
            self.waiting_ns += end_ns - max(begin_ns, self.waited_until_ns)
            self.waited_until_ns = end_ns
            self.batches += 1

    def block_runs(self):
        return {quantity: [(block_number, 1, amount) for block_number, amount in sorted(amount_by_block.items())]
                for quantity, amount_by_block in self.sums.items()}

    def granule_masks(self):
        return [(block_number, 1, mask) for block_number, mask in sorted(self.mask_by_block.items()) if mask not in (0, EVERY_GRANULE)]

    def as_piece(self, kind, start_ns, begin_ns=None, end_ns=None, name=None, launch=None, gpu=None):
        begin_ns, end_ns = (self.begin_ns, self.end_ns) if begin_ns is None else (begin_ns, end_ns)
        return TracePiece(kind, begin_ns - start_ns, end_ns - start_ns, name, launch, gpu, self.waiting_ns, self.batches, self.records,
                          self.block_runs(), self.granule_masks(), self.place)


def _sorted_events(export, copies, gpu_faults, cpu_faults):
    """[(begin_ns, end_ns, quantity, address, bytes, faults, gpu, place)] sorted by begin_ns; gpu is None for events of the host and prefetches."""
    events = []
    for row in copies:
        copy_kind = row.get("copyKind")
        if copy_kind not in (TO_GPU, TO_HOST, BETWEEN_GPUS):
            continue
        cause_index = row.get("migrationCause") or 0
        cause = CAUSES[cause_index] if cause_index < len(CAUSES) else CAUSES[0]
        quantity = "in_peer" if copy_kind == BETWEEN_GPUS else f"{'in' if copy_kind == TO_GPU else 'out'}_{cause}"
        is_of_no_kernel = quantity in ("in_user", "out_user", "out_demand", "out_tree", "out_unknown", "out_counter")
        events.append((row["start"], row["end"], quantity, row["virtualAddress"], row["bytes"],
                       None, None if is_of_no_kernel else row.get("deviceId"), None))
    for row in gpu_faults:
        quantity = "gpu_write_faults" if row.get("faultAccessType") in WRITE_ACCESSES else "gpu_read_faults"
        events.append((row["start"], row.get("end") or row["start"], quantity, row["address"], 0,
                       row.get("numberOfPageFaults") or 1, row["deviceId"], None))
    for row in cpu_faults:
        place = export.strings.get(row.get("CpuInstruction"))
        events.append((row["start"], row["start"], "cpu_read_faults", row["address"], 0, 1, None, place))
    return sorted(events, key=lambda event: event[0])


def _pieces_and_stretches_without_moves(export, start_ns, kernels, copies, gpu_faults, cpu_faults):
    """([TracePiece], [Stretch]) of a process. `start_ns` is the time of its first event, from which times count."""
    launches_by_gpu = defaultdict(list)  # GPU: [[begin_ns, end_ns, name, number of the launch, its _PieceSums]]
    launch_counts = Counter()
    for row in sorted(kernels, key=lambda row: row["start"]):
        kernel_name = export.strings.get(row.get("demangledName"), "kernel")
        launches_by_gpu[row["deviceId"]].append([row["start"], row["end"], kernel_name, launch_counts[row["deviceId"], kernel_name], _PieceSums()])
        launch_counts[row["deviceId"], kernel_name] += 1
    begins_by_gpu = {gpu: [launch[0] for launch in launches_of_gpu] for gpu, launches_of_gpu in launches_by_gpu.items()}
    outside_kernels = []
    for event in _sorted_events(export, copies, gpu_faults, cpu_faults):
        begin_ns, end_ns, quantity, address, byte_count, fault_count, gpu, _ = event
        launch = _running_launch(launches_by_gpu.get(gpu), begins_by_gpu.get(gpu), begin_ns)
        if launch is None:
            outside_kernels.append(event)
            continue
        launch[4].add(quantity, begin_ns, end_ns, address, byte_count, fault_count)
        if quantity.startswith("gpu_"):
            launch[4].add_fault_batch(begin_ns, end_ns)
    pieces = [launch[4].as_piece("kernel", start_ns, *launch[:4], gpu) for gpu, launches_of_gpu in launches_by_gpu.items()
              for launch in launches_of_gpu if launch[4].sums]
    begins_of_moving_kernels = sorted(launch[0] for launches_of_gpu in launches_by_gpu.values() for launch in launches_of_gpu if launch[4].sums)
    pieces += _pieces_outside_kernels(outside_kernels, begins_of_moving_kernels, start_ns)
    return sorted(pieces, key=lambda piece: piece.begin), _stretches_without_moves(launches_by_gpu, start_ns)


def _running_launch(launches, begins, time_ns):
    """The launch that runs at a time, or None. `begins` are those of `launches`."""
    for index in range(bisect_right(begins, time_ns) - 1, -1, -1) if launches else ():
        if launches[index][1] >= time_ns:
            return launches[index]
        if launches[index][1] < time_ns - NS_PER_SECOND:
            break
    return None


def _pieces_outside_kernels(events, begins_of_moving_kernels, start_ns):
    """[TracePiece] of events outside kernels: of the host, of prefetches and others. A piece ends where a kernel begins that moved something."""
    sums_by_kind, pieces = {}, []
    for begin_ns, end_ns, quantity, address, byte_count, fault_count, gpu, place in events:
        kind = "prefetched" if quantity.endswith("_user") else "other" if gpu is not None else "host"
        current_sums = sums_by_kind.get(kind)
        if current_sums:
            next_index = bisect_right(begins_of_moving_kernels, current_sums.begin_ns)
            if ((next_index < len(begins_of_moving_kernels) and begins_of_moving_kernels[next_index] <= begin_ns)
                    or begin_ns > current_sums.end_ns + MAX_GAP_NS):
                pieces.append(current_sums.as_piece(kind, start_ns))
                current_sums = None
        if not current_sums:
            current_sums = sums_by_kind[kind] = _PieceSums()
        current_sums.add(quantity, begin_ns, end_ns, address, byte_count, fault_count)
        current_sums.place = current_sums.place or place
    return pieces + [current_sums.as_piece(kind, start_ns) for kind, current_sums in sums_by_kind.items()]


def _stretches_without_moves(launches_by_gpu, start_ns):
    """[Stretch] of launches that moved nothing, one for each GPU and second."""
    stretches = {}
    for gpu, launches_of_gpu in launches_by_gpu.items():
        for begin_ns, end_ns, name, _, piece_sums in launches_of_gpu:
            if not piece_sums.sums:
                stretch = stretches.setdefault((gpu, (begin_ns - start_ns) // NS_PER_SECOND), [begin_ns, end_ns, defaultdict(lambda: [0, 0])])
                stretch[1] = max(stretch[1], end_ns)
                stretch[2][name][0] += 1
                stretch[2][name][1] += end_ns - begin_ns
    return [Stretch(begin_ns - start_ns, end_ns - start_ns, gpu, [(name, *count_and_ns) for name, count_and_ns in kernels.items()], {})
            for (gpu, _), (begin_ns, end_ns, kernels) in stretches.items()]
