"""Cells that die or hang take nothing with them. The environment variable UMBENCH_TEST_CELL makes them do so."""

import os
import unittest

from interface import CELLS, InterfaceTest, read_entries

os.environ["UMBENCH_TEST_DEADLINE_MS"] = "1000"  # of cells that are asked to fail
RUN = ["run", "--network", "alexnet", "--batch", "2", "--backend", "sim:h200", "--strategy", "device"]


class FailingCells(InterfaceTest):
    def test_a_crash_is_a_record(self):
        done = self.umbench(*RUN, "--out", "a.jsonl", env={"UMBENCH_TEST_CELL": "abort:"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("killed by SIGABRT: asked to abort", done.stderr)
        record = read_entries(self.folder / "a.jsonl")[1][0]
        self.assertEqual(record["outcome"], "crashed")
        self.assertEqual(record["reason"], "killed by SIGABRT: asked to abort")
        self.assertEqual(record["samples_ns"], [])

    def test_a_deadline_ends_a_hanging_cell(self):
        done = self.umbench(*RUN, "--deadline", "6", "--out", "a.jsonl", env={"UMBENCH_TEST_CELL": "hang:"})
        self.assertEqual(done.returncode, 1)
        record = read_entries(self.folder / "a.jsonl")[1][0]
        self.assertEqual(record["outcome"], "timeout")
        self.assertIn("after 6 s", record["reason"])

    def test_what_fails_while_it_counts_keeps_its_times(self):
        for how, words in [("late_abort", "killed by SIGABRT: asked to abort"), ("late_hang", "no result after 6 s")]:
            (self.folder / "a.jsonl").unlink(missing_ok=True)
            shown = self.run_ok(*RUN, "--deadline", "6", "--out", "a.jsonl", env={"UMBENCH_TEST_CELL": f"{how}:"})
            self.assertIn("outcome    ok", shown)
            record = read_entries(self.folder / "a.jsonl")[1][0]
            self.assertEqual((record["outcome"], len(record["samples_ns"])), ("ok", 5))
            self.assertIn("the pass that counts: ", record["counters_reason"])
            self.assertIn(words, record["counters_reason"])

    @unittest.skipIf({"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ), "a sanitizer dies without memory of its own")
    def test_a_host_without_memory(self):
        done = self.umbench(*RUN[:2], "resnet152", *RUN[3:], "--out", "a.jsonl", env={"UMBENCH_TEST_CELL": "memory:"})
        self.assertEqual(done.returncode, 1, done.stderr)
        record, = read_entries(self.folder / "a.jsonl")[1]
        self.assertEqual((record["outcome"], record["samples_ns"]), ("host_out_of_memory", []))
        self.assertIn(record["reason"], done.stderr)

    def test_a_cell_that_sleeps_in_the_kernel_stops_the_sweep(self):
        grids = [{"network": "alexnet", "strategy": ["managed", "swap_all"], "ratio": [2, 0.5, 1]}]
        spec = self.write_sweep(grids=grids, common={"backend": "sim:h200", "deadline_s": 6})
        done = self.umbench("sweep", spec, "--jobs", "1", env={"UMBENCH_TEST_CELL": "sleep:managed/x1.00"})
        self.assertEqual(done.returncode, 1)
        last = done.stderr.splitlines()[-1]
        for word in ["managed/x1.00", "hangs in the kernel", "2 of 6 cells", "reboot", "--resume"]:
            self.assertIn(word, last)
        records = read_entries(self.folder / "study.jsonl")[1]
        self.assertEqual([record["outcome"] for record in records], ["ok", "hung"])
        self.assertIn("state D", records[1]["reason"])
        done = self.umbench("sweep", spec, "--resume")  # leaves it and what is above it alone
        self.assertEqual(done.returncode, 1)
        records = {record["key"].split("/fp32/")[1].split("/simulated")[0]: record
                   for record in read_entries(self.folder / "study.jsonl")[1]}
        self.assertEqual([record["outcome"] for record in records.values()], ["ok", "hung", "hung", "ok", "ok", "infeasible"])
        self.assertRegex(records["managed/x2.00"]["reason"], "^not run: .*managed/x1.00.* hung")
        done = self.umbench("sweep", spec, "--resume", "--no-skip")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_after_a_timeout_higher_ratios_of_the_line_are_not_run(self):
        grids = [{"network": "alexnet", "strategy": ["managed", "swap_all"], "ratio": [2, 0.5, 1.5, 1]}]
        spec = self.write_sweep(grids=grids, common={"backend": "sim:h200", "deadline_s": 6})
        hang = {"UMBENCH_TEST_CELL": "hang:managed/x1.00"}
        done = self.umbench("sweep", spec, "--jobs", "1", env=hang)
        self.assertEqual(done.returncode, 1)
        records = read_entries(self.folder / "study.jsonl")[1]
        self.assertEqual([record["ratio"] for record in records], [0.5, 1, 1.5, 2] * 2)  # they ramp upward
        self.assertEqual([record["outcome"] for record in records[:4]], ["ok", "timeout", "timeout", "timeout"])
        self.assertIn("no result after 6 s", records[1]["reason"])
        for record in records[2:4]:
            self.assertRegex(record["reason"], r"^not run: .*managed/x1\.00.* timed out; --no-skip")
        self.assertNotIn("timeout", [record["outcome"] for record in records[4:]])
        done = self.umbench("sweep", spec, "--jobs", "1", "--no-skip", "--out", "all.jsonl", env=hang)
        self.assertEqual([record["outcome"] for record in read_entries(self.folder / "all.jsonl")[1][:4]],
                         ["ok", "timeout", "ok", "ok"])
        self.run_ok("sweep", spec, "--resume")

    def test_budgets_ramp_downward(self):
        grids = [{"network": "alexnet", "strategy": "managed", "budget": ["300MiB", "2GiB", "1GiB"]}]
        self.umbench("sweep", self.write_sweep(grids=grids, common={"backend": "sim:h200", "deadline_s": 6}), "--jobs", "1",
                     env={"UMBENCH_TEST_CELL": f"hang:managed/{2**30}B"})
        records = read_entries(self.folder / "study.jsonl")[1]
        self.assertEqual([record["memory"]["budget_bytes"] // 2**20 for record in records], [2048, 1024, 300])
        self.assertEqual([record["outcome"] for record in records], ["ok", "timeout", "timeout"])

    def test_a_sweep_goes_on_and_resumes_what_failed(self):
        spec = self.write_sweep()
        self.run_ok("sweep", spec, "--out", "undisturbed.jsonl")
        wanted = read_entries(self.folder / "undisturbed.jsonl")[1]
        done = self.umbench("sweep", spec, env={"UMBENCH_TEST_CELL": "abort:managed/x1.50"})
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"2 of {CELLS} cells failed", done.stderr.splitlines()[-1])
        self.assertIn("crashed", done.stdout)
        records = read_entries(self.folder / "study.jsonl")[1]
        self.assertEqual([record["key"] for record in records], [record["key"] for record in wanted])
        failed = [record for record in records if record["outcome"] == "crashed"]
        self.assertEqual(len(failed), 2)
        self.assertEqual([record for record in records if record not in failed],
                         [record for record in wanted if "managed/x1.50" not in record["key"]])
        done = self.umbench("sweep", spec, "--resume")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("crashed", done.stdout)
        last = {record["key"]: record for record in read_entries(self.folder / "study.jsonl")[1]}
        self.assertEqual(list(last.values()), wanted)
