"""A ReFrame check: does this node's umbench still compute what it did, and as fast?

    reframe -c examples/reframe -r -S umbench=build/cuda/umbench                 # GPUs; --system as your site has it
    reframe -c examples/reframe -r -S umbench=build/cpu/umbench -n simulated     # without any

The simulated cell has the same time on every machine; the measured one is held against references that a site puts into
`reference` of its own subclass, and is recorded as a performance variable until then.
"""

import os

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, run_after, sanity_function, variable


class umbench_cell(rfm.RunOnlyRegressionTest):
    """One cell; its record is kept beside the check's output as cell.jsonl."""

    umbench = variable(str, value="umbench")
    cell = variable(str, value="--network alexnet --batch 64 --strategy managed --ratio 1.5")
    backend = variable(str)
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    keep_files = ["cell.jsonl"]

    @run_after("init")
    def set_command(self):
        # A check runs in its stage folder; a path is one from where ReFrame was started.
        self.executable = os.path.abspath(self.umbench) if "/" in self.umbench else self.umbench
        self.executable_opts = ["run", *self.cell.split(), "--backend", self.backend, "--out", "cell.jsonl"]

    @sanity_function
    def ended_well(self):
        return sn.assert_found(r"^\s*outcome\s+ok", self.stdout)

    @performance_function("ms")
    def iteration(self):
        return sn.extractsingle(r"iteration\s+first \S+ \S+, then (\S+) ms", self.stdout, 1, float)


@rfm.simple_test
class simulated(umbench_cell):
    backend = "sim:h200"


@rfm.simple_test
class measured(umbench_cell):
    backend = "cuda:0"
    valid_systems = ["+gpu"]
    num_gpus_per_node = 1
