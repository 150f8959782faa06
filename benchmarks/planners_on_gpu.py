#!/usr/bin/env python3
"""What planners are worth on the GPU that is here, the most telling first, within so many minutes.

    python3 benchmarks/planners_on_gpu.py --umbench build/cuda/umbench --out measured --minutes 25

Steps, each with its share of the time (what one leaves goes to the next) and its file in OUT: `best` (its cells and device's),
`ooc_cudnn` (both figures of its paper with 16 GB), `papers` (all planners), `remedies` (PyTorch's, where torch is). A sweep that is
stopped keeps its records: the same command again goes on with all of them. The exit code is 1 if a step ended otherwise, or
some of its cells failed.
"""

import argparse
import importlib.util
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STOPPED = (128 + signal.SIGINT, -signal.SIGINT)
SHARES = {"best": 0.4, "ooc_cudnn": 0.15, "papers": 0.3, "remedies": 0.15}


def command_of(step, binary, folder, seconds):
    out = str(folder / f"{step}.jsonl")
    if step == "remedies":
        return [sys.executable, str(ROOT / "benchmarks/peers/remedies.py"), "--umbench", binary, "--out", out, "--resume",
                "--stop-after", str(int(seconds))]
    resume = ["--resume"] if Path(out).exists() else []
    return [binary, "sweep", str(ROOT / f"benchmarks/sweeps/gpu_{step}.json"), "--out", out, "--times-only", "--no-preflight", *resume]


def run(line, seconds):
    """Its exit code; it is asked to stop when the time is over."""
    child = subprocess.Popen(line, stdin=subprocess.DEVNULL)
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
    try:
        return child.wait(60)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def plan(shares, done, minutes):
    """(step, seconds) of the next step: its share of what is left, as if those before it were over."""
    left = {step: share for step, share in shares.items() if step not in done}
    step = next(iter(left))
    return step, 60 * minutes * left[step] / sum(left.values())


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--umbench", default=str(ROOT / "build/cuda/umbench"), metavar="PATH")
    parser.add_argument("--out", default="measured", metavar="DIR")
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--steps", nargs="+", choices=list(SHARES), default=list(SHARES), help="all, in this order")
    arguments = parser.parse_args(argv)
    folder, end = Path(arguments.out), time.monotonic() + 60 * arguments.minutes
    folder.mkdir(parents=True, exist_ok=True)
    shares = {step: SHARES[step] for step in SHARES if step in arguments.steps}
    if "remedies" in shares and importlib.util.find_spec("torch") is None:
        print("remedies: skipped, PyTorch is not installed", flush=True)
        del shares["remedies"]
    done, failed = [], False
    while len(done) < len(shares):
        step, seconds = plan(shares, done, (end - time.monotonic()) / 60)
        if seconds < 5:
            break
        print(f"== {step}: up to {seconds:.0f} s", flush=True)
        code = run(command_of(step, arguments.umbench, folder, seconds), seconds)
        if code not in (0, *STOPPED):
            print(f"{step}: exit code {code}", flush=True)
            failed = True
        done.append(step)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
