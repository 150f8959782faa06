"""Helpers of the interface tests: they start the built program, named by the environment variable UMBENCH,
as a user would, and look at nothing but its output, its exit code and its files."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["UMBENCH"]
# Only a hang takes so long, on whatever machine and beside whatever else.
PATIENCE_S = 3600
# What a command that takes longer than two seconds says meanwhile.
PROGRESS = re.compile(r"umbench: [a-z ]+,(?: [^\n]+,)? \d+ s so far$")
ROOT = pathlib.Path(__file__).resolve().parents[2]

# A sweep that takes a moment, all of it simulated.
SPEC = {
    "schema": 1,
    "name": "study",
    "common": {"iterations": 3, "deadline_s": 60, "backend": "sim:h200"},
    "grids": [{"network": "alexnet", "batch": [2, 4], "strategy": ["device", "managed", "swap_all"],
               "ratio": [0.5, 1, 1.5, 2]}],
}
CELLS = 24


class InterfaceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def command(self, *arguments):
        return [PROGRAM, *map(str, arguments)]

    def umbench(self, *arguments, **options):
        environment = dict(os.environ, **options.pop("env", {}))
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=PATIENCE_S,
                              cwd=self.folder, env=environment, check=False, **options)

    def run_ok(self, *arguments, **options):
        """Runs what must go well and returns its standard output."""
        done = self.umbench(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def run_refused(self, *arguments, exit_code=2, words=(), **options):
        """Runs what must be refused with one line on standard error that has these words."""
        done = self.umbench(*arguments, **options)
        self.assertEqual(done.returncode, exit_code, done.stderr + done.stdout)
        done.stderr = "".join(line for line in done.stderr.splitlines(True) if not PROGRESS.match(line))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("umbench: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        return done

    def write_file(self, name, content):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def write_sweep(self, **changes):
        return self.write_file("study.json", {**SPEC, **changes})


def read_entries(path):
    """(environments, records) of a file, with the one field of a simulated record that differs from run to run set to null."""
    lines = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line |= {"planning_ns": None} if line["kind"] == "record" else {}
    return ([line for line in lines if line["kind"] == "environment"],
            [line for line in lines if line["kind"] == "record"])
