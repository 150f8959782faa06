"""The script from end to end, with a stand-in for umbench's binary and one for PyTorch: what is tested is
what becomes of results, failures and files."""

import json
import os
import signal
import subprocess
import sys
import types

import conftest
import jsonschema
import pytest
import pytorch
import umbench_runs
from umbench import peer_files

FAKE = """#!{python}
import json, pathlib, sys
sys.path.insert(0, "{folder}")
import synthetic
words = sys.argv[1:]
at = lambda name: words[words.index(name) + 1]
assert at("--deadline").isdigit() and at("--iterations").isdigit()
if at("--network") == "vgg11":
    print("umbench: out of ideas", file=sys.stderr)
    sys.exit(1)
if "--values" in words:
    (pathlib.Path(at("--values")) / "loss.npy").write_text("a file")
record = synthetic.record(at("--network"), "device", 1.0, "cuda:0", batch=int(at("--batch")), fusion=at("--fusion"), key="k",
  samples_ns=[9 * 10**9] * 2 + [80 * 10**6] * (int(at("--iterations")) - 2), workspace_cap_bytes=1 << 28, loss=6.9, digest="00" * 8,
  engines=[{{"op": "conv", "engine": "e", "time_ns": 10**6, "workspace_bytes": 0, "flops": 10**9, "bytes": 10**6, "parts": 1}}])
record["memory"]["peak_device_bytes"] = 4 << 30
if at("--network") == "vgg19":
    del record["launch"]
if at("--network") == "vgg13":
    record.update(outcome="out_of_memory", reason="too large", samples_ns=[])
environment = synthetic.environment() | {{"umbench": "0.1.0+abc",
  "gpu": synthetic.gpu(driver="580.1", cuda_runtime="13.0", cudnn="9.19.0")}}
pathlib.Path(at("--out")).write_text(json.dumps(environment) + "\\n" + json.dumps(record) + "\\n")
"""


def time_ways(task):
    figures = {"ms": 100.0, "samples_ms": [100.0] * task["samples"], "peak_bytes": 8 << 30}
    answers = {"eager": figures, "graph": {"reason": "RuntimeError: cannot capture"}, "compile": figures | {"ms": 90.0},
               "compile_graph": {"reason": "RuntimeError: no"}}
    return {way: answers[way] for way in task["ways"]}


def fill_compiler_cache(task):
    if task["precision"] == "tf32":
        raise RuntimeError("no memory")


def compare_gradients(task):
    return {"batch": task["batch"], "umbench_loss": 6.9, "pytorch_loss": 6.9, "to_pytorch": conftest.gradient_errors(),
            "reference": task["reference"]}


@pytest.fixture
def run(tmp_path, monkeypatch):
    binary = tmp_path / "umbench"
    binary.write_text(FAKE.format(python=sys.executable, folder=conftest.ROOT / "tests/plots"))
    binary.chmod(0o755)
    steps = types.SimpleNamespace(measure_gpu_rates=lambda task: conftest.CARD, time_ways=time_ways, compare_gradients=compare_gradients,
                                  fill_compiler_cache=fill_compiler_cache)
    monkeypatch.setattr(pytorch, "import_torch_steps", lambda: steps)
    out = tmp_path / "folder" / "rows.jsonl"

    def call(*arguments):
        code = pytorch.main(["--umbench", str(binary), "--out", str(out), "--warmup", "2", "--samples", "3", *arguments])
        return code, peer_files.read(out)

    call.out, call.steps = out, steps
    return call


def schema():
    with open(conftest.ROOT / "results/peer.schema.json", encoding="utf-8") as file:
        text = json.load(file)
    kind = jsonschema.validators.validator_for(text)
    kind.check_schema(text)
    return kind(text)


def test_a_row_holds_both_sides_and_their_ratios(run):
    code, (row,) = run("--rows", "vgg16/64/fp32:workspace=256MiB")
    assert code == 0
    schema().validate(row)
    assert (row["umbench_ms"], row["pytorch_ms"], row["pytorch_mode"]) == (80.0, 90.0, "compile nchw")
    assert row["time_ratio"] == pytest.approx(80 / 90) and row["peak_ratio"] == 0.5
    assert row["umbench"]["samples_ms"] == [80.0] * 3, "the first iterations are warm-ups"
    assert [m["way"] for m in row["modes"]] == ["eager", "graph", "compile", "compile_graph"]
    assert row["modes"][1]["reason"] == "RuntimeError: cannot capture"
    assert row["versions"] == {"gpu": "NVIDIA H200", "driver": "580.1", "cuda": "13.0", "cudnn": 91900,
                               "torch": "2.11.0", "umbench": "0.1.0+abc", "umbench_cuda": "13.0",
                               "umbench_cudnn": "9.19.0"}
    assert row["options"] == {"fusion": "lean", "workspace": "256MiB", "memory_order": None, "slices": 1}
    assert row["gap_kinds"] == [{"kind": "conv", "operators": 1, "time_ms": 1.0, "floor_ms": pytest.approx(0.02)}]
    assert row["gaps"][0]["op"] == "conv" and row["floor_ratio"] > 1


def test_gradients_are_held_against_a_more_exact_run(run):
    _, found = run("--rows", "vgg16/64/fp32", "vgg16/64/tf32")
    assert [row["gradients"]["reference"] for row in found] == ["fp64", "fp32"]
    _, found = run("--rows", "vgg16/64/fp32", "--reference", "none")
    assert found[0]["gradients"]["reference"] is None


def test_compiling_beforehand_is_never_the_end(run, capsys):
    code, found = run("--rows", "vgg16/64/fp32", "vgg16/64/tf32", "alexnet/4/bf16", "--compile-jobs", "2")
    assert code == 0 and len(found) == 3
    assert "vgg16/64/tf32: not compiled beforehand: RuntimeError: no memory" in capsys.readouterr().err


def test_resume_skips_complete_rows_and_runs_failed_ones_again(run):
    code, found = run("--rows", "vgg16/64/fp32", "vgg13/8/fp32")
    assert code == 1 and found[1]["umbench"]["reason"] == "out_of_memory: too large"
    assert found[1]["time_ratio"] is None and found[1]["pytorch_ms"] == 90.0
    schema().validate(found[1])
    run("--rows", "vgg16/64/fp32", "vgg13/8/fp32", "alexnet/4/bf16", "--resume")
    lines = [json.loads(line) for line in run.out.read_text().splitlines()]
    assert [line["network"] for line in lines] == ["vgg16", "vgg13", "vgg13", "alexnet"]


def test_a_torn_last_line_is_cut_off(run):
    run("--rows", "vgg16/64/fp32")
    with open(run.out, "a", encoding="utf-8") as file:
        file.write('{"kind": "peer", "netw')
    _, found = run("--rows", "alexnet/4/bf16", "--resume")
    assert [row["network"] for row in found] == ["vgg16", "alexnet"]


def test_a_failing_umbench_is_a_reason(run):
    code, (row,) = run("--rows", "vgg11/8/fp32")
    assert code == 1
    assert row["umbench"]["reason"] == "umbench: out of ideas"
    assert row["gradients"]["reason"] == "umbench wrote no values"
    schema().validate(row)


def test_a_record_that_is_not_whole_is_a_reason_and_not_the_end(run):
    code, found = run("--rows", "vgg19/8/fp32", "vgg16/64/fp32")
    assert code == 1 and [peer_files.is_complete(row) for row in found] == [False, True]
    assert "'launch'" in found[0]["umbench"]["reason"]
    schema().validate(found[0])


def test_a_failing_pytorch_is_a_reason(run, monkeypatch):
    def fails(task):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(run.steps, "time_ways", fails)
    monkeypatch.setattr(run.steps, "compare_gradients", fails)
    code, (row,) = run("--rows", "vgg16/64/fp32")
    assert code == 1 and row["umbench_ms"] == 80.0 and row["pytorch_ms"] is None
    assert [mode["reason"] for mode in row["modes"]] == ["killed by signal 9"] * 4
    assert row["gradients"]["reason"] == "killed by signal 9"
    schema().validate(row)


def test_rows_that_would_begin_late_are_left_for_the_next_time(run, monkeypatch, capsys):
    def clock():
        return 50.0 if run.out.exists() and len(peer_files.read(run.out)) == 2 else 0.0

    monkeypatch.setattr(pytorch, "time", types.SimpleNamespace(monotonic=clock))
    rows = ["vgg16/64/fp32", "vgg16/64/tf32", "alexnet/4/bf16"]
    code, found = run("--rows", *rows, "--stop-after", "40")
    assert code == 1 and [row["precision"] for row in found] == ["fp32", "tf32"]
    told = capsys.readouterr().err
    assert "not begun within 40 s: alexnet/4/bf16" in told
    assert "vgg16/64/tf32: umbench: 0 s" in told and "vgg16/64/tf32: gradients: 0 s" in told
    monkeypatch.setattr(pytorch, "time", types.SimpleNamespace(monotonic=lambda: 0.0))
    code, found = run("--rows", *rows, "--stop-after", "40", "--resume")
    assert code == 0 and len(found) == 3


def test_gradients_may_be_left_out_or_compared_on_fewer_images(run):
    assert run("--rows", "vgg16/64/fp32", "--no-gradients")[1][0]["gradients"] is None
    assert run("--rows", "vgg16/64/fp32", "--check-batch", "8")[1][0]["gradients"]["batch"] == 8


@pytest.mark.parametrize("asked, shared", [
    ("eager,graph,compile", [["eager", "graph"], ["compile", "compile_graph"]]), ("compile", [["compile", "compile_graph"]]),
    ("graph,eager", [["eager", "graph"]]), ("graph", [["graph"]])])
def test_compiling_has_a_process_of_its_own(asked, shared):
    assert pytorch.groups_of_ways(pytorch.parse_arguments(["--ways", asked])) == shared


def test_both_orders_double_the_modes(run):
    _, (row,) = run("--rows", "vgg16/64/tf32", "--both-orders", "--ways", "eager")
    assert [m["memory_order"] for m in row["modes"]] == ["nchw", "nhwc"]


def test_the_command_says_everything(tmp_path):
    row = pytorch.rows.parse_row("vgg16/64/tf32:fusion=fused,workspace=1GiB,order=nchw")
    line = " ".join(umbench_runs.command_line("umbench", row, 16, 299.5, "o.jsonl", "folder"))
    assert line == ("umbench run --network vgg16 --batch 64 --strategy device --fusion fused --precision tf32 "
                    "--workspace-cap 1GiB --iterations 16 --deadline 300 --backend cuda:0 --times-only --out o.jsonl "
                    "--memory-order nchw --values folder")


def test_gpus_name_the_file():
    assert pytorch.gpu_file_name("NVIDIA H200") == "h200"
    assert pytorch.gpu_file_name("NVIDIA H100 80GB HBM3") == "h100_80gb_hbm3"


@pytest.mark.parametrize("arguments, complaint", [
    (["--rows", "vgg16/64"], "not NETWORK/BATCH/PRECISION"), (["--ways", "eager,slow"], "unknown way 'slow'"),
    (["--samples", "0"], "at least 1"), (["--warmup", "0"], "at least 1"), (["--deadline", "0"], "above 0"),
    (["--stop-after", "0"], "above 0"), (["--check-batch", "0"], "at least 1"), (["--compile-jobs", "0"], "at least 1"),
    (["--rows", "vgg16/64/fp32", "vgg16/64/fp32:fusion=none"], "given twice"),
    (["--umbench", "/nowhere/umbench"], "/nowhere/umbench is no program")])
def test_bad_arguments_get_one_clear_line(arguments, complaint):
    done = subprocess.run([sys.executable, str(conftest.ROOT / "benchmarks/peers/pytorch.py"), *arguments],
                          capture_output=True, text=True)
    assert done.returncode != 0
    assert complaint in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
