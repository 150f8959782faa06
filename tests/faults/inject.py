#!/usr/bin/env python3
"""Makes calls of umbench to the kernel fail, stop half-way or meet a signal, one a trial, at random, and holds what is
left against what was promised: no record is lost that was there or told, none is doubled, no success is told that is
none, a resumed sweep ends as an undisturbed one.

    tests/faults/inject.py PROGRAM [--faults 1000] [--kills 1000] [--seed 1]

Takes minutes; ./check runs a few. Needs a C compiler; PROGRAM must not be built with a sanitizer."""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SETTING = ["--network", "conv", "--batch", "2", "--backend", "sim:h200", "--ratio", "1", "--iterations", "2"]
SPEC = {"schema": 1, "name": "s",
        "grids": [{"network": "conv", "batch": 2, "strategy": ["device", "managed", "managed_advise"], "ratio": [0.5, 1],
                   "backend": "sim:h200", "iterations": 2}]}
TASKS = {
    "run": ["run", *SETTING, "--strategy", "managed_advise", "--out", "a.jsonl"],
    "sweep": ["sweep", "s.json", "--out", "a.jsonl", "--resume"],
    "merge": ["merge", "1.jsonl", "2.jsonl", "--out", "a.jsonl"],
    "tune": ["tune", *SETTING, "--trials", "2", "--jobs", "2", "--out", "a.json"],
}
ERRORS = {"read": ["EIO", "EINTR", "short", "end"], "write": ["EIO", "ENOSPC", "EINTR", "short"], "open": ["EIO", "EMFILE", "EINTR"],
          "sync": ["EIO", "ENOSPC", "EINTR"], "cut": ["EIO", "EINTR"], "rename": ["EIO", "ENOSPC"], "poll": ["EINTR", "ENOMEM"],
          "spawn": ["EAGAIN", "ENOMEM"], "pipe": ["EMFILE"], "malloc": ["ENOMEM"]}
PATIENCE_S = 3600  # only a hang takes so long


def restore_signal_handlers():
    """Runs in the program's process before the program, since it would inherit that this process ignores signals."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class BrokenPromise(Exception):
    """A promise that was not kept."""


def comparable_entry(line):
    """Without what differs between two runs: how long the plan took to make, and when it was."""
    entry = json.loads(line)
    for name in ("planning_ns", "created"):
        entry.pop(name, None)
    return entry


def require(is_kept, complaint):
    if not is_kept:
        raise BrokenPromise(complaint)


class FaultBench:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.library = folder / "inject.so"
        subprocess.run([shutil.which("cc") or "gcc", "-O1", "-shared", "-fPIC", "-o", self.library, HERE / "inject.c", "-ldl"],
                       check=True)
        self.start, self.place = folder / "start", folder / "place"
        self.start.mkdir()
        self.prepare()

    def umbench(self, arguments, folder, fault=None, count=None):
        more = {} if fault is None and count is None else {"LD_PRELOAD": str(self.library)}
        if fault is not None:
            more["UMBENCH_FAULT"] = fault
        if count is not None:
            more["UMBENCH_FAULT_COUNT"] = str(count)
        return subprocess.run([self.program, *arguments], cwd=folder, env={**os.environ, **more}, capture_output=True,
                              timeout=PATIENCE_S, check=False, preexec_fn=restore_signal_handlers)

    def run_ok(self, arguments, folder):
        done = self.umbench(arguments, folder)
        assert done.returncode == 0, done.stderr.decode()

    def prepare(self):
        (self.start / "s.json").write_text(json.dumps(SPEC), encoding="utf-8")
        self.run_ok(["sweep", "s.json", "--out", "whole.jsonl"], self.start)
        lines = (self.start / "whole.jsonl").read_bytes().splitlines(True)
        self.wanted = [comparable_entry(line) for line in lines[1:]]
        (self.start / "a.jsonl").write_bytes(b"".join(lines[:3]))
        for shard in "12":
            self.run_ok(["sweep", "s.json", "--out", f"{shard}.jsonl", "--shard", f"{shard}/2"], self.start)
        self.alone = {task: self.run_undisturbed(task) for task in TASKS}
        self.calls = {task: self.count_calls(task) for task in TASKS}

    def reset_place(self, task):
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.start, self.place)
        if task in ("merge", "tune"):
            (self.place / "a.jsonl").unlink()

    def run_undisturbed(self, task):
        self.reset_place(task)
        self.run_ok(TASKS[task], self.place)
        return {name: self.file_bytes(name) for name in ("a.jsonl", "a.json")}

    def count_calls(self, task):
        self.reset_place(task)
        self.umbench(TASKS[task], self.place, count=self.folder / "count")
        rows = (self.folder / "count").read_text(encoding="utf-8").split()
        return {name: int(number) for name, number in zip(rows[::2], rows[1::2])}

    def file_bytes(self, name):
        path = self.place / name
        return path.read_bytes() if path.exists() else None

    # --- promises ---

    def entries(self, text):
        """[entry] of the complete lines. Throws BrokenPromise if a line other than the last one is torn."""
        found = []
        lines = (text or b"").split(b"\n")
        for number, line in enumerate(lines):
            try:
                found.append(comparable_entry(line))
            except ValueError:
                require(number == len(lines) - 1, f"line {number + 1} is no JSON")
        return found

    def check(self, task, done):
        said = done.stderr.decode(errors="replace")
        require(done.returncode not in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE, 134, 139),
                f"it crashed: {done.returncode}: {said[-300:]}")
        text = self.file_bytes("a.jsonl")
        kept = self.entries(text)
        keys = [entry["key"] for entry in kept if entry["kind"] == "record" and entry["outcome"] in ("ok", "infeasible")]
        require(len(keys) == len(set(keys)) or task == "run", "a result is doubled")
        told = re.findall(r"(?m)^\[ *\d+/\d+\] (\S+) \.\.\. .* left$", said)
        require(set(told) <= {entry.get("key") for entry in kept}, "a record that was told is not there")
        if task in ("run", "sweep"):
            require((text or b"").startswith((self.start / "a.jsonl").read_bytes()), "what was there is lost")
        if done.returncode > 0:
            require(said.strip() or task == "merge", f"it fails with {done.returncode} and does not say why")
        getattr(self, "check_" + task)(done, text, kept)

    def check_run(self, done, text, kept):
        records = [entry for entry in kept if entry["kind"] == "record"]
        require(len(records) in (2, 3), f"{len(records)} records after one run into two")
        if done.returncode == 0:
            alone = [entry for entry in self.entries(self.alone["run"]["a.jsonl"]) if entry["kind"] == "record"]
            require(records == alone, "success is told, and the record is not so")

    def check_sweep(self, done, _, kept):
        if done.returncode == 0:
            require([entry for entry in kept if entry["kind"] == "record"] == self.wanted, "success is told, and it is none")
        self.run_ok(TASKS["sweep"], self.place)
        last = {entry["key"]: entry for entry in self.entries(self.file_bytes("a.jsonl")) if entry["kind"] == "record"}
        require(sorted(map(json.dumps, last.values())) == sorted(map(json.dumps, self.wanted)),
                "the resumed sweep is not what an undisturbed one is")

    def check_merge(self, done, text, _):
        require(text in (None, self.alone["merge"]["a.jsonl"]), "half a file is left")
        require(done.returncode != 0 or text is not None, "success is told, and there is no file")

    def check_tune(self, done, _, __):
        rules = self.file_bytes("a.json")
        if rules is not None:
            require(json.loads(rules)["kind"] == "hints", "the rules are no rules")
        if done.returncode == 0:
            require(rules == self.alone["tune"]["a.json"], "success is told, and the rules are others")

    # --- trials ---

    def run_trial(self, task, fault):
        self.reset_place(task)
        done = self.umbench(TASKS[task], self.place, fault)
        self.check(task, done)
        require(not [path.name for path in self.place.iterdir() if re.search(r"\.[A-Za-z0-9]{6}$", path.name)] or
                done.returncode < 0, "a file beside another one is left")
        return done.returncode


def draw_trial(bench, kind):
    task = random.choice(list(TASKS))
    calls = bench.calls[task]
    if kind == "kill":
        number = random.choice([signal.SIGKILL] * 3 + [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
        call = random.choice(["any", "write", "read", "open", "poll"])
        most = sum(calls.values()) if call == "any" else calls[call]
        return task, f"parent {call} {random.randint(1, max(most, 1))} {int(number)}"
    call = random.choice([name for name in ERRORS if calls[name] > 0])
    who = "cell" if call in ("malloc", "read", "write") and task != "merge" and random.random() < 0.2 else "parent"
    most = calls[call] if who == "parent" else {"malloc": 2000, "read": 12, "write": 3}[call]
    return task, f"{who} {call} {random.randint(1, most)} {random.choice(ERRORS[call])}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one fault, as \"run parent write 3 EIO\"")
    options = parser.parse_args()
    random.seed(options.seed)
    broken, codes = [], collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        bench = FaultBench(pathlib.Path(options.program).resolve(), pathlib.Path(folder))
        kinds = ["fault"] * options.faults + ["kill"] * options.kills
        for number, kind in enumerate(kinds):
            task, fault = options.only.split(" ", 1) if options.only else draw_trial(bench, kind)
            try:
                codes[task, kind, bench.run_trial(task, fault)] += 1
            except (BrokenPromise, subprocess.TimeoutExpired, AssertionError) as error:
                broken.append(f"{task} {fault}: {error}")
                print(broken[-1], flush=True)
            if options.only:
                break
            if (number + 1) % 100 == 0:
                print(f"{number + 1} of {len(kinds)}, {len(broken)} promises broken", file=sys.stderr, flush=True)
    for (task, kind, code), count in sorted(codes.items()):
        print(f"{task:6} {kind:6} exit {code:4}  {count}")
    print(f"{options.faults} faults, {options.kills} kills: {len(broken)} promises broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
