"""An interrupted sweep keeps what it has, and resumed it ends as if it had not been interrupted."""

import os
import pathlib
import signal
import subprocess
import time

from interface import CELLS, PATIENCE_S, InterfaceTest, read_entries


def children_of(process):
    """The processes of its cells; there is a moment between two cells in which there are none."""
    limit = time.monotonic() + PATIENCE_S
    while not (children := _children(process)):
        assert time.monotonic() < limit, "no cell was started"
        time.sleep(0.02)
    return children


def _children(process):
    return pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()


class Interruption(InterfaceTest):
    def start_hanging(self, *arguments, hanging_cell):
        environment = dict(os.environ, UMBENCH_TEST_CELL=f"hang:{hanging_cell}")
        process = subprocess.Popen(self.command(*arguments), cwd=self.folder, env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        return process

    def wait_for_records(self, path, count):
        limit = time.monotonic() + PATIENCE_S
        while not path.exists() or path.read_text(encoding="utf-8").count("\n") < count + 1:
            self.assertLess(time.monotonic(), limit, "the sweep got nowhere")
            time.sleep(0.02)

    def interrupt_sweep(self, sweep_file, signal_number, exit_code):
        """A sweep stopped while its tenth cell hangs."""
        path = self.folder / "a.jsonl"
        sweep = self.start_hanging("sweep", sweep_file, "--out", "a.jsonl", "--jobs", "2", hanging_cell="swap_all/x1.00")
        self.wait_for_records(path, 9)
        cells = children_of(sweep)
        sweep.send_signal(signal_number)
        _, error = sweep.communicate(timeout=PATIENCE_S)
        self.assertEqual(sweep.returncode, exit_code)
        for cell in cells:
            self.assertFalse(pathlib.Path(f"/proc/{cell}").exists())
        return error.splitlines()[-1]

    def test_resumed_it_equals_an_undisturbed_sweep(self):
        spec = self.write_sweep()
        self.run_ok("sweep", spec, "--out", "undisturbed.jsonl")
        wanted = read_entries(self.folder / "undisturbed.jsonl")[1]
        for number, code in [(signal.SIGINT, 130), (signal.SIGTERM, 143)]:
            with self.subTest(signal=number.name):
                said = self.interrupt_sweep(spec, number, code)
                self.assertIn(number.name, said)
                self.assertIn(f"9 of {CELLS} cells", said)
                self.assertIn("--out a.jsonl --resume", said)
                self.assertEqual(read_entries(self.folder / "a.jsonl")[1], wanted[:9])
                self.run_ok("sweep", spec, "--out", "a.jsonl", "--resume")
                environments, records = read_entries(self.folder / "a.jsonl")
                self.assertEqual(records, wanted)
                self.assertEqual(len(environments), 1)
                (self.folder / "a.jsonl").unlink()

    def test_a_killed_sweep_leaves_no_cell_behind_and_resumes(self):
        spec = self.write_sweep()
        self.run_ok("sweep", spec, "--out", "undisturbed.jsonl")
        path = self.folder / "a.jsonl"
        sweep = self.start_hanging("sweep", spec, "--out", "a.jsonl", hanging_cell="swap_all/x1.00")
        self.wait_for_records(path, 9)
        cells = children_of(sweep)
        sweep.kill()
        sweep.communicate(timeout=PATIENCE_S)
        limit = time.monotonic() + PATIENCE_S
        while any(self.is_running(cell) for cell in cells):
            self.assertLess(time.monotonic(), limit, "a cell outlived its sweep")
            time.sleep(0.02)
        with open(path, "a", encoding="utf-8") as file:
            file.write("{\"kind\":\"record\",\"schema\":1,\"key\":\"ale")  # as a crash in the middle of a line
        done = self.umbench("sweep", spec, "--out", "a.jsonl", "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("torn", done.stderr)
        self.assertEqual(read_entries(path)[1], read_entries(self.folder / "undisturbed.jsonl")[1])

    def test_two_interrupted_shards_and_a_merge_equal_a_whole_sweep(self):
        spec = self.write_sweep()
        self.run_ok("sweep", spec, "--out", "undisturbed.jsonl")
        for shard in (1, 2):
            out = self.folder / f"{shard}.jsonl"
            sweep = self.start_hanging("sweep", spec, "--out", out.name, "--shard", f"{shard}/2", hanging_cell="swap_all/x0.50")
            self.wait_for_records(out, 3)
            sweep.kill()
            sweep.communicate(timeout=PATIENCE_S)
            self.run_ok("sweep", spec, "--out", out.name, "--shard", f"{shard}/2", "--resume")
        self.run_ok("merge", "1.jsonl", "2.jsonl", "--out", "merged.jsonl")
        merged, whole = (read_entries(self.folder / name) for name in ("merged.jsonl", "undisturbed.jsonl"))
        self.assertEqual(merged[1], whole[1])
        self.assertEqual(len(merged[0]), 1)

    def is_running(self, process_id):
        try:
            stat = pathlib.Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8")
        except OSError:
            return False
        return stat.rsplit(")", 1)[1].split()[0] not in ("Z", "X")

    def test_a_file_in_use_is_refused(self):
        spec = self.write_sweep()
        sweep = self.start_hanging("sweep", spec, "--out", "a.jsonl", hanging_cell="device/x0.50")
        self.wait_for_records(self.folder / "a.jsonl", 0)
        self.run_refused("sweep", spec, "--out", "a.jsonl", "--resume", words=["a.jsonl", "another umbench"])
        sweep.send_signal(signal.SIGINT)
        sweep.communicate(timeout=PATIENCE_S)
        self.assertEqual(sweep.returncode, 130)

    def test_an_interrupted_run_records_nothing(self):
        run = self.start_hanging("run", "--network", "alexnet", "--strategy", "device", "--backend", "sim:h200", "--out",
                                 "a.jsonl", hanging_cell="device")
        children_of(run)
        run.send_signal(signal.SIGINT)
        _, error = run.communicate(timeout=PATIENCE_S)
        self.assertEqual(run.returncode, 130)
        self.assertIn("nothing was recorded", error)
        self.assertEqual((self.folder / "a.jsonl").read_text(encoding="utf-8"), "")
