"""Each rule finds its pattern in a trace made for it, and the text stays short and says what to do."""

import json

import pytest
from trace_builder import FIRST, MS, TraceBuilder, byte_run, fault_run

from umbench import load
from umbench.trace import costs, explain, findings, reader

HALF = [[FIRST, 64, 0x55555555]]  # every second 64 KiB
LITTLE = [[FIRST, 64, 1]]         # 64 KiB of each block


def prefetch_missing():
    return TraceBuilder().allocate().kernel("read", in_demand=byte_run(share=0.25), in_tree=byte_run(share=0.75), gpu_read_faults=fault_run(900))


def oversubscription():
    builder = TraceBuilder().allocate()
    for _ in range(3):
        builder.kernel("sweep", ms=30, in_demand=byte_run(), out_eviction=byte_run(block_count=60), gpu_read_faults=fault_run(900))
    return builder


def thrashing():
    return TraceBuilder().allocate().kernel("read", in_demand=byte_run(), out_demand=byte_run(), thrashing=fault_run(40), gpu_read_faults=fault_run(900))


def read_mostly_written():
    return (TraceBuilder().allocate().hint("read_mostly").prefetched(in_user=byte_run())
            .kernel("add", gpu_write_faults=fault_run(30000)).kernel("add", gpu_write_faults=fault_run(30000)))


def pushed_out():
    builder = TraceBuilder().allocate()
    for _ in range(3):
        builder.hint(device=None).prefetched(out_user=byte_run()).kernel("add", in_demand=byte_run(), gpu_read_faults=fault_run(900))
    return builder


def prefetch_wrong_way():
    return TraceBuilder().allocate().hint(device=None).kernel("read", in_demand=byte_run(), gpu_read_faults=fault_run(900))


def prefetch_late():
    builder = TraceBuilder().allocate()
    return builder.hint(at=builder.now + 20_000).kernel("read", in_demand=byte_run(), gpu_read_faults=fault_run(900))


def false_sharing():
    builder = TraceBuilder().allocate().prefetched(in_user=byte_run())
    for _ in range(4):
        builder.host(cpu_write_faults=fault_run(64), out_demand=byte_run(share=1 / 32), granule_runs=LITTLE)
        builder.kernel("add", ms=2, in_demand=byte_run(share=1 / 32), granule_runs=LITTLE, gpu_read_faults=fault_run(64))
    return builder


def read_mostly_missing():
    builder = TraceBuilder().allocate()
    for _ in range(4):
        builder.kernel("read", in_demand=byte_run(), gpu_read_faults=fault_run(900)).host(ms=30, cpu_read_faults=fault_run(384), out_demand=byte_run())
    return builder


def ping_pong(host_ms=40):
    builder = TraceBuilder().allocate()
    for _ in range(4):
        builder.kernel("add", in_demand=byte_run(), gpu_read_faults=fault_run(900)).host(host_ms, cpu_write_faults=fault_run(384), out_demand=byte_run())
    return builder


def sparse():
    return TraceBuilder().allocate().kernel("gather", in_demand=byte_run(share=0.5), granule_runs=HALF, gpu_read_faults=fault_run(1024))


def remote_hot():
    builder = TraceBuilder().allocate().hint("preferred_location", device=None).hint("accessed_by")
    return builder.quiet("read", launch_count=16, ms=64 * 2.097152 / 51.4)  # over a link of 51.4 GB/s


def first_touch():
    return TraceBuilder().allocate().kernel("write", gpu_write_faults=fault_run(900))


def host_faults():
    return TraceBuilder().allocate().kernel("write", ms=0.2, waiting_ms=0, gpu_write_faults=fault_run(1)).host(ms=30, cpu_read_faults=fault_run(384), out_demand=byte_run())


TRACES = [oversubscription, thrashing, read_mostly_written, pushed_out, prefetch_wrong_way, prefetch_late, false_sharing,
          read_mostly_missing, ping_pong, sparse, remote_hot, first_touch, prefetch_missing, host_faults]


def explained(builder, tmp_path):
    path = builder.write(tmp_path / "run.jsonl")
    process, = reader.read_trace_file(path)
    return process, explain.explain(process)


def explained_lines(builder, tmp_path):
    process, parts = explained(builder, tmp_path)
    return explain.as_lines(process, *parts)


def test_every_rule_has_a_trace():
    assert [trace.__name__ for trace in TRACES] == [rule.key for rule in findings.RULES]


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.__name__)
def test_the_cause_is_named_first(trace, tmp_path):
    process, (summary, found, costs, names) = explained(trace(), tmp_path)
    assert found[0].key == trace.__name__
    assert 0 < found[0].saving_ns <= found[0].waste_ns
    lines = explain.as_lines(process, summary, found, costs, names)
    assert len(lines) <= explain.MAX_LINES and max(map(len, lines)) <= explain.MAX_WIDTH
    assert any(line.strip().startswith("->") for line in lines)


def test_a_program_that_prefetches_has_nothing_to_mend(tmp_path):
    builder = TraceBuilder().allocate().hint().prefetched(in_user=byte_run()).quiet("read", 4)
    process, (summary, found, _, _) = explained(builder, tmp_path)
    assert not found and summary.stall_ns == 0
    assert "Nothing of it waits for managed memory." in explained_lines(builder, tmp_path)


def test_a_prefetch_of_half_proposes_the_other_half(tmp_path):
    builder = TraceBuilder().allocate().hint(block_count=32).prefetched(in_user=byte_run(32))
    builder.kernel("read", in_demand=byte_run(32, first_block=FIRST + 32), gpu_read_faults=fault_run(500, 32, FIRST + 32))
    lines = explained_lines(builder, tmp_path)
    assert any("cudaMemPrefetchAsync(m0 + 64 MiB, 64 MiB, GPU 0), before read, launch 0" in line for line in lines)


def test_small_data_shared_with_the_host_is_no_ping_pong_of_the_rest(tmp_path):
    _, (_, found, _, _) = explained(false_sharing(), tmp_path)
    assert [finding.key for finding in found] == ["false_sharing"]


def test_the_time_of_a_launch_is_shared_by_what_allocations_moved(tmp_path):
    builder = TraceBuilder().allocate(32).allocate(32, first_block=FIRST + 32)
    builder.kernel("add", in_demand=[byte_run(24), byte_run(8, first_block=FIRST + 32)], gpu_read_faults=[fault_run(75, 24), fault_run(25, 8, FIRST + 32)])
    _, (summary, found, _, _) = explained(builder, tmp_path)
    stalls = {facts.allocation.number: facts.kernel_wait_ns for facts in summary.facts}
    assert stalls[0] == pytest.approx(3 * stalls[1])


def test_faults_in_a_long_kernel_do_not_blame_all_of_its_time(tmp_path):
    builder = TraceBuilder().allocate().kernel("train", ms=100, waiting_ms=1, in_demand=byte_run(4), gpu_read_faults=fault_run(20))
    _, (summary, _, _, _) = explained(builder, tmp_path)
    assert summary.stall_ns == pytest.approx(1.5 * MS)


def test_times_of_a_second_run_replace_those_of_the_counted_one(tmp_path):
    builder = ping_pong(host_ms=10)
    times = [("add", launch, 8 * launch * MS, (8 * launch + 5) * MS) for launch in range(4)]  # 5 ms, and 3 ms between them
    process, = reader.read_trace_file(builder.write(tmp_path / "run.jsonl", uncounted_times=times))
    assert len(process.spans_in_second_run) == 4
    summary = explain.explain(process)[0]
    assert summary.kernel_ns == 4 * 5 * MS
    assert summary.stall_ns == pytest.approx(4 * 5 * MS, rel=0.02)
    # Between launches 12 ms passed while it was counted, 3 ms while not: the CPU waited 9 ms less, but for the last time.
    assert summary.cpu_wait_ns == pytest.approx(3 * 1 * MS + (10 - 5) * MS)


def test_what_counting_takes_is_subtracted_where_there_is_one_run_alone(tmp_path):
    builder = prefetch_missing()
    builder.lines[-1]["records"] = 1000
    _, (summary, _, costs, _) = explained(builder, tmp_path)
    assert summary.kernel_ns == 10 * MS - 1000 * costs.FAULTING_LAUNCH_RECORD_NS


def test_places_are_named_by_the_programs_own_frames(tmp_path):
    builder = TraceBuilder().allocate(callers=["program+0x10 cudaMallocManaged", "program+0x20 load_weights", "libc.so.6+0x5 __libc_start_main"])
    builder.kernel("read", in_demand=byte_run(), gpu_read_faults=fault_run(900))
    assert any("m0 (128 MiB, made in load_weights)" in line for line in explained_lines(builder, tmp_path))


def test_what_is_lacking_is_said(tmp_path):
    builder = prefetch_missing().lacking("kernels: CUPTI: not permitted")
    process = reader.read_trace_file(builder.write(tmp_path / "run.jsonl", has_end=False))[0]
    text = "\n".join(explain.as_lines(process, *explain.explain(process)))
    assert "lacks kernels: CUPTI: not permitted" in text and "killed or crashed" in text


def test_memory_of_unknown_origin_is_named_by_its_address(tmp_path):
    builder = TraceBuilder().kernel("read", in_demand=byte_run(), gpu_read_faults=fault_run(900))
    assert any("0x7d000000" in line for line in explained_lines(builder, tmp_path))


def test_a_torn_last_line_is_left_out(tmp_path):
    path = prefetch_missing().write(tmp_path / "run.jsonl", has_end=False)
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"kind":"kern')
    process, = reader.read_trace_file(path)
    assert len(process.pieces) == 1 and process.end is None


@pytest.mark.parametrize("text, said", [
    ("", "no trace of a program"),
    ('{"kind":"kernel"}\n', "run.jsonl:1: no line of a trace (before any environment)"),
    ('{"kind":"environment","schema":2,"tool":"umbench trace"}\n', "schema 1"),
    ('{"kind":"environment","schema":1,"tool":"umbench trace"}\n{"kind":"kernel"}\n', "run.jsonl:2: no line of a trace (no field"),
    ("[1]\n", "run.jsonl:1: no line of a trace"),
    ("\xff\n", "run.jsonl:1: no line of a trace"),
])
def test_bad_files_are_refused_in_one_line(text, said, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(load.BadInput) as refusal:
        reader.read_trace_file(path)
    assert said in str(refusal.value)


def test_the_command_explains(umbench, tmp_path):
    ping_pong().write(tmp_path / "run.jsonl")
    done = umbench("explain", "run.jsonl")
    assert done.returncode == 0 and "ping-pong" in done.stdout and len(done.stdout.splitlines()) <= 20
    data = json.loads(umbench("explain", "run.jsonl", "--json").stdout)
    assert data[0]["findings"][0]["key"] == "ping_pong"
    refused = umbench("explain", "nothing.jsonl")
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1


def test_calls_name_the_gpu_that_waited(tmp_path):
    builder = TraceBuilder().allocate().allocate(first_block=FIRST + 64).kernel("read", in_demand=byte_run(), gpu_read_faults=fault_run(900))
    builder.kernel("read", gpu=1, in_demand=byte_run(first_block=FIRST + 64), gpu_read_faults=fault_run(900, first_block=FIRST + 64))
    process, = reader.read_trace_file(builder.write(tmp_path / "run.jsonl"))
    _, found, _, _ = explain.explain(process)
    assert sorted(f.calls[0][0].rsplit(", ", 1)[1] for f in found) == ["GPU 0)", "GPU 1)"]


@pytest.mark.parametrize(("gpu", "name"), [("NVIDIA GH200 480GB", "gh200"), ("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h100-sxm-80g"),
                                           ("NVIDIA GB300", "gb300"), ("NVIDIA RTX A6000", "a6000-48g")])
def test_a_gpu_has_the_machine_file_of_its_kind(gpu, name):
    assert costs.machine_name_for_gpu(gpu) == (name, True)
