"""What else takes traces: network files and the simulator, comparison, Perfetto, the report."""

import json

import pytest
from trace_builder import BLOCK, FIRST, MS, TraceBuilder, byte_run, fault_run
from test_explain import ping_pong, prefetch_missing

from umbench import load
from umbench.trace import explain, graph, reader, simulated
from umbench.trace.costs import Costs
from umbench.trace.reader import AllocationFinder
from umbench.trace.residence import resident_bytes_over_time


def read_process(builder, tmp_path):
    return reader.read_trace_file(builder.write(tmp_path / "run.jsonl"))[0]


def trace_of_two_layers():
    """Two weights and an activation that both layers use; the second launch of each moves nothing."""
    builder = TraceBuilder(program=("python3", "/home/me/Train.py")).allocate(32).allocate(32, first_block=FIRST + 32).allocate(16, first_block=FIRST + 64)
    builder.kernel("layer", in_demand=[byte_run(32), byte_run(16, first_block=FIRST + 64)], gpu_read_faults=[fault_run(300, 32), fault_run(100, 16, FIRST + 64)])
    builder.kernel("layer", in_demand=byte_run(32, first_block=FIRST + 32), gpu_read_faults=[fault_run(300, 32, FIRST + 32), fault_run(1, 16, FIRST + 64)])
    return builder.quiet("layer", launch_count=2, ms=1.5)


def test_a_trace_becomes_operators_that_read_what_launches_touched(tmp_path):
    network = graph.network_of_process(read_process(trace_of_two_layers(), tmp_path), Costs("h200"))
    assert network.name == "trace-train"
    sizes = {tensor["name"]: 4 * tensor["shape"][1] for tensor in network.tensors if tensor["use"] == "parameter"}
    assert sorted(sizes.values()) == [16 * BLOCK, 32 * BLOCK, 32 * BLOCK]
    reads = [{sizes[name] // BLOCK for name in operator["in"]} for operator in network.operators]
    assert reads == [{16, 32}, {16, 32}, set()]
    assert network.operators[2]["duration_ns"] == 3 * MS
    assert network.operators[0]["duration_ns"] < 2 * MS < 10 * MS  # it mostly waited
    assert "for" in network.summary_text() and network.unknown_ns == 3 * MS


def test_a_trace_in_which_nothing_moved_becomes_no_network(tmp_path):
    with pytest.raises(load.TooLittle):
        graph.network_of_process(read_process(TraceBuilder().quiet(), tmp_path), Costs("h200"))


def test_it_is_simulated_under_other_hints_and_sizes(umbench, tmp_path):
    trace_of_two_layers().write(tmp_path / "run.jsonl")
    times = {}
    for strategy, ratio in (("managed", 0.9), ("managed", 1.5), ("managed_prefetch", 1.5)):
        done = umbench("run", "--trace", "run.jsonl", "--strategy", strategy, "--ratio", ratio, "--backend", "sim:h200", "--out", "records.jsonl")
        assert done.returncode == 0, done.stderr
    for line in (tmp_path / "records.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["kind"] == "record":
            assert record["simulated"] and record["network"].startswith("trace-train#")
            times[record["strategy"], record["ratio"]] = load.steady_ns(record)
    assert len(times) == 3 and times["managed", 0.9] < min(times["managed_prefetch", 1.5], times["managed", 1.5])


def test_the_cpu_takes_part_in_the_simulation(umbench, tmp_path):
    ping_pong().write(tmp_path / "run.jsonl")
    found = {}
    for strategy in ("managed", "managed_prefetch", "read_mostly_weights"):
        done = umbench("run", "--trace", "run.jsonl", "--strategy", strategy, "--ratio", 0.5, "--backend", "sim:h200", "--out", f"{strategy}.jsonl")
        assert done.returncode == 0 and "the CPU uses it 4 times" in done.stderr, done.stderr
        found[strategy] = json.loads((tmp_path / f"{strategy}.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    whole = 4 * 64 * BLOCK
    faulting, told = (found[name]["counters"]["last"] for name in ("managed", "managed_prefetch"))
    about = pytest.approx(whole, rel=0.01)  # results of launches lie in the granule beside it
    assert faulting["fault_to_device_bytes"] == about and faulting["driver_evict_bytes"] == about and faulting["faults"] > 0
    assert told["prefetch_to_device_bytes"] == about and told["plan_evict_bytes"] == about and told["driver_evict_bytes"] < 0.01 * whole
    assert found["read_mostly_weights"]["counters"]["last"]["fault_to_device_bytes"] < 0.01 * whole  # both keep what they read
    assert load.steady_ns(found["managed_prefetch"]) < 0.7 * load.steady_ns(found["managed"])


def test_savings_are_simulated_by_allocation(umbench, tmp_path, monkeypatch):
    trace_of_two_layers().write(tmp_path / "run.jsonl")
    process = reader.read_trace_file(tmp_path / "run.jsonl")[0]
    monkeypatch.setenv("UMBENCH_PROGRAM", umbench.program)
    _, found, costs, _ = explain.explain(process)
    assert len(found) == 3 and all(finding.simulated and 0 < finding.saving_ns < finding.waste_ns for finding in found)
    by_size = sorted(found, key=lambda finding: finding.facts.amounts["in_demand"])
    assert by_size[0].saving_ns < 0.7 * by_size[-1].saving_ns
    assert simulated.saving_ns(process, "sparse", found[0].facts.allocation, costs) is None
    monkeypatch.delenv("UMBENCH_PROGRAM")
    assert not any(finding.simulated for finding in explain.explain(process)[1])


def test_what_the_cpu_uses_cannot_stay_on_the_device(umbench, tmp_path):
    ping_pong().write(tmp_path / "run.jsonl")
    done = umbench("run", "--trace", "run.jsonl", "--strategy", "device", "--ratio", 0.5, "--backend", "sim:h200")
    assert done.returncode == 4 and "the CPU uses m0.0" in done.stderr


def write_sweep_file(tmp_path, trace):
    (tmp_path / "sweep.json").write_text(json.dumps({"schema": 1, "name": "s", "grids": [
        {"network": trace, "strategy": ["managed", "managed_prefetch"], "ratio": [0.9, 1.5], "backend": "sim:h200"}]}), encoding="utf-8")


def test_a_sweep_takes_a_trace_and_its_curve_is_drawn(umbench, tmp_path):
    trace_of_two_layers().write(tmp_path / "run.jsonl")
    write_sweep_file(tmp_path, "run.jsonl")
    assert umbench("sweep", "sweep.json", "--out", "s.jsonl").returncode == 0
    assert umbench("compare", "s.jsonl", "s.jsonl").returncode == 0
    shown = umbench("plot", "table", "s.jsonl").stdout
    assert "managed_prefetch" in shown and " 1.5\n" in shown


def test_a_sweep_refuses_what_is_no_trace_in_one_line(umbench, tmp_path):
    (tmp_path / "run.jsonl").write_text("{}\n", encoding="utf-8")
    write_sweep_file(tmp_path, "run.jsonl")
    done = umbench("sweep", "sweep.json", "--out", "s.jsonl")
    assert done.returncode == 2 and "run.jsonl" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words, said", [
    (("--trace", "run.jsonl", "--network", "alexnet"), "--network and --trace are given"),
    (("--trace", "no.jsonl"), "no.jsonl"),
])
def test_wrong_traces_are_refused_in_one_line(umbench, tmp_path, words, said):
    trace_of_two_layers().write(tmp_path / "run.jsonl")
    done = umbench("run", *words, "--strategy", "managed", "--backend", "sim:h200")
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1


def test_equal_traces_compare_equal_and_more_faults_are_worse(umbench, tmp_path):
    prefetch_missing().write(tmp_path / "base.jsonl")
    builder = TraceBuilder().allocate().kernel("read", ms=30, in_demand=byte_run(share=0.25), in_tree=byte_run(share=1.75), gpu_read_faults=fault_run(1800))
    builder.write(tmp_path / "head.jsonl")
    same = umbench("compare", "base.jsonl", "base.jsonl")
    assert same.returncode == 0 and "worse" not in same.stdout
    worse = umbench("compare", "base.jsonl", "head.jsonl")
    assert worse.returncode == 1
    assert [line.split()[-1] for line in worse.stdout.splitlines()[1:]] == ["worse"] * 4  # bytes, faults, time, waiting
    assert umbench("compare", "base.jsonl", "head.jsonl", "--limit", "bytes=200%", "--limit", "faults=200%", "--limit", "time=300%").returncode == 0
    better = umbench("compare", "head.jsonl", "base.jsonl")
    assert better.returncode == 0 and "better" in better.stdout


def trace_with_pause(unseen_block_count):
    """A trace of one counted launch, then three in a pause of counting, in which `unseen_block_count` blocks moved by the driver's count."""
    builder = TraceBuilder().allocate().kernel("read", in_demand=byte_run(), gpu_read_faults=fault_run(900))
    return builder.pause(30, "read", 3, to_gpus=unseen_block_count * BLOCK)


def test_sums_of_a_trace_with_pauses_are_scaled_to_the_drivers(tmp_path):
    sums = {"to_gpus": 256 * BLOCK, "to_host": 0, "gpu_faults": 0, "cpu_faults": 0}
    process, = reader.read_trace_file(trace_with_pause(192).write(tmp_path / "run.jsonl", driver_sums=sums))
    assert process.scale_of("in_tree") == 4 and process.estimated_total("in_demand") == 256 * BLOCK and process.estimated_total("gpu_read_faults") == 3600
    summary, found, _, _ = explain.explain(process)
    whole, _, _, _ = explain.explain(reader.read_trace_file(prefetch_missing().write(tmp_path / "one.jsonl"))[0])
    assert summary.launch_counts["read"] == 4 and summary.kernel_ns > 3 * whole.kernel_ns
    assert summary.stall_ns == pytest.approx(4 * whole.stall_ns) and found[0].facts.bytes_in_by_faults() == 256 * BLOCK
    by_time, = reader.read_trace_file(trace_with_pause(192).write(tmp_path / "run.jsonl"))
    assert by_time.scale_of("in_tree") == 4
    assert "pauses of counting" in graph.network_of_process(process, Costs("h200")).summary_text()


def test_pauses_and_what_cupti_missed_are_told(umbench, tmp_path):
    sums = {"to_gpus": 128 * BLOCK, "to_host": 0, "gpu_faults": 0, "cpu_faults": 0}
    prefetch_missing().write(tmp_path / "run.jsonl", driver_sums=sums)
    assert "recorded 128 MiB, the driver counted 256 MiB" in umbench("explain", "run.jsonl").stdout
    prefetch_missing().write(tmp_path / "run.jsonl", driver_sums=sums | {"to_gpus": 65 * BLOCK})
    assert "recorded 128 MiB, the driver counted 130 MiB" in umbench("explain", "run.jsonl").stdout
    prefetch_missing().write(tmp_path / "run.jsonl", driver_sums=sums | {"to_gpus": 64 * BLOCK + BLOCK // 20})
    assert "lacks" not in umbench("explain", "run.jsonl").stdout
    prefetch_missing().write(tmp_path / "run.jsonl", driver_sums=sums | {"to_gpus": 64 * BLOCK})
    assert "lacks" not in umbench("explain", "run.jsonl").stdout
    trace_with_pause(192).write(tmp_path / "run.jsonl", driver_sums=sums)
    assert "counting paused" in umbench("explain", "run.jsonl").stdout


def test_without_faults_a_launch_waits_for_what_came(tmp_path):
    process = read_process(TraceBuilder().allocate().kernel("read", ms=10, batches=0, waiting_ms=0, in_demand=byte_run()).quiet("read", ms=1), tmp_path)
    assert explain.explain(process)[0].stall_ns == pytest.approx(9 * MS)


def test_with_pauses_the_drivers_own_sums_are_judged(umbench, tmp_path):
    sums = {"to_gpus": 256 * BLOCK, "to_host": 0, "gpu_faults": 0, "cpu_faults": 0}
    trace_with_pause(192).write(tmp_path / "base.jsonl", driver_sums=sums)
    trace_with_pause(100).write(tmp_path / "head.jsonl", driver_sums=sums)
    same = umbench("compare", "base.jsonl", "head.jsonl")
    assert same.returncode == 0 and "about" in same.stdout
    trace_with_pause(192).write(tmp_path / "head.jsonl", driver_sums=sums | {"to_gpus": 300 * BLOCK})
    assert umbench("compare", "base.jsonl", "head.jsonl").returncode == 1


def test_a_trace_that_ended_early_is_not_judged(umbench, tmp_path):
    prefetch_missing().write(tmp_path / "base.jsonl")
    prefetch_missing().write(tmp_path / "head.jsonl", has_end=False)
    assert umbench("compare", "base.jsonl", "head.jsonl").returncode == 3


def test_perfetto_has_lanes_and_counters(umbench, tmp_path):
    ping_pong().write(tmp_path / "run.jsonl")
    events = json.loads(umbench("export", "run.jsonl", "--format", "perfetto").stdout)["traceEvents"]
    assert {event["name"] for event in events if event["ph"] == "X"} >= {"add #0", "fetch back"}
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    on = {(tracks[event["tid"]], event["name"]) for event in events if event["ph"] == "X"}
    assert {("GPU 0: migrations to it", "128 MiB"), ("GPU 0: kernels that moved or faulted", "add #0")} <= on
    assert "GPU 0: faults" in tracks.values()
    held = [event["args"]["m0"] for event in events if event["name"] == "bytes on GPUs"]
    assert held == [64 * BLOCK, 0] * 4
    assert umbench("export", "run.jsonl", "--format", "csv").returncode == 2


def test_resident_bytes_follow_first_touch_and_eviction(tmp_path):
    builder = TraceBuilder().allocate().kernel("write", gpu_write_faults=fault_run(64)).kernel("other", out_eviction=byte_run(16))
    process = read_process(builder, tmp_path)
    held = [sum(amounts.values()) for _, amounts in resident_bytes_over_time(process, AllocationFinder(process.allocations))]
    assert held == [64 * BLOCK, 48 * BLOCK]


def test_the_report_draws_heat(umbench, tmp_path):
    ping_pong().write(tmp_path / "run.jsonl")
    done = umbench("report", "run.jsonl", "--out", "report")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report/index.html").read_text(encoding="utf-8")
    assert "ping-pong" in page and "data:image/png" in page
    assert (tmp_path / "report/heat_run.svg").is_file()


def test_a_plot_says_what_draws_a_trace(umbench, tmp_path):
    trace_of_two_layers().write(tmp_path / "run.jsonl")
    done = umbench("plot", "slowdown", "run.jsonl", "--out", "figures")
    assert done.returncode == 2 and "umbench report" in done.stderr and len(done.stderr.splitlines()) == 1
