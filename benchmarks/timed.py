"""Runs programs that are stopped when their time is over, and appends to files of measurements that a later run continues."""

import json
import os
import re
import signal
import subprocess

STOPPED_EXIT_CODES = (128 + signal.SIGINT, -signal.SIGINT)
SUCCESS_EXIT_CODES = (0, *STOPPED_EXIT_CODES)  # exit codes of a program that succeeded, or was stopped when its time was over


def run_within(command, max_seconds, extra_environment=None, quiet=False):
    """Runs a program with further environment variables, and returns its exit code. It gets SIGINT when the time is over, and is killed if it
    does not end within a minute."""
    words = [str(word) for word in command]
    if not quiet:
        print("$", *words, flush=True)
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if quiet else None,
                             env=os.environ | (extra_environment or {}))
    try:
        return child.wait(max_seconds)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
    try:
        return child.wait(60)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def count_cells(umbench_path, sweep_file):
    """The number of cells of a sweep's file."""
    process = subprocess.run([str(umbench_path), "sweep", str(sweep_file), "--list"], stdout=subprocess.PIPE, text=True, check=True)
    return int(re.search(r"(?m)^(\d+) cells", process.stdout)[1])


def read_lines_if_exists(path):
    """The lines of a file of measurements, one JSON value each; none if there is no such file."""
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def measure_missing(line_file, tasks, key_fields, measure, is_time_over=lambda: False):
    """For each task that differs in `key_fields` from all lines of the file, appends measure(task) and prints it, until is_time_over() is true."""
    def key(task_or_line):
        return tuple(task_or_line[name] for name in key_fields)

    done_keys = {key(entry) for entry in read_lines_if_exists(line_file)}
    for task in tasks:
        if key(task) in done_keys:
            continue
        if is_time_over():
            return
        entry = measure(task)
        print(json.dumps(entry), flush=True)
        with line_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
