"""The example workflows and batch scripts call existing commands and end with the right exit code."""

import json
import os
import re
import subprocess

import conftest
import pytest

EXAMPLES = conftest.ROOT / "examples"
SPEC = {"schema": 1, "name": "study", "grids": [{"network": "alexnet", "batch": 2, "backend": "sim:h200",
                                                 "strategy": ["device", "managed"], "ratio": [0.5, 1, 1.5]}]}


def scripts_of_workflow(path):
    """The shell scripts of a workflow's `run:` fields, without a YAML parser."""
    text, found = path.read_text(encoding="utf-8"), []
    for match in re.finditer(r"(?m)^( +)run: (\|\n((?:\1  .*\n|\n)+)|.*)", text):
        found.append(match[3] or match[2])
    return found


@pytest.mark.parametrize("path", sorted((EXAMPLES / "github").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_call_existing_commands(umbench, path):
    scripts = scripts_of_workflow(path)
    assert scripts
    for script in scripts:
        script = script.replace("${{", "").replace("}}", "")
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
        for command, words in re.findall(r"umbench (\w+)((?:[^\n]|\\\n)*)", script):
            usage = umbench(command, "--help").stdout
            assert usage
            for option in re.findall(r"(?<=\s)--[a-z-]+", words):
                assert option in usage, f"umbench {command} {option}"
        for side, sweep in re.findall(r"(\w+)/(benchmarks/sweeps/\w+\.json)", script):
            assert (conftest.ROOT / sweep).exists()
            assert side == "base", "what the base does not know yet it cannot run"


@pytest.mark.parametrize("code", [0, 1, 2, 3])
@pytest.mark.parametrize("path", [EXAMPLES / "github" / f"{name}.yml" for name in ("gpu", "simulated")], ids=lambda path: path.stem)
def test_a_workflow_ends_with_the_exit_code_of_the_comparison(path, code, tmp_path):
    """GitHub runs a step by bash -e; after bad input there is no summary."""
    script = next(script for script in scripts_of_workflow(path) if "compare" in script and "status" in script)
    for program in ("head/build/cuda/umbench", "head/build/ci/umbench"):
        fake = tmp_path / program
        fake.parent.mkdir(parents=True)
        fake.write_text("#!/bin/sh\n[ $1 = compare ] || exit 0\n" + ("" if code == 2 else "echo text >summary.md\n")
                        + f"exit {code}\n", encoding="utf-8")
        fake.chmod(0o755)
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, capture_output=True, check=False,
                          env=os.environ | {"GITHUB_STEP_SUMMARY": str(tmp_path / "step")})
    assert done.returncode == code, done.stderr
    assert (tmp_path / "step").exists() == (code != 2)


def test_workflows_only_build_and_skip_forks():
    gpu = (EXAMPLES / "github/gpu.yml").read_text(encoding="utf-8")
    assert "./quickstart --build-only" in gpu and "head.repo.full_name == github.repository" in gpu
    said = subprocess.run([conftest.ROOT / "quickstart", "--help"], capture_output=True, text=True, check=False)
    assert said.returncode == 0 and "--build-only" in said.stdout
    for arguments in (["--build"], ["--build-only", "x"]):
        assert subprocess.run([conftest.ROOT / "quickstart", *arguments], capture_output=True, check=False).returncode == 2


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.json"
    path.write_text(json.dumps(SPEC), encoding="utf-8")
    return path


def records(path):
    return [line for line in path.read_text(encoding="utf-8").splitlines() if '"kind":"record"' in line]


def assert_merged_equals_whole(umbench, study, tmp_path):
    assert umbench("merge", *sorted((tmp_path / "parts").glob("part*.jsonl")), "--out", "merged.jsonl").returncode == 0
    assert umbench("sweep", study, "--out", "whole.jsonl").returncode == 0
    assert records(tmp_path / "merged.jsonl") == records(tmp_path / "whole.jsonl")


@pytest.fixture
def batch_script(umbench, study, tmp_path):
    """A function that runs the batch script with the variables that Slurm sets."""

    def run(task_number, task_count, **variables):
        environment = os.environ | {"UMBENCH": umbench.program, "SPEC": str(study), "OUT": str(tmp_path / "parts"),
                                    "SLURM_ARRAY_TASK_ID": task_number, "SLURM_ARRAY_TASK_COUNT": task_count} | variables
        done = subprocess.run(["bash", EXAMPLES / "slurm/sweep.sbatch"], env=environment, capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stderr

    return run


def test_the_batch_script_runs_shards_and_resumes(umbench, study, tmp_path, batch_script):
    for _ in range(2):  # the second call runs as after a requeue
        for task in ("1", "2"):
            batch_script(task, "2")
    assert_merged_equals_whole(umbench, study, tmp_path)


def test_one_shard_can_run_again_alone(umbench, study, tmp_path, batch_script):
    for task in ("1", "2"):
        batch_script(task, "2")
    (tmp_path / "parts/part0002.jsonl").unlink()
    batch_script("2", "1", SHARDS="2")  # as of an array of this task alone
    assert_merged_equals_whole(umbench, study, tmp_path)
