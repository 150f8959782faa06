#!/usr/bin/env python3
"""Wrong command lines and files, thousands of them, generated: umbench and its scripts must not crash, hang or print a
traceback, say what is wrong in at most three lines, and end with exit code 2, or 0, 1 or 3 where what came out by chance
is not wrong.

    tests/faults/wrong_inputs.py PROGRAM [--inputs 5000] [--seed 1]

Takes minutes; ./check runs a few."""

import argparse
import collections
import copy
import importlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]

import forked  # noqa: E402

PATIENCE_S = 3600  # only a hang takes so long
CONV = ["--network", "conv", "--backend", "sim:h200"]
RUN = ["run", *CONV, "--strategy", "managed"]
WORDS = ["", "x", "-1", "0", "1.5", "1e3", "nan", "inf", "9" * 40, str(2**63), str(2**64), "NaN GiB", "4 lightyears", "a=b", "=", "a=",
         "ahead=x", "x" * 5000, "../..", "/", "/nonexistent/x", "--", "'", "`", "$(x)", "a\nb", "ü", "\x01", "%s%n", "null", "[]", "{}",
         "plan:x", "sim:", "cuda:", "cuda:-1", "cuda:99999", "1/0", "0/1", "2/1", "managed,without=", "managed,without=x", ".json"]
OPTIONS = {
    "run": ["--network", "--batch", "--insize", "--set", "--pass", "--fusion", "--precision", "--memory-order", "--strategy", "--without",
            "--knob", "--ratio", "--budget", "--mode", "--workspace-cap", "--backend", "--machines", "--like", "--plan", "--iterations",
            "--deadline", "--values", "--frobnicate", "--timeline="],
    "plan": ["--network", "--batch", "--insize", "--set", "--strategy", "--knob", "--ratio", "--budget", "--mode", "--backend", "--deadline"],
    "sweep": ["--jobs", "--shard", "--machines", "--like", "--frobnicate"],
    "tune": ["--trials", "--best", "--like", "--jobs", "--out", "--strategy", "--iterations", "--deadline"],
    "ablate": ["--jobs", "--strategy", "--iterations", "--like"],
    "merge": ["--out"], "list": ["--machines"], "env": ["--machine", "--machines"], "validate": ["--machine", "--machines"],
    "calibrate": ["--backend", "--name", "--like", "--machines", "--samples"], "pack": ["--packer", "--limit"],
    "export": ["--format", "--out", "--frobnicate"], "interleave": ["--base", "--head", "--rounds", "--more", "--out", "--machines"],
    "advise": ["--network", "--batch", "--insize", "--set", "--ratio", "--budget", "--backend", "--machines", "--precision", "--frobnicate"],
    "reproduce": ["--backend", "--kept", "--iterations", "--out", "--frobnicate"],
    "compare": ["--limit", "--fail-on", "--absolute", "--alpha", "--confidence", "--correction", "--noise", "--format", "--out", "--pairs"],
    "report": ["--out", "--title"], "plot": ["--out", "--frobnicate"]}
# Started here without a new interpreter each time, which would take most of the time.
MODULES = {"export": "export", "compare": "compare", "interleave": "interleave", "report": "plots.report", "plot": "plots"}
SHOWN = ["text", "markdown", "json"]  # by compare
FORMATS = ["csv", "junit", "bencher", "github-action", "google-benchmark", "perfetto"]
VALUES = [None, True, False, 0, -1, 1.5, 1e308, 2**63, 2**64, -2**63, "", "x", "\ud7ff", "a\nb", "9" * 50, [], {}, [[]], {"x": 1}, [None],
          "managed", 4611686018427387904, 10**17, "plan:x", "\u2028", "x" * 10_000]


class WrongInputs:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.documents = self.originals()

    def umbench(self, *arguments):
        if arguments[0] in MODULES:
            return forked.run(MODULES[arguments[0]], *arguments[1:], cwd=self.folder)
        return subprocess.run([self.program, *arguments], cwd=self.folder, capture_output=True, timeout=PATIENCE_S, check=False,
                              stdin=subprocess.DEVNULL, text=True, errors="replace")

    def originals(self):
        """{kind: (document, command line that reads it as FILE)}; of records, the lines."""
        (self.folder / "machines").mkdir()
        done = self.umbench("plan", *CONV, "--strategy", "swap_all", "-o", "plan.json")
        assert done.returncode == 0, done.stderr
        self.umbench(*RUN, "--timeline", "--out", "records.jsonl")
        measured = (ROOT / "results/measured/h200_aa/base/01.jsonl").read_text(encoding="utf-8").splitlines(True)[:2]
        with open(self.folder / "records.jsonl", "a", encoding="utf-8") as file:
            file.writelines(measured)
        read = lambda path: json.loads((self.folder / path).read_text(encoding="utf-8"))
        sweep = {"schema": 1, "name": "s", "common": {"iterations": 2, "deadline_s": 9}, "grids": [
            {"network": ["conv"], "batch": [1, 2], "strategy": ["device", "managed"], "ratio": [1, 2], "backend": "sim:h200",
             "fusion": "fused", "precision": "fp32", "mode": "simulated", "timeline": False}]}
        rules = {"schema": 1, "kind": "hints", "name": "mine", "summary": "s", "rules": [
            {"name": "w", "roles": ["parameter"], "advise": "preferred_device"},
            {"name": "f", "prefetch": {"operands": "inputs", "ahead_operators": 1}},
            {"name": "d", "roles": ["activation"], "discard": {"prefetch": True}}]}
        machine = json.loads((ROOT / "results/machines/h200.json").read_text(encoding="utf-8")) | {"name": "mine"}
        figures = {"schema": 1, "figures": [{"name": "n", "source": "s", "least": 1, "most": 2, "unit": "GB/s", "input": False,
                                             "machine": "h200", "pattern": "stream_read"}]}
        network = json.loads((ROOT / "tests/networks/exported/alexnet.json").read_text(encoding="utf-8"))
        lifetimes = [[n, 2**n, n, n + 3, f"{n} {n + 2}"] for n in range(12)]
        lines = [json.loads(line) for line in (self.folder / "records.jsonl").read_text(encoding="utf-8").split("\n") if line]
        return {"sweep": (sweep, ["sweep", "FILE", "--list"]), "rules": (rules, ["run", *CONV, "--iterations", "2", "--strategy", "FILE"]),
                "machine": (machine, ["list", "machines", "--machines", "machines"]),
                "plan": (read("plan.json"), ["run", "--backend", "sim:h200", "--iterations", "2", "--plan", "FILE"]),
                "network": (network, ["plan", "--network", "FILE", "--strategy", "managed", "--backend", "sim:h200", "--ratio", "2"]),
                "figures": (figures, ["validate", "FILE"]), "lifetimes": (lifetimes, ["pack", "FILE"]),
                "records": (lines, ["merge", "FILE", "--out", "merged.jsonl"]),
                "exported": (lines, ["export", "FILE", "--format", "FORMAT"]), "compared": (lines, ["compare", "FILE", "records.jsonl", "--allow-unlike", "--all", "--format", "SHOWN"]),
                "drawn": (lines, ["report", "FILE", "--out", "page"])}

    # --- what is wrong with a document ---

    def all_members(self, value, found):
        if isinstance(value, dict):
            for name in value:
                found.append((value, name))
                self.all_members(value[name], found)
        if isinstance(value, list):
            for index, part in enumerate(value):
                found.append((value, index))
                self.all_members(part, found)
        return found

    def change_randomly(self, document):
        holder, name = random.choice(self.all_members(document, []))
        how = random.randrange(5)
        if how == 0:
            del holder[name]
        elif how == 1 and isinstance(holder, dict):
            holder[name + random.choice(["x", " ", "\u0000", ""])] = holder.pop(name)
        elif how == 2 and isinstance(holder[name], (int, float)) and not isinstance(holder[name], bool):
            holder[name] = random.choice([-holder[name] - 1, holder[name] * 2**40, holder[name] + 0.5, str(holder[name]), 2**62])
        elif how == 3 and isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[name]) for _ in range(random.choice([1, 3, 300])))
        else:
            holder[name] = copy.deepcopy(random.choice(VALUES))

    def spoil_bytes(self, data):
        """Bytes changed in the way of a bad disk, a bad copy or an editor."""
        at = random.randrange(len(data) + 1)
        return random.choice([
            lambda: data[:at], lambda: data[:at] + bytes([random.randrange(256)]) + data[at + 1:], lambda: data[:at] + data[at // 2:],
            lambda: b"\xef\xbb\xbf" + data, lambda: data.decode().encode("utf-16"), lambda: data[:at] + b"\0" * 40 + data[at:],
            lambda: data.replace(b"\n", b"\r\n"), lambda: b"", lambda: b"[" * random.choice([10, 100_000]) + data, lambda: data * 2])()

    def write_wrong_file(self):
        kinds = list(self.documents)
        kind = random.choices(kinds, [0.1 if kind == "drawn" else 1 for kind in kinds])[0]  # it takes a hundred times as long
        document, command = self.documents[kind]
        document = copy.deepcopy(document)
        data = None
        if random.random() < 0.75:
            for _ in range(random.choice([1, 1, 2, 4])):
                if self.all_members(document, []):
                    self.change_randomly(document)
        if kind in ("records", "exported", "compared", "drawn"):
            data = b"".join(json.dumps(line).encode() + b"\n" for line in document)
        elif kind == "lifetimes":
            rows = [row if isinstance(row, list) else [row] for row in document]
            data = "\n".join(["id,bytes,begin,end,accesses", *(",".join(map(str, row)) for row in rows)]).encode()
        else:
            data = json.dumps(document).encode()
        if random.random() < 0.3:
            data = self.spoil_bytes(data)
        name = {"machine": "machines/mine.json", "records": "input.jsonl", "lifetimes": "input.csv"}.get(kind, "input.json")
        (self.folder / name).write_bytes(data)
        return kind, [{"FILE": name, "FORMAT": random.choice(FORMATS), "SHOWN": random.choice(SHOWN)}.get(word, word) for word in command], data

    def wrong_command(self):
        command = random.choice(list(OPTIONS))
        option, word = random.choice(OPTIONS[command]), random.choice(WORDS)
        base = {"run": RUN, "plan": ["plan", *CONV, "--strategy", "managed"], "sweep": ["sweep", "good.json", "--list"],
                "tune": ["tune", *CONV, "--trials", "1"], "ablate": ["ablate", *CONV], "merge": ["merge", "records.jsonl"], "pack": ["pack", str(ROOT / "tests/harness/lifetimes/vgg16.csv")],
                "export": ["export", "records.jsonl"], "compare": ["compare", "records.jsonl", "records.jsonl"],
                "advise": ["advise", *CONV, "--iterations", "2"],
                "reproduce": ["reproduce", "unified_memory", "--no-figure", "--kept", str(ROOT / "results/papers/simulated")],
                "interleave": ["interleave", "good.json"], "report": ["report"], "plot": ["plot"],
                "calibrate": ["calibrate", "--out", "c.json", "--backend", "cuda:99"]}.get(command, [command])
        if command == "run" and random.random() < 0.2:
            base = ["run"]
        words = [*base, option, word] if random.random() < 0.9 else [*base, word, option]
        if "\0" in word:
            words = base
        return "command", words, b""

    def trial(self):
        for name in ("merged.jsonl", "tuned.jsonl", "tuned.json", "ablation.jsonl", "c.json", "machines/mine.json"):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "good.json").write_text(json.dumps(self.documents["sweep"][0]), encoding="utf-8")
        kind, words, data = self.write_wrong_file() if random.random() < 0.7 else self.wrong_command()
        done = self.umbench(*words)
        return kind, words, data, done


def defect_of(done):
    said = done.stderr
    lines = [line for line in said.splitlines() if not line.startswith("[")]
    if done.returncode not in (0, 1, 2, 3, 4):
        return f"exit code {done.returncode}"
    if "Traceback" in said or "terminate called" in said or "Sanitizer" in said or ": runtime error: " in said:
        return "a traceback"
    if done.returncode == 2 and not said.startswith("umbench: ") and len(lines) != 1 and not lines[-1].startswith("umbench: "):
        return "no line that says why"
    if done.returncode != 0 and not said.strip():
        return "fails without a word"
    if done.returncode == 2 and len(lines) > 3:
        return f"{len(lines)} lines of message"
    if done.returncode == 2 and max(map(len, lines)) > 3000:
        return f"a message of {max(map(len, lines))} characters"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--inputs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    for library in ("umbench.comparison", "umbench.export_formats", "matplotlib.pyplot"):
        importlib.import_module(library)
    codes, defects = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        generator = WrongInputs(pathlib.Path(options.program).resolve(), pathlib.Path(folder))
        for number in range(options.inputs):
            kind, words, data, done = generator.trial()
            codes[kind, done.returncode] += 1
            defect = defect_of(done)
            if defect:
                defects += 1
                said = done.stderr[-300:]
                print(f"{defect}: {[word[:60] for word in words]} {data[:200]!r}: {said}", flush=True)
            if (number + 1) % 500 == 0:
                print(f"{number + 1} of {options.inputs}, {defects} defects", file=sys.stderr, flush=True)
    for (kind, code), count in sorted(codes.items()):
        print(f"{kind:8} exit {code:3}  {count}")
    print(f"{options.inputs} inputs: {defects} defects")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
