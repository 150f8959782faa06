"""What is observed of cells on a GPU; skipped without one."""

import json
import os
import pathlib
import subprocess
import time
import unittest

from interface import PATIENCE_S, PROGRAM, InterfaceTest, read_entries
from interface_interruption import children_of

RUN = ["run", "--network", "alexnet", "--batch", "512", "--precision", "bf16", "--fusion", "lean", "--workspace-cap", "128MiB",
       "--backend", "cuda:0"]


class Observed(InterfaceTest):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run([PROGRAM, "env", "--json"], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        cls.environment = json.loads(done.stdout)
        if not cls.environment["gpu"]:
            raise unittest.SkipTest("no GPU")

    def run_to_record(self, *arguments):
        (self.folder / "a.jsonl").unlink(missing_ok=True)
        self.run_ok(*RUN, *arguments, "--out", "a.jsonl")
        return read_entries(self.folder / "a.jsonl")[1][0]

    def test_the_fingerprint_knows_the_gpu(self):
        facts, missing = (self.environment["gpu"][name] for name in ("facts", "facts_missing"))
        for name in ("uuid_hash", "kernel_module", "cublas", "ecc", "addressing", "host_accesses_device_memory"):
            self.assertIn(name, facts)
        for name in ("mig", "mps", "compute_mode", "persistence", "virtualization", "power_limit_mw", "most_sm_clock_mhz",
                     "most_memory_clock_mhz", "pcie_generation", "pcie_width", "other_processes", "numa_node", "pcie_most_speed",
                     "pcie_most_width", "iommu_domain"):
            self.assertNotEqual(name in facts, name in missing, name)
        if "no NVML" in missing.get("compute_mode", ""):
            self.skipTest(missing["compute_mode"])
        self.assertGreaterEqual(int(facts["pcie_generation"]), 1)

    def check_observed(self, observed):
        self.assertGreater(observed["host_cpu_ns"], 0)
        if observed["reason"]:
            return
        self.assertGreater(observed["energy_uj"], 0)
        for moment in ("gpu_before", "gpu_after"):
            self.assertGreater(observed[moment]["sm_clock_mhz"], 0)
            self.assertIsNotNone(observed[moment]["throttled_by"])

    def test_a_resident_cell(self):
        record = self.run_to_record("--strategy", "device", "--ratio", "1")
        self.assertEqual((record["counters_reason"], record["counters"]["last"]["faults"]), (None, 0))
        self.check_observed(record["observed"])

    def test_managed_cells_under_pressure_are_counted(self):
        record = self.run_to_record("--strategy", "managed", "--ratio", "1.5")
        first, last = (record["counters"][which] for which in ("first", "last"))
        self.check_observed(record["observed"])
        if last["faults"] is None:
            self.assertRegex(record["counters_reason"], "CUPTI|counted")
            return
        self.assertGreater(first["faults"], 0)
        # All that does not fit comes in again in every iteration.
        excess = record["memory"]["footprint_bytes"] - record["memory"]["budget_bytes"]
        self.assertGreater(last["fault_to_device_bytes"], excess / 4)
        self.assertGreater(last["plan_evict_bytes"], excess / 4)
        self.assertEqual(last["driver_evict_bytes"], 0)
        # The fields of a simulated cell, of which a GPU does not tell one.
        self.run_ok("run", "--network", "alexnet", "--batch", "2", "--strategy", "managed", "--ratio", "1.5",
                    "--backend", "sim:h200", "--out", "simulated.jsonl")
        simulated = read_entries(self.folder / "simulated.jsonl")[1][0]["counters"]["last"]
        self.assertEqual(last.keys(), simulated.keys())
        self.assertEqual([name for name, value in last.items() if value is None], ["remote_bytes"])
        moved = sum(last[name] for name in last if name.endswith("_bytes") and name != "remote_bytes")
        self.assertEqual(last["amplification"], moved / record["memory"]["touched_bytes"])

    def test_prefetches_are_told_from_faults(self):
        last = self.run_to_record("--strategy", "managed_prefetch", "--ratio", "1.5")["counters"]["last"]
        if last["faults"] is not None:
            self.assertGreater(last["prefetch_to_device_bytes"], last["fault_to_device_bytes"])

    def test_times_alone_if_so_asked(self):
        record = self.run_to_record("--strategy", "managed", "--ratio", "1.5", "--times-only")
        self.assertIsNone(record["counters"]["last"]["faults"])
        self.assertIsNone(record["observed"]["host_cpu_ns"])
        self.assertEqual(record["observed"]["reason"], "only times were asked for")

    def test_what_cannot_fit_is_refused_before_it_starts(self):
        grids = [{"network": "vgg16", "batch": 4096, "backend": "cuda:0", "strategy": "device", "ratio": 1}]
        self.run_refused("sweep", self.write_sweep(grids=grids), words=["1 of 1 cells do not fit here", "--no-preflight"])
        self.assertFalse((self.folder / "study.jsonl").exists())

    def test_only_the_cells_process_touches_the_gpu(self):
        run = subprocess.Popen(self.command(*RUN, "--strategy", "device", "--deadline", "60"), cwd=self.folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=dict(os.environ, UMBENCH_TEST_CELL="late_hang:"))
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        limit = time.monotonic() + PATIENCE_S
        while not any(uses_gpu(child) for child in children_of(run)):
            self.assertLess(time.monotonic(), limit, "no cell reached the GPU")
            self.assertFalse(uses_gpu(run.pid))
            time.sleep(0.05)
        time.sleep(1)
        self.assertFalse(uses_gpu(run.pid))


def uses_gpu(process_id):
    """Whether the process holds the device of managed memory open, as every CUDA context does; NVML does not."""
    try:
        links = [os.readlink(link) for link in pathlib.Path(f"/proc/{process_id}/fd").iterdir()]
    except OSError:  # it has just ended
        return False
    return "/dev/nvidia-uvm" in links
