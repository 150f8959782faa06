#!/usr/bin/env python3
"""Is the planted fault of each program named first, and does its mend save what umbench explain says? Needs a GPU.

    trace/programs/judge.py BUILD [--out DIR] [--mib N] [--runs N] [--kept TRACES]

Each program runs plainly and mended, three times each, and once traced. With --kept the traces and times of an earlier run are
judged again, without a GPU. One line a program, then how many were named first and how many savings lie within 30 %; those after the
twelfth are a second set that the rules were not written on.
"""
import argparse
import json
import statistics
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).resolve().parent)]

import check  # noqa: E402
from umbench.trace import explain, reader  # noqa: E402

FIRST_SET, WITHIN = 12, 0.3

Verdict = namedtuple("Verdict", "is_named_first is_saving_near")  # of one program; near: within 30 % of the measured saving


def programs(build):
    """[(name, key of the finding that it plants)]"""
    shown = subprocess.run([f"{build}/um_trace_programs"], stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = [line.split(" ") for line in shown.splitlines()]
    return [(name, plants) for name, plants in rows if plants]


def measure_programs(build, out, mib, runs):
    """Writes OUT/NAME.jsonl, a trace each, and OUT/times.json."""
    times = {}
    for name, plants in programs(build):
        size = ["--mib", mib]
        plain = statistics.median(check.run_program(build, name, size)[0]["seconds"] for _ in range(runs))
        mended = statistics.median(check.run_program(build, name, [*size, "--fixed"])[0]["seconds"] for _ in range(runs))
        traced, lines = check.run_program(build, name, size, str(out / f"{name}.jsonl"))
        _, again = check.run_program(build, name, size, str(out / f"{name}.times"), UMBENCH_TRACE_TIMES="1")
        again[0]["role"] = "times"
        with open(out / f"{name}.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines + again)
        times[name] = {"plants": plants, "plain_s": plain, "mended_s": mended, "traced_s": traced["seconds"]}
    (out / "times.json").write_text(json.dumps(times, indent=1) + "\n", encoding="utf-8")


def judge_findings(folder):
    """Prints a line a program. Returns [Verdict]."""
    verdicts = []
    for name, of in json.loads((folder / "times.json").read_text(encoding="utf-8")).items():
        process = explain.busiest_process(reader.read_trace_file(folder / f"{name}.jsonl"))
        _, found, _, _ = explain.explain(process)
        saved = 1e3 * (of["plain_s"] - of["mended_s"])
        said = found[0].saving_ns / 1e6 if found else 0
        is_named_first = bool(found) and found[0].key == of["plants"]
        is_saving_near = is_named_first and saved > 0 and abs(said - saved) <= WITHIN * saved
        verdicts.append(Verdict(is_named_first, is_saving_near))
        print(f"{name}: plants {of['plants']}, named {', '.join(f.key for f in found) or 'nothing'}; {1e3 * of['plain_s']:.2f} ms, mended "
              f"{1e3 * of['mended_s']:.2f} ms, traced {1e3 * of['traced_s']:.2f} ms; saves {saved:.2f} ms, said {said:.2f} ms"
              f"{'' if is_named_first else '  NOT NAMED'}{'' if is_saving_near else '  OFF'}", flush=True)
    for title, part in (("first set", verdicts[:FIRST_SET]), ("second set", verdicts[FIRST_SET:])):
        print(f"{title}: {sum(v.is_named_first for v in part)} of {len(part)} named first, {sum(v.is_saving_near for v in part)} savings within 30 %")
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build/cuda")
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--mib", default="512")
    parser.add_argument("--runs", type=int, default=3, help="of each program, whose median counts")
    parser.add_argument("--kept", type=Path, metavar="TRACES")
    wanted = parser.parse_args()
    if not wanted.kept:
        wanted.out.mkdir(parents=True, exist_ok=True)
        measure_programs(str(Path(wanted.build).resolve()), wanted.out, wanted.mib, wanted.runs)
    verdicts = judge_findings(wanted.kept or wanted.out)
    first_set = verdicts[:FIRST_SET]
    return 0 if sum(v.is_named_first for v in first_set) >= 11 and sum(v.is_saving_near for v in first_set) >= 9 else 1


if __name__ == "__main__":
    sys.exit(main())
