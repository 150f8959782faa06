"""Processes of umbench.torch.bench.cell, one for each cell, which compile at once and answer questions one at a time."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time

from ..private import ALLOCATOR_SETTINGS

ANSWER_WITHIN_S = 60


def gpu_numbers():
    """Numbers of the GPUs, as text."""
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        return os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    try:
        gpu_list = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    except OSError:
        gpu_list = ""
    return [str(number) for number in range(max(1, gpu_list.count("GPU ")))]


class CellProcess:
    """A model under one way of saving memory, and its process. `way_value`: VALUE of cell.py. `row`: the results so far, with `error` after a
    failure; then the process does not answer."""

    def __init__(self, cell_spec, way_value, gpu_number, micro_batches="1", cuda_graphs=False):
        self.model, self.way, _, ratio, tier = cell_spec
        self.row = {"model": self.model, "way": self.way, "value": way_value, "ratio": ratio, "tier": tier}
        command = [sys.executable, "-m", "umbench.torch.bench.cell", self.model, self.way, *([str(way_value)] if way_value is not None else []),
                   *(["--tier", tier] if tier else []), *(["--parts", micro_batches] if self.way == "fit" else []), *["--cuda-graphs"] * cuda_graphs]
        environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": ALLOCATOR_SETTINGS,
                       "TORCHINDUCTOR_COMPILE_THREADS": "4", "CUDA_VISIBLE_DEVICES": gpu_number}
        self.errors, self.lines = tempfile.TemporaryFile("w+"), queue.Queue()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment)
        threading.Thread(target=self.queue_answers, daemon=True).start()

    def queue_answers(self):
        """Puts the process's lines of JSON into `lines`, and an empty one once it has ended."""
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(line)
        self.lines.put("")

    def wait_until_compiled(self, end_time):
        """Waits until the process has compiled. `end_time`: of time.monotonic()."""
        self.row |= self.receive_answer(end_time)

    def receive_answer(self, end_time):
        """The next answer of the process; {} after a failure."""
        try:
            line = self.lines.get(timeout=max(0.1, end_time - time.monotonic()))
        except queue.Empty:
            return self.record_failure("the time is up")
        if not line:
            self.process.wait()
            self.errors.seek(0)
            return self.record_failure(f"exit code {self.process.returncode}: {self.errors.read().strip()[-300:]}")
        return json.loads(line)

    def ask(self, question):
        """Asks a question and returns the answer; {} once the process has ended. An error of the answer is noted in the row."""
        if "error" in self.row:
            return {}
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        answer = self.receive_answer(time.monotonic() + ANSWER_WITHIN_S)
        if "error" in answer:
            self.row.setdefault(f"{question}_error", answer.pop("error"))
        return answer

    def record_failure(self, error_text):
        """Stores the error in the row and kills the process. Returns {}, as the caller then does."""
        self.row["error"] = error_text
        self.process.kill()
        return {}

    def end_process(self):
        """Lets the process end; kills it if it does not."""
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
