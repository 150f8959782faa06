"""Exports of Nsight Systems, made here with the tables and columns of its schema reference, read as traces."""

import sqlite3

import pytest
from trace_builder import BLOCK, FIRST, MS

from umbench import load
from umbench.trace import explain, nsys, reader

PID = 7 << 24
# Tables and columns of the SQLite schema reference: of 2021.5, which fills every column, and of 2025, which leaves some NULL. "?": may be NULL.
TABLES = {
    "StringIds": "id value",
    "TARGET_INFO_GPU": "id name totalMemory?",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start end deviceId contextId streamId correlationId? globalPid? demangledName shortName mangledName? launchType? "
                                  "cacheConfig? registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory "
                                  "localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted?",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start end deviceId contextId streamId correlationId? globalPid? bytes copyKind deprecatedSrcId? srcKind? dstKind? "
                                  "srcDeviceId? srcContextId? dstDeviceId? dstContextId? migrationCause? virtualAddress?",
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": "start end globalPid deviceId address numberOfPageFaults faultAccessType",
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": "start globalPid address originalFaultPc? CpuInstruction module unresolvedFaultPc?",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start globalPid deviceId contextId address pc bytes memKind memoryOperationType name? correlationId? streamId?",
    "NVTX_EVENTS": "start end? eventType rangeId? category? color? text? globalTid? endGlobalTid? textId? domainId?",
}
LATER = {
    "CUPTI_ACTIVITY_KIND_KERNEL": " greenContextId? graphNodeId? sharedMemoryLimitConfig?",
    "CUPTI_ACTIVITY_KIND_MEMCPY": " greenContextId? graphNodeId? copyCount?",
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": " sourceFile? sourceLine?",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": " localMemoryPoolAddress? localMemoryPoolSize?",
}
VERSIONS = ("2021.5", "2025.5")
FAULTS = ("CUDA_UM_GPU_PAGE_FAULT_EVENTS", "CUDA_UM_CPU_PAGE_FAULT_EVENTS")


class NsysExport:
    def __init__(self, path, version, left_out_tables):
        self.database, self.fills, self.columns = sqlite3.connect(path), version == VERSIONS[0], {}
        for table, columns in TABLES.items():
            if table not in left_out_tables:
                self.columns[table] = columns.split() + ([] if self.fills else LATER.get(table, "").split())
                named = ", ".join(f'"{c.rstrip("?")}"' + ("" if c.endswith("?") and not self.fills else " NOT NULL") for c in self.columns[table])
                self.database.execute(f"CREATE TABLE {table} ({named})")

    def add(self, table, **row):
        if table in self.columns:
            filled = [row.get(c.rstrip("?"), None if c.endswith("?") and not self.fills else 0) for c in self.columns[table]]
            self.database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(filled))})", filled)


def write_export(path, version="2025.5", left_out_tables=()):
    export = NsysExport(path, version, left_out_tables)
    for number, text in ((1, "add(float*, unsigned long)"), (2, "consume"), (3, "turn")):
        export.add("StringIds", id=number, value=text)
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA H200", totalMemory=150000000000)
    export.add("CUDA_GPU_MEMORY_USAGE_EVENTS", start=0, globalPid=PID, address=FIRST * BLOCK, bytes=16 * BLOCK, memKind=4, memoryOperationType=0)
    for turn in range(3):
        begin = turn * 40 * MS
        export.add("CUPTI_ACTIVITY_KIND_KERNEL", start=begin, end=begin + 10 * MS, globalPid=PID, demangledName=1, shortName=1)
        export.add("NVTX_EVENTS", start=begin, end=begin + 30 * MS, eventType=59, textId=3)
        for block in range(16):
            at, address = begin + (block + 1) * MS // 2, (FIRST + block) * BLOCK
            moved = {"globalPid": PID, "bytes": BLOCK, "migrationCause": 2, "virtualAddress": address}
            export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=at, end=at + 1000, copyKind=11, **moved)
            export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=at + 20 * MS, end=at + 20 * MS + 1000, copyKind=12, **moved)
            export.add(FAULTS[0], start=at, end=at + MS // 2, globalPid=PID, address=address, numberOfPageFaults=3, faultAccessType=2)
            export.add(FAULTS[1], start=at + 20 * MS, globalPid=PID, address=address, CpuInstruction=2)
    export.add("CUPTI_ACTIVITY_KIND_KERNEL", start=200 * MS, end=201 * MS, globalPid=PID, demangledName=1, shortName=1)
    export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=0, end=1000, globalPid=PID, bytes=999, copyKind=1)
    export.database.commit()
    export.database.close()
    return path


@pytest.mark.parametrize("version", VERSIONS)
def test_sums_kernels_and_places(version, tmp_path):
    process, = nsys.read_export(write_export(tmp_path / "report.sqlite", version))
    assert process.estimated_total(*reader.BY_FAULT_IN) == process.estimated_total(*reader.BY_FAULT_OUT) == 3 * 16 * BLOCK
    assert process.estimated_total(*reader.GPU_FAULTS) == 3 * 16 * 3
    kernels = [piece for piece in process.pieces if piece.kind == "kernel"]
    assert [(kernel.name, kernel.launch) for kernel in kernels] == [("add(float*, unsigned long)", launch) for launch in range(3)]
    assert kernels[0].waiting_ns == 8 * MS
    assert [stretch.kernels for stretch in process.stretches_without_moves] == [[("add(float*, unsigned long)", 1, MS)]]
    assert {piece.place for piece in process.pieces if piece.kind == "host"} == {"consume"}
    assert {part.name for part in process.named_ranges} == {"turn"}
    assert [(allocation.address, allocation.bytes, allocation.memory) for allocation in process.allocations] == [(FIRST * BLOCK, 16 * BLOCK, "managed")]


def test_it_is_explained(tmp_path, umbench):
    write_export(tmp_path / "report.sqlite")
    done = umbench("explain", "report.sqlite")
    assert done.returncode == 0 and "ping-pong between CPU and GPU" in done.stdout and "before the CPU uses it in consume" in done.stdout
    assert len(done.stdout.splitlines()) <= explain.MAX_LINES


def test_other_commands_take_it_as_a_trace(tmp_path, umbench):
    write_export(tmp_path / "report.sqlite")
    done = umbench("run", "--trace", "report.sqlite", "--strategy", "managed_prefetch", "--ratio", "1.5", "--backend", "sim:h200")
    assert done.returncode == 0 and "outcome    ok" in done.stdout, done.stderr
    assert umbench("compare", "report.sqlite", "report.sqlite").returncode == 0
    assert "GPU 0: migrations to it" in umbench("export", "report.sqlite", "--format", "perfetto").stdout


def test_what_was_not_recorded_is_said(tmp_path):
    process, = nsys.read_export(write_export(tmp_path / "report.sqlite", left_out_tables=(*FAULTS, "CUDA_GPU_MEMORY_USAGE_EVENTS")))
    said = "\n".join(process.lacking)
    assert "--cuda-um-gpu-page-faults=true" in said and "--cuda-um-cpu-page-faults=true" in said and "--cuda-memory-usage=true" in said
    assert process.estimated_total(*reader.BY_FAULT_IN) == 3 * 16 * BLOCK


def test_another_database_is_refused(tmp_path):
    path = tmp_path / "other.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE people (name TEXT)")
    database.commit()
    database.close()
    with pytest.raises(load.BadInput, match="without CUDA activities"):
        nsys.read_export(path)
    path.write_bytes(nsys.MAGIC + b"garbage")
    with pytest.raises(load.BadInput, match="no export of Nsight Systems"):
        nsys.read_export(path)
