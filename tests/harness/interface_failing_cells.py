"""Cells that die or hang take nothing with them. The environment variable UMBENCH_TEST_CELL makes them do so."""

import time
import unittest

from interface import CELLS, InterfaceTest, entries

RUN = ["run", "--network", "alexnet", "--batch", "2", "--backend", "sim:h200", "--strategy", "device"]


class FailingCells(InterfaceTest):
    def test_a_crash_is_a_record(self):
        done = self.umbench(*RUN, "--out", "a.jsonl", env={"UMBENCH_TEST_CELL": "abort:"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("killed by SIGABRT: asked to abort", done.stderr)
        record = entries(self.folder / "a.jsonl")[1][0]
        self.assertEqual(record["outcome"], "crashed")
        self.assertEqual(record["reason"], "killed by SIGABRT: asked to abort")
        self.assertEqual(record["samples_ns"], [])

    def test_a_deadline_ends_a_hanging_cell(self):
        begin = time.monotonic()
        done = self.umbench(*RUN, "--deadline", "1", "--out", "a.jsonl", env={"UMBENCH_TEST_CELL": "hang:"})
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(done.returncode, 1)
        record = entries(self.folder / "a.jsonl")[1][0]
        self.assertEqual(record["outcome"], "timeout")
        self.assertIn("after 1 s", record["reason"])

    def test_a_sweep_goes_on_and_resumes_what_failed(self):
        spec = self.spec()
        self.well("sweep", spec, "--out", "undisturbed.jsonl")
        wanted = entries(self.folder / "undisturbed.jsonl")[1]
        done = self.umbench("sweep", spec, env={"UMBENCH_TEST_CELL": "abort:managed/x1.50"})
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"2 of {CELLS} cells failed", done.stderr.splitlines()[-1])
        self.assertIn("crashed", done.stdout)
        records = entries(self.folder / "study.jsonl")[1]
        self.assertEqual([record["key"] for record in records], [record["key"] for record in wanted])
        failed = [record for record in records if record["outcome"] == "crashed"]
        self.assertEqual(len(failed), 2)
        self.assertEqual([record for record in records if record not in failed],
                         [record for record in wanted if "managed/x1.50" not in record["key"]])
        done = self.umbench("sweep", spec, "--resume")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("crashed", done.stdout)
        last = {record["key"]: record for record in entries(self.folder / "study.jsonl")[1]}
        self.assertEqual(list(last.values()), wanted)


if __name__ == "__main__":
    unittest.main()
