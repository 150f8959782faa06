"""A sweep against the stored one, by equality: the simulator gives the same on every run, compiler and optimisation level.

Where a change means to change what is simulated, write the new file with
    UMBENCH=build/umbench /usr/bin/python3 tests/simulator/reference_sweep.py --write
and say in the commit why the figures moved.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "reference"
STORED = FOLDER / "sweep.jsonl"
KEPT = ("key", "outcome", "samples_ns", "counters")


def run_sweep_cells():
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "sweep.jsonl"
        subprocess.run([os.environ["UMBENCH"], "sweep", FOLDER / "sweep.json", "--machines", FOLDER / "machines",
                        "--out", out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    cells = [{name: record[name] for name in KEPT} for record in records if record["kind"] == "record"]
    return sorted(cells, key=lambda cell: cell["key"])


def stored_cells():
    return [json.loads(line) for line in STORED.read_text(encoding="utf-8").splitlines()]


class ReferenceSweep(unittest.TestCase):
    maxDiff = None

    def test_the_sweep_gives_what_is_stored(self):
        now, then = run_sweep_cells(), stored_cells()
        self.assertEqual([cell["key"] for cell in now], [cell["key"] for cell in then])
        for new, old in zip(now, then):
            self.assertEqual(new, old)

    def test_it_says_something(self):
        cells = stored_cells()
        self.assertGreater(len(cells), 40)
        self.assertTrue(any(cell["outcome"] == "ok" and cell["counters"]["last"]["driver_evict_bytes"] for cell in cells))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        STORED.write_text("".join(json.dumps(cell) + "\n" for cell in run_sweep_cells()), encoding="utf-8")
    else:
        unittest.main()
