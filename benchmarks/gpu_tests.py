"""Runs the tests of the CUDA backend from a folder of their executables, several at a time."""

import concurrent.futures
import os
import re
import subprocess
import time

# Tests that compare times or free memory run first and alone. The others run in shards; those that find most defects come first, since the
# time may not suffice for all.
ALONE = ("cuda_executor_test", "cuda_allocators_test", "cuda_replay_test", "measure_gpu_test")
SHARDS = {"cuda_engines_test": 4, "cuda_convolution_kernels_test": 2, "cuda_strategies_test": 16, "cuda_operators_test": 24,
          "cuda_parts_test": 4}  # on an H100 with 12 cores all tests end in 390 s
JOBS = max(4, min(20, len(os.sched_getaffinity(0)) + 4))
EXCLUDED = "*ballast*"  # tests of a ballast, which takes nearly all device memory
VERDICT = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] ([^ ,]+)[, ].*\((\d+) ms\)$", re.MULTILINE)


def run_all(test_folder, log_folder, max_seconds):
    """Runs all tests. Returns whether all ended, none failed and fewer were skipped than ran. Prints a line for each executable, and the
    output of those that fail."""
    end_time = time.monotonic() + max_seconds
    log_folder.mkdir(parents=True, exist_ok=True)
    executable_of_name = {path.name: path for path in sorted(test_folder.rglob("*_test")) if path.name in ALONE or path.name.startswith("cuda_")}
    if not executable_of_name:
        print(f"error: no cuda_*_test in {test_folder}; build the preset cuda, or name its folder")
        return False
    results = [run_shard(executable_of_name[name], 0, 1, log_folder, end_time) for name in ALONE if name in executable_of_name]
    names_of_parallel_tests = ([name for name in SHARDS if name in executable_of_name]
                               + [name for name in executable_of_name if name not in ALONE and name not in SHARDS])
    jobs = [(executable_of_name[name], shard, SHARDS.get(name, 1)) for name in names_of_parallel_tests for shard in range(SHARDS.get(name, 1))]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        results += pool.map(lambda job: run_shard(*job, log_folder, end_time), jobs)
    return report_whether_all_passed(results)


def run_shard(executable, shard_index, shard_count, log_folder, end_time):
    """Runs one shard of an executable. Returns (name, exit code, output); the code is None if it was stopped."""
    name = executable.name if shard_count == 1 else f"{executable.name}.{shard_index + 1}_of_{shard_count}"
    environment = os.environ | {"GTEST_TOTAL_SHARDS": str(shard_count), "GTEST_SHARD_INDEX": str(shard_index)}
    begin_s = time.monotonic()
    log = log_folder / f"{name}.log"
    with log.open("w", encoding="utf-8") as log_stream:
        try:
            exit_code = subprocess.run([str(executable), f"--gtest_filter=-{EXCLUDED}", "--gtest_color=no"],
                                       env=environment, stdin=subprocess.DEVNULL, stdout=log_stream, stderr=subprocess.STDOUT,
                                       timeout=max(1, end_time - begin_s), check=False).returncode
        except subprocess.TimeoutExpired:
            exit_code = None
    output = log.read_text(encoding="utf-8", errors="backslashreplace")
    counts = count_verdicts(output)
    print(f"{name}: {counts['OK']} ok, {counts['FAILED']} failed, {counts['SKIPPED']} skipped, {time.monotonic() - begin_s:.0f} s"
          + (", stopped" if exit_code is None else f", exit code {exit_code}" if exit_code else ""), flush=True)
    return name, exit_code, output


def count_verdicts(test_output):
    """{"OK", "FAILED", "SKIPPED": number of tests} of an executable's output."""
    verdicts = [match[1] for match in VERDICT.finditer(test_output)]
    return {verdict: verdicts.count(verdict) for verdict in ("OK", "FAILED", "SKIPPED")}


def report_whether_all_passed(results):
    """Prints the sums and the output of executables that failed. Returns what run_all() does."""
    totals = {verdict: sum(count_verdicts(output)[verdict] for _, _, output in results) for verdict in ("OK", "FAILED", "SKIPPED")}
    for name, exit_code, output in results:
        if exit_code:
            telling_lines = [line for line in output.splitlines() if not re.match(r"\[( RUN|       OK|  SKIPPED)", line)]
            print(f"== {name}", *telling_lines[-60:], sep="\n")
    stopped_names = [name for name, exit_code, _ in results if exit_code is None]
    print(f"tests: {totals['OK']} ok, {totals['FAILED']} failed, {totals['SKIPPED']} skipped"
          + (f", stopped: {', '.join(stopped_names)}" if stopped_names else ""), flush=True)
    return totals["OK"] > totals["SKIPPED"] and not totals["FAILED"] and all(exit_code == 0 for _, exit_code, _ in results)
