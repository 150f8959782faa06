#!/usr/bin/env python3
"""Traces programs of which it is known what must move, and compares. Needs a GPU.

    trace/programs/check.py BUILD [--out DIR] [--mib N]

BUILD holds libumbench_trace.so and um_trace_programs. Prints one line a program; exit code 1 where a byte is missing.
"""
import argparse
import glob
import json
import os
import subprocess
import sys

EXACT = ["stream_by_faults", "stream_by_prefetch", "pushed_out", "in_turns", "strided", "duplicated"]
FAULTS_IN = ("in_demand", "in_tree")
FAULTS_OUT = ("out_demand", "out_tree")


def run_program(build, name, options, trace=None, **extra_environment):
    """The program's own line, and its trace's lines. `extra_environment`: further environment variables."""
    environment = os.environ | extra_environment
    if trace:
        for old in glob.glob(trace + ".*"):
            os.remove(old)
        environment["CUDA_INJECTION64_PATH"] = os.path.join(build, "libumbench_trace.so")
        environment["UMBENCH_TRACE_OUT"] = trace
    done = subprocess.run([os.path.join(build, "um_trace_programs"), name, *options], env=environment,
                          stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{name}: exit code {done.returncode}")
    lines = []
    for path in glob.glob(trace + ".*") if trace else []:
        with open(path, encoding="utf-8") as file:
            lines += [json.loads(line) for line in file]
    return json.loads(done.stdout), lines


def sum_of_quantities(lines, quantities):
    return sum(run[2] for line in lines for quantity in quantities for run in line.get(quantity, []))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--out", default=".")
    parser.add_argument("--mib", default="256")
    arguments = parser.parse_args()
    wrong = 0
    for name in EXACT:
        plain, _ = run_program(arguments.build, name, ["--mib", arguments.mib])
        said, lines = run_program(arguments.build, name, ["--mib", arguments.mib], os.path.join(arguments.out, name + ".jsonl"))
        moved = {
            "fault_in_bytes": sum_of_quantities(lines, FAULTS_IN),
            "fault_out_bytes": sum_of_quantities(lines, FAULTS_OUT),
            "prefetch_in_bytes": sum_of_quantities(lines, ("in_user",)),
            "prefetch_out_bytes": sum_of_quantities(lines, ("out_user",)),
        }
        off = {key: moved[key] - said[key] for key in moved if said[key] >= 0 and moved[key] != said[key]}
        wrong += bool(off)
        faults = sum_of_quantities(lines, ("gpu_read_faults", "gpu_write_faults"))
        cpu = sum_of_quantities(lines, ("cpu_read_faults", "cpu_write_faults"))
        waiting = sum(line.get("waiting_ns", 0) for line in lines) / 1e6
        lacking = [line["what"] for line in lines if line["kind"] == "lacking"]
        lost = sum(line.get("lost_records", 0) for line in lines)
        kinds = {}
        for line in lines:
            kinds[line["kind"]] = kinds.get(line["kind"], 0) + 1
        print(f"{name}: {'as expected' if not off else f'off by {off}'}; {plain['seconds'] * 1e3:.2f} ms, traced "
              f"{said['seconds'] * 1e3:.2f} ms, waiting {waiting:.2f} ms; {faults} GPU faults, {cpu} CPU faults; "
              f"lines {kinds}; lost {lost}; lacking {lacking}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
