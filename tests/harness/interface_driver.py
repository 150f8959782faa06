"""Cells are forked, and CUDA does not work in the child of a process that has initialised the driver: no process forks
after it has. Held against a library that stands for the driver (process/fake_cuda.cpp); no GPU is needed."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from interface import PATIENCE_S, PROGRAM, ROOT, InterfaceTest

DRIVER = pathlib.Path(os.environ["FAKE_DRIVER"])
ANSWER = {"free_bytes": 149 << 30, "gpu": {
    "device": 0, "name": "NVIDIA H200", "driver": None, "memory_bytes": 150 << 30, "compute_capability": "9.0",
    "concurrent_managed_access": True, "pageable_memory_access": False, "cuda_driver": "13.0", "cuda_runtime": "13.0",
    "cudnn": "9.19.0", "facts": {}, "facts_missing": {}}}
SETTING = ["--network", "conv", "--batch", "2", "--ratio", "1.5", "--workspace-cap", "16MiB", "--backend", "cuda:0"]
CELL = [*SETTING, "--strategy", "managed"]
SPEC = {"schema": 1, "name": "cells",
        "grids": [{"network": "conv", "batch": 2, "strategy": ["device", "managed"], "ratio": [0.9, 1.5], "backend": "cuda:0"}]}

# These open the GPU themselves, having forked whatever they fork.
OPEN_IT = {"plan": ["plan", *CELL], "calibrate": ["calibrate", "--out", "here.json"]}
# These ask a child about the GPU, and run cells in others.
RUN_CELLS = {"run": ["run", *CELL, "--out", "run.jsonl"], "sweep": ["sweep", "cells.json", "--out", "sweep.jsonl"],
             "tune": ["tune", *SETTING, "--trials", "3", "--best", "1", "--out", "rules.json"], "ablate": ["ablate", *SETTING],
             "advise": ["advise", *SETTING],
             "reproduce": ["reproduce", "autoswap", "--backend", "cuda:0", "--no-figure", "--out", "papers"],
             "interleave": ["interleave", "cells.json", "--base", PROGRAM, "--head", PROGRAM, "--rounds", "1", "--out", "rounds"]}
ASK = {"env": ["env"], "advise": ["advise", "--network", "conv", "--batch", "2"]}
HAVE_NO_PART = {"list": ["list"], "cells": ["sweep", "cells.json", "--list"], "pack": ["pack", ROOT / "tests/harness/lifetimes/vgg16.csv"],
                "validate": ["validate", ROOT / "results/validation/h200_patterns.json"],
                "simulated": ["run", "--network", "conv", "--batch", "2", "--strategy", "managed", "--backend", "sim:h200"]}


class Libraries(unittest.TestCase):
    def test_no_library_of_cuda_is_opened_at_the_start(self):
        linked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
        self.assertIn("libc.so", linked)
        for name in ("libcudnn", "libcublas", "libcudart", "libcuda.so"):
            self.assertNotIn(name, linked)


class Driver(InterfaceTest):
    def setUp(self):
        super().setUp()
        self.write_file("cells.json", SPEC)

    def initialised_by(self, command, **environment):
        """(process of the command, those that initialised the driver), none of which has forked after that."""
        log = self.folder / "log"
        log.write_text("", encoding="utf-8")
        libraries = os.pathsep.join([str(DRIVER), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
        process = subprocess.Popen(list(map(str, command)), cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, LD_LIBRARY_PATH=libraries, FAKE_CUDA_LOG=str(log), **environment))
        self.said = process.communicate(timeout=PATIENCE_S)[1]
        self.code = process.returncode
        lines = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
        self.assertEqual([pid for pid, what in lines if what == "fork"], [])
        return process.pid, [int(pid) for pid, what in lines if what == "init"]

    def test_where_there_is_no_gpu(self):
        for name, command in [*RUN_CELLS.items(), *ASK.items()]:
            with self.subTest(name):
                parent, callers = self.initialised_by(self.command(*command))
                self.assertNotEqual(callers, [], self.said)
                self.assertNotIn(parent, callers)
        for name, command in HAVE_NO_PART.items():
            with self.subTest(name):
                self.assertEqual(self.initialised_by(self.command(*command))[1], [])

    def test_where_there_is_one(self):
        answer = {"FAKE_CUDA_ANSWER": json.dumps(ANSWER)}
        for name, command in RUN_CELLS.items():
            with self.subTest(name):
                parent, callers = self.initialised_by(self.command(*command), **answer)
                self.assertGreater(len(callers), 1, f"no cell ran: {self.said}")
                self.assertIn(self.code, (0, 1), self.said)  # cells crashed, or have no plan, and nothing else is wrong
                self.assertNotIn(parent, callers)
        for name, command in OPEN_IT.items():
            with self.subTest(name):
                parent, callers = self.initialised_by(self.command(*command), **answer)
                self.assertEqual(callers[-1:], [parent], self.said)

    def test_a_process_that_forks_after_it_is_found(self):
        forks = "import ctypes, os; ctypes.CDLL('libcuda.so.1').cuInit(0); os.fork() or os._exit(0); os.wait()"
        with self.assertRaisesRegex(AssertionError, "Lists differ"):
            self.initialised_by([sys.executable, "-c", forks])
