"""An export of Nsight Systems, made here with the tables and columns that its schema reference names, reads as a trace."""

import sqlite3

import pytest
from made import BLOCK, FIRST, MS

from umbench import load
from umbench.trace import explain, nsys, reader

PID = 7 << 24


def report(path, faults=True, usage=True):
    database = sqlite3.connect(path)
    run = database.execute
    run("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "add(float*, unsigned long)"), (2, "consume")])
    run("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER)")
    run("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', 150000000000)")
    run('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, deviceId INTEGER, globalPid INTEGER, demangledName INTEGER)')
    run('CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, "end" INTEGER, deviceId INTEGER, globalPid INTEGER, bytes INTEGER, '
        "copyKind INTEGER, migrationCause INTEGER, virtualAddress INTEGER)")
    if faults:
        run('CREATE TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS (start INTEGER, "end" INTEGER, globalPid INTEGER, deviceId INTEGER, address INTEGER, '
            "numberOfPageFaults INTEGER, faultAccessType INTEGER)")
        run("CREATE TABLE CUDA_UM_CPU_PAGE_FAULT_EVENTS (start INTEGER, globalPid INTEGER, address INTEGER, CpuInstruction INTEGER)")
    if usage:
        run("CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER, deviceId INTEGER, address INTEGER, bytes INTEGER, "
            "memKind INTEGER, memoryOperationType INTEGER)")
        run(f"INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (0, {PID}, 0, {FIRST * BLOCK}, {16 * BLOCK}, 4, 0)")
    for turn in range(3):
        begin = turn * 40 * MS
        run(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({begin}, {begin + 10 * MS}, 0, {PID}, 1)")
        for block in range(16):
            at, address = begin + (block + 1) * MS // 2, (FIRST + block) * BLOCK
            run(f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({at}, {at + 1000}, 0, {PID}, {BLOCK}, 11, 2, {address})")
            run(f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({at + 20 * MS}, {at + 20 * MS + 1000}, 0, {PID}, {BLOCK}, 12, 2, {address})")
            if faults:
                run(f"INSERT INTO CUDA_UM_GPU_PAGE_FAULT_EVENTS VALUES ({at}, {at + MS // 2}, {PID}, 0, {address}, 3, 2)")
                run(f"INSERT INTO CUDA_UM_CPU_PAGE_FAULT_EVENTS VALUES ({at + 20 * MS}, {PID}, {address}, 2)")
    run(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({200 * MS}, {201 * MS}, 0, {PID}, 1)")
    run(f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (0, 1000, 0, {PID}, 999, 1, NULL, NULL)")
    database.commit()
    database.close()
    return path


def test_sums_kernels_and_places(tmp_path):
    process, = nsys.read(report(tmp_path / "report.sqlite"))
    assert process.total(*reader.BY_FAULT_IN) == process.total(*reader.BY_FAULT_OUT) == 3 * 16 * BLOCK
    assert process.total(*reader.GPU_FAULTS) == 3 * 16 * 3
    kernels = [piece for piece in process.pieces if piece.kind == "kernel"]
    assert [(kernel.name, kernel.launch) for kernel in kernels] == [("add(float*, unsigned long)", launch) for launch in range(3)]
    assert kernels[0].waiting == 8 * MS
    assert [quiet.kernels for quiet in process.quiet] == [[("add(float*, unsigned long)", 1, MS)]]
    assert {piece.place for piece in process.pieces if piece.kind == "host"} == {"consume"}


def test_it_is_explained(tmp_path, umbench):
    report(tmp_path / "report.sqlite")
    done = umbench("explain", "report.sqlite")
    assert done.returncode == 0 and "ping-pong between CPU and GPU" in done.stdout and "before the CPU uses it in consume" in done.stdout
    assert len(done.stdout.splitlines()) <= explain.MOST_LINES


def test_what_was_not_recorded_is_said(tmp_path):
    process, = nsys.read(report(tmp_path / "report.sqlite", faults=False, usage=False))
    said = "\n".join(process.lacking)
    assert "--cuda-um-gpu-page-faults=true" in said and "--cuda-um-cpu-page-faults=true" in said and "--cuda-memory-usage=true" in said
    assert process.total(*reader.BY_FAULT_IN) == 3 * 16 * BLOCK


def test_another_database_is_refused(tmp_path):
    path = tmp_path / "other.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE people (name TEXT)")
    database.commit()
    database.close()
    with pytest.raises(load.BadInput, match="without CUDA activities"):
        nsys.read(path)
    path.write_bytes(nsys.MAGIC + b"garbage")
    with pytest.raises(load.BadInput, match="no export of Nsight Systems"):
        nsys.read(path)
